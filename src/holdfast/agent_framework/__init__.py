"""Holdfast in the Microsoft Agent Framework: history, packs and tool intents for its agents.

    agent = Agent(client=client, context_providers=[HoldfastHistoryProvider(engine, budget=24_000)])

The conversation of an agent session is a Holdfast session. Each model call gets a pack of it; each tool has an intent
before it runs, and its idempotency key is `current_call().key` inside the tool.
"""

from holdfast.frameworks.engines import require_package

require_package("agent_framework", "The adapter for the Agent Framework", "agent-framework")

from holdfast.agent_framework.checkpoints import HoldfastCheckpointStorage  # noqa: E402 - after the check above
from holdfast.agent_framework.middleware import IntentMiddleware  # noqa: E402
from holdfast.agent_framework.providers import HistoryProviderOptions, HoldfastHistoryProvider  # noqa: E402
from holdfast.frameworks import current_call  # noqa: E402

__all__ = [
    "HistoryProviderOptions",
    "HoldfastCheckpointStorage",
    "HoldfastHistoryProvider",
    "IntentMiddleware",
    "current_call",
]
