"""The verbs: pure functions over the nouns. No I/O, no clock, no randomness, no logging."""
