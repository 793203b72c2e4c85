"""Comparisons with peers, and the tables of the paper."""
