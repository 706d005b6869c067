"""Decisions about sessions: messages, tool calls, layers and lifecycle."""
