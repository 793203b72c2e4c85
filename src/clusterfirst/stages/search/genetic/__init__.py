"""Genetic search of small maps: descents, exchanges, a colony, its evolution."""
