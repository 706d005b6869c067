"""The lines that Claude Code writes to its logs, and what of them is conversation. Pure: no file or store is used here.

A line is a JSON object with a `type`. Lines of the types `user` and `assistant` have a message of the Messages API; a reply
is split into a line per block, all with the id of the reply. Attachments that the user brought are conversation, too.
All others are records of the program, and so are unknown types: they are kept as entries, and shown to no model.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.providers.usage import read_anthropic_usage

Line: TypeAlias = dict[str, Any]

LineKind: TypeAlias = Literal["prompt", "note", "reply", "result", "summary"]

CONVERSATION = ("user", "assistant", "attachment")
"""The types of lines that can have a message."""
_ATTACHED = frozenset(
    {
        "file",
        "image",
        "pdf",
        "directory",
        "selected_lines_in_ide",
        "edited_text_file",
        "edited_image_file",
        "queued_command",
        "mcp_resource",
        "pdf_reference",
        "compact_file_reference",
        "plan_file_reference",
        "nested_memory",
    }
)
"""Attachments that bring content. The others repeat what the program tells every model, such as the date or its tools."""
_SYNTHETIC = "<synthetic>"
"""The model of replies that no model wrote."""
_MACHINE = ("<task-notification", "<local-command-", "<command-name>", "<bash-", "<system-reminder>")
"""How texts begin that stand in the place of a prompt, and that no user wrote."""


class LogMessage(msgspec.Struct, kw_only=True):
    """A message of a log, from one or more lines."""

    kind: LineKind
    message: Line
    """As session.record_all() accepts it."""
    ids: list[str]
    """The uuids of its lines."""
    first: int
    """The seq of the entry of its first line, and of its last."""
    last: int
    parent: str | None = None
    group: str = ""
    """The id of the reply that this is, or is a part of."""
    prompt: str = ""
    """The id of the prompt, as hooks name it."""
    stop: str = ""
    """Why the model stopped; empty if the line does not say it."""
    said_us: int = 0
    """When its first line was written; 0 if that does not say it."""
    is_copy: bool = False
    """It was said before the session was stored: in another session, or long ago."""
    calls: list[str] = msgspec.field(default_factory=list)
    answers: list[str] = msgspec.field(default_factory=list)

    @property
    def mark(self) -> dict[str, Any]:
        """The metadata by which the message is recognised."""
        mark: dict[str, Any] = {"ids": self.ids, "first": self.first, "last": self.last, "kind": self.kind}
        if self.group:
            mark["group"] = self.group
        if self.stop:
            mark["stop"] = self.stop
        if self.prompt and self.kind == "prompt":
            mark["prompt"] = self.prompt
        if self.is_copy:
            mark["copy"] = True
        return mark

    @property
    def is_plain(self) -> bool:
        """Whether it is text, and nothing else."""
        content = self.message["content"]
        return type(content) is str or all(block.get("type") == "text" for block in content)


def is_log_line(line: object) -> bool:
    """Whether this can be a line of a log of Claude Code."""
    if type(line) is not dict or type(line.get("type")) is not str or "role" in line:
        return False
    return any(type(line.get(name)) is str for name in ("sessionId", "uuid", "leafUuid", "messageId", "agentId"))


def line_id(line: Line) -> str:
    """The uuid of a line; empty if it has none."""
    return _read_name(line.get("uuid"))


def name_line(subpath: str, line: Line) -> str:
    """The uuid of a line for the keys of a session, in which sub-agents may repeat lines of each other."""
    uuid = line_id(line)
    return f"{subpath}/{uuid}" if uuid and subpath else uuid


def _read_name(name: object) -> str:
    """A name as text that can be stored; empty if it is none."""
    return name.encode("utf-8", "replace").decode() if type(name) is str else ""


def is_sidechain(line: Line) -> bool:
    """Whether the line belongs to a sub-agent."""
    return line.get("isSidechain") is True


def text_of_prompt(content: object) -> str:
    """The text of a message of the user."""
    if type(content) is str:
        return content
    blocks = content if type(content) is list else []
    texts = (block.get("text") for block in blocks if type(block) is dict and block.get("type") == "text")
    return "\n".join(text for text in texts if type(text) is str)


def find_kept_lines(boundary: Line) -> list[str]:
    """The uuids of the lines that a compaction leaves as they are, from the line before its summary."""
    told = boundary.get("compactMetadata")
    kept = told.get("preservedMessages") if type(told) is dict else None
    uuids = kept.get("uuids") if type(kept) is dict else None
    return [uuid for uuid in uuids if type(uuid) is str] if type(uuids) is list else []


def mark_copies(messages: Iterable[LogMessage], stored_us: int, *, is_empty: bool) -> None:
    """Mark the prompts that were said before the session was stored. The first turn of a session can be stored only when it
    has ended: the one prompt of a session that is empty is no copy."""
    prompts = [message for message in messages if message.kind == "prompt"]
    for prompt in prompts:
        is_first = is_empty and len(prompts) == 1
        prompt.is_copy = 0 < prompt.said_us < stored_us and not is_first


def is_machine_text(text: str) -> bool:
    """Whether the program wrote this in the place of the user."""
    return text.lstrip().startswith(_MACHINE)


def read_line(line: Line, seq: int) -> LogMessage | None:
    """The message of a line; None if it has none that a model sees."""
    match line.get("type"):
        case "user":
            return _read_user(line, seq)
        case "assistant":
            return _read_reply(line, seq)
        case "attachment":
            return _read_attachment(line, seq)
    return None


def read_lines(lines: Iterable[tuple[int, Line]]) -> list[LogMessage]:
    """The messages of lines, in their order. The lines of a reply are one message, unless all calls of its first lines
    have their results before the next line comes."""
    messages: list[LogMessage] = []
    for seq, line in lines:
        new = read_line(line, seq)
        if new is None:
            continue
        reply = _find_reply(messages, new) if new.kind == "reply" else None
        if reply is None:
            messages.append(new)
        else:
            join_reply(reply, new)
    return messages


def _find_reply(messages: list[LogMessage], new: LogMessage) -> LogMessage | None:
    """The message that goes on with this line."""
    answered: set[str] = set()
    for earlier in reversed(messages):
        if earlier.kind == "reply":
            same = earlier.group == new.group != ""
            is_open = not {*earlier.calls} <= answered
            return earlier if same and (is_open or earlier is messages[-1]) else None
        answered.update(earlier.answers)
    return None


def join_reply(reply: LogMessage, new: LogMessage) -> None:
    """Add the next line of a reply."""
    known = {*reply.calls}
    blocks = [block for block in new.message["content"] if block.get("id") is None or block["id"] not in known]
    reply.message["content"] = [*reply.message["content"], *blocks]
    if new.message.get("usage") is not None:
        reply.message["usage"] = new.message["usage"]
    reply.stop = new.stop or reply.stop
    reply.ids += new.ids
    reply.calls += (call for call in new.calls if call not in known)
    reply.last = max(reply.last, new.last)


def _build(kind: LineKind, line: Line, seq: int, message: Line, **fields: Any) -> LogMessage:
    parent = line.get("parentUuid")
    uuid = line_id(line)
    return LogMessage(
        kind=kind,
        message=message,
        ids=[uuid] if uuid else [],
        first=seq,
        last=seq,
        parent=_read_name(parent) or None,
        said_us=_read_time_us(line.get("timestamp")),
        **fields,
    )


def _read_time_us(text: object) -> int:
    """A time of a line; 0 if it is none."""
    try:
        time = datetime.fromisoformat(str(text))
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return 0


def _read_user(line: Line, seq: int) -> LogMessage | None:
    message = line.get("message")
    content = message.get("content") if type(message) is dict else None
    if type(content) is str:
        if not content.strip():
            return None
        blocks: list[Any] = [{"type": "text", "text": content}]
    elif type(content) is list:
        blocks = [block for block in content if type(block) is dict]
    else:
        return None
    answers = [
        block["tool_use_id"]
        for block in blocks
        if block.get("type") == "tool_result" and type(block.get("tool_use_id")) is str
    ]
    shown = {"role": "user", "content": content if type(content) is str else blocks}
    if answers:
        return _build("result", line, seq, shown, answers=answers)
    if not blocks:
        return None
    if line.get("isCompactSummary") is True:
        return _build("summary", line, seq, shown)
    is_note = line.get("isMeta") is True or is_machine_text(text_of_prompt(content))
    prompt = line.get("promptId")
    return _build("note" if is_note else "prompt", line, seq, shown, prompt=_read_name(prompt))


def _read_reply(line: Line, seq: int) -> LogMessage | None:
    message = line.get("message")
    if type(message) is not dict or type(message.get("content")) is not list:
        return None
    if message.get("model") == _SYNTHETIC or line.get("isApiErrorMessage") is True:
        return None
    blocks = [block for block in message["content"] if type(block) is dict and not _is_blank(block)]
    if not blocks:
        return None
    calls = [block["id"] for block in blocks if block.get("type") == "tool_use" and type(block.get("id")) is str]
    shown: Line = {"role": "assistant", "content": blocks}
    if type(message.get("usage")) is dict:
        shown["usage"] = read_anthropic_usage(message["usage"])
    group = message.get("id")
    stop = _read_name(message.get("stop_reason"))
    return _build("reply", line, seq, shown, calls=calls, group=_read_name(group), stop=stop)


def _is_blank(block: Line) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and (type(text) is not str or not text.strip())


def _read_attachment(line: Line, seq: int) -> LogMessage | None:
    attachment = line.get("attachment")
    if type(attachment) is not dict or attachment.get("type") not in _ATTACHED:
        return None
    if attachment["type"] == "queued_command" and attachment.get("commandMode", "prompt") == "prompt":
        return _read_queued(line, seq, attachment.get("prompt"))
    text = _rendered_text(line.get("rendered")) or _attached_text(attachment)
    if not text.strip():
        return None
    return _build("note", line, seq, {"role": "user", "content": text})


def _read_queued(line: Line, seq: int, prompt: object) -> LogMessage | None:
    """What the user said while the model worked. The line names no prompt, and the program's words around it are left
    out."""
    content = [block for block in prompt if type(block) is dict] if type(prompt) is list else prompt
    text = text_of_prompt(content)
    if not content or (type(content) is str and not text.strip()) or type(content) not in (str, list):
        return None
    kind: LineKind = "note" if is_machine_text(text) else "prompt"
    return _build(kind, line, seq, {"role": "user", "content": content})


def _rendered_text(rendered: object) -> str:
    parts = rendered if type(rendered) is list else []
    texts = (text_of_prompt(part.get("content")) for part in parts if type(part) is dict)
    return "\n".join(text for text in texts if text)


def _attached_text(attachment: Line) -> str:
    content = attachment.get("content", attachment.get("prompt"))
    if type(content) is dict and type(content.get("file")) is dict:  # as the tool Read returns it
        content = content["file"].get("content")
    name = attachment.get("filename") or attachment.get("displayPath") or attachment.get("path")
    text = text_of_prompt(content)
    return f"{name}:\n{text}" if text and type(name) is str else text
