"""The adapter for Pydantic AI."""
