"""The pack of a model call: for a provider, as text, and explained.

Law: a pack is data. Rendering it twice gives the same bytes, and it shows what its manifest lists.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.core.packs.assembly import AssembledPack, build_manifest, encode_tools
from holdfast.core.packs.explanations import explain_manifest
from holdfast.model.frames.frames import Reservation
from holdfast.model.history.views import HistoryView
from holdfast.model.packs.pack import Brief, Manifest, TokenSummary
from holdfast.model.tools.tool import Tool
from holdfast.render.anthropic import BREAKPOINTS, render_anthropic
from holdfast.render.bedrock import caches_prompts, marks_errors, render_bedrock
from holdfast.render.gemini import needs_signatures, render_gemini
from holdfast.render.litellm import render_litellm, uses_cache_marks
from holdfast.render.openai import render_openai_chat, render_openai_responses
from holdfast.render.text import render_text

CONTINUE_TEXT = "(Continue.)"
"""The message of the user where there is nothing to answer: a request needs one."""
MIN_OUTPUT_TOKENS = 16
"""The least limit of an answer that OpenAI's responses accept."""


def _unavailable_tools(names: Iterable[str]) -> list[Tool]:
    """The tools that a history calls, for a request without tools, which would be refused. None of them can be called."""
    about: dict[str, Any] = {"description": "Not available now.", "parameters": {"type": "object"}}
    return [Tool(name=name, **about) for name in dict.fromkeys(names)]


