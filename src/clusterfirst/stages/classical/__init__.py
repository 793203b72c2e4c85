"""Cluster-first methods by hand, and savings."""
