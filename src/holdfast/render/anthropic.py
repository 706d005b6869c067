"""Anthropic's messages, with cache breakpoints.

Laws: roles alternate, and the first message is a user's: consecutive messages of users are one message, and a fixed
line separates two replies. All results of a group are in one user message right behind the calls. Blocks are only
added, so a longer history begins with the blocks of a shorter one. At most four blocks have a cache mark, and only
those that may.

A system message inside the conversation is a message of that role for a model that takes it, right behind a message of
the user or results, and nothing but a reply follows it; elsewhere it is a text in the turn of the user, in the fence.
Only what comes before it decides that, so that a longer history changes nothing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from holdfast.model.content import Body, Data, File, Image, Text, ToolCall
from holdfast.model.history.views import HistoryView, Summary
from holdfast.model.names import check_whole
from holdfast.model.sessions.messages import Message
from holdfast.providers.fields import ANTHROPIC
from holdfast.render import entries
from holdfast.render.entries import (
    NO_BODIES,
    AnsweredCalls,
    AnsweredMessage,
    CallAnswer,
    CallIds,
    CallMark,
    ForeignPart,
    MessageShell,
    OwnBlock,
    RenderEntry,
    ShownPart,
    arguments_object,
    pair_answers,
    tail_text,
    tool_name,
)
from holdfast.text.fence import SEPARATOR, fence_system_message, remove_tag

BREAKPOINTS = 4
"""The most that a request may have."""
OPENING_LINE = "(The conversation begins with the assistant.)"
"""Before a history that no user began."""
CONTINUE_LINE = "(The assistant continues.)"
"""Between two replies without a message of the user between them."""
USER_LINE = "(The user continues.)"
"""In place of a reply, between a system message and the message of the user that follows it."""
IMAGE_BYTES = (5 << 20) * 3 // 4
"""The largest image that is accepted: as base64 it has five megabytes."""
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})
MARKABLE_BLOCKS = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""The blocks that may have a mark."""
_SYSTEM_MODELS = re.compile(r"claude-(?:opus-4-8|opus-5|sonnet-5-5|haiku-5-5|fable-5|mythos-5)(?:-[0-9a-z-]+)?")


def takes_system_messages(model: str | None) -> bool:
    """Whether a model is known to accept system messages inside a conversation, on Anthropic's own API; others refuse
    them."""
    return model is not None and _SYSTEM_MODELS.fullmatch(model) is not None


def render_anthropic(
    history: HistoryView,
    bodies: Mapping[str, bytes] = NO_BODIES,
    breakpoints: int = BREAKPOINTS,
    *,
    model: str | None = None,
) -> dict[str, Any]:
    """`system` and `messages` for `client.messages.create`. `bodies` has the bytes of images and files by their digest.
    `model` decides how system messages inside the conversation are shown: without it, in a way that every model accepts.

    Marks are where the next request finds them again: at the end of the history, at the end of the system messages, at
    the last boundary, and before the last reply, where the history ended when that was requested. With fewer
    `breakpoints` (leave some for your own marks) the first of these are set.
    """
    check_whole("breakpoints", breakpoints, 0, BREAKPOINTS)
    built = _AnthropicMessages(bodies, takes_system=takes_system_messages(model))
    frozen: list[dict[str, Any]] = []
    before_reply: list[dict[str, Any]] = []
    for number, item in enumerate(history.items, 1):
        if isinstance(item, Summary):
            built.add_summary(item)
        else:
            for turn in pair_answers(item):
                before_reply = _last_markable(built.messages) if turn.message.role == "assistant" else before_reply
                built.turn(turn)
        if number == history.frozen:
            frozen = _last_markable(built.messages)
    system = [block for message in history.system for block in built.system(message)]
    messages = built.messages
    marks = (_last_markable(messages), system[-1:], frozen, before_reply)
    _set_breakpoints([block for blocks in marks for block in blocks], breakpoints)
    if tail := tail_text(history):
        built.close(_text_block(tail))
    return {"system": system, "messages": messages}


def _set_breakpoints(blocks: list[dict[str, Any]], breakpoints: int) -> None:
    marked: list[dict[str, Any]] = []
    for block in blocks:
        if len(marked) < breakpoints and not any(block is other for other in marked):
            marked.append(block)
            block["cache_control"] = {"type": "ephemeral"}


