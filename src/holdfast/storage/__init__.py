"""Backends behind the ports. They see ports, model, codec and chain, never the core."""
