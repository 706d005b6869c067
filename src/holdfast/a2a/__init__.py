"""A2A on Holdfast: a task store whose tasks are conversations of sessions. Extra `a2a`."""

from holdfast.frameworks.engines import require_package

require_package("a2a", "The adapter for A2A", "a2a")

from holdfast.a2a.task_store import HoldfastTaskStore  # noqa: E402
from holdfast.frameworks.tool_runs import current_call  # noqa: E402

__all__ = ["HoldfastTaskStore", "current_call"]
