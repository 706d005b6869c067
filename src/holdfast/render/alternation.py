"""Messages whose roles alternate, as Gemini and Bedrock want them.

Laws: the first message is a user's: consecutive messages of users are one message, and a fixed line separates two replies.
All results of a group are in one user message right behind the calls. A system message inside the conversation is a text
in the turn of the user, in the fence: there is no role for it. Blocks are only added, so a longer history begins with the
blocks of a shorter one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

from holdfast.model.content import Body, Data, File, Image, Text, ToolCall
from holdfast.model.history.views import HistoryView, Summary
from holdfast.model.sessions.messages import Message
from holdfast.render import entries
from holdfast.render.anthropic import CONTINUE_LINE, OPENING_LINE
from holdfast.render.entries import (
    AnsweredCalls,
    AnsweredMessage,
    CallAnswer,
    CallMark,
    ForeignPart,
    OwnBlock,
    RenderEntry,
    ShownPart,
    pair_answers,
    tail_text,
)
from holdfast.text.fence import SEPARATOR, fence_system_message, remove_tag

Block: TypeAlias = dict[str, Any]
Position: TypeAlias = tuple[int, int]
"""The number of a message, and how many of its blocks come before."""


class AlternatingMessages(ABC):
    """The messages of one rendering."""

    issuer: str
    reply_role: str
    """The role of the model."""
    content_field: str
    """The field of a message that has its blocks."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.messages: list[dict[str, Any]] = []
        self._bodies = bodies
        self.boundary: Position = (-1, 0)
        """Where the part ends that the last boundary left."""
        self.last_request: Position = (-1, 0)
        """Where the history ended when the last reply was requested."""

    def add_history(self, history: HistoryView) -> None:
        """Add the items of a history, without its tail."""
        for number, item in enumerate(history.items, 1):
            if isinstance(item, Summary):
                self.add("user", [self.text_block(remove_tag(item.shown))])
            else:
                for turn in pair_answers(item):
                    if turn.message.role == "assistant":
                        self.last_request = self.end()
                    self._add_turn(turn)
            if number == history.frozen:
                self.boundary = self.end()

    def end(self) -> Position:
        """The position behind the last block."""
        return len(self.messages) - 1, len(self.messages[-1][self.content_field]) if self.messages else 0

    def add(self, role: str, content: list[Block]) -> None:
        """Add a message, or what it says to the message before it."""
        if not content:
            return
        before = self.messages[-1]["role"] if self.messages else None
        if role == before == "user":
            self.messages[-1][self.content_field] += content
            return
        if role != "user" and before != "user":
            line = self.text_block(CONTINUE_LINE if before else OPENING_LINE)
            self.messages.append({"role": "user", self.content_field: [line]})
        self.messages.append({"role": role, self.content_field: content})

    def add_tail(self, history: HistoryView) -> None:
        """Add the tail: to the last message, if that is a user's."""
        if tail := tail_text(history):
            self.add("user", [self.text_block(tail)])

    def system_texts(self, message: Message) -> list[str]:
        """The texts of a system message."""
        content = entries.content_entries(message, self.issuer, self._bodies)
        blocks = (block for entry in content for block in self.content_blocks(entry, pictures=False))
        return [text for block in blocks if (text := block.get("text", ""))]

    def _add_turn(self, turn: AnsweredMessage) -> None:
        if turn.message.role == "assistant":
            self.add(self.reply_role, self._reply_blocks(turn))
        elif turn.message.role == "system":
            if texts := self.system_texts(turn.message):
                self.add("user", [self.text_block(fence_system_message(SEPARATOR.join(texts)))])
        else:
            content = entries.content_entries(turn.message, self.issuer, self._bodies)
            self.add("user", [block for entry in content for block in self.input_blocks(entry)])
        self.add("user", self.result_blocks(turn))

    def _reply_blocks(self, turn: AnsweredMessage) -> list[Block]:
        calls = AnsweredCalls(turn)
        blocks: list[Block] = []
        for entry in entries.content_entries(turn.message, self.issuer, self._bodies):
            match entry:
                case CallMark(shell):
                    blocks += [self.call_block(turn.message, *pair) for pair in calls.take_up_to(shell)]
                case OwnBlock(block):
                    blocks += self.own_reply_blocks(block)
                case _:
                    blocks += self.content_blocks(entry, pictures=False, reply=True)
        blocks += [self.call_block(turn.message, call, {}) for call in calls.take_rest()]
        return self.finish_reply(blocks)

    def input_blocks(self, entry: RenderEntry) -> list[Block]:
        """The content from a user or a tool."""
        match entry:
            case OwnBlock(block):
                return self.own_input_blocks(block)
            case ForeignPart():
                return [self.text_block(entry.line)]
            case _:
                return self.content_blocks(entry, pictures=True)

    def content_blocks(self, entry: RenderEntry, *, pictures: bool, reply: bool = False) -> list[Block]:
        """The content that every provider can show."""
        match entry:
            case ShownPart(Text() | Data() | Body() as part, shell):
                return self.shown_text(entries.text_in(part), shell)
            case ShownPart(Image() | File() as part, shell, handle):
                shown = self.shown_media(part, shell, reply=reply) if pictures or reply else []
                return shown or [self.text_block(entries.describe_media(part, handle))]
            case _:
                return []

    def finish_reply(self, blocks: list[Block]) -> list[Block]:
        """The blocks of a reply, as the provider accepts them."""
        return blocks

    @abstractmethod
    def text_block(self, text: str) -> Block: ...

    @abstractmethod
    def shown_text(self, text: str, shell: dict[str, Any]) -> list[Block]: ...

    @abstractmethod
    def shown_media(self, part: Image | File, shell: dict[str, Any], *, reply: bool) -> list[Block]: ...

    @abstractmethod
    def own_reply_blocks(self, block: dict[str, Any]) -> list[Block]: ...

    @abstractmethod
    def own_input_blocks(self, block: dict[str, Any]) -> list[Block]: ...

    @abstractmethod
    def call_block(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> Block: ...

    @abstractmethod
    def result_blocks(self, turn: AnsweredMessage) -> list[Block]: ...

    def result_entries(self, answer: CallAnswer) -> list[RenderEntry]:
        """The content of a result."""
        return entries.result_entries(answer.message, answer.number, self.issuer, self._bodies)
