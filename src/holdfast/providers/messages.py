"""Messages as people keep them in their lists: OpenAI chat, OpenAI responses input, Anthropic, or Holdfast's own form.

The dialects overlap, so a message is read field by field and block by block, not by guessing whose it is as a whole.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.core.arguments import raw_of
from holdfast.errors import InvalidContent, shown
from holdfast.model.content import SkipReason, Source, Usage
from holdfast.model.drafts import Draft, DraftCall, DraftResult
from holdfast.providers.outcomes import skip_reason
from holdfast.providers.parts import Piece, issuer_among, pieces, result_content, shell, unpacked
from holdfast.providers.plain import (
    ANTHROPIC,
    ASIDES,
    OPENAI,
    arguments,
    around,
    flag,
    listed,
    needed,
    rest,
    text_at,
    word,
)
from holdfast.providers.usage import own_usage

OPENAI_FIELDS = frozenset(
    {
        "annotations",
        "audio",
        "name",
        "phase",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
    }
)
"""What OpenAI and those who speak its dialect add to a message beside its content."""

LABELS = frozenset({"type", "role", "id", "status", "name", "phase"})
"""What says nothing on its own: a message of it alone is empty."""

TAKEN = frozenset(
    {
        "role",
        "type",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "tool_results",
        "tool_call_id",
        "usage",
        "metadata",
        "is_error",
    }
)


Shell: TypeAlias = tuple[str, dict[str, Any]]
"""Whose call it is, and what it says beyond what a call of ours can say."""


class Reply:
    """Parts and calls in the order in which the model made them.

    A draft has its calls apart from its content. Where that would lose something, the shell of the call stays behind in the
    content and marks its place: when the call says more than name, arguments and id, or when content comes after it.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Piece | Shell, DraftCall | None]] = []
        self._marked: set[int] = set()
        self._ids: set[str] = set()
        self.refused = False

    def add(self, *parts: Piece) -> None:
        self._entries.extend((part, None) for part in parts)

    @property
    def size(self) -> int:
        return len(self._entries)

    def take_back(self) -> None:
        """Without the last part."""
        self._entries.pop()

    def call(self, name: object, args: Any, call_id: object, shell: Shell, *, always: bool, raw: object = None) -> None:
        """A second call under one id gets none: results find it by the id that the session gives. `raw` is the text that
        the arguments came as, if they did."""
        known = call_id
        if type(call_id) is str:
            known = None if not call_id or call_id in self._ids else call_id
            self._ids.add(call_id)
        if always:
            self._marked.add(len(self._entries))
        own = raw_of(args, raw) if isinstance(raw, str) else None
        self._entries.append((shell, DraftCall(name, args, known, own)))

    @property
    def content(self) -> list[Piece]:
        last = max((place for place, (_, call) in enumerate(self._entries) if call is None), default=-1)
        return [
            around(*part) if type(part) is tuple else part  # type: ignore[misc]
            for place, (part, call) in enumerate(self._entries)
            if call is None or place in self._marked or place < last
        ]

    @property
    def calls(self) -> tuple[DraftCall, ...]:
        return tuple(call for _, call in self._entries if call is not None)

    def draft(self, usage: Usage | None = None, source: Source | None = None) -> Draft:
        """The whole reply."""
        return Draft(
            role="assistant",
            content=self.content or (),
            tool_calls=self.calls,
            usage=usage,
            source=source,
            skipped=self.skipped(source),
        )

    def skipped(self, source: Source | None = None) -> SkipReason | None:
        """Why no model is shown it, if it came from there."""
        stop = None if source is None else source.stop
        return skip_reason(stop, self.content, self.calls, refused=self.refused)


def message(
    item: dict[str, Any], issuer: str | None = None, usage: Usage | None = None, source: Source | None = None
) -> tuple[Draft, ...]:
    """One message; results that came along with other content make a message before it."""
    role: Any = item.get("role")
    said = word(item, "role")
    if said == "developer":
        role = "system"
    if said == "function" or (said == "tool" and "tool_call_id" in item):
        return (_tool_message(item),)
    reply = Reply()
    results = (*take(reply, item, issuer), *_own_results(item))
    content: Any = reply.content or ()
    metadata = _metadata(item)
    more = content or reply.calls
    if results and said != "tool":
        answer = Draft(role="tool", tool_results=results, metadata=None if more else metadata)
        if not more:
            return (answer,)
        return answer, Draft(role=role, content=content, tool_calls=reply.calls, metadata=metadata)
    return (
        Draft(
            role=role,
            content=content,
            tool_calls=reply.calls,
            tool_results=results,
            usage=usage or own_usage(item.get("usage")),
            source=source,
            metadata=metadata,
            skipped=reply.skipped(source) if said == "assistant" and not results else None,
        ),
    )


