"""Holdfast for Pydantic AI.

    agent = Agent("openai:gpt-5.5", capabilities=[Holdfast(engine, budget=24_000)])
    store = HoldfastConversationStore(engine)

`Holdfast` is a capability: each model request is a pack, and tools run under intents. `HoldfastConversationStore` keeps the
framework's conversations.
"""

from holdfast.frameworks.engines import require_package

require_package("pydantic_ai", "holdfast.pydantic_ai", "pydantic-ai")

from holdfast.frameworks.tool_runs import current_call  # noqa: E402 - after the check of the framework
from holdfast.pydantic_ai.capability import CapabilityOptions, Holdfast  # noqa: E402
from holdfast.pydantic_ai.store import HoldfastConversationStore  # noqa: E402

__all__ = ["CapabilityOptions", "Holdfast", "HoldfastConversationStore", "current_call"]
