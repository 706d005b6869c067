"""Facts: changes, queries, lookups for decisions, and the facts of a session."""
