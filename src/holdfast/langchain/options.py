"""The options of the middleware that few programs need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import holdfast
from holdfast.types import LedgerId


class MiddlewareOptions(TypedDict, total=False):
    """Options of `HoldfastMiddleware`."""

    actor: str
    """The agent that the sessions belong to; "main" without it. `HoldfastSaver` has the same option."""
    model: str | None
    """The model that packs are for; it limits the budget to its context window. Without it, the name that the chat model of
    the agent has."""
    brief: holdfast.Brief | None
    """Rules and context beside the system prompt of the agent. Its prompt is used if the agent has none."""
    role: str | None
    """The name of one of the engine's briefs, in place of `brief`."""
    observe: bool
    """False: read no facts from what users say."""
    ledgers: Sequence[LedgerId]
    """Ledgers that sessions read beside their own and that of their user. For sessions that are created now."""
    memory: bool
    """True: sessions that are created now have a long-term memory, and the tool `recall_memory` is offered."""
    situation: bool
    """False: do not offer the tool `update_situation`."""
    spent: Literal["raise", "end"]
    """What happens when `run_budget` is used up: InsufficientTokens is raised, or the agent ends with a reply that says
    so."""
    pack: dict[str, Any]
    """More options of `session.pack()`: `profile`, and those of PackOptions."""
