"""The rule-based detector: which facts a message changes."""
