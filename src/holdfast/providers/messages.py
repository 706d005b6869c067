"""Read messages in the format of OpenAI chat, OpenAI responses, Anthropic or Holdfast.

The formats overlap, so a message is read field by field and block by block, without a guess at its format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from holdfast.codec import encode
from holdfast.errors import InvalidArgument, describe_value
from holdfast.model.content import SkipReason, Source, Text, Usage
from holdfast.model.sessions.messages import CallDraft, MessageDraft, ResultDraft
from holdfast.providers import bedrock
from holdfast.providers.fields import (
    ANTHROPIC,
    ASIDES,
    BEDROCK,
    LITELLM,
    OPENAI,
    get_text,
    invalid_message,
    read_arguments,
    read_fields,
    read_flag,
    read_list,
    remaining_fields,
    require_fields,
    require_text,
    wrap_shell,
)
from holdfast.providers.outcomes import find_skip_reason
from holdfast.providers.parts import (
    DraftPart,
    build_shell,
    find_issuer,
    read_parts,
    read_result_content,
    unpack_content,
)
from holdfast.providers.usage import read_own_usage

OPENAI_FIELDS = frozenset("annotations audio name phase reasoning reasoning_content reasoning_details".split())
"""Fields beside the content that OpenAI and compatible providers add to a message."""

LITELLM_FIELDS = frozenset({"provider_specific_fields", "reasoning_items", "thinking_blocks"})
"""Fields in which LiteLLM keeps what a provider needs back."""

LABELS = frozenset({"type", "role", "id", "status", "name", "phase"})
"""A message with these fields only is empty."""

KNOWN_FIELDS = frozenset(
    """
    role type content refusal tool_calls function_call tool_results tool_call_id usage metadata is_error
    """.split()
)


_PLAIN_ROLES = frozenset({"user", "assistant", "system"})
_BESIDE_METADATA = KNOWN_FIELDS | OPENAI_FIELDS | LITELLM_FIELDS | ASIDES | {"images"}


CallShell: TypeAlias = tuple[str, dict[str, Any]]
"""The provider of a call, and the fields of the call that a CallDraft does not have."""


class ReplyBuilder:
    """The parts and calls of a reply, in the order of the model.

    A draft has its calls separate from its content. If something would be lost by this, the shell of the call stays
    in the content and marks the position: if the call has more fields than name, arguments and id, or content
    follows it."""

    def __init__(self) -> None:
        self._entries: list[tuple[DraftPart | CallShell, CallDraft | None]] = []
        self._marked: set[int] = set()
        self._ids: set[str] = set()
        self.is_refusal = False

    def add(self, *parts: DraftPart) -> None:
        self._entries.extend((part, None) for part in parts)

    @property
    def size(self) -> int:
        return len(self._entries)

    def drop_last(self) -> None:
        """Remove the last part."""
        self._entries.pop()

    def add_call(
        self, name: object, args: Any, call_id: object, shell: CallShell, *, always: bool, raw: object = None
    ) -> None:
        """Add a call. `raw` is the text of the arguments, if they came as text. It is not yet checked that it spells them.

        A second call with the same id gets no id: its result must use the id that the session gives it."""
        provider_id = call_id
        if type(call_id) is str:
            provider_id = None if not call_id or call_id in self._ids else call_id
            self._ids.add(call_id)
        if always:
            self._marked.add(len(self._entries))
        text = raw if type(raw) is str and type(args) is dict and raw != encode(args).decode() else None
        self._entries.append((shell, CallDraft(name, args, provider_id, text)))

    @property
    def content(self) -> list[DraftPart]:
        last = len(self._entries) - 1
        while last >= 0 and self._entries[last][1] is not None:
            last -= 1
        return [
            wrap_shell(*part) if type(part) is tuple else part  # type: ignore[misc]
            for at, (part, call) in enumerate(self._entries)
            if call is None or at in self._marked or at < last
        ]

    @property
    def calls(self) -> tuple[CallDraft, ...]:
        return tuple(call for _, call in self._entries if call is not None)

    def build_draft(self, usage: Usage | None = None, source: Source | None = None) -> MessageDraft:
        """Build the draft of the reply."""
        content, calls = self.content, self.calls
        return MessageDraft(
            role="assistant",
            content=content or (),
            tool_calls=calls,
            usage=usage,
            source=source,
            skipped=self.skip_reason(source, content, calls),
        )

    def skip_reason(
        self, source: Source | None, content: Sequence[DraftPart], calls: Sequence[CallDraft]
    ) -> SkipReason | None:
        """Return why the reply of these parts and calls is shown to no model; None if it is shown."""
        stop = None if source is None else source.stop
        return find_skip_reason(stop, content, calls, refused=self.is_refusal)


def read_message(
    item: dict[str, Any], issuer: str | None = None, usage: Usage | None = None, source: Source | None = None
) -> tuple[MessageDraft, ...]:
    """Read one message. Tool results beside other content become a message before it."""
    role: Any = item.get("role")
    name = get_text(item, "role")
    text = item.get("content")
    if len(item) == 2 and type(text) is str and text and name in _PLAIN_ROLES:
        parts, stop = [Text(text)], None if source is None else source.stop
        skipped = find_skip_reason(stop, parts, ()) if name == "assistant" else None
        return (MessageDraft(role=role, content=parts, usage=usage, source=source, skipped=skipped),)
    if name == "developer":
        role = "system"
    if name == "function" or (name == "tool" and "tool_call_id" in item):
        return (_read_tool_message(item),)
    reply = ReplyBuilder()
    results = (*add_message(reply, item, issuer), *_read_own_results(item))
    content: Any = reply.content or ()
    calls = reply.calls
    metadata = _extra_metadata(item)
    has_more = content or calls
    if results and name != "tool":
        answer = MessageDraft(role="tool", tool_results=results, metadata=None if has_more else metadata)
        if not has_more:
            return (answer,)
        return answer, MessageDraft(role=role, content=content, tool_calls=calls, metadata=metadata)
    return (
        MessageDraft(
            role=role,
            content=content,
            tool_calls=calls,
            tool_results=results,
            usage=usage or read_own_usage(item.get("usage")),
            source=source,
            metadata=metadata,
            skipped=reply.skip_reason(source, content, calls) if name == "assistant" and not results else None,
        ),
    )


def add_message(reply: ReplyBuilder, item: dict[str, Any], issuer: str | None = None) -> tuple[ResultDraft, ...]:
    """Add the content and the calls of a message to a reply, its other fields first. Returns its tool results."""
    blocks = unpack_content(item.get("content"))
    extra = _side_fields(item)
    if extra:
        reply.add(wrap_shell(OPENAI, extra))
    if not LITELLM_FIELDS.isdisjoint(item):
        reply.add(*_read_litellm_fields(item))
    size = reply.size
    results = add_blocks(reply, blocks, issuer or find_issuer(blocks) or (OPENAI if extra else None))
    for image in read_list(item.get("images"), "'images'"):  # LiteLLM puts the images of a model beside the content
        reply.add(*read_parts(require_fields(image, "an image"), OPENAI))
    refusal = get_text(item, "refusal")
    if refusal:
        reply.add(*read_parts({"type": "refusal", "refusal": refusal}, OPENAI))
        reply.is_refusal = True
    if item.get("function_call") is not None:
        _add_legacy_call(reply, item["function_call"])
    for call in read_list(item.get("tool_calls"), "'tool_calls'"):
        _add_tool_call(reply, require_fields(call, "a tool call"))
    if extra and reply.size == size and extra.keys() <= LABELS:
        reply.drop_last()
    return results


def add_blocks(reply: ReplyBuilder, blocks: list[Any], issuer: str | None) -> tuple[ResultDraft, ...]:
    """Add content blocks to a reply. Returns the tool results among them."""
    results: list[ResultDraft] = []
    for number, block in enumerate(blocks):
        try:
            results += _add_block(reply, block, issuer)
        except InvalidArgument as error:
            raise InvalidArgument(argument=f"content[{number}]", reason=error.reason) from error
    return tuple(results)


def result_in_reply_error() -> InvalidArgument:
    """Build the error for a tool result inside a reply of a model."""
    return invalid_message("a reply of the model contains a tool result")


def add_converse_block(reply: ReplyBuilder, block: dict[str, Any]) -> tuple[ResultDraft, ...]:
    """Add a block of Bedrock to a reply. Returns the result, if it is one. What the provider ran itself is kept as it
    is."""
    copy = bedrock.copy_block(block)
    kind = next(iter(copy), "")
    inner = read_fields(copy.get(kind)) or {}
    if kind in ("toolUse", "toolResult") and inner.get("type") is not None:
        reply.add(bedrock.keep_block(copy))
    elif kind == "toolResult":
        return (bedrock.read_result(inner),)
    elif kind == "toolUse":
        shell = bedrock.call_shell(inner)
        always = bool(shell.keys() - {"type", "id"})
        args = bedrock.read_input(inner)
        reply.add_call(inner.get("name"), args, inner.get("toolUseId"), (BEDROCK, shell), always=always)
    elif kind:
        reply.add(*bedrock.read_parts(copy))
    return ()


def _add_block(reply: ReplyBuilder, block: Any, issuer: str | None) -> tuple[ResultDraft, ...]:
    if bedrock.is_block(block):
        return add_converse_block(reply, block)
    kind = get_text(block, "type") if type(block) is dict else None
    if kind == "tool_result":
        return (_read_tool_result(block),)
    if kind == "tool_use":
        _add_tool_use(reply, block)
    else:
        reply.add(*read_parts(block, issuer))
        reply.is_refusal |= kind == "refusal"
    return ()


def _side_fields(item: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an OpenAI message beside its content, with its role or its type."""
    is_item = get_text(item, "type") == "message"
    names = OPENAI_FIELDS | {"id", "status"} if is_item else OPENAI_FIELDS
    if names.isdisjoint(item):
        return {}
    fields = remaining_fields({key: value for key, value in item.items() if key in names}, frozenset())
    label = "type" if is_item else "role"
    return {label: item.get(label), **fields} if fields else {}


