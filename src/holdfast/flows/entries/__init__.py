"""Entries: append, read and delete."""
