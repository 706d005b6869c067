"""Packs: data types, command and event."""
