"""Anthropic's messages, with cache breakpoints.

Laws: roles alternate, and the first message is a user's: what users say in a row is one message, and between two replies
stands a line of ours; all results of a group stand in one user message right behind the calls; blocks are only added, so a
longer history begins with the blocks of a shorter one; at most four blocks carry a mark, and none that may not.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from holdfast.context.fence import cleared
from holdfast.model.content import Body, Data, File, Image, Text, ToolCall
from holdfast.model.messages import History, Message, Summary
from holdfast.model.names import checked_whole
from holdfast.providers.plain import ANTHROPIC
from holdfast.render import entries
from holdfast.render.chat import tail_of
from holdfast.render.entries import NO_BODIES, Around, Entry, Foreign, Mark, Own, Shown
from holdfast.render.turns import Answer, Calls, Ids, Turn, name_of, object_of, turns

BREAKPOINTS = 4
"""The most that a request may have."""

OPENING = "(The conversation begins with the assistant.)"
"""What stands before a history that no user began."""

BETWEEN = "(The assistant continues.)"
"""What stands between two replies with no message of the user between them."""

IMAGE_BYTES = (5 << 20) * 3 // 4
"""The largest image that is taken: as base64 it has five megabytes."""

THOUGHT = frozenset({"thinking", "redacted_thinking"})
MARKED = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""The blocks that a mark may stand on."""


def anthropic(
    history: History, bodies: Mapping[str, bytes] = NO_BODIES, breakpoints: int = BREAKPOINTS
) -> dict[str, Any]:
    """`system` and `messages` for `client.messages.create`. `bodies` has the bytes of images and files by their digest.

    Marks stand where the next request finds them again: at the end of the history, at that of the system messages, at the
    last boundary, and before the last reply, where the history ended when it was asked for. With fewer `breakpoints` (leave
    some for marks of your own) the first of these are set."""
    checked_whole("breakpoints", breakpoints, 0, BREAKPOINTS)
    made = _Messages(bodies)
    frozen: list[dict[str, Any]] = []
    asked: list[dict[str, Any]] = []
    for number, item in enumerate(history.items, 1):
        if isinstance(item, Summary):
            made.add("user", [_text(cleared(item.shown))])
        else:
            for turn in turns(item):
                asked = _last(made.messages) if turn.message.role == "assistant" else asked
                made.turn(turn)
        if number == history.frozen:
            frozen = _last(made.messages)
    system = [block for message in history.system for block in made.system(message)]
    messages = made.messages
    places = [_last(messages), system[-1:], frozen, asked]
    _mark([block for place in places for block in place], breakpoints)
    if tail := tail_of(history):
        made.close(_text(tail))
    return {"system": system, "messages": messages}


def _mark(blocks: list[dict[str, Any]], breakpoints: int) -> None:
    marked: list[dict[str, Any]] = []
    for block in blocks:
        if len(marked) < breakpoints and not any(block is each for each in marked):
            marked.append(block)
            block["cache_control"] = {"type": "ephemeral"}