def _read_litellm_fields(item: dict[str, Any]) -> list[DraftPart]:
    """Keep what LiteLLM needs back. It repeats thinking blocks in a field beside them."""
    fields = remaining_fields({key: item[key] for key in LITELLM_FIELDS if key in item}, frozenset())
    specific = read_fields(fields.get("provider_specific_fields"))
    if specific is not None:
        repeated = frozenset(key for key in fields if key in specific)
        left = remaining_fields(specific, repeated)
        fields = {key: value for key, value in fields.items() if key != "provider_specific_fields"}
        fields |= {"provider_specific_fields": left} if left else {}
    return [wrap_shell(LITELLM, {"role": "assistant", **fields})] if fields else []


def _extra_metadata(item: dict[str, Any]) -> Any:
    """Return the metadata of a message: its own, or all unknown fields. Models do not see it."""
    metadata = item.get("metadata")
    if metadata is not None:
        return metadata
    known = _BESIDE_METADATA
    if known.issuperset(item):
        return None
    if get_text(item, "type") == "message":
        known |= {"id", "status"}
    return {key: value for key, value in item.items() if key not in known and value is not None} or None


def _add_tool_use(reply: ReplyBuilder, block: dict[str, Any]) -> None:
    """Add a call in the format of Anthropic."""
    mark = remaining_fields(block, frozenset({"name", "input"}))
    args = read_arguments(block.get("input"))
    always = bool(mark.keys() - {"type", "id"})
    reply.add_call(block.get("name"), args, block.get("id"), (ANTHROPIC, mark), always=always)


