"""Experts, their labels, and training."""
