"""A history as plain text.

Tool results are data: each is quoted line by line under a heading that names its origin, so that nothing in it can pass
for a message. No line of any other text can pass for a heading.
"""

from __future__ import annotations

import re

from holdfast import codec
from holdfast.model.content import Body, Data, Opaque, Part, Text
from holdfast.model.history.handles import piece_id
from holdfast.model.history.views import HistoryView, Summary
from holdfast.model.sessions.messages import Message
from holdfast.render.entries import AnsweredMessage, describe_media, pair_answers, tail_text, text_in
from holdfast.text.fence import remove_tag, remove_tag_from_parts

_HEADING = re.compile(r"\[(?:system|user|assistant|tool)\b")


def render_text(history: HistoryView) -> str:
    """The history as text: messages under their roles, tool results quoted under their call."""
    blocks = [_format_block("[system]", _content_lines(message)) for message in history.system]
    for item in history.items:
        if isinstance(item, Summary):
            blocks.append(_escape_headings(item.shown))
            continue
        for turn in pair_answers(item):
            blocks.extend(_message_blocks(turn))
    text = remove_tag("\n\n".join(filter(None, blocks)))
    return "\n\n".join(filter(None, (text, _escape_headings(tail_text(history)))))


def _message_blocks(turn: AnsweredMessage) -> list[str]:
    message = turn.message
    role = "user" if message.role == "tool" else message.role
    lines = _content_lines(message)
    names: dict[str, str] = {}
    for call in message.tool_calls:
        if call.id in turn.answers:
            names[call.id] = call.name
            args = call.args if isinstance(call.args, str) else " ".join(codec.encode(call.args).decode().splitlines())
            lines.append(_escape_headings(f"calls {call.name} ({call.id}): {args}"))
    blocks = [_format_block(f"[{role}]", lines)]
    for call_id, (origin, number) in turn.answers.items():
        result = origin.tool_results[number]
        noun = "error of" if result.is_error else "result of"
        parts = remove_tag_from_parts([_part_text(part, piece_id(origin.seq, number)) for part in result.content])
        quoted = [f"> {line}" for part in parts for line in part.splitlines()]
        blocks.append("\n".join([f"[tool] {noun} {names[call_id]} ({call_id}):", *(quoted or [">"])]))
    return blocks


def _content_lines(message: Message) -> list[str]:
    before = len(message.tool_results)
    parts = [_part_text(part, piece_id(message.seq, before + number)) for number, part in enumerate(message.content)]
    return [_escape_headings(part) for part in parts if part.strip()]


def _part_text(part: Part, handle: str) -> str:
    match part:
        case Text() | Data() | Body():
            return text_in(part)
        case Opaque():
            return ""
        case _:
            return describe_media(part, handle)


def _format_block(heading: str, lines: list[str]) -> str:
    return "\n".join([heading, *lines]) if lines else ""


def _escape_headings(text: str) -> str:
    """The text, with each line escaped that reads like a heading."""
    return "\n".join(f"\\{line}" if _HEADING.match(line) else line for line in text.splitlines())
