"""Long-term memory: passages of messages."""
