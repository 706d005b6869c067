"""Facts: decisions, supersession, authority, folding, invariants and proposals."""