def take(reply: Reply, item: dict[str, Any], issuer: str | None = None) -> tuple[DraftResult, ...]:
    """The content and calls of a message, in order; what it says beside them stands first. Returns its tool results."""
    blocks = unpacked(item.get("content"))
    beside = _beside(item)
    if beside:
        reply.add(around(OPENAI, beside))
    begun = reply.size
    results = take_blocks(reply, blocks, issuer or issuer_among(blocks) or (OPENAI if beside else None))
    refusal = word(item, "refusal")
    if refusal:
        reply.add(*pieces({"type": "refusal", "refusal": refusal}, OPENAI))
        reply.refused = True
    if item.get("function_call") is not None:
        _legacy_call(reply, item["function_call"])
    for call in listed(item.get("tool_calls"), "'tool_calls'"):
        _tool_call(reply, needed(call, "a tool call"))
    if beside and reply.size == begun and beside.keys() <= LABELS:
        reply.take_back()
    return results


def take_blocks(reply: Reply, blocks: list[Any], issuer: str | None) -> tuple[DraftResult, ...]:
    results: list[DraftResult] = []
    for number, block in enumerate(blocks):
        try:
            results += _take_block(reply, block, issuer)
        except InvalidContent as error:
            raise InvalidContent(reason=f"part {number} of the content: {error.reason}") from error
    return tuple(results)


def _take_block(reply: Reply, block: Any, issuer: str | None) -> tuple[DraftResult, ...]:
    kind = word(block, "type") if type(block) is dict else None
    if kind == "tool_result":
        return (_tool_result(block),)
    if kind == "tool_use":
        _tool_use(reply, block)
    else:
        reply.add(*pieces(block, issuer))
        reply.refused |= kind == "refusal"
    return ()


def _beside(item: dict[str, Any]) -> dict[str, Any]:
    """What an OpenAI message says beside its content, under its role or its type."""
    kept = OPENAI_FIELDS | {"id", "status"} if word(item, "type") == "message" else OPENAI_FIELDS
    said = rest({key: value for key, value in item.items() if key in kept}, frozenset())
    if not said:
        return {}
    kind = "type" if word(item, "type") == "message" else "role"
    return {kind: item.get(kind), **said}


def _metadata(item: dict[str, Any]) -> Any:
    """What else stands in a message is its owner's: kept, but shown to no model."""
    own = item.get("metadata")
    if own is not None:
        return own
    passed = TAKEN | OPENAI_FIELDS | ASIDES
    if word(item, "type") == "message":
        passed |= {"id", "status"}
    return {key: value for key, value in item.items() if key not in passed and value is not None} or None


def _tool_use(reply: Reply, block: dict[str, Any]) -> None:
    """A call in Anthropic's words."""
    mark = rest(block, frozenset({"name", "input"}))
    args = arguments(block.get("input"))
    always = bool(mark.keys() - {"type", "id"})
    reply.call(block.get("name"), args, block.get("id"), (ANTHROPIC, mark), always=always)


def _tool_call(reply: Reply, call: dict[str, Any]) -> None:
    """A call in OpenAI's words, or in ours."""
    kind = "custom" if word(call, "type") == "custom" else "function"
    if kind not in call:
        spelled = call.get("arguments", {})
        args = call["args"] if "args" in call else arguments(spelled)
        reply.call(call.get("name"), args, call.get("id"), (OPENAI, {"type": "function"}), always=False, raw=spelled)
        return
    body = needed(call[kind], f"{kind!r} of a tool call")
    args = text_at(body, "input") if kind == "custom" else arguments(body.get("arguments"))
    said = rest(call, frozenset({"index"}))
    said[kind] = rest(body, frozenset({"name", "arguments", "input"}))
    if not said[kind]:
        del said[kind]
    said["type"] = kind
    always = kind == "custom" or bool(said.keys() - {"type", "id"})
    reply.call(body.get("name"), args, call.get("id"), (OPENAI, said), always=always, raw=body.get("arguments"))


def _legacy_call(reply: Reply, call: object) -> None:
    """Calls without an id, of which a message had one at most: their result names the function."""
    body = needed(call, "'function_call'")
    name, spelled = body.get("name"), body.get("arguments")
    reply.call(name, arguments(spelled), name, (OPENAI, {"type": "function"}), always=False, raw=spelled)


def _tool_message(item: dict[str, Any]) -> Draft:
    """A result in the words of OpenAI chat. The name of the tool stands in the call already."""
    call = item.get("tool_call_id") if "tool_call_id" in item else item.get("name")
    result = DraftResult(call, result_content(item.get("content"), None, []), flag(item, "is_error"))
    return Draft(role="tool", tool_results=(result,), metadata=_metadata(item))


def _tool_result(block: dict[str, Any]) -> DraftResult:
    taken = ("tool_use_id", "content") if block.get("is_error") is False else ("tool_use_id", "content", "is_error")
    outer = shell(block, ANTHROPIC, *taken, plain="tool_result")
    content = result_content(block.get("content"), ANTHROPIC, outer)
    return DraftResult(block.get("tool_use_id"), content, flag(block, "is_error"))


def _own_results(item: dict[str, Any]) -> tuple[DraftResult, ...]:
    """Results in our own words."""
    found = []
    for each in listed(item.get("tool_results"), "'tool_results'"):
        result = needed(each, "a tool result")
        if "result" not in result:
            raise InvalidContent(
                reason=f"a tool result without 'result', for the call {shown(result.get('tool_call_id'))}"
            )
        found.append(DraftResult(result.get("tool_call_id"), result["result"], flag(result, "is_error")))
    return tuple(found)
