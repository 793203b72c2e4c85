"""The networks, from nodes to latent distances, and models on disk."""
