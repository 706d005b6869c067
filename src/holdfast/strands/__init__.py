"""Holdfast in Strands: sessions, packs and tool intents for its agents.

    manager = HoldfastSessionManager(engine, "order-7", budget=24_000)
    agent = Agent(model=model, session_manager=manager, conversation_manager=PackedConversationManager())

The conversation of an agent is a Holdfast session. Each model call gets a pack of it; each tool has an intent before it
runs, and its idempotency key is `current_call().key` inside the tool.
"""

from holdfast.frameworks.engines import require_package

require_package("strands", "The adapter for Strands", "strands")

from holdfast.frameworks import current_call  # noqa: E402 - after the check that Strands is installed
from holdfast.strands.conversation_managers import PackedConversationManager  # noqa: E402
from holdfast.strands.repositories import StrandsRepository  # noqa: E402
from holdfast.strands.session_managers import HoldfastSessionManager  # noqa: E402

__all__ = ["HoldfastSessionManager", "PackedConversationManager", "StrandsRepository", "current_call"]
