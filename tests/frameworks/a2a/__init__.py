"""A2A: the task store, against the SDK's own, and behind its server with its client."""
