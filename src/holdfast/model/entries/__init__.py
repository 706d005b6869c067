"""Entries: records of other frameworks beside the messages of a session."""
