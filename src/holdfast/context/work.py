"""A view on its way through the operations of a plan: what is shown, how large it is, what each operation would come to.

Laws: an operation that frees nothing is not done; what the model has not seen stays as it is, but for the preview of what
is spooled; figures are counted on what was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.core.shown import (
    STILL_READABLE,
    Reductions,
    by_message,
    can_shrink,
    digest_of,
    item_shown,
    pieces_of,
    reduced_text,
    ref_of,
    size_of,
    stored_in,
)
from holdfast.model import limits
from holdfast.model.content import Body, Part, text_of
from holdfast.model.handles import piece_id
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.names import Scope
from holdfast.model.plan import (
    Figures,
    Fold,
    Form,
    Op,
    Plan,
    Prices,
    Reduction,
    Step,
    TimeDecayMicro,
    Why,
    folds,
)
from holdfast.model.state import ViewState

Measure: TypeAlias = Callable[[int, int], int]
"""What the provider will count for so many of our tokens in so many messages."""
Summarize: TypeAlias = Callable[[Sequence[Item], int], str]
"""A text of at most so many tokens that stands for these items."""

FEWEST = 100
"""Tokens that a summary may take in any case."""
SHORTENED = 5
"""A summary takes one token for so many that it stands for, at most."""
GROWTH = (6_000, 10)
"""What is assumed before anything is known: so many tokens added in so many calls."""
PREVIEW_CHARS = limits.PREVIEW_BYTES
CHARS = 3
"""Characters of a token, on the safe side: what an excerpt of so many tokens is cut to."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made on: the conversation with its stored bodies as this window shows them, how its pieces are
    reduced, and what is told from outside."""

    scope: Scope
    frame: str | None = None
    version: int
    system: int = 0
    """Tokens of the system messages and whatever else stands before the conversation."""
    items: tuple[Item, ...] = ()
    """As they were recorded, but for stored bodies: those are as this window shows them."""
    view: ViewState = ViewState()
    window: int
    """The tokens that all of it may have."""
    prices: Prices
    now_us: int = 0
    cold: bool = False
    """The cache is known to be lost: another model, other tools."""
    unread: bool = False
    """There is more behind these items than can be looked at: they must be folded, whatever it costs."""
    stored: Mapping[tuple[int, int], tuple[Part, ...]] = msgspec.field(default_factory=dict)
    """The recorded parts of pieces that hold stored bodies, by message and piece: the items have them as they are shown."""


class Tools(msgspec.Struct, frozen=True):
    """What a plan is made with."""

    measure: Measure
    count: Callable[[str], int]
    summarize: Summarize | None = None
    """None leaves the text of a summary for later: it counts with the most that it may take; see `filled`."""
    summarizing: Callable[[int, int], int] = lambda _tokens, _summary: 0
    """What a summary of so many tokens, made of so many, costs."""


class _Piece(NamedTuple):
    """A piece of a message that may be shown by a part of it."""

    message: Message
    number: int
    parts: tuple[Part, ...]
    call: str | None
    how: Reduction | None
    """How it is shown; None for as it was recorded."""


class Choice(msgspec.Struct, frozen=True):
    """Something that could be done."""

    op: Op
    figures: Figures
    saved: int
    reduce: tuple[Reduction, ...] = ()
    fold: tuple[int, int] | None = None


class Work:
    """A view on its way through the operations of a plan. What is shown, how large it is, and what was changed."""

    def __init__(self, ground: Ground, tools: Tools) -> None:
        self.ground = ground
        self.tools = tools
        self.items: list[Item] = list(ground.items)
        self.reductions = by_message(ground.view.reduced)
        self.sizes = [self._size(item) for item in self.items]
        self.tokens = ground.system + sum(self.sizes)
        self.before = self.tokens
        self.steps: list[Step] = []
        self.changed: int | None = None
        """The number of the first item that was changed: from there on all is written anew."""
        self.reduced: dict[tuple[int, int], Reduction] = {}
        self.fold: Fold | None = None
        self.considered: list[tuple[str, Figures]] = []
        replies = [number for number, item in enumerate(self.items) if _reply(item) is not None]
        self.unseen = replies[-1] if replies else 0
        """The number of the first item that may hold what the model has not seen: its last reply, and what followed."""
        last = _reply(self.items[self.unseen]) if replies else None
        self.last_us = 0 if last is None else last.time_us
        fresh = [item for item in self.items if isinstance(item, Unit) and item.last > ground.view.planned]
        self.calls = ground.view.calls + sum(_calls(item, ground.view.planned) for item in fresh)
        self.grown = ground.view.grown + sum(item.tokens for item in fresh)
        idle_us = ground.now_us - self.last_us
        self.cold = ground.cold or not self.last_us or idle_us > ground.prices.ttl_s * 1_000_000

    # Looking

    def _size(self, item: Item, reductions: Reductions | None = None) -> int:
        if isinstance(item, Summary):
            return self.tools.measure(item.tokens, item.blocks)
        known = self.reductions if reductions is None else reductions
        saved = sum(each.saved for message in item.messages for each in known.get(message.seq, {}).values())
        return self.tools.measure(max(0, item.tokens - saved), item.blocks)

    def tail(self, turns: int, most: int) -> int:
        """The number of the first item of the last turns, or of what fits of them; what is unseen is always among it."""
        size, start = sum(self.sizes[self.unseen :]), self.unseen
        turns -= sum(isinstance(item, Unit) and item.starts_turn for item in self.items[start:])
        while start > 0 and turns > 0:
            item = self.items[start - 1]
            size += self.sizes[start - 1]
            if isinstance(item, Summary) or size > most:
                break
            turns -= item.starts_turn
            start -= 1
        return start

    def until(self, target: int) -> int:
        """How many of the oldest items must leave for the view to have so many tokens; what is unseen stays."""
        left, number = self.tokens, 0
        while left > target and number < self.unseen:
            left -= self.sizes[number]
            number += 1
        return number

    def cut(self, number: int) -> int:
        """The last place up to here where no unit reaches over to the other side: a message may come between a call and its
        result."""
        reach, good = 0, 0
        for at in range(number):
            reach = max(reach, self.items[at].last)
            if at + 1 == len(self.items) or self.items[at + 1].first > reach:
                good = at + 1
        return good

    def excerpts(self, op: TimeDecayMicro, before: int) -> tuple[Reduction, ...]:
        """Large tool results before an item, by excerpts."""
        return self._shorter(self._pieces(0, before, results=True), "excerpt", op.over, op.keep * CHARS)

    def snips(self, limit: int) -> tuple[Reduction, ...]:
        """Whatever is larger than so many tokens, by its beginning and end."""
        return self._shorter(self._pieces(0, self.unseen), "snip", limit, limit * CHARS)

    def unseen_pieces(self) -> list[tuple[Reduction, ...]]:
        """The pieces that the model has not seen, by their previews, those first that this shortens most."""
        found = self._shorter(self._pieces(self.unseen, len(self.items)), "spool", 0, PREVIEW_CHARS)
        return [(each,) for each in sorted(found, key=lambda each: (-each.saved, each.message, each.piece))]

    def _pieces(self, first: int, before: int, *, results: bool = False) -> Iterator[_Piece]:
        """The pieces of some items that may be shown by a part, and are not yet. A reply counts as seen, and is not new."""
        for number, item in enumerate(self.items[first:before], first):
            for message in item.messages if isinstance(item, Unit) else ():
                if (results and not message.tool_results) or (message.role == "assistant" and number >= self.unseen):
                    continue
                known = self.reductions.get(message.seq, {})
                for at, parts, call in pieces_of(message):
                    how = known.get(at)
                    if (how is None or how.form == "whole") and can_shrink(message, parts):
                        yield _Piece(message, at, parts, call, how)

    def _tokens(self, piece: _Piece, text: str) -> int:
        """What a piece takes as it was recorded: that of the message, if it is all there is of it."""
        alone = len(piece.message.tool_results) + len(piece.message.content) == 1 and not piece.message.tool_calls
        if alone or not stored_in(piece.parts):
            return piece.message.tokens if alone else self.tools.count(text)
        bodies = sum(part.shown_tokens for part in piece.parts if isinstance(part, Body))
        beside = text_of(part for part in piece.parts if not isinstance(part, Body))
        return bodies + (self.tools.count(beside) if beside else 0)

    def _shorter(self, pieces: Iterable[_Piece], form: Form, over: int, chars: int) -> tuple[Reduction, ...]:
        """Those of more than so many tokens, each by about so many characters."""
        found: list[Reduction] = []
        for each in pieces:
            if each.message.tokens <= over:
                continue
            stored = self.ground.stored.get((each.message.seq, each.number))
            # a stored body is spooled to its stored preview
            parts = each.parts if stored is None or form != "spool" else stored
            text = text_of(parts)
            if stored is None and len(text) <= chars * 2:
                continue
            tokens = self._tokens(each, text_of(each.parts))
            if tokens <= over:
                continue
            piece = Reduction(
                message=each.message.seq,
                piece=each.number,
                form=form,
                head=max(chars, len(text) if stored else 0) if form == "spool" else chars // 2,
                tail=0 if form == "spool" else chars // 4 if form == "snip" else chars // 2,
                tokens=tokens,
                size=size_of(stored or parts) if stored or form == "spool" else 0,
                digest="",
                source=each.call,
            )
            now = self.tools.count(reduced_text(parts, piece, piece_id(each.message.seq, each.number)))
            if now < tokens:
                found.append(msgspec.structs.replace(piece, saved=tokens - now))
        return tuple(found)

    # Choosing

    def choice(
        self, op: Op, *, reduce: tuple[Reduction, ...] = (), fold: tuple[int, int] | None = None
    ) -> Choice | None:
        """What an operation would come to, if it did anything. A summary counts with the most that it may take."""
        if fold is not None:
            if not self._folds(fold[0]):
                return None
            left = sum(self.sizes[: fold[0]])
            new = self.tools.measure(self._room(*fold), 1)
            kept = sum(self.sizes[fold[0] : max(fold[0], self._cached())]) + new
        elif reduce:
            left, kept = self._reducing(reduce)
            new = 0
        else:
            return None
        figures = self._figures(left - new, kept, self.tools.summarizing(left, new) if fold is not None else 0)
        return Choice(op, figures, left - new, reduce, fold)

    def _cached(self) -> int:
        """The number of the first item that must be written at the next call in any case."""
        return self.unseen if self.changed is None else min(self.unseen, self.changed)

    def _reducing(self, reduce: tuple[Reduction, ...]) -> tuple[int, int]:
        """The tokens that leave, and those from the first change on that must be written again."""
        after = {message: {**pieces} for message, pieces in self.reductions.items()}
        for each in reduce:
            after.setdefault(each.message, {})[each.piece] = each
        touched = {each.message for each in reduce}
        first = next(number for number, item in enumerate(self.items) if _touches(item, touched))
        sizes = [self._size(item, after) for item in self.items[first:]]
        less = sum(self.sizes[first:]) - sum(sizes)
        return less, sum(sizes[: max(0, self._cached() - first)])

    def _figures(self, saved: int, rewritten: int, summarizing: int) -> Figures:
        prices = self.ground.prices
        growth = max(1, (self.grown + GROWTH[0]) // (self.calls + GROWTH[1]))
        horizon = max(0, saved) // growth
        saves = prices.cache_read * saved
        rewriting = 0 if self.cold else (prices.cache_write - prices.cache_read) * rewritten
        earns = prices.cache_read * saved * saved // growth + (prices.cache_write * saved if self.cold else 0)
        return Figures(
            before=self.before,
            after=self.tokens - saved,
            window=self.ground.window,
            rewritten=rewritten,
            rewriting=max(0, rewriting),
            summarizing=summarizing,
            saves=saves,
            horizon=horizon,
            earns=earns if saved > 0 else 0,
            cold=self.cold,
            calls=self.calls,
            grown=self.grown,
        )

    def _folds(self, number: int) -> bool:
        """Whether there is anything to fold: more than one summary that is there already."""
        return number > 0 and not (number == 1 and isinstance(self.items[0], Summary))

    def _room(self, number: int, share: int) -> int:
        """The tokens that a summary of so many items may take: what earlier ones have, and a part of what is new. A mere
        marker takes few."""
        inside = sum(
            item.tokens if isinstance(item, Summary) else item.tokens // SHORTENED for item in self.items[:number]
        )
        return min(share, max(FEWEST, inside)) if share else FEWEST

    # Doing

    def carry_out(self, choice: Choice) -> bool:
        return self.do(choice.op, reduce=choice.reduce, fold=choice.fold)

    def do(self, op: Op, *, reduce: tuple[Reduction, ...] = (), fold: tuple[int, int] | None = None) -> bool:
        """Change the view as the operation says, and say so; nothing at all is done if that would free nothing."""
        before = self.tokens
        first: int | None = None
        if fold is not None and self._folds(fold[0]):
            first = self._fold(*fold)
        elif reduce:
            first = self._reduce(reduce)
        if first is not None:
            self.steps.append(Step(op=op, first_changed_index=first, before=before, after=self.tokens))
            self.changed = first if self.changed is None or fold is not None else min(first, self.changed)
        return first is not None

    def _named(self, reduce: tuple[Reduction, ...]) -> list[Reduction]:
        """With what is only worked out for what is done: digest, size, whole tokens, and place in the blob store."""
        wanted = {(each.message, each.piece): each for each in reduce}
        found: list[Reduction] = []
        for item in self.items:
            for message in item.messages if isinstance(item, Unit) else ():
                for number, parts, _ in pieces_of(message):
                    each = wanted.get((message.seq, number))
                    if each is None:
                        continue
                    recorded = self.ground.stored.get((message.seq, number), parts)
                    more = sum(part.whole_tokens - part.shown_tokens for part in parts if isinstance(part, Body))
                    found.append(
                        msgspec.structs.replace(
                            each,
                            size=size_of(recorded),
                            digest=digest_of(recorded),
                            ref=ref_of(recorded),
                            whole=each.tokens + more if more else 0,
                        )
                    )
        return found

    def _reduce(self, reduce: tuple[Reduction, ...]) -> int | None:
        first: int | None = None
        for each in self._named(reduce):
            self.reductions.setdefault(each.message, {})[each.piece] = each
            self.reduced[each.message, each.piece] = each
        touched = {each.message for each in reduce}
        for number, item in enumerate(self.items):
            if _touches(item, touched):
                first = number if first is None else first
                size = self._size(item)
                self.tokens += size - self.sizes[number]
                self.sizes[number] = size
        return first

    def _fold(self, number: int, share: int) -> int | None:
        """One summary for so many of the oldest items; None if it would not be shorter."""
        inside = self.items[:number]
        text, tokens = self._summary(inside, share)
        size = self.tools.measure(tokens, 1)
        if not tokens or size >= sum(self.sizes[:number]):
            return None
        units = [item for item in inside if isinstance(item, Unit)]
        earlier = [item for item in inside if isinstance(item, Summary)]
        own = self.fold
        messages = tuple(message.seq for unit in units for message in unit.messages)
        fold = Fold(
            first=min(item.first for item in inside),
            last=max(item.last for item in inside),
            messages=tuple(sorted((*(own.messages if own else ()), *messages))),
            summaries=(
                *(own.summaries if own else ()),
                *(item.seq for item in earlier if item.seq),
            ),
            count=sum(item.count for item in inside),
            replaced=sum(item.replaced for item in inside),
            text=text,
            tokens=tokens,
        )
        gone = {*fold.messages}
        self.reduced = {key: each for key, each in self.reduced.items() if each.message not in gone}
        new = Summary(
            seq=0,
            first=fold.first,
            last=fold.last,
            messages=fold.count,
            text=text,
            tokens=tokens,
            replaced=fold.replaced,
        )
        self.tokens += size - sum(self.sizes[:number])
        self.items[:number] = [new]
        self.sizes[:number] = [size]
        self.unseen -= number - 1
        self.fold = fold
        said = inside[0].text if isinstance(inside[0], Summary) else None
        return 1 if text and said == text else 0

    def shrink_summary(self, window: int) -> None:
        """Give a summary that is not written yet less room, if the view does not fit: before anything new is cut."""
        over = self.tokens - window
        if self.fold is None or self.fold.text or over <= 0:
            return
        fold = msgspec.structs.replace(self.fold, tokens=max(min(FEWEST, self.fold.tokens), self.fold.tokens - over))
        size = self.tools.measure(fold.tokens, 1)
        self.steps = shifted(self.steps, size - self.sizes[0])
        self.tokens += size - self.sizes[0]
        self.sizes[0], self.fold = size, fold
        self.items[0] = msgspec.structs.replace(self.items[0], tokens=fold.tokens)

    def _summary(self, inside: list[Item], share: int) -> tuple[str, int]:
        """What stands for these, and its tokens; without someone to say it, nothing, and the most that it may take."""
        room = self._room(len(inside), share)
        if share and self.tools.summarize is None:
            return "", room
        text = outline(inside)
        if share and self.tools.summarize is not None:
            shown = [item_shown(item, self.reductions) for item in inside]
            text = self.tools.summarize(shown, room)
        return text, self.tools.count(text) if text.strip() else 0

    def plan(self, name: str, why: Why | None) -> Plan:
        ground = self.ground
        done = bool(self.steps)
        figures = (
            self._done() if done else min((each for _, each in self.considered), key=_net, default=self._nothing())
        )
        return Plan(
            scope=ground.scope,
            frame=ground.frame,
            version=ground.version,
            policy=name,
            why=why if done else None,
            steps=tuple(self.steps),
            reduced=tuple(self.reduced.values()),
            fold=self.fold,
            figures=figures,
            considered=tuple(self.considered),
            prices=ground.prices,
            target_met=self.tokens <= ground.window,
            more=ground.unread,
        )

    def _done(self) -> Figures:
        """What was done, counted on what was made."""
        start = min(each.first_changed_index or 0 for each in self.steps)
        rewritten = sum(self.sizes[start : max(start, self.unseen)])
        cost = 0
        if self.fold is not None:
            size = self.tools.measure(self.fold.tokens, 1)
            cost = self.tools.summarizing(self.before - self.tokens + size, size)
        return msgspec.structs.replace(self._figures(self.before - self.tokens, rewritten, cost), after=self.tokens)

    def _nothing(self) -> Figures:
        return Figures(
            before=self.before,
            after=self.before,
            window=self.ground.window,
            cold=self.cold,
            calls=self.calls,
            grown=self.grown,
        )


def shifted(steps: Sequence[Step], more: int) -> list[Step]:
    """The steps of a plan when the summary that it makes takes so many tokens more."""
    last = max(at for at, step in enumerate(steps) if folds(step.op))
    found = [*steps]
    for at in range(last, len(steps)):
        before = steps[at].before + (more if at > last else 0)
        found[at] = msgspec.structs.replace(steps[at], before=before, after=steps[at].after + more)
    return found


def _net(figures: Figures) -> int:
    return figures.net


def _reply(item: Item) -> Message | None:
    """The last reply of the model in an item."""
    for message in reversed(item.messages) if isinstance(item, Unit) else ():
        if message.role == "assistant":
            return message
    return None


def _calls(item: Unit, after: int) -> int:
    return sum(message.role == "assistant" and message.seq > after for message in item.messages)


def _touches(item: Item, messages: Iterable[int]) -> bool:
    return isinstance(item, Unit) and any(message.seq in messages for message in item.messages)


_LEFT = " earlier messages are out of view"


def outline(items: Sequence[Item]) -> str:
    """What stands for items that leave without a summary: how many there were, and what earlier summaries said."""
    count = sum(item.count for item in items)
    earlier = [line for item in items if isinstance(item, Summary) for line in item.text.splitlines()]
    kept = [line for line in earlier if _LEFT not in line]
    return "\n".join([*kept, f"({count:,}{_LEFT}{STILL_READABLE})"])
