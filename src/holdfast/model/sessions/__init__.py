"""Types of sessions: messages, layers, commands and events."""