def _content_blocks(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The blocks of the messages whose content is a list."""
    for message in messages:
        yield from message["content"] if isinstance(message["content"], list) else ()


def _continue_message() -> dict[str, Any]:
    return {"role": "user", "content": CONTINUE_TEXT}


class Pack:
    """The bounded context of one model call. `manifest` says for every candidate why it is included, reduced or left
    out."""

    def __init__(
        self,
        assembled: AssembledPack,
        *,
        brief: Brief,
        bodies: Mapping[str, bytes],
        max_output: int | None = None,
        reservation: Reservation | None = None,
    ) -> None:
        self._assembled = assembled
        self._bodies = bodies
        self.brief = brief
        self.max_output = max_output
        self.reservation = reservation

    @property
    def history(self) -> HistoryView:
        """All of it as it is rendered: the prefix, the conversation and the tail."""
        return self._assembled.history

    @property
    def tokens(self) -> TokenSummary:
        return self._assembled.tokens

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the brief, and those of the engine."""
        return self._assembled.tools

    @property
    def query(self) -> str:
        return self._assembled.request.query

    @functools.cached_property
    def text(self) -> str:
        """All of it as plain text, tools excepted."""
        return render_text(self.history)

    @functools.cached_property
    def context_hash(self) -> str:
        """The SHA-256 of all that is shown."""
        text = f"{self.text}\n{encode_tools(self.tools)}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @functools.cached_property
    def manifest(self) -> Manifest:
        return build_manifest(self._assembled, self.brief, self.context_hash)

    def anthropic(self, *, breakpoints: int = BREAKPOINTS) -> dict[str, Any]:
        """For `client.messages.create(**pack.anthropic())`; it names the model if the pack was built for one."""
        shown = render_anthropic(self.history, self._bodies, breakpoints, model=self._model)
        if not shown["system"]:
            del shown["system"]
        if not shown["messages"] or shown["messages"][-1]["role"] == "assistant":
            shown["messages"].append(_continue_message())
        tools = self._tools_field([tool.anthropic() for tool in self.tools])
        if not tools:
            blocks = _content_blocks(shown["messages"])
            called = _unavailable_tools(block["name"] for block in blocks if block["type"] == "tool_use")
            choice = {"tool_choice": {"type": "none"}} if called else {}
            tools = self._tools_field([tool.anthropic() for tool in called]) | choice
        return self._request_fields({"max_tokens": self.max_output}) | shown | tools

    def openai(self) -> dict[str, Any]:
        """For `client.chat.completions.create(**pack.openai())`."""
        shown = {"messages": render_openai_chat(self.history, self._bodies) or [_continue_message()]}
        most = {"max_completion_tokens": self.max_output}
        return self._request_fields(most) | shown | self._tools_field([tool.openai() for tool in self.tools])

    def openai_responses(self) -> dict[str, Any]:
        """For `client.responses.create(**pack.openai_responses())`."""
        shown = render_openai_responses(self.history, self._bodies)
        shown["input"] = shown["input"] or [_continue_message()]
        most = {"max_output_tokens": max(self.max_output or 0, MIN_OUTPUT_TOKENS)}
        return self._request_fields(most) | shown | self._tools_field([tool.openai_responses() for tool in self.tools])

    def gemini(self) -> dict[str, Any]:
        """For `client.models.generate_content(**pack.gemini())`, and generate_content_stream(). Add to `config` what else
        you configure."""
        shown = render_gemini(self.history, self._bodies, signed=needs_signatures(self._model))
        contents = shown["contents"]
        if not contents or contents[-1]["role"] != "user":
            contents.append({"role": "user", "parts": [{"text": CONTINUE_TEXT}]})
        config: dict[str, Any] = {}
        if shown["system_instruction"] is not None:
            config["system_instruction"] = shown["system_instruction"]
        if self.max_output is not None:
            config["max_output_tokens"] = self.max_output
        if self.tools:
            config["tools"] = [{"function_declarations": [tool.gemini() for tool in self.tools]}]
        model = {"model": self._model} if self._model else {}
        return {**model, "contents": contents, "config": config}

    def bedrock(self, *, breakpoints: int | None = None) -> dict[str, Any]:
        """For `client.converse(**pack.bedrock())`, and converse_stream(), with a client of boto3 for "bedrock-runtime".

        `breakpoints` is the most cache points; without it, four for the models of Anthropic and Amazon that cache, and none
        for others, which refuse them."""
        if breakpoints is None:
            breakpoints = BREAKPOINTS if caches_prompts(self._model) else 0
        shown = render_bedrock(self.history, self._bodies, breakpoints, statuses=marks_errors(self._model))
        if not shown["system"]:
            del shown["system"]
        if not shown["messages"] or shown["messages"][-1]["role"] != "user":
            shown["messages"].append({"role": "user", "content": [{"text": CONTINUE_TEXT}]})
        blocks = _content_blocks(shown["messages"])
        called = (block["toolUse"]["name"] for block in blocks if "toolUse" in block)
        tools = [tool.bedrock() for tool in self.tools or _unavailable_tools(called)]
        return {
            **({"modelId": self._model} if self._model else {}),
            **({"inferenceConfig": {"maxTokens": self.max_output}} if self.max_output is not None else {}),
            **shown,
            **({"toolConfig": {"tools": tools}} if tools else {}),
        }

    def litellm(self, *, breakpoints: int | None = None) -> dict[str, Any]:
        """For `litellm.completion(**pack.litellm())`.

        `breakpoints` is the most cache marks; without it, four for the models of Anthropic, and none for others."""
        if breakpoints is None:
            breakpoints = BREAKPOINTS if uses_cache_marks(self._model) else 0
        messages = render_litellm(self.history, self._bodies, breakpoints)
        if not messages or messages[-1]["role"] not in ("user", "tool"):
            messages.append(_continue_message())
        calls = (call for message in messages for call in message.get("tool_calls", ()))
        called = (call[call["type"]]["name"] for call in calls)
        tools = self._tools_field([tool.openai() for tool in self.tools or _unavailable_tools(called)])
        return self._request_fields({"max_tokens": self.max_output}) | {"messages": messages} | tools

    @property
    def _model(self) -> str | None:
        return self._assembled.request.model or None

    def _request_fields(self, most: dict[str, Any]) -> dict[str, Any]:
        return ({"model": self._model} if self._model else {}) | (most if self.max_output is not None else {})

    def _tools_field(self, tools: list[dict[str, Any]]) -> dict[str, Any]:
        return {"tools": tools} if tools else {}

    def explain(self) -> str:
        """Why each candidate is included, reduced or left out, in words."""
        return explain_manifest(self.manifest)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        tokens = self.tokens
        return f"<Pack {tokens.used:,} of {tokens.budget:,} tokens, {len(self.history.items)} items>"
