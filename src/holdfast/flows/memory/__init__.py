"""Flows of long-term memory: delivery of the outbox, and what is learned from ended sessions."""
