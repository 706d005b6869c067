"""A pack in the words of a provider, as text, and explained.

Law: a pack is data; rendering it twice gives the same bytes, and what it shows is what its manifest tells.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

from holdfast.context.manifest import Made, manifest_of, tools_text
from holdfast.context.words import explained
from holdfast.model.frames import Reservation
from holdfast.model.messages import History
from holdfast.model.pack import Brief, Manifest, TokenSummary
from holdfast.model.tools import Tool
from holdfast.render.blocks import BREAKPOINTS, anthropic
from holdfast.render.chat import openai_chat
from holdfast.render.responses import openai_responses
from holdfast.render.transcript import text

CONTINUE = "(Continue.)"
"""What the user's side says where nothing else is to be answered: a model is asked by a message, and never by none."""


LEAST_OUTPUT = 16
"""The least that OpenAI's responses take for the most that is answered."""


def _called(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The tools that a history calls, for a request that has none: without them it is refused. None of them is called."""
    blocks = (block for message in messages if isinstance(message["content"], list) for block in message["content"])
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    if not names:
        return {}
    about = {"description": "Not available now.", "input_schema": {"type": "object"}}
    return {"tools": [{"name": name, **about} for name in names], "tool_choice": {"type": "none"}}


def _continue() -> dict[str, Any]:
    return {"role": "user", "content": CONTINUE}


class Pack:
    """The bounded context of one model call. `manifest` says of everything why it is in, reduced, or out."""

    def __init__(
        self,
        made: Made,
        *,
        brief: Brief,
        bodies: Mapping[str, bytes],
        max_output: int | None = None,
        reservation: Reservation | None = None,
    ) -> None:
        self._made = made
        self._bodies = bodies
        self.brief = brief
        self.max_output = max_output
        self.reservation = reservation

    @property
    def history(self) -> History:
        """All of it, as it is rendered: what stands first, the conversation, and what is made anew for each call."""
        return self._made.history

    @property
    def tokens(self) -> TokenSummary:
        return self._made.tokens

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the brief, and the one that reads what is shown in part."""
        return self.brief.offered

    @property
    def query(self) -> str:
        return self._made.request.query

    @functools.cached_property
    def text(self) -> str:
        """All of it as plain text, tools excepted."""
        return text(self.history)

    @functools.cached_property
    def context_hash(self) -> str:
        """The SHA-256 of all that is shown."""
        whole = f"{self.text}\n{tools_text(self.tools)}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    @functools.cached_property
    def manifest(self) -> Manifest:
        return manifest_of(self._made, self.brief, self.context_hash)

    def anthropic(self, *, breakpoints: int = BREAKPOINTS) -> dict[str, Any]:
        """For `client.messages.create(**pack.anthropic())`; the model is in it if the pack was asked for one."""
        shown = anthropic(self.history, self._bodies, breakpoints)
        if not shown["system"]:
            del shown["system"]
        if not shown["messages"] or shown["messages"][-1]["role"] != "user":
            shown["messages"].append(_continue())
        tools = self._tools([each.anthropic() for each in self.tools]) or _called(shown["messages"])
        return self._about({"max_tokens": self.max_output}) | shown | tools

    def openai(self) -> dict[str, Any]:
        """For `client.chat.completions.create(**pack.openai())`."""
        shown = {"messages": openai_chat(self.history, self._bodies) or [_continue()]}
        most = {"max_completion_tokens": self.max_output}
        return self._about(most) | shown | self._tools([each.openai() for each in self.tools])

    def openai_responses(self) -> dict[str, Any]:
        """For `client.responses.create(**pack.openai_responses())`."""
        shown = openai_responses(self.history, self._bodies)
        shown["input"] = shown["input"] or [_continue()]
        most = {"max_output_tokens": max(self.max_output or 0, LEAST_OUTPUT)}
        return self._about(most) | shown | self._tools([each.openai_responses() for each in self.tools])

    def _about(self, most: dict[str, Any]) -> dict[str, Any]:
        model = self._made.request.model
        return ({"model": model} if model else {}) | (most if self.max_output is not None else {})

    def _tools(self, tools: list[dict[str, Any]]) -> dict[str, Any]:
        return {"tools": tools} if tools else {}

    def explain(self) -> str:
        """Why each thing is in, reduced, or out, in words."""
        return explained(self.manifest)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        tokens = self.tokens
        return f"<Pack {tokens.used:,} of {tokens.budget:,} tokens, {len(self.history.items)} items>"
