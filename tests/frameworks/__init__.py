"""Adapters for frameworks. Each folder runs in an environment with its framework: `make frameworks`."""
