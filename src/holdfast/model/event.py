"""The base of all events. An event class declares in one place:

- its fields, and for each that can hold text, whose text it is: `OwnContent`, `Quotation` or `Identifier`;
- `quoted_events`: the earlier events that it quotes. If one of them is erased, this event is erased too;
- `describe`: its line on the command line.

Blobs need no declaration: every field whose type can hold a `BlobRef` is searched.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, TypeAlias, TypeVar

import msgspec

from holdfast.model.content import Json


class TextOrigin(enum.Enum):
    """Whose text a field of an event holds."""

    OWN = "own"
    QUOTATION = "quotation"
    IDENTIFIER = "identifier"


T = TypeVar("T")

OwnContent: TypeAlias = Annotated[T, TextOrigin.OWN]
"""Content that came with this event. It is erased with this event alone."""

Quotation: TypeAlias = Annotated[T, TextOrigin.QUOTATION]
"""Content of earlier events: a copy, a digest or their words. `quoted_events` says which events."""

Identifier: TypeAlias = Annotated[T, TextOrigin.IDENTIFIER]
"""An id, a name, a position, or a digest that is not of any content."""


class QuotedEvents(msgspec.Struct, frozen=True):
    """Earlier events of the stream, from `first` to `last`, that an event quotes."""

    first: int
    last: int
    types: tuple[str, ...] = ()
    """Only events of these types; without any, all of them."""


def quote_each(seqs: Iterable[int]) -> Iterator[QuotedEvents]:
    """These events, one by one."""
    return (QuotedEvents(seq, seq) for seq in seqs)


class EventBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`name` and `version` go into the stored header, so the payload has no tag."""

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The events that this event, `seq` of its stream, quotes."""
        return iter(())

    def describe(self, seq: int) -> str:
        """One line of plain text about this event, `seq` of its stream, of any length."""
        raise AssertionError(f"{self.name} does not describe itself")


class FrameTreeEvent(EventBase, frozen=True, kw_only=True):
    """An event of a frame tree and its budgets. The events of one tree are erased together, so that the budgets add up."""


# Texts for describe()


def count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def add_text(line: str, text: str | None) -> str:
    """A line, followed by a text if there is one."""
    return f"{line}: {text}" if text else line


def name_frame(frame: str | None) -> str:
    """The frame of a conversation; empty for the one outside of frames."""
    return f" in {frame}" if frame else ""


def format_json(value: Json) -> str:
    """A text as it is, a number with separators, anything else as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return f"{value:,}"
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
