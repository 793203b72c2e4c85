"""The order of the stages, and `solve`."""