def _last_markable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last block that may have a mark, if there is one."""
    blocks = (block for message in reversed(messages) for block in reversed(message["content"]))
    return next(([block] for block in blocks if block["type"] in MARKABLE_BLOCKS), [])


class _AnthropicMessages:
    def __init__(self, bodies: Mapping[str, bytes], *, takes_system: bool) -> None:
        self.messages: list[dict[str, Any]] = []
        self._bodies = bodies
        self._takes_system = takes_system
        self._is_answerable = False
        """The last block is of a user or a tool: no summary, and no system message in a turn of the user."""
        self._ids = CallIds(ANTHROPIC)

    @property
    def _last_role(self) -> str | None:
        return self.messages[-1]["role"] if self.messages else None

    def add(self, role: str, content: list[dict[str, Any]]) -> None:
        if not content:
            return
        before, self._is_answerable = self._last_role, role == "user"
        if role == before == "user":
            self.messages[-1]["content"] += content
            return
        if role == "user" and before == "system":
            self.messages.append({"role": "assistant", "content": [_text_block(USER_LINE)]})
        elif role != "user" and before not in ("user", "system"):
            self.messages.append({"role": "user", "content": [_text_block(CONTINUE_LINE if before else OPENING_LINE)]})
        self.messages.append({"role": role, "content": content})

    def add_summary(self, summary: Summary) -> None:
        self.add("user", [_text_block(remove_tag(summary.shown))])
        self._is_answerable = False

    def _add_system(self, content: list[dict[str, Any]]) -> None:
        """Add a system message inside the conversation."""
        before = self._last_role
        if content and before == "system":
            self.messages[-1]["content"] += content
        elif content and self._takes_system and self._is_answerable:
            self.messages.append({"role": "system", "content": content})
        elif content:
            self.add("user", [_text_block(fence_system_message(SEPARATOR.join(block["text"] for block in content)))])
            self._is_answerable = False

    def close(self, tail: dict[str, Any]) -> None:
        """Add the tail: to the last message, if that is no reply, since roles alternate."""
        if self.messages and self.messages[-1]["role"] != "assistant":
            self.messages[-1]["content"].append(tail)
        else:
            self.messages.append({"role": "user", "content": [tail]})

    def system(self, message: Message) -> list[dict[str, Any]]:
        content = entries.content_entries(message, ANTHROPIC, self._bodies)
        return [block for entry in content for block in self._content_blocks(entry, pictures=False)]

    def turn(self, turn: AnsweredMessage) -> None:
        if turn.message.role == "assistant":
            self.add("assistant", self._reply_blocks(turn))
        elif turn.message.role == "system":
            self._add_system(self.system(turn.message))
        else:
            content = entries.content_entries(turn.message, ANTHROPIC, self._bodies)
            self.add("user", [block for entry in content for block in self._input_blocks(entry)])
        self.add("user", [self._result_block(call, answer) for call, answer in turn.answers.items()])

    def _reply_blocks(self, turn: AnsweredMessage) -> list[dict[str, Any]]:
        calls = AnsweredCalls(turn)
        blocks: list[dict[str, Any]] = []
        for entry in entries.content_entries(turn.message, ANTHROPIC, self._bodies):
            match entry:
                case CallMark(shell):
                    blocks += [self._call_block(turn.message, *pair) for pair in calls.take_up_to(shell)]
                case OwnBlock(block):
                    blocks += [block] if block["type"] not in ("text", "tool_use", "tool_result") else []
                case _:
                    blocks += self._content_blocks(entry, pictures=False)
        blocks += [self._call_block(turn.message, call, {}) for call in calls.take_rest()]
        while blocks and blocks[-1]["type"] in THINKING_BLOCKS:  # refused without what follows it
            blocks.pop()
        return blocks

    def _call_block(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> dict[str, Any]:
        outer = shell if shell.get("type") == "tool_use" else {}
        return {
            **outer,
            "type": "tool_use",
            "id": self._ids.give(message, call),
            "name": tool_name(message, call, ANTHROPIC),
            "input": arguments_object(call),
        }

    def _result_block(self, call: str, answer: CallAnswer) -> dict[str, Any]:
        content = entries.result_entries(answer.message, answer.number, ANTHROPIC, self._bodies)
        shells = (entry.shell for entry in content if isinstance(entry, MessageShell))
        outer = next((shell for shell in shells if shell.get("type") == "tool_result"), {})
        blocks = [block for entry in content for block in self._input_blocks(entry, failed=answer.result.is_error)]
        if answer.result.is_error and not blocks:
            blocks = [_text_block("Error")]  # an error without content is refused
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": self._ids.of(call)}
        if blocks:
            lone = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
            result["content"] = blocks[0]["text"] if lone else blocks
        if answer.result.is_error:
            result["is_error"] = True
        return {**result, **{key: value for key, value in outer.items() if key not in result}}

    def _input_blocks(self, entry: RenderEntry, *, failed: bool = False) -> list[dict[str, Any]]:
        """The content from a user or a tool. In the result of a failed tool, anything but text is refused."""
        match entry:
            case OwnBlock(block):
                kind = block["type"]
                closed = kind in THINKING_BLOCKS or kind == "text" or kind.endswith(("tool_use", "tool_result"))
                return [] if closed or failed else [block]
            case ForeignPart():
                return [_text_block(entry.line)]
            case _:
                return self._content_blocks(entry, pictures=not failed)

    def _content_blocks(self, entry: RenderEntry, *, pictures: bool) -> list[dict[str, Any]]:
        match entry:
            case ShownPart(Text() | Data() | Body() as part, shell):
                text = entries.text_in(part)
                outer = shell if shell.get("type") == "text" else {}
                return [{**outer, **_text_block(text)}] if text.strip() else []  # blank text is refused
            case ShownPart(Image() | File() as part, shell, handle):
                shown = self._image_block(part, shell) if isinstance(part, Image) else self._file_block(part, shell)
                return [shown if pictures and shown is not None else _text_block(entries.describe_media(part, handle))]
            case _:
                return []

    def _image_block(self, part: Image, shell: dict[str, Any]) -> dict[str, Any] | None:
        if part.ref is None:
            url = entries.fetchable_url(part.url)
            return None if url is None else {**shell, "type": "image", "source": {"type": "url", "url": url}}
        typed = entries.image_bytes(part, self._bodies)
        if typed is None or len(typed[1]) > IMAGE_BYTES:
            return None
        return {**shell, "type": "image", "source": _base64_source(*typed)}

    def _file_block(self, part: File, shell: dict[str, Any]) -> dict[str, Any] | None:
        typed = entries.file_bytes(part, self._bodies)
        if typed is None:
            return self._image_block(Image(part.ref), {})
        text = entries.decode_text(*typed)
        if text is not None and text.strip():
            source = {"type": "text", "media_type": "text/plain", "data": text}
        elif typed[0] == entries.PDF:
            source = _base64_source(*typed)
        else:
            return None
        title = {"title": remove_tag(part.name)} if part.name else {}
        return {**shell, **title, "type": "document", "source": source}


def _base64_source(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
