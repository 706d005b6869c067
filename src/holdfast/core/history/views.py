"""Messages as a model is shown them: in groups, reduced pieces by an excerpt, stored bodies whole or by a preview. A
marker names the handle that reads what is left out.

Laws:
- Grouping messages and joining the groups loses none and repeats none. A group is never cut.
- What is shown depends on the message and its reductions alone, so it is the same bytes each time. A message that is
  not reduced, and has no stored body, is shown as it was recorded.
- Whether a body is shown whole depends on the budget and the body alone, so between boundaries each rendering extends
  the one before. No more of a body is read than is shown, or its preview is made from. Tokens are counted on what is
  shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast import codec
from holdfast.core.history.previews import (
    MARKER_START,
    MESSAGE_TAIL,
    RESULT_TAIL,
    SAMPLE_HANDLE,
    UNREADABLE,
    Spooling,
    bytes_to_read,
    count_shown_bytes,
    fits_whole,
    is_text,
    lengthen_preview,
    marker_line,
    show_body,
    split_ends,
)
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, Opaque, Part, Role, Text, ToolResult, calling_seq, text_of
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import READS_BRACKETS, READS_RESULTS, Reduction
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import SessionState

Reductions: TypeAlias = Mapping[int, Mapping[int, Reduction]]
"""By message and piece."""
_BRACKETED_HANDLE = re.compile(r"^(Called [^\n]*?) \[h\d{1,19}_\d{1,9}\](?=$|; | → )", re.MULTILINE)
_LISTED_HANDLES = re.compile(re.escape(READS_RESULTS) + r"[h\d_, …]{1,400}(?=\))")
OUTDATED_NOTES: dict[str, str] = {
    "reread": "the same was read again later in this conversation",
    "rewritten": "the file was written anew or deleted later in this conversation",
}
"""By the form of an outdated result."""
LINES_GAP = "…"
"""Shown in place of lines that are left out, unless the lines have numbers."""
_LINE_NUMBER = re.compile(r"[ \t]*(\d{1,9})(?:→|\t|\| ?|: )")
_LINE_END = re.compile("\n")
_SIZE_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))
_READ_BUDGETS = 4
"""Bodies of so many budgets are read whole, the newest first: the others do not fit, however they are counted."""
_MARKER_BYTES = 110
"""About the bytes of a marker: a preview that leaves out less makes nothing shorter."""


# Groups: a message, or a group of calls with its results


def group_seq(message: Message) -> int:
    """The seq of the first message of the group of a message."""
    for result in message.tool_results:
        return calling_seq(result.tool_call_id) or message.seq
    return message.seq


def group_messages(entries: Iterable[Message | Summary], state: SessionState) -> list[HistoryItem]:
    """Messages and summaries, in order, as items in the order of their first messages. A result whose call is not among
    them is left out, and so are erased messages and skipped replies."""
    waiting = {calling_seq(call.id) for call in state.open_calls}
    groups: dict[int, list[Message] | Summary] = {}
    for entry in entries:
        if isinstance(entry, Summary):
            groups[-entry.first] = entry  # a message that it leaves in view may have the same seq
        elif not entry.erased and not entry.skipped:
            seq = group_seq(entry)
            group = groups.get(seq)
            if seq == entry.seq:
                groups[seq] = [entry]
            elif isinstance(group, list):
                group.append(entry)
    return [
        group if isinstance(group, Summary) else MessageGroup(tuple(group), open=seq in waiting)
        for seq, group in groups.items()
    ]


def critical_seqs(entries: Iterable[object]) -> frozenset[int]:
    """The seqs of the messages that no summary replaces: those of Critical groups."""
    messages = [entry for entry in entries if isinstance(entry, Message)]
    critical = {group_seq(message) for message in messages if message.priority == "critical"}
    return frozenset(message.seq for message in messages if group_seq(message) in critical)


def has_whole_groups(messages: Iterable[Message]) -> bool:
    """Whether every call among these messages has its result among them, and the reverse."""
    calls: set[str] = set()
    results: set[str] = set()
    for message in messages:
        calls |= {call.id for call in message.tool_calls}
        results |= {result.tool_call_id for result in message.tool_results}
    return calls == results


def count_fitting(items: Sequence[HistoryItem], sizes: Sequence[int], budget: int) -> int:
    """How many of the newest items fit, each whole. A cut where a turn begins is preferred, if it leaves at least half
    of what would fit."""
    used = count = 0
    for size in reversed(sizes):
        if used + size > budget:
            break
        used += size
        count += 1
    if count == len(items):
        return count
    left = used
    for dropped, (item, size) in enumerate(zip(items[len(items) - count :], sizes[len(items) - count :], strict=True)):
        if isinstance(item, Summary) or item.starts_turn:
            return count - dropped
        left -= size
        if left * 2 < used:
            break
    return count


def find_newest(items: Sequence[HistoryItem], role: Role) -> Message | None:
    """The newest message of a role in these items."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, MessageGroup) else ():
            if message.role == role:
                return message
    return None


