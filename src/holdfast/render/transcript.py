"""A history as plain text.

What a tool returned is data: it is quoted line by line under a heading that names its origin, so that nothing in it can
pass for a message; nor can a line of any other text pass for a heading.
"""

from __future__ import annotations

import re

from holdfast import codec
from holdfast.context.fence import cleared, cleared_parts
from holdfast.model.content import Body, Data, Opaque, Part, Text
from holdfast.model.handles import piece_id
from holdfast.model.messages import History, Message, Summary
from holdfast.render.chat import tail_of
from holdfast.render.entries import line, text_in
from holdfast.render.turns import Turn, turns

_HEADING = re.compile(r"\[(?:system|user|assistant|tool)\b")


def text(history: History) -> str:
    """The history to read: messages under their roles, tool results quoted under the call that they belong to."""
    blocks = [_block("[system]", _said(message)) for message in history.system]
    for item in history.items:
        if isinstance(item, Summary):
            blocks.append(_plain(item.shown))
            continue
        for turn in turns(item):
            blocks.extend(_turn(turn))
    said = cleared("\n\n".join(filter(None, blocks)))
    return "\n\n".join(filter(None, (said, _plain(tail_of(history)))))


def _turn(turn: Turn) -> list[str]:
    message = turn.message
    role = "user" if message.role == "tool" else message.role
    said = _said(message)
    names: dict[str, str] = {}
    for call in message.tool_calls:
        if call.id in turn.answers:
            names[call.id] = call.name
            args = call.args if isinstance(call.args, str) else " ".join(codec.encode(call.args).decode().splitlines())
            said.append(_plain(f"calls {call.name} ({call.id}): {args}"))
    blocks = [_block(f"[{role}]", said)]
    for call_id, (origin, number) in turn.answers.items():
        result = origin.tool_results[number]
        what = "error of" if result.is_error else "result of"
        parts = cleared_parts([_part(part, piece_id(origin.seq, number)) for part in result.content])
        quoted = [f"> {each}" for part in parts for each in part.splitlines()]
        blocks.append("\n".join([f"[tool] {what} {names[call_id]} ({call_id}):", *(quoted or [">"])]))
    return blocks


def _said(message: Message) -> list[str]:
    before = len(message.tool_results)
    parts = [_part(part, piece_id(message.seq, before + place)) for place, part in enumerate(message.content)]
    return [_plain(part) for part in parts if part.strip()]


def _part(part: Part, handle: str) -> str:
    match part:
        case Text() | Data() | Body():
            return text_in(part)
        case Opaque():
            return ""
        case _:
            return line(part, handle)


def _block(heading: str, said: list[str]) -> str:
    return "\n".join([heading, *said]) if said else ""


def _plain(said: str) -> str:
    """A text, its lines such that none reads like a heading of ours."""
    return "\n".join(f"\\{each}" if _HEADING.match(each) else each for each in said.splitlines())
