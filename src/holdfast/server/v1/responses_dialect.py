"""An upstream that speaks the Responses API itself. It stores nothing: the conversation is kept here.

Law: an id of an item goes back only where the upstream needs it, with its sealed reasoning: an upstream that stores nothing
refuses ids that it does not know.
"""

from __future__ import annotations

import re

import holdfast
from holdfast.providers.fields import get_text
from holdfast.providers.usage import read_openai_usage
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.output import OutputBuilder
from holdfast.server.v1.upstreams import (
    Question,
    ReplyEnd,
    StreamReader,
    UpstreamBroken,
    describe_failure,
    upstream_error,
)

SEALED = "reasoning.encrypted_content"
_PASSED = (
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "top_logprobs",
    "max_output_tokens",
    "text",
    "reasoning",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
)
_REASONING_MODELS = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9])(?!.*chat).*")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesDialect:
    """POST /responses."""

    path = "/responses"

    def build_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def check(self, question: Question) -> None:
        """It can do all that clients can ask for."""

    def build_request(self, pack: holdfast.Pack, question: Question, engine_tools: tuple[holdfast.Tool, ...]) -> Fields:
        body = pack.openai_responses()
        body.pop("max_output_tokens", None)
        body |= {"model": question.model, "store": False}
        if not body.get("instructions"):
            body.pop("instructions", None)
        body["input"] = [_bare_item(item) for item in body["input"] if not _is_unsealed(item)]
        include = list(dict.fromkeys([*question.include, *([SEALED] if _may_reason(question) else [])]))
        if include:
            body["include"] = include
        tools = [*question.tools, *(tool.openai_responses() for tool in engine_tools)]
        body.pop("tools", None)
        if tools:
            body["tools"] = tools
        for name in _PASSED:
            value = getattr(question, name)
            if value is not None and (question.tools or name not in ("tool_choice", "parallel_tool_calls")):
                body[name] = value
        return body

    def mark_stream(self, body: Fields) -> None:
        body["stream"] = True

    def read_reply(self, reply: Fields, output: OutputBuilder) -> ReplyEnd:
        if reply.get("status") == "failed":
            raise upstream_error(502, describe_failure(reply))
        if not isinstance(reply.get("output"), list):
            raise upstream_error(502, "its answer has no output")
        for item in reply["output"]:
            output.add_item(item)
        end = _read_end(reply)
        output.end_round("completed" if end.stop == "completed" else "incomplete")
        return end

    def read_stream(self, output: OutputBuilder) -> StreamReader:
        return _ResponsesReader(output)


class _ResponsesReader:
    def __init__(self, output: OutputBuilder) -> None:
        self._output = output
        self._end: ReplyEnd | None = None

    def add(self, event: Fields) -> None:
        kind = get_text(event, "type") or ""
        if kind in _ENDS:
            response = event.get("response")
            response = response if isinstance(response, dict) else {}
            if kind == "response.failed":
                raise UpstreamBroken(describe_failure(response))
            self._end = _read_end(response)
        elif type(event.get("output_index")) is int:
            self._output.pass_event(event)

    def end(self) -> ReplyEnd | None:
        return self._end


def _read_end(response: Fields) -> ReplyEnd:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    stop = str(reason or "max_output_tokens") if response.get("status") == "incomplete" else "completed"
    return ReplyEnd(stop, read_openai_usage(response.get("usage")), get_text(response, "model") or "")


def _may_reason(question: Question) -> bool:
    """Whether to ask for sealed reasoning, so that it can go back: other models refuse to be asked for it."""
    return question.reasoning is not None or _REASONING_MODELS.fullmatch(question.model) is not None


def _is_unsealed(item: Fields) -> bool:
    """Whether this is reasoning that the upstream cannot read again."""
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _bare_item(item: Fields) -> Fields:
    if item.get("type") in ("reasoning", "item_reference", "local_shell_call_output"):
        return {key: value for key, value in item.items() if key != "status"}
    return {key: value for key, value in item.items() if key != "id"}
