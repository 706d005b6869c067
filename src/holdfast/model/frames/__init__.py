"""Types of frames: states, budgets, commands and events."""
