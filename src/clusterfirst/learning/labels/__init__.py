"""Expert solutions: where instances come from, shards on disk, reading and making."""
