"""Local search between routes, repair of routes, and recombination."""
