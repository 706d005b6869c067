"""Take the gateway's own tool calls out of the replies that a client is shown.

The model calls the tool that the gateway added; the client has no such tool. So the gateway answers the call itself, asks
the model to go on, and shows the client one reply.
"""

from __future__ import annotations

from holdfast.gateway.model import Dialect
from holdfast.gateway.splitters.anthropic import AnthropicSplitter
from holdfast.gateway.splitters.base import ROUNDS, HiddenRead, ReadCall, ReadReply, ReplySplitter, RoundEnd
from holdfast.gateway.splitters.chat import ChatSplitter
from holdfast.gateway.splitters.responses import ResponsesSplitter

__all__ = ["ROUNDS", "HiddenRead", "ReadCall", "ReadReply", "ReplySplitter", "RoundEnd", "make_splitter"]

_SPLITTERS: dict[Dialect, type[ReplySplitter]] = {
    "anthropic": AnthropicSplitter,
    "chat": ChatSplitter,
    "responses": ResponsesSplitter,
}


def make_splitter(dialect: Dialect, *, is_stream: bool, rounds: int = ROUNDS) -> ReplySplitter:
    """A splitter for one reply. `is_stream`: it comes as events."""
    return _SPLITTERS[dialect](is_stream=is_stream, rounds=rounds)
