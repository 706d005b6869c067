"""Situations and actions: data types, commands and events."""
