"""Measurements: each a ratio against a peer or a raw limit of the same machine, taken in the same run."""
