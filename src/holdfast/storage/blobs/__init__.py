"""Blob stores: bodies that are too large for the log."""
