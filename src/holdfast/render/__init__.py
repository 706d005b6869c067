"""What a model is sent: a history as plain text, or in the words of OpenAI or Anthropic.

    text(history)                       to read, or for a model that takes text
    openai_chat(history, bodies)        the messages of chat.completions.create
    openai_responses(history, bodies)   `instructions` and `input` of responses.create
    anthropic(history, bodies)          `system` and `messages` of messages.create, with cache breakpoints
    bodies_of(history, issuer)          what of the blob store they need: pass it as digest -> bytes

Laws: pure, and the same history gives the same bytes; a result never stands without its call, nor a call without its
result; if one history extends another, so does its rendering, up to the tail; what a provider made comes back to it as it
was, and goes to no other; no message is empty, for providers refuse those: one of which nothing can be shown is left out.
"""

from __future__ import annotations

from holdfast.render.blocks import anthropic
from holdfast.render.chat import openai_chat
from holdfast.render.entries import NO_BODIES, bodies_of
from holdfast.render.responses import openai_responses
from holdfast.render.transcript import text

__all__ = ["NO_BODIES", "anthropic", "bodies_of", "openai_chat", "openai_responses", "text"]
