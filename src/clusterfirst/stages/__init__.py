"""The stages: arrays in, arrays out, none imports another."""
