"""Bodies too large for the log."""
