"""Holdfast as the checkpointer and the store of LangGraph.

    saver = HoldfastSaver(engine)
    graph = builder.compile(checkpointer=saver, store=HoldfastStore(engine))

`HoldfastSaver` stores the checkpoints of threads in sessions, and records their conversations there. `HoldfastStore` keeps
long-term items in ledgers.
"""

from holdfast.frameworks.engines import require_package

require_package("langgraph", "The checkpointer of LangGraph", "langgraph")

from holdfast.langgraph.saver import HoldfastSaver, ThreadUsage  # noqa: E402 - after the check of the framework
from holdfast.langgraph.store import HoldfastStore  # noqa: E402 - after the check of the framework

__all__ = ["HoldfastSaver", "HoldfastStore", "ThreadUsage"]
