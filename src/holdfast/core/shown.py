"""Messages as a model is shown them: what lies in the blob store by its preview, what was reduced by an excerpt, each with
a marker that names the handle under which the rest can be read.

Laws: what is shown depends on the message and its reductions alone, so it is the same bytes each time; a message that is
not reduced, and has no body in the blob store, is shown as it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.previews import marker, shown_as
from holdfast.model.content import BlobRef, Body, Data, Opaque, Part, Text, ToolResult, text_of
from holdfast.model.handles import piece_id
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.plan import Reduction

Bodies: TypeAlias = Mapping[str, str]
"""The texts of bodies that are shown whole, by their digests."""
Reductions: TypeAlias = Mapping[int, Mapping[int, Reduction]]
"""By message and piece."""


def by_message(reduced: Iterable[Reduction]) -> dict[int, dict[int, Reduction]]:
    found: dict[int, dict[int, Reduction]] = {}
    for each in reduced:
        found.setdefault(each.message, {})[each.piece] = each
    return found


def pieces_of(message: Message) -> Iterator[tuple[int, tuple[Part, ...], str | None]]:
    """The pieces of a message that have a handle: number, content, and the call that it is the result of, if any."""
    for number, result in enumerate(message.tool_results):
        yield number, result.content, result.tool_call_id
    for number, part in enumerate(message.content, len(message.tool_results)):
        yield number, (part,), None


def shown(message: Message, reductions: Reductions, bodies: Bodies) -> Message:
    """The message as it is shown."""
    own = reductions.get(message.seq, {})
    if not own and not any(isinstance(part, Body) for _, parts, _ in pieces_of(message) for part in parts):
        return message
    first = len(message.tool_results)
    results = tuple(
        ToolResult(each.tool_call_id, _shown(message, number, each.content, own.get(number), bodies), each.is_error)
        for number, each in enumerate(message.tool_results)
    )
    content: list[Part] = []
    for number, part in enumerate(message.content, first):
        content += _shown(message, number, (part,), own.get(number), bodies)
    tokens = max(0, message.tokens - sum(each.saved for each in own.values()))
    return msgspec.structs.replace(message, tool_results=results, content=tuple(content), tokens=tokens)


def item_shown(item: Item, reductions: Reductions, bodies: Bodies) -> Item:
    """An item of a view as it is shown."""
    if isinstance(item, Summary):
        return item
    return Unit(tuple(shown(each, reductions, bodies) for each in item.messages), item.open)


def _shown(
    message: Message, number: int, parts: tuple[Part, ...], how: Reduction | None, bodies: Bodies
) -> tuple[Part, ...]:
    handle = piece_id(message.seq, number)
    if how is None or how.form == "whole":
        what = "tool result" if message.tool_results else "text"
        return tuple(_part(part, handle, what, bodies if how is not None else {}) for part in parts)
    return (Text(reduced_text(parts, how, handle)),)


def _part(part: Part, handle: str, what: str, bodies: Bodies) -> Part:
    if not isinstance(part, Body):
        return part
    whole = bodies.get(part.ref.digest)
    if whole is not None:
        return Text(whole)
    return Text(shown_as(part, handle, what))


def reduced_text(parts: Sequence[Part], how: Reduction, handle: str) -> str:
    """What stands for a reduced piece."""
    text = text_of(parts)
    if how.form == "page":
        return f'[paged out: {how.size} bytes; read_handle("{handle}") reads them]'
    if how.form == "spool":
        start = text[: how.head]
        return f"{start}\n{marker(how.size, len(start.encode()), handle)}" if start else marker(how.size, 0, handle)
    if any(isinstance(part, Body) for part in parts):  # what is known of it is its beginning
        start = text[: how.head]
        return f"{start}\n{marker(how.size, len(start.encode()), handle)}"
    head, tail = text[: how.head], text[len(text) - how.tail :] if how.tail else ""
    left = len(text) - len(head) - len(tail)
    line = f'[… {left} of {len(text)} characters left out; read_handle("{handle}") reads them …]'
    return "\n".join(filter(None, (head, line, tail)))


def size_of(parts: Sequence[Part]) -> int:
    """The bytes of a piece, bodies included."""
    refs = sum(part.ref.size for part in parts if isinstance(part, Body))
    return refs + len(text_of([part for part in parts if not isinstance(part, Body)]).encode())


def ref_of(parts: Sequence[Part]) -> BlobRef | None:
    """Where a piece lies in the blob store, if it lies there alone."""
    match parts:
        case [Body(ref=ref)]:
            return ref
    return None


def can_shrink(message: Message, parts: Sequence[Part]) -> bool:
    """Whether a piece may be shown by an excerpt: text, and no signed part is torn from what it belongs to."""
    if message.tool_results:
        return all(isinstance(part, Text | Data | Body) for part in parts)
    signed = any(isinstance(part, Opaque) for part in message.content)
    return message.role in ("user", "assistant") and not signed and isinstance(parts[0], Text | Body)
