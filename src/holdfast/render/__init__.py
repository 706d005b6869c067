"""Render a history: as plain text, or in the format of a provider.

    render_text(history)                       to read, or for a model that takes text
    render_openai_chat(history, bodies)        the messages of chat.completions.create
    render_openai_responses(history, bodies)   `instructions` and `input` of responses.create
    render_anthropic(history, bodies)          `system` and `messages` of messages.create, with cache breakpoints
    render_gemini(history, bodies)             `system_instruction` and `contents` of models.generate_content
    render_bedrock(history, bodies)            `system` and `messages` of converse, with cache points
    render_litellm(history, bodies)            the messages of litellm.completion
    bodies_of(history, issuer)                 the bodies that they need: pass these as digest -> bytes

Laws:
- Pure: the same history gives the same bytes.
- A result is never without its call, nor a call without its result.
- If one history extends another, so does its rendering, up to the tail.
- A provider's own parts go back to it unchanged, and to no other.
- No message is empty, since providers refuse those: a message with nothing to show is left out.
"""

from __future__ import annotations

import holdfast.providers  # noqa: F401 - whole before its parts: two threads that begin at different ends wait for each other
from holdfast.render.anthropic import render_anthropic
from holdfast.render.bedrock import render_bedrock
from holdfast.render.entries import NO_BODIES, bodies_of
from holdfast.render.gemini import render_gemini
from holdfast.render.litellm import render_litellm
from holdfast.render.openai import render_openai_chat, render_openai_responses
from holdfast.render.text import render_text

__all__ = [
    "NO_BODIES",
    "bodies_of",
    "render_anthropic",
    "render_bedrock",
    "render_gemini",
    "render_litellm",
    "render_openai_chat",
    "render_openai_responses",
    "render_text",
]