def _last(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last block that may carry a mark, if there is one."""
    blocks = (block for message in reversed(messages) for block in reversed(message["content"]))
    return next(([block] for block in blocks if block["type"] in MARKED), [])


class _Messages:
    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.messages: list[dict[str, Any]] = []
        self._bodies = bodies
        self._ids = Ids(ANTHROPIC)

    def add(self, role: str, content: list[dict[str, Any]]) -> None:
        if not content:
            return
        before = self.messages[-1]["role"] if self.messages else None
        if role == before == "user":
            self.messages[-1]["content"] += content
            return
        if role != "user" and before != "user":
            self.messages.append({"role": "user", "content": [_text(BETWEEN if before else OPENING)]})
        self.messages.append({"role": role, "content": content})

    def close(self, tail: dict[str, Any]) -> None:
        """What stands behind the history: a block of the last message, if that is a user's, since roles take turns."""
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append(tail)
        else:
            self.messages.append({"role": "user", "content": [tail]})

    def system(self, message: Message) -> list[dict[str, Any]]:
        found = entries.content(message, ANTHROPIC, self._bodies)
        return [block for entry in found for block in self._block(entry, pictures=False)]

    def turn(self, turn: Turn) -> None:
        if turn.message.role == "assistant":
            self.add("assistant", self._reply(turn))
        else:
            found = entries.content(turn.message, ANTHROPIC, self._bodies)
            self.add("user", [block for entry in found for block in self._said(entry)])
        self.add("user", [self._result(call, answer) for call, answer in turn.answers.items()])

    def _reply(self, turn: Turn) -> list[dict[str, Any]]:
        calls = Calls(turn)
        blocks: list[dict[str, Any]] = []
        for entry in entries.content(turn.message, ANTHROPIC, self._bodies):
            match entry:
                case Mark(shell):
                    blocks += [self._call(turn.message, *each) for each in calls.up_to(shell)]
                case Own(block):
                    blocks += [block] if block["type"] not in ("text", "tool_use", "tool_result") else []
                case _:
                    blocks += self._block(entry, pictures=False)
        blocks += [self._call(turn.message, call, {}) for call in calls.rest()]
        while blocks and blocks[-1]["type"] in THOUGHT:  # refused without what it led to
            blocks.pop()
        return blocks

    def _call(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> dict[str, Any]:
        outer = shell if shell.get("type") == "tool_use" else {}
        return {
            **outer,
            "type": "tool_use",
            "id": self._ids.give(message, call),
            "name": name_of(message, call, ANTHROPIC),
            "input": object_of(call),
        }

    def _result(self, call: str, answer: Answer) -> dict[str, Any]:
        found = entries.result(answer.message, answer.number, ANTHROPIC, self._bodies)
        shells = (entry.shell for entry in found if isinstance(entry, Around))
        outer = next((shell for shell in shells if shell.get("type") == "tool_result"), {})
        blocks = [block for entry in found for block in self._said(entry, failed=answer.result.is_error)]
        if answer.result.is_error and not blocks:
            blocks = [_text("Error")]  # an error without content is refused
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": self._ids.of(call)}
        if blocks:
            lone = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
            result["content"] = blocks[0]["text"] if lone else blocks
        if answer.result.is_error:
            result["is_error"] = True
        return {**result, **{key: value for key, value in outer.items() if key not in result}}

    def _said(self, entry: Entry, *, failed: bool = False) -> list[dict[str, Any]]:
        """What a user or a tool brought. In the result of a tool that failed, anything but text is refused."""
        match entry:
            case Own(block):
                kind = block["type"]
                closed = kind in THOUGHT or kind == "text" or kind.endswith(("tool_use", "tool_result"))
                return [] if closed or failed else [block]
            case Foreign():
                return [_text(entry.line)]
            case _:
                return self._block(entry, pictures=not failed)

    def _block(self, entry: Entry, *, pictures: bool) -> list[dict[str, Any]]:
        match entry:
            case Shown(Text() | Data() | Body() as part, shell):
                text = entries.text_in(part)
                outer = shell if shell.get("type") == "text" else {}
                return [{**outer, **_text(text)}] if text.strip() else []  # blank text is refused
            case Shown(Image() | File() as part, shell, handle):
                shown = self._image(part, shell) if isinstance(part, Image) else self._file(part, shell)
                return [shown if pictures and shown is not None else _text(entries.line(part, handle))]
            case _:
                return []

    def _image(self, part: Image, shell: dict[str, Any]) -> dict[str, Any] | None:
        if part.ref is None:
            url = entries.fetched(part.url)
            return None if url is None else {**shell, "type": "image", "source": {"type": "url", "url": url}}
        found = entries.picture_of(part, self._bodies)
        if found is None or len(found[1]) > IMAGE_BYTES:
            return None
        return {**shell, "type": "image", "source": _base64(*found)}

    def _file(self, part: File, shell: dict[str, Any]) -> dict[str, Any] | None:
        found = entries.file_of(part, self._bodies)
        if found is None:
            return self._image(Image(part.ref), {})
        text = entries.as_text(*found)
        if text is not None and text.strip():
            source = {"type": "text", "media_type": "text/plain", "data": text}
        elif found[0] == entries.PDF:
            source = _base64(*found)
        else:
            return None
        title = {"title": cleared(part.name)} if part.name else {}
        return {**shell, **title, "type": "document", "source": source}


def _base64(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
