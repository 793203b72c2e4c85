"""The problem: instances, distances, solutions and their judge, cities, draws."""
