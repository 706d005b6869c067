"""What the adapters share, and what tools inside any framework may ask for: `current_call()`."""

from holdfast.frameworks.tool_runs import current_call

__all__ = ["current_call"]
