"""How the networks learn: batches, losses, one loop, runs that lose nothing."""
