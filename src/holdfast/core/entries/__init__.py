"""Entries: their chunks, and the decisions about them."""
