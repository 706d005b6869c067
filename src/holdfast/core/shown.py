"""Messages as a model is shown them: a stored body by its preview, what was reduced by an excerpt, each with a marker that
names the handle under which the rest can be read. `display` puts bodies in that are shown whole.

Laws: what is shown depends on the message and its reductions alone, so it is the same bytes each time; a message that is
not reduced, and has no body in the blob store, is shown as it was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast import codec
from holdfast.core.previews import MARK, UNREADABLE, ends_of, is_text, marker, shown_as, shown_bytes
from holdfast.model.content import BlobRef, Body, Data, Opaque, Part, Text, ToolResult, text_of
from holdfast.model.handles import piece_id
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.plan import Reduction

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


class Shown(msgspec.Struct, frozen=True):
    """How much of a piece is shown."""

    handle: str
    shown: int
    """Bytes that are shown."""
    size: int
    """Bytes of the whole."""
    text: bool = True
    """It could be shown whole: it is no binary body."""


def shown(message: Message, reductions: Reductions, readable: bool = True) -> tuple[Message, tuple[Shown, ...]]:
    """The message as it is shown, and which of its pieces are shown in part."""
    own = reductions.get(message.seq, {})
    if not own and not any(stored_in(parts) for _, parts, _ in pieces_of(message)):
        return message, ()
    what = "tool result" if message.tool_results else "text"
    partly: list[Shown] = []
    pieces: dict[int, tuple[Part, ...]] = {}
    for number, parts, _ in pieces_of(message):
        handle, how = piece_id(message.seq, number), own.get(number)
        if how is not None and how.form != "whole":
            pieces[number] = (Text(reduced_text(parts, how, handle, readable)),)
            partly.append(Shown(handle, _reduced_bytes(parts, how), how.size or size_of(parts)))
            continue
        pieces[number] = tuple(_part(part, handle, what, readable) for part in parts)
        if stored_in(parts):
            readable_text = all(is_text(part.ref) for part in parts if isinstance(part, Body))
            partly.append(Shown(handle, _shown_of(parts), size_of(parts), readable_text))
    first = len(message.tool_results)
    results = tuple(
        ToolResult(each.tool_call_id, pieces[number], each.is_error) for number, each in enumerate(message.tool_results)
    )
    content = tuple(part for number in range(first, len(pieces)) for part in pieces[number])
    tokens = max(0, message.tokens - sum(each.saved for each in own.values()))
    made = msgspec.structs.replace(message, tool_results=results, content=content, tokens=tokens)
    return made, tuple(partly)


def item_shown(
    item: Item,
    reductions: Reductions,
    readable: bool = True,
    partly: dict[int, tuple[Shown, ...]] | None = None,
) -> Item:
    """An item of a view as it is shown; `partly` is told which pieces are shown in part, by message."""
    if isinstance(item, Summary):
        return item if readable else msgspec.structs.replace(item, text=_without_handles(item.text))
    messages: list[Message] = []
    for each in item.messages:
        made, pieces = shown(each, reductions, readable)
        messages.append(made)
        if pieces and partly is not None:
            partly[each.seq] = pieces
    return Unit(tuple(messages), item.open)


def _part(part: Part, handle: str, what: str, readable: bool) -> Part:
    return Text(shown_as(part, handle, what, readable=readable)) if isinstance(part, Body) else part


READS_BRACKETS = "; read_handle reads the results named in [brackets]"
READS_RESULTS = "; read_handle reads their results: "
"""What a summary says that a rule made, unless there is no tool to read them with."""
_NAMED_HERE = re.compile(r"^(Called [^\n]*?) \[h\d{1,19}_\d{1,9}\](?=$|; | → )", re.MULTILINE)
_LISTED = re.compile(re.escape(READS_RESULTS) + r"[h\d_, …]{1,400}(?=\))")


def _without_handles(text: str) -> str:
    """The text of a summary where no tool reads handles."""
    if READS_BRACKETS in text:
        text = _NAMED_HERE.sub(r"\1", text.replace(READS_BRACKETS, "", 1))
    return _LISTED.sub("", text)


def reduced_text(parts: Sequence[Part], how: Reduction, handle: str, readable: bool = True) -> str:
    """What stands for a reduced piece."""
    rest = f'read_handle("{handle}") reads them' if readable else "they cannot be read here"
    if how.form == "page":
        return f"[paged out: {how.size} bytes; {rest}]"
    head, tail = _ends(parts, how)
    shown, at_end = len(head.encode()), len(tail.encode())
    if how.form == "spool" or stored_in(parts):
        line = marker(how.size, shown, handle, tail=at_end, readable=readable)
    else:
        size = len(text_of(parts).encode())
        line = f"{MARK}{size - shown - at_end} of {size} bytes left out; {rest} …]"
    return "\n".join(filter(None, (head, line, tail)))


def _ends(parts: Sequence[Part], how: Reduction) -> tuple[str, str]:
    """The beginning and the end that are shown of a reduced piece. Of a stored body, what its preview has of them."""
    text = text_of(parts)
    match parts:
        case [Body(preview=preview, tail=tail)]:
            start, end = ends_of(preview, tail)
            if how.head >= len(preview):  # planned as the stored preview
                return start, end
        case _:
            start, end = text, "" if stored_in(parts) else text
    return start[: how.head], end[len(end) - how.tail :] if 0 < how.tail <= len(end) else end if how.tail else ""


def _reduced_bytes(parts: Sequence[Part], how: Reduction) -> int:
    """The bytes of a reduced piece that are shown."""
    if how.form == "page":
        return 0
    return sum(len(each.encode()) for each in _ends(parts, how))


def _shown_of(parts: Sequence[Part]) -> int:
    """The bytes that are shown of a piece with stored bodies."""
    others = text_of([part for part in parts if not isinstance(part, Body)])
    return sum(shown_bytes(part) for part in parts if isinstance(part, Body)) + len(others.encode())


def share_of(partly: Sequence[Shown]) -> float:
    """How much of these pieces is shown, of their bytes; 1 if there are none."""
    size = sum(each.size for each in partly)
    return round(sum(each.shown for each in partly) / size, 4) if size else 1.0


def describe_parts(partly: Sequence[Shown], readable: bool = True) -> str:
    """In words how much of pieces is shown, and how the rest is read."""
    shares = [f"{_percent(each)} of {size_in_words(each.size)} shown" for each in partly]
    if not readable:
        return f"{', '.join(shares)}; {UNREADABLE}"
    if len(partly) == 1:
        return f"{shares[0]}; read_handle {partly[0].handle} reads the rest"
    told = ", ".join(f"{each.handle}: {share}" for each, share in zip(partly, shares, strict=True))
    return f"{told}; read_handle reads the rest"


def _percent(piece: Shown) -> str:
    share = 100 * piece.shown / max(1, piece.size)
    if 0 < share < 1:
        return "less than 1%"
    return f"{min(99, round(share))}%" if piece.shown < piece.size else "100%"


_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))


def size_in_words(size: int) -> str:
    """A number of bytes for a person to read."""
    for least, unit in _UNITS:
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size} bytes"


def stored_in(parts: Sequence[Part]) -> bool:
    """Whether some of these parts are stored bodies."""
    return any(isinstance(part, Body) for part in parts)


def size_of(parts: Sequence[Part]) -> int:
    """The bytes of a piece, bodies included."""
    refs = sum(part.ref.size for part in parts if isinstance(part, Body))
    return refs + len(text_of([part for part in parts if not isinstance(part, Body)]).encode())


def digest_of(parts: Sequence[Part]) -> str:
    """The SHA-256 of a piece, whoever counted the tokens of its bodies."""
    return codec.digest(tuple(Body(part.ref, part.preview) if isinstance(part, Body) else part for part in parts))


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
