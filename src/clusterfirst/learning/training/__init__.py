"""How the networks learn: batches, losses, one loop, runs that lose nothing."""

# Says in one sentence what to install where torch is missing.
import clusterfirst.networks.trainable  # noqa: F401  # for what its import checks
