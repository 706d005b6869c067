"""A view on its way through the operations of a plan: what is shown, how large it is, what each operation would come to.

Laws: an operation that frees nothing is not done; what the model has not seen stays as it is, but for the preview of what
is spooled; figures are counted on what was made.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from holdfast.context.bind import bind, piece_tokens
from holdfast.context.ground import Choice, Ground, Tools
from holdfast.context.loss import Recalls, count_recalls, price_of_loss
from holdfast.context.outline import OUTLINE_TOKENS, outline
from holdfast.context.steps import meet_targets, shifted
from holdfast.core.previews import MESSAGE_TAIL, RESULT_TAIL, ends_of, text_ends
from holdfast.core.shown import (
    Reductions,
    by_message,
    can_shrink,
    item_shown,
    pieces_of,
    reduced_text,
    size_of,
    stored_in,
)
from holdfast.model import limits
from holdfast.model.content import Part, text_of
from holdfast.model.handles import SCORES, Handle, piece_id
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.plan import (
    LEVELS,
    Figures,
    Fold,
    Form,
    Level,
    Op,
    Plan,
    Reduction,
    Step,
    TimeDecayMicro,
    Why,
    summarises,
)

FEWEST = 100
"""Tokens that a summary may take in any case."""
SHORTENED = 5
"""A summary takes one token for so many that it stands for, at most, unless it stands for little."""
SMALL_SUMMARY = 400
"""Tokens that a summary of little may take, if its share of the window holds them."""
SMALL_SHARE = (4, 5)
"""The part of what it stands for that a summary of little may take."""
GROWTH = (6_000, 10)
"""What is assumed before anything is known: so many tokens added in so many calls."""
PREVIEW_CHARS = limits.PREVIEW_BYTES
CHARS = 3
"""Characters of a token, on the safe side: what an excerpt of so many tokens is cut to."""


class _Piece(NamedTuple):
    """A piece of a message that may be shown by a part of it."""

    message: Message
    number: int
    parts: tuple[Part, ...]
    call: str | None
    how: Reduction | None
    """How it is shown; None for as it was recorded."""


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
        self._critical = {item.seq for item in self.items if isinstance(item, Unit) and item.priority == "critical"}
        self._question = 0 if ground.unread else _question(self.items)
        self.keeps: frozenset[int] = frozenset()
        """The seqs of units that a strategy keeps in view when what is around them is folded."""
        self.level: Level = "none"
        self.handles: list[str] = []
        """The handles that packs leave out."""
        self.handle_tokens = sum(tools.measure(each.tokens, 0) for each in ground.handles)
        self.pays_for_loss = False
        """Whether what is forgotten has a price."""

    # Looking

    def stays(self, item: Item) -> bool:
        """Whether a fold goes around it: it is then shown behind the summary."""
        if not isinstance(item, Unit):
            return False
        return item.seq == self._question or item.seq in self.keeps or item.seq in self._critical

    def leaving(self, number: int) -> list[Item]:
        """What of so many of the oldest items a fold stands for."""
        return [item for item in self.items[:number] if not self.stays(item)]

    def _leaving_tokens(self, number: int) -> int:
        return sum(size for item, size in zip(self.items[:number], self.sizes, strict=False) if not self.stays(item))

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

    def until(self, target: int, before: int | None = None, share: int = 0) -> int:
        """How many of the oldest items must leave for the view, with the summary that takes their place, to have so many
        tokens; what is unseen stays, and what stands from `before` on. It ends at a clean cut if there is one."""
        left, number = self.tokens, 0
        last = self.unseen if before is None else min(before, self.unseen)
        new = room = whole = 0
        clean = {0, *self._clean_cuts(last)}
        while number < last and (left + new > target or number not in clean):
            item = self.items[number]
            if not self.stays(item):
                left -= self.sizes[number]
                room += _summarised(item, share)
                whole += item.tokens
                new = self.tools.measure(self._most(room, whole, share), 1)
            number += 1
        return number

    def _place(self, number: int, share: int) -> int:
        """The tokens that stand for so many of the oldest items."""
        return self.tools.measure(self._room(number, share), 1) if number else 0

    def turn(self) -> int:
        """The number of the item that begins the current turn; 0 if it began before all of them."""
        for number in range(len(self.items) - 1, 0, -1):
            item = self.items[number]
            if isinstance(item, Unit) and item.starts_turn:
                return number
        return 0

    def turn_start(self, number: int, before: int, most: int) -> int:
        """The next beginning of a turn, if it is no more than so many tokens further; else the same item."""
        more = 0
        for at in range(number, before + 1):
            item = self.items[at] if at < len(self.items) else None
            if isinstance(item, Unit) and item.starts_turn:
                return at
            if at < before:
                more += self.sizes[at]
            if more > most:
                break
        return number

    def cut(self, number: int) -> int:
        """The last place up to here where no unit reaches over to the other side: a message may come between a call and its
        result."""
        return max(self._clean_cuts(number), default=0)

    def _clean_cuts(self, number: int) -> Iterator[int]:
        """The places up to here where no unit reaches over to the other side."""
        reach = 0
        for at in range(number):
            reach = max(reach, self.items[at].last)
            if at + 1 == len(self.items) or self.items[at + 1].first > reach:
                yield at + 1

    def excerpts(self, op: TimeDecayMicro, before: int) -> tuple[Reduction, ...]:
        """Large tool results before an item, by excerpts."""
        return self._shorter(self._pieces(0, before, results=True), "excerpt", op.over, op.keep * CHARS)

    def snips(self, limit: int) -> tuple[Reduction, ...]:
        """Whatever is larger than so many tokens, by its beginning and end."""
        return self._shorter(self._pieces(0, self.unseen), "snip", limit, limit * CHARS)

    def unseen_pieces(self) -> list[tuple[Reduction, ...]]:
        """The pieces that the model has not seen, and those of what it is to answer, by their previews, those first that
        this shortens most."""
        question = next((at for at, item in enumerate(self.items[: self.unseen]) if item.seq == self._question), None)
        pieces = [*self._pieces(self.unseen, len(self.items))]
        pieces += () if question is None else self._pieces(question, question + 1)
        found = self._shorter(pieces, "spool", 0, PREVIEW_CHARS)
        return [(each,) for each in sorted(found, key=lambda each: (-each.saved, each.message, each.piece))]

    def _pieces(self, first: int, before: int, *, results: bool = False) -> Iterator[_Piece]:
        """The pieces of some items that may be shown by a part, and are not yet. A reply counts as seen, and is not new."""
        for number, item in enumerate(self.items[first:before], first):
            for message in item.messages if isinstance(item, Unit) and item.seq not in self._critical else ():
                if (results and not message.tool_results) or (message.role == "assistant" and number >= self.unseen):
                    continue
                known = self.reductions.get(message.seq, {})
                for at, parts, call in pieces_of(message):
                    how = known.get(at)
                    if (how is None or how.form == "whole") and can_shrink(message, parts):
                        yield _Piece(message, at, parts, call, how)

    def _tokens(self, piece: _Piece) -> int:
        """What a piece takes as it was recorded: that of the message, if it is all there is of it."""
        alone = len(piece.message.tool_results) + len(piece.message.content) == 1 and not piece.message.tool_calls
        return piece.message.tokens if alone else piece_tokens(piece.parts, self.tools.count)

    def _shorter(self, pieces: Iterable[_Piece], form: Form, over: int, chars: int) -> tuple[Reduction, ...]:
        """Those of more than so many tokens, each by about so many characters. A stored body that was paged in goes back to
        its stored preview, whichever form is asked for: that is the same in every window."""
        found: list[Reduction] = []
        for each in pieces:
            if each.message.tokens <= over:
                continue
            stored = self.ground.stored.get((each.message.seq, each.number))
            shape: Form = "spool" if stored is not None and each.how is not None else form
            # a stored body is spooled to its stored preview
            parts = each.parts if stored is None or shape != "spool" else stored
            text = text_of(parts)
            already = shape == "spool" and each.parts == stored  # it is shown by its stored preview
            if already or (stored is None and len(text) <= chars * 2):
                continue
            if shape != "spool" and stored_in(parts) and len(text) <= chars // 2:
                continue  # its preview is no longer than what would stay of it
            tokens = self._tokens(each)
            if tokens <= over:
                continue
            head, tail = _extent(each, shape, chars, text, stored is not None)
            piece = Reduction(
                message=each.message.seq,
                piece=each.number,
                form=shape,
                head=head,
                tail=tail,
                tokens=tokens,
                size=size_of(stored or parts) if stored or shape == "spool" else 0,
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
            left = self._leaving_tokens(fold[0])
            new = self._place(*fold)
            kept = sum(self.sizes[: max(fold[0], self._cached())]) - left + new
        elif reduce:
            left, kept = self._reducing(reduce)
            new = 0
        else:
            return None
        figures = self._figures(left - new, kept, self.tools.summarizing(left, new) if fold is not None else 0)
        pieces = len(reduce) if fold is None else sum(isinstance(item, Unit) for item in self.items[: fold[0]])
        return Choice(op, self._with_loss(figures, pieces), left - new, reduce, fold)

    def _with_loss(self, figures: Figures, pieces: int) -> Figures:
        if not self.pays_for_loss:
            return figures
        return msgspec.structs.replace(figures, lost=price_of_loss(figures, pieces, self._recalls, self.ground.prices))

    @functools.cached_property
    def _recalls(self) -> Recalls:
        return count_recalls(self.ground.items, self.ground.view)

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
        leaving = self.leaving(number)
        return bool(leaving) and not (len(leaving) == 1 and isinstance(leaving[0], Summary))

    def _room(self, number: int, share: int) -> int:
        """The tokens that a summary of so many items may take: what earlier ones have, and a part of what is new, more of
        little than of much. A mere line takes few, and what earlier summaries said."""
        leaving = self.leaving(number)
        inside = sum(_summarised(item, share) for item in leaving)
        return self._most(inside, sum(item.tokens for item in leaving), share)

    def _most(self, inside: int, whole: int, share: int) -> int:
        if not share:
            return OUTLINE_TOKENS + inside
        least = max(FEWEST, min(SMALL_SUMMARY, whole * SMALL_SHARE[0] // SMALL_SHARE[1]))
        return min(share, max(least, inside))

    # Doing

    def carry_out(self, choice: Choice) -> bool:
        return self.do(choice.op, reduce=choice.reduce, fold=choice.fold)

    def do(
        self, op: Op, *, reduce: tuple[Reduction, ...] = (), fold: tuple[int, int] | None = None, text: str = ""
    ) -> bool:
        """Change the view as the operation says, and say so; nothing at all is done if that would free nothing."""
        before = self.tokens
        first: int | None = None
        if fold is not None and self._folds(fold[0]):
            leaving = self.leaving(fold[0])
            first = self._fold(*fold, text)
            if first is not None:
                self._lose(leaving, summarised=summarises(op))
        elif reduce:
            first = self._reduce(reduce)
            self.level = self.level if first is None else max(self.level, "moderate", key=LEVELS.index)
        if first is not None:
            self.steps.append(Step(op=op, first_changed_index=first, before=before, after=self.tokens))
            self.changed = first if self.changed is None or fold is not None else min(first, self.changed)
        return first is not None

    def leave_out(self, handles: Sequence[Handle]) -> None:
        """Let packs leave these out."""
        self.handles += (each.id for each in handles)
        self.handle_tokens -= sum(self.tools.measure(each.tokens, 0) for each in handles)
        self._lose(handles, summarised=False)

    def _lose(self, items: Sequence[Item | Handle], *, summarised: bool) -> None:
        """Note the level that this loss comes to."""
        level: Level = "moderate" if items else "none"
        if not summarised:
            for each in items:
                low = not isinstance(each, Summary) and SCORES[each.priority] <= SCORES["low"]
                lost: Level = "moderate" if isinstance(each, Summary) else "aggressive" if low else "critical"
                level = max(level, lost, key=LEVELS.index)
        self.level = max(self.level, level, key=LEVELS.index)

    def _reduce(self, reduce: tuple[Reduction, ...]) -> int | None:
        first: int | None = None
        for each in bind(reduce, self.items, self.ground.stored):
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

    def _fold(self, number: int, share: int, text: str = "") -> int | None:
        """One summary for so many of the oldest items, those that stay excepted; None if it would not be shorter."""
        inside = self.leaving(number)
        staying = [
            (item, size) for item, size in zip(self.items[:number], self.sizes, strict=False) if self.stays(item)
        ]
        text, tokens = (text, self.tools.count(text)) if text else self._summary(inside, number, share)
        size, leaving = self.tools.measure(tokens, 1), self._leaving_tokens(number)
        if not tokens or size >= leaving:
            return None
        fold = self._folded(inside, [item for item, _ in staying], text, tokens)
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
        self.tokens += size - leaving
        self.items[:number] = [new, *(item for item, _ in staying)]
        self.sizes[:number] = [size, *(size for _, size in staying)]
        self.unseen -= number - 1 - len(staying)
        self.fold = fold
        said = inside[0].text if isinstance(inside[0], Summary) else None
        return 1 if text and said == text else 0

    def _folded(self, inside: Sequence[Item], staying: Sequence[Item], text: str, tokens: int) -> Fold:
        own = self.fold
        messages = tuple(each.seq for item in inside if isinstance(item, Unit) for each in item.messages)
        return Fold(
            first=min(item.first for item in (*inside, *staying)),
            last=max(item.last for item in (*inside, *staying)),
            messages=tuple(sorted((*(own.messages if own else ()), *messages))),
            summaries=(
                *(own.summaries if own else ()),
                *(item.seq for item in inside if isinstance(item, Summary) and item.seq),
            ),
            count=sum(item.count for item in inside),
            replaced=sum(item.replaced for item in inside),
            text=text,
            tokens=tokens,
            kept=tuple(sorted(each.seq for item in staying if isinstance(item, Unit) for each in item.messages)),
        )

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

    def _summary(self, inside: list[Item], number: int, share: int) -> tuple[str, int]:
        """What stands for these, and its tokens; without someone to say it, nothing, and the most that it may take."""
        room = self._room(number, share)
        if share and self.tools.summarize is None:
            return "", room
        text = outline(inside)
        if share and self.tools.summarize is not None:
            shown = [item_shown(item, self.reductions) for item in inside]
            text = self.tools.summarize(shown, room)
        return text, self.tools.count(text) if text.strip() else 0

    def plan(self, name: str, why: Why | None) -> Plan:
        ground = self.ground
        done = bool(self.steps or self.handles)
        of_handles = sum(self.tools.measure(each.tokens, 0) for each in ground.handles)
        figures = (
            self._done()
            if self.steps
            else min((each for _, each in self.considered), key=_net, default=self._nothing())
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
            target_met=self.tokens + self.handle_tokens <= ground.window and meet_targets(self.steps),
            more=ground.unread,
            level=self.level,
            handles=tuple(self.handles),
            handle_tokens=of_handles,
            freed_tokens=of_handles - self.handle_tokens,
        )

    def _done(self) -> Figures:
        """What was done, counted on what was made."""
        start = min(each.first_changed_index or 0 for each in self.steps)
        rewritten = sum(self.sizes[start : max(start, self.unseen)])
        cost = 0
        if self.fold is not None:
            size = self.tools.measure(self.fold.tokens, 1)
            cost = self.tools.summarizing(self.before - self.tokens + size, size)
        recalls = self._recalls
        figures = self._figures(self.before - self.tokens, rewritten, cost)
        figures = msgspec.structs.replace(figures, after=self.tokens, results=recalls.results, repeats=recalls.repeats)
        folded = 0 if self.fold is None else sum(self._is_folded(item) for item in self.ground.items)
        return self._with_loss(figures, len(self.reduced) + folded)

    def _is_folded(self, item: Item) -> bool:
        fold = self.fold
        return isinstance(item, Unit) and fold is not None and item.last <= fold.last and item.seq not in fold.kept

    def _nothing(self) -> Figures:
        return Figures(
            before=self.before,
            after=self.before,
            window=self.ground.window,
            cold=self.cold,
            calls=self.calls,
            grown=self.grown,
        )


def _extent(piece: _Piece, form: Form, chars: int, text: str, stored: bool) -> tuple[int, int]:
    """How many characters of the beginning and of the end of a piece are shown."""
    if form != "spool":
        return chars // 2, chars // 4 if form == "snip" else chars // 2
    if stored:
        return max(chars, len(text)), 0
    body, share = text.encode(), RESULT_TAIL if piece.message.tool_results else MESSAGE_TAIL
    head, tail = ends_of(*text_ends(body, body, len(body), chars, share))
    return len(head), len(tail)


def _summarised(item: Item, share: int) -> int:
    """What an item adds to the tokens of a summary, at most; of a mere line only what a summary said."""
    return item.tokens if isinstance(item, Summary) else item.tokens // SHORTENED if share else 0


def _net(figures: Figures) -> int:
    return figures.net


def _reply(item: Item) -> Message | None:
    """The last reply of the model in an item."""
    for message in reversed(item.messages) if isinstance(item, Unit) else ():
        if message.role == "assistant":
            return message
    return None


def _question(items: Sequence[Item]) -> int:
    """The seq of the newest message of the user, unless a reply without calls has answered it; 0 for none. It stays in
    view, where it is cached, however long the turn that it began becomes."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, Unit) else ():
            if message.role == "user":
                return item.seq
            if message.role == "assistant" and not message.tool_calls:
                return 0
    return 0


def _calls(item: Unit, after: int) -> int:
    return sum(message.role == "assistant" and message.seq > after for message in item.messages)


def _touches(item: Item, messages: Iterable[int]) -> bool:
    return isinstance(item, Unit) and any(message.seq in messages for message in item.messages)