def _add_tool_call(reply: ReplyBuilder, call: dict[str, Any]) -> None:
    """Add a call in the format of OpenAI or Holdfast."""
    kind = "custom" if get_text(call, "type") == "custom" else "function"
    if kind not in call:
        raw = call.get("arguments", {})
        args = call["args"] if "args" in call else read_arguments(raw)
        reply.add_call(call.get("name"), args, call.get("id"), (OPENAI, {"type": "function"}), always=False, raw=raw)
        return
    body = require_fields(call[kind], f"{kind!r} of a tool call")
    args = require_text(body, "input") if kind == "custom" else read_arguments(body.get("arguments"))
    shell = remaining_fields(call, frozenset({"index"}))
    shell[kind] = remaining_fields(body, frozenset({"name", "arguments", "input"}))
    if not shell[kind]:
        del shell[kind]
    shell["type"] = kind
    always = kind == "custom" or bool(shell.keys() - {"type", "id"})
    reply.add_call(body.get("name"), args, call.get("id"), (OPENAI, shell), always=always, raw=body.get("arguments"))


def _add_legacy_call(reply: ReplyBuilder, call: object) -> None:
    """Add the only call of a message in the old format without ids: its result names the function."""
    body = require_fields(call, "'function_call'")
    name, raw = body.get("name"), body.get("arguments")
    reply.add_call(name, read_arguments(raw), name, (OPENAI, {"type": "function"}), always=False, raw=raw)


def _read_tool_message(item: dict[str, Any]) -> MessageDraft:
    """Read a result in the format of OpenAI chat. The call already has the name of the tool."""
    call = item.get("tool_call_id") if "tool_call_id" in item else item.get("name")
    result = ResultDraft(call, read_result_content(item.get("content"), None, []), read_flag(item, "is_error"))
    return MessageDraft(role="tool", tool_results=(result,), metadata=_extra_metadata(item))


def _read_tool_result(block: dict[str, Any]) -> ResultDraft:
    used = ("tool_use_id", "content") if block.get("is_error") is False else ("tool_use_id", "content", "is_error")
    outer = build_shell(block, ANTHROPIC, *used, plain="tool_result")
    content = read_result_content(block.get("content"), ANTHROPIC, outer)
    return ResultDraft(block.get("tool_use_id"), content, read_flag(block, "is_error"))


def _read_own_results(item: dict[str, Any]) -> tuple[ResultDraft, ...]:
    """Read results in the format of Holdfast."""
    drafts = []
    for entry in read_list(item.get("tool_results"), "'tool_results'"):
        result = require_fields(entry, "a tool result")
        call = result.get("tool_call_id")
        if "result" not in result:
            raise invalid_message(f"the tool result for the call {describe_value(call)} has no field `result`")
        drafts.append(ResultDraft(call, result["result"], read_flag(result, "is_error")))
    return tuple(drafts)
