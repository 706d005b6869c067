"""Pure: from state to what a model sees."""
