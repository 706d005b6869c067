"""Decisions about frames, and how events change them."""
