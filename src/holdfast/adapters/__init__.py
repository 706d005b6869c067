"""Implementations of ports: the clock and ids of this machine, and token counters."""
