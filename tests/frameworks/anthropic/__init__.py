"""The memory tool of Anthropic on Holdfast."""
