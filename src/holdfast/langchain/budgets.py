"""The token budget of a run: a frame from one message of the user to the next.

Laws: the same message of the user has the same budget, also after an interruption and in another process. A model call
whose prompt alone has more tokens than are left is not made.
"""

from __future__ import annotations

import contextlib

from langchain_core.messages import AIMessage

import holdfast
from holdfast.errors import Conflict, InsufficientTokens
from holdfast.langgraph.messages import to_shadow
from holdfast.types import shorten_name

_GOAL = "Answer a message of the user"
RUNS = "runs"
"""The thread of a session that has the frames of its runs."""
_CHARS = 4
"""Characters of one token, for replies without usage."""


class RunBudget:
    """The frame of one run."""

    def __init__(self, frame: holdfast.Frame, total: int) -> None:
        self._frame = frame
        self._total = total

    @classmethod
    def open(cls, runs: holdfast.Session, message: str, total: int) -> RunBudget:
        """The budget of the run that answers a message. Runs before it have ended."""
        frame = runs.frame(_GOAL, budget=total, key=shorten_name(f"langchain run {message}"))
        for other in runs.frames.list(status="live"):
            if other.id != frame.id and other.parent is None:
                with contextlib.suppress(Conflict):
                    runs.frames.get(other).pop("completed", cascade=True)
        return cls(frame, total)

    def is_short_of(self, pack: holdfast.Pack) -> bool:
        """Whether the prompt of a pack is more than what is left."""
        return _count(pack) > self._available()

    def refusal(self, pack: holdfast.Pack) -> InsufficientTokens:
        """The error for a call that was not made."""
        return InsufficientTokens(frame=self._frame.id, requested=_count(pack), available=self._available())

    def describe(self) -> str:
        """The reply that ends a run."""
        return (
            f"I have to stop here: the token budget of this run ({self._total:,}) is used up. "
            f"{self._available():,} tokens are left."
        )

    def charge(self, reply: AIMessage, pack: holdfast.Pack) -> None:
        """Charge a reply: with the usage that the provider reported, or else an estimate."""
        usage = to_shadow(reply).message.get("usage")
        estimate = holdfast.Usage(_count(pack), len(str(reply.content)) // _CHARS + 1)
        charged = holdfast.Usage(**usage) if usage else estimate
        self._frame.budget.use(charged, key=shorten_name(f"langchain reply {reply.id}"))
        if not reply.tool_calls:
            with contextlib.suppress(Conflict):
                self._frame.pop("completed")

    def _available(self) -> int:
        return self._frame.state().budget.available


def _count(pack: holdfast.Pack) -> int:
    return pack.tokens.used