# System messages


def split_system_messages(
    messages: Sequence[Message], first: int, waiting: int
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The system messages that come first in every prompt, and those that are shown where they were recorded: those
    behind the `first` other message of the conversation. Behind `waiting`, the first open call, nothing is shown yet."""
    before = [message for message in messages if not first or message.seq < first]
    later = [message for message in messages if first and first < message.seq < waiting]
    return tuple(before), tuple(later)


def insert_system_messages(items: Sequence[HistoryItem], messages: Iterable[Message]) -> tuple[HistoryItem, ...]:
    """The items, with these system messages where they were recorded; one that a summary surrounds is behind it."""
    added = [MessageGroup((message,)) for message in messages]
    return tuple(sorted((*items, *added), key=lambda item: item.first)) if added else tuple(items)


def find_system_messages(items: Iterable[HistoryItem]) -> list[Message]:
    """The system messages that are shown where they were recorded."""
    groups = (item for item in items if isinstance(item, MessageGroup))
    return [message for group in groups for message in group.messages if message.role == "system"]


# Pieces of messages, as they are shown


def group_by_message(reduced: Iterable[Reduction]) -> dict[int, dict[int, Reduction]]:
    groups: dict[int, dict[int, Reduction]] = {}
    for reduction in reduced:
        groups.setdefault(reduction.message, {})[reduction.piece] = reduction
    return groups


def pieces_of(message: Message) -> Iterator[tuple[int, tuple[Part, ...], str | None]]:
    """The pieces of a message that have a handle: number, content, and the call that it is the result of, if any."""
    for number, result in enumerate(message.tool_results):
        yield number, result.content, result.tool_call_id
    for number, part in enumerate(message.content, len(message.tool_results)):
        yield number, (part,), None


class PartialPiece(msgspec.Struct, frozen=True):
    """How much of a piece is shown."""

    handle: str
    shown: int
    """Bytes that are shown."""
    size: int
    """Bytes of the whole."""
    text: bool = True
    """It could be shown whole: it is not binary."""


def show_message(
    message: Message, reductions: Reductions, readable: bool = True
) -> tuple[Message, tuple[PartialPiece, ...]]:
    """The message as it is shown, and the pieces that are shown in part."""
    own_reductions = reductions.get(message.seq, {})
    if not own_reductions and not any(has_stored_body(parts) for _, parts, _ in pieces_of(message)):
        return message, ()
    noun = "tool result" if message.tool_results else "text"
    partly: list[PartialPiece] = []
    pieces: dict[int, tuple[Part, ...]] = {}
    for number, parts, _ in pieces_of(message):
        handle, reduction = piece_id(message.seq, number), own_reductions.get(number)
        if reduction is not None and reduction.form != "whole":
            pieces[number] = (Text(reduction_text(parts, reduction, handle, readable)),)
            size = reduction.size or piece_size(parts)
            partly.append(PartialPiece(handle, _count_reduced_bytes(parts, reduction), size))
            continue
        pieces[number] = tuple(
            Text(show_body(part, handle, noun, readable=readable)) if isinstance(part, Body) else part for part in parts
        )
        if has_stored_body(parts):
            is_readable = all(is_text(part.ref) for part in parts if isinstance(part, Body))
            partly.append(PartialPiece(handle, _count_piece_bytes(parts), piece_size(parts), is_readable))
    tokens = message.tokens - sum(reduction.saved for reduction in own_reductions.values())
    return _replace_pieces(message, pieces, tokens), tuple(partly)


def _replace_pieces(message: Message, pieces: Mapping[int, tuple[Part, ...]], tokens: int) -> Message:
    """The message with other pieces: those of its tool results first, then those of its content."""
    first = len(message.tool_results)
    return msgspec.structs.replace(
        message,
        tool_results=tuple(
            ToolResult(result.tool_call_id, pieces[number], result.is_error)
            for number, result in enumerate(message.tool_results)
        ),
        content=tuple(part for number in range(first, len(pieces)) for part in pieces[number]),
        tokens=max(0, tokens),
    )


def show_item(
    item: HistoryItem,
    reductions: Reductions,
    readable: bool = True,
    partly: dict[int, tuple[PartialPiece, ...]] | None = None,
) -> HistoryItem:
    """An item of a view as it is shown. The pieces that are shown in part are added to `partly`, by message."""
    if isinstance(item, Summary):
        return item if readable else msgspec.structs.replace(item, text=_strip_handles(item.text))
    messages: list[Message] = []
    for message in item.messages:
        shown, pieces = show_message(message, reductions, readable)
        messages.append(shown)
        if pieces and partly is not None:
            partly[message.seq] = pieces
    return MessageGroup(tuple(messages), item.open)


def show_for_summary(item: HistoryItem, reductions: Reductions) -> HistoryItem:
    """An item as a summary quotes it: outdated pieces are empty, and of a piece that is shown by its lines, all of it can
    be quoted."""
    return hide_outdated(show_item(item, select_for_summary(reductions)), reductions)


def select_for_summary(reductions: Reductions) -> dict[int, dict[int, Reduction]]:
    """The reductions without those to lines of a piece."""
    kept = {
        message: {number: each for number, each in pieces.items() if each.form != "lines"}
        for message, pieces in reductions.items()
    }
    return {message: pieces for message, pieces in kept.items() if pieces}


def hide_outdated(item: HistoryItem, reductions: Reductions) -> HistoryItem:
    """An item without the texts of its outdated pieces."""
    if isinstance(item, Summary):
        return item
    return MessageGroup(tuple(_hide_pieces(message, reductions) for message in item.messages), item.open)


def _hide_pieces(message: Message, reductions: Reductions) -> Message:
    own = reductions.get(message.seq, {})
    hidden = {number for number, reduction in own.items() if reduction.form in OUTDATED_NOTES}
    if not hidden:
        return message
    pieces = {number: () if number in hidden else parts for number, parts, _ in pieces_of(message)}
    return _replace_pieces(message, pieces, message.tokens)


def _strip_handles(text: str) -> str:
    """The text of a summary where no tool reads handles."""
    if READS_BRACKETS in text:
        text = _BRACKETED_HANDLE.sub(r"\1", text.replace(READS_BRACKETS, "", 1))
    return _LISTED_HANDLES.sub("", text)


def reduction_text(parts: Sequence[Part], reduction: Reduction, handle: str, readable: bool = True) -> str:
    """The text that is shown for a reduced piece."""
    hint = f'read_handle("{handle}") reads them' if readable else "they cannot be read here"
    if reduction.form == "page":
        return f"[paged out: {reduction.size} bytes; {hint}]"
    if reduction.form in OUTDATED_NOTES:
        how = f'read_handle("{handle}") reads it' if readable else "it cannot be read here"
        return f"[outdated: {OUTDATED_NOTES[reduction.form]}; {how}]"
    if reduction.form == "lines":
        return _join_lines(text_of(parts), reduction.lines, hint)
    head, tail = _shown_ends(parts, reduction)
    shown, at_end = len(head.encode()), len(tail.encode())
    if reduction.form == "spool" or has_stored_body(parts):
        line = marker_line(reduction.size, shown, handle, tail=at_end, readable=readable)
    else:
        size = len(text_of(parts).encode())
        line = f"{MARKER_START}{size - shown - at_end} of {size} bytes left out; {hint} …]"
    return "\n".join(filter(None, (head, line, tail)))


def _join_lines(text: str, ranges: Sequence[tuple[int, int]], hint: str) -> str:
    """The lines of a text that are shown, with a mark for each gap, below a line that says how much is left out."""
    spans = find_line_spans(text, ranges)
    size, shown = len(text.encode()), sum(len(text[start:end].encode()) for start, end in spans)
    line = f"{MARKER_START}{size - shown} of {size} bytes{_name_lines(text)} left out; {hint} …]"
    return "\n".join([line, *(each.text for each in show_lines(text, ranges))])


def _name_lines(text: str) -> str:
    """Which lines of a file a text has, if it shows their numbers."""
    end = text.rstrip("\n")
    first, last = _LINE_NUMBER.match(text), _LINE_NUMBER.match(end, end.rfind("\n") + 1)
    return "" if first is None or last is None else f" in lines {int(first[1])} to {int(last[1])}"


class ShownLines(NamedTuple):
    """Adjacent lines of a text, or the mark of a gap."""

    text: str
    start: int = -1
    """Where they are in the whole text; -1 for a gap."""
    end: int = -1


def show_lines(text: str, ranges: Sequence[tuple[int, int]]) -> list[ShownLines]:
    """What is shown of a text by ranges of its lines, in order."""
    shown: list[ShownLines] = []
    for start, end in find_line_spans(text, ranges):
        if start and not _LINE_NUMBER.match(text, start):
            shown.append(ShownLines(LINES_GAP))
        shown.append(ShownLines(text[start:end], start, end))
    return shown


def find_line_spans(text: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of lines as ranges of characters, without the end of the last line of each."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text) + 1]
    last = len(starts) - 1
    return [(starts[first], starts[end] - 1) for first, end in ranges if first < end <= last]


def _shown_ends(parts: Sequence[Part], reduction: Reduction) -> tuple[str, str]:
    """The start and the end that are shown of a reduced piece. Of a stored body, as far as its preview has them."""
    text = text_of(parts)
    match parts:
        case [Body(preview=preview, tail=tail)]:
            start, end = split_ends(preview, tail)
            if reduction.head >= len(preview):  # planned as the stored preview
                return start, end
        case _:
            start, end = text, "" if has_stored_body(parts) else text
    if 0 < reduction.tail <= len(end):
        end = end[len(end) - reduction.tail :]
    return start[: reduction.head], end if reduction.tail else ""


def shows_less(parts: Sequence[Part], reduction: Reduction) -> bool:
    """Whether less of a piece is shown with a reduction than with the previews of its bodies alone."""
    return _count_reduced_bytes(parts, reduction) < _count_piece_bytes(parts)


def _count_reduced_bytes(parts: Sequence[Part], reduction: Reduction) -> int:
    """The bytes of a reduced piece that are shown."""
    if reduction.form == "page" or reduction.form in OUTDATED_NOTES:
        return 0
    if reduction.form == "lines":
        text = text_of(parts)
        return sum(len(text[start:end].encode()) for start, end in find_line_spans(text, reduction.lines))
    return sum(len(text.encode()) for text in _shown_ends(parts, reduction))


def _count_piece_bytes(parts: Sequence[Part]) -> int:
    """The bytes that are shown of a piece with stored bodies."""
    others = text_of([part for part in parts if not isinstance(part, Body)])
    return sum(count_shown_bytes(part) for part in parts if isinstance(part, Body)) + len(others.encode())


def shown_share(partly: Sequence[PartialPiece]) -> float:
    """The share of the bytes of these pieces that is shown; 1 if there are none."""
    size = sum(piece.size for piece in partly)
    return round(sum(piece.shown for piece in partly) / size, 4) if size else 1.0


def describe_shown_shares(partly: Sequence[PartialPiece], readable: bool = True) -> str:
    """In words how much of pieces is shown, and how the rest is read."""
    shares = [f"{_format_percent(piece)} of {format_size(piece.size)} shown" for piece in partly]
    if not readable:
        return f"{', '.join(shares)}; {UNREADABLE}"
    if len(partly) == 1:
        return f"{shares[0]}; read_handle {partly[0].handle} reads the rest"
    notes = (f"{piece.handle}: {share}" for piece, share in zip(partly, shares, strict=True))
    return f"{', '.join(notes)}; read_handle reads the rest"


def _format_percent(piece: PartialPiece) -> str:
    share = 100 * piece.shown / max(1, piece.size)
    if 0 < share < 1:
        return "less than 1%"
    return f"{min(99, round(share))}%" if piece.shown < piece.size else "100%"


def format_size(size: int) -> str:
    """A number of bytes for people."""
    for least, unit in _SIZE_UNITS:
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size} bytes"


def has_stored_body(parts: Sequence[Part]) -> bool:
    """Whether some of these parts are stored bodies."""
    return any(isinstance(part, Body) for part in parts)


def piece_size(parts: Sequence[Part]) -> int:
    """The bytes of a piece, bodies included."""
    refs = sum(part.ref.size for part in parts if isinstance(part, Body))
    return refs + len(text_of([part for part in parts if not isinstance(part, Body)]).encode())


def piece_digest(parts: Sequence[Part]) -> str:
    """The SHA-256 of a piece, whoever counted the tokens of its bodies."""
    return codec.digest(tuple(Body(part.ref, part.preview) if isinstance(part, Body) else part for part in parts))


def piece_ref(parts: Sequence[Part]) -> BlobRef | None:
    """The blob of a piece, if the piece is that blob alone."""
    match parts:
        case [Body(ref=ref)]:
            return ref
    return None


def can_shrink(message: Message, parts: Sequence[Part]) -> bool:
    """Whether a piece may be shown by an excerpt: it is text, and no signed part is separated from what it belongs to."""
    if message.tool_results:
        return all(isinstance(part, Text | Data | Body) for part in parts)
    signed = any(isinstance(part, Opaque) for part in message.content)
    return message.role in ("user", "assistant") and not signed and isinstance(parts[0], Text | Body)


# Stored bodies, as a pack shows them


class Display(msgspec.Struct, frozen=True):
    """For what a conversation is shown."""

    budget: int | None = None
    """The tokens of the pack; None shows each stored body by its stored preview."""
    readable: bool = True
    """The tool that reads handles is offered."""


class ReadAmount(NamedTuple):
    """How much of a stored body has to be read."""

    ref: BlobRef
    size: int
    whole: bool
    """It is shown whole; else a preview is made of what was read."""


ReadAmounts: TypeAlias = Mapping[tuple[int, int, str], ReadAmount]
"""By message, piece and digest; a body without one is shown by its stored preview."""


class PresentedItems(NamedTuple):
    """Items with their stored bodies as a pack shows them."""

    items: tuple[HistoryItem, ...]
    """As if they had been recorded like this."""
    reduced: tuple[Reduction, ...]
    """The reductions of their pieces since a boundary, with figures that fit these items."""
    stored: dict[tuple[int, int], tuple[Part, ...]]
    """The recorded parts of the pieces with stored bodies."""


class BodyPresenter:
    """Decides what is shown of stored bodies, says what has to be read for that, and shows it."""

    def __init__(
        self, display: Display, spooling: Spooling, count: Callable[[str], int], reduced: Sequence[Reduction] = ()
    ) -> None:
        self.display = display
        self._spooling = spooling
        self._count = count
        self._reduced = group_by_message(reduced)
        self._limit = 0 if display.budget is None else spooling.preview_bytes(display.budget)

    def amounts(self, items: Sequence[HistoryItem]) -> ReadAmounts:
        """How much has to be read of which body."""
        left = _READ_BUDGETS * (self.display.budget or 0)
        amounts: dict[tuple[int, int, str], ReadAmount] = {}
        for group, message, number, body in find_stored_bodies(items):
            amount = self._decide_amount(message, number, body, left, critical=group.priority == "critical")
            if amount is not None:
                amounts[message.seq, number, body.ref.digest] = amount
                left -= body.whole_tokens if amount.whole else 0
        return amounts

    def _decide_amount(
        self, message: Message, number: int, body: Body, left: int, *, critical: bool
    ) -> ReadAmount | None:
        reduction = self._reduced.get(message.seq, {}).get(number)
        if reduction is not None and reduction.form == "whole":
            return ReadAmount(body.ref, body.ref.size, True)
        if self.display.budget is None or (reduction is not None and reduction.form in ("spool", "page")):
            return None
        if critical and is_text(body.ref) and body.ref.size <= limits.WHOLE_BYTES:
            return ReadAmount(body.ref, body.ref.size, True)  # Critical: whole, or an error
        share = self._spooling.result_share if message.tool_results else self._spooling.message_share
        return self.amount(body, share if left > 0 else 0)

    def amount(self, body: Body, share: float) -> ReadAmount | None:
        """How much is read of a body that may take this share of the budget to be shown whole."""
        if self.display.budget is None:
            return None
        short = is_text(body.ref) and body.ref.size <= self._limit + _MARKER_BYTES
        if short or fits_whole(body, int(self.display.budget * share)):
            return ReadAmount(body.ref, body.ref.size, True)
        size = bytes_to_read(body, self._spooling, self._limit)
        return ReadAmount(body.ref, size, False) if size else None

    def present(self, items: Sequence[HistoryItem], amounts: ReadAmounts, read: Mapping[str, bytes]) -> PresentedItems:
        """The items with what was read of their bodies, by digest."""
        stored: dict[tuple[int, int], tuple[Part, ...]] = {}
        reduced: list[Reduction] = []
        presented: list[HistoryItem] = []
        for item in items:
            if not isinstance(item, MessageGroup):
                presented.append(item)
                continue
            messages = tuple(
                self._present_message(message, amounts, read, stored, reduced) for message in item.messages
            )
            same = all(one is two for one, two in zip(messages, item.messages, strict=True))
            presented.append(item if same else MessageGroup(messages, item.open))
        return PresentedItems(tuple(presented), tuple(reduced), stored)

    def show(self, presented: PresentedItems) -> tuple[tuple[HistoryItem, ...], dict[int, tuple[PartialPiece, ...]]]:
        """The items as a model reads them; and by message, the pieces that are shown in part."""
        reductions = group_by_message(presented.reduced)
        partly: dict[int, tuple[PartialPiece, ...]] = {}
        items = tuple(show_item(item, reductions, self.display.readable, partly) for item in presented.items)
        return items, partly

    def _present_message(
        self,
        message: Message,
        amounts: ReadAmounts,
        read: Mapping[str, bytes],
        stored: dict[tuple[int, int], tuple[Part, ...]],
        reduced: list[Reduction],
    ) -> Message:
        reductions = self._reduced.get(message.seq, {})
        pieces = {number: parts for number, parts, _ in pieces_of(message)}
        noun, tail = ("tool result", RESULT_TAIL) if message.tool_results else ("text", MESSAGE_TAIL)
        more = 0
        for number, parts in pieces.items():
            reduction = reductions.get(number)
            if reduction is not None and reduction.form == "whole":
                reduced.append(msgspec.structs.replace(reduction, saved=0))  # as it is presented here, it is whole
                reduction = None
            if not has_stored_body(parts):
                reduced += () if reduction is None else (reduction,)
                continue
            stored[message.seq, number] = parts
            starts = {
                digest: (read[digest][: amount.size], amount.whole)
                for (seq, at, digest), amount in amounts.items()
                if (seq, at) == (message.seq, number)
            }
            shown, tokens, added = self._present_parts(parts, starts, piece_id(message.seq, number), noun, tail)
            more += added
            pieces[number] = shown
            if reduction is not None:
                reduced.append(self._fit_reduction(reduction, shown, tokens, self._count_other_parts(parts)))
        if all(pieces[number] is parts for number, parts, _ in pieces_of(message)):
            return message
        return _replace_pieces(message, pieces, message.tokens + more)

    def _present_parts(
        self, parts: tuple[Part, ...], read: Mapping[str, tuple[bytes, bool]], handle: str, noun: str, tail_share: float
    ) -> tuple[tuple[Part, ...], int, int]:
        """The parts as they are shown, the tokens of their bodies, and how many more these are than as recorded."""
        presented: list[Part] = []
        tokens = recorded = 0
        for part in parts:
            shown: Part = part
            if isinstance(part, Body):
                after = before = part.preview_tokens or self._count(show_body(part, SAMPLE_HANDLE))
                if part.ref.digest in read:
                    shown, after = self.part(part, *read[part.ref.digest], handle, noun, tail_share)
                tokens, recorded = tokens + after, recorded + before
            presented.append(shown)
        same = all(one is two for one, two in zip(presented, parts, strict=True))
        return (parts if same else tuple(presented)), tokens, tokens - recorded

    def part(
        self, body: Body, start: bytes, whole: bool, handle: str, noun: str, tail_share: float = RESULT_TAIL
    ) -> tuple[Part, int]:
        """A stored body as it is shown, with what was read of it, and its tokens."""
        if whole:
            text = start.decode("utf-8", "replace")
            exact = body.tokens if body.ref.size <= limits.COUNTED_BYTES else 0
            return Text(text), exact or self._count(text)
        preview = lengthen_preview(body, start, self._spooling, self._limit, tail_share)
        shown = msgspec.structs.replace(body, preview=preview.text, tail=preview.tail)
        tokens = self._count(show_body(shown, handle, noun, readable=self.display.readable))
        return msgspec.structs.replace(shown, preview_tokens=tokens), tokens

    def _count_other_parts(self, parts: tuple[Part, ...]) -> int:
        """The tokens of the parts of a piece that are no stored bodies, each counted by itself, as when they were
        recorded."""
        texts = (text_of([part]) for part in parts if not isinstance(part, Body))
        return sum(self._count(text) for text in texts if text)

    def _fit_reduction(self, reduction: Reduction, parts: tuple[Part, ...], bodies: int, others: int) -> Reduction:
        """A reduction with figures for these parts: it may have been planned for another budget."""
        base = bodies + others
        text = reduction_text(parts, reduction, piece_id(reduction.message, reduction.piece), self.display.readable)
        return msgspec.structs.replace(reduction, tokens=base, saved=base - self._count(text))


def find_stored_bodies(items: Sequence[HistoryItem]) -> Iterator[tuple[MessageGroup, Message, int, Body]]:
    """The stored bodies in these items, newest first, each with its group, its message and the number of its piece."""
    for item in reversed(items):
        if not isinstance(item, MessageGroup):
            continue
        for message in reversed(item.messages):
            for number, parts, _ in pieces_of(message):
                for part in parts:
                    if isinstance(part, Body):
                        yield item, message, number, part
