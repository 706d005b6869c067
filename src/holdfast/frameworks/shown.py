"""What a pack shows, for frameworks that have their own types of messages.

A framework shows its own object for a message that the pack shows as it was recorded, so that nothing that a provider needs
back is lost. Everything else is text that Holdfast wrote: summaries, redacted and shortened messages, and the tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

import holdfast
from holdfast.frameworks.shadows import Shadow
from holdfast.model.content import File, Image, Part, Text, ToolCall
from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import Message
from holdfast.render.entries import describe_media, pair_answers, tail_text, text_in
from holdfast.text.fence import fence_system_message, remove_tag


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a pack."""

    role: Literal["system", "user", "assistant", "tool"]
    is_later: bool = False
    """Of the system: it is shown where it was recorded, not before the conversation."""
    id: str = ""
    """Its id in the framework; empty for a text that Holdfast wrote."""
    is_original: bool = False
    """It is shown as it was recorded: use the framework's own message."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Of the assistant: the calls, each with a result behind it."""
    call: ToolCall | None = None
    """Of a tool: the call that it answers."""
    is_error: bool = False
    message: Message | None = None
    """As the pack shows it; None for a summary and for the tail."""

    @property
    def user_text(self) -> str:
        """The text for a turn of the user: that of a system message is in the fence."""
        return fence_system_message(self.text) if self.role == "system" else self.text


def show_pack(pack: holdfast.Pack, shadow: Shadow) -> Iterator[ShownMessage]:
    """The messages of a pack, in their order: the system's, the conversation, with later ones of the system in it, and the
    tail as a message of the user."""
    history = pack.history
    for message in history.system:
        yield _show(message, shadow, "system")
    for item in history.items:
        if isinstance(item, Summary):
            yield ShownMessage(role="user", text=remove_tag(item.shown))
            continue
        for turn in pair_answers(item):
            message = turn.message
            if message.role == "assistant":
                calls = tuple(call for call in message.tool_calls if call.id in turn.answers)
                yield _show(message, shadow, "assistant", calls)
                yield from (_show_answer(turn.answers[call.id], call, shadow) for call in calls)
            elif message.role == "user":
                yield _show(message, shadow, "user")
            elif message.role == "system":
                yield msgspec.structs.replace(_show(message, shadow, "system"), is_later=True)
    if tail := tail_text(history):
        yield ShownMessage(role="user", text=tail)


def _show(
    message: Message, shadow: Shadow, role: Literal["system", "user", "assistant"], calls: tuple[ToolCall, ...] = ()
) -> ShownMessage:
    text = remove_tag(_text_of(message, message.content))
    is_whole = len(calls) == len(message.tool_calls) and "framework" in message.metadata
    return ShownMessage(
        role=role,
        id=_id_of(message),
        is_original=is_whole and shadow.shows_original(message) and remove_tag(message.text) == message.text,
        text=text,
        calls=calls,
        message=message,
    )


def _show_answer(answer: object, call: ToolCall, shadow: Shadow) -> ShownMessage:
    message, number = answer.message, answer.number  # type: ignore[attr-defined]
    result = message.tool_results[number]
    text = remove_tag(_text_of(message, result.content))
    is_original = len(message.tool_results) == 1 and shadow.shows_original(message)
    return ShownMessage(
        role="tool",
        id=_id_of(message),
        is_original=is_original and remove_tag(message.text) == message.text,
        text=text,
        call=call,
        is_error=result.is_error,
        message=message,
    )


def _id_of(message: Message) -> str:
    return str(message.metadata.get("id") or "")


def _text_of(message: Message, parts: tuple[Part, ...]) -> str:
    """The text of these parts; an image or a file as a line that names it."""
    texts: list[str] = []
    for number, part in enumerate(parts):
        match part:
            case Image() | File():
                texts.append(describe_media(part, f"h{message.seq}_{number}"))
            case holdfast.types.Opaque():
                continue
            case _:
                texts.append(text_in(part))
    between = "" if message.role == "assistant" and all(isinstance(part, Text) for part in parts) else "\n"
    return between.join(texts)
