"""Flows about sessions: messages, tool calls, layers, lifecycle and erasure."""
