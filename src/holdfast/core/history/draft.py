"""Drafts of a plan: the view while the operations of a plan are tried on it, with their figures.

Laws: an operation that frees nothing is not applied. What the model has not seen stays as it is, but for the preview of
what is spooled. Figures are counted on the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.history.outlines import OUTLINE_TOKENS, build_outline
from holdfast.core.history.recalls import Recalls, count_recalls, price_loss
from holdfast.core.history.reductions import (
    ReduciblePiece,
    bind_reductions,
    count_piece_tokens,
    find_shown_extent,
)
from holdfast.core.history.views import (
    Reductions,
    can_shrink,
    find_newest,
    group_by_message,
    piece_size,
    pieces_of,
    reduction_text,
    show_for_summary,
    shows_less,
)
from holdfast.model import limits
from holdfast.model.content import Part, text_of
from holdfast.model.history.handles import PRIORITY_SCORES, Handle, piece_id
from holdfast.model.history.plans import (
    LEVELS,
    BoundaryReason,
    Collapse,
    Fold,
    Level,
    Op,
    PieceForm,
    Plan,
    PlanFigures,
    PlanStep,
    Reduction,
    TimeDecayMicro,
    has_summary,
    is_fold,
)
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.names import Scope
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import ViewState
from holdfast.text.client_blocks import has_own_words

Measure: TypeAlias = Callable[[int, int], int]
"""What the provider will count for so many tokens of the counter in so many messages."""
SummarizeItems: TypeAlias = Callable[[Sequence[HistoryItem], int], str]
"""A text of at most so many tokens that replaces these items."""
MIN_SUMMARY_TOKENS = 100
"""Tokens that a summary may always take."""
SUMMARY_RATIO = 5
"""A summary takes one token for so many that it replaces, at most, unless it replaces little."""
SMALL_SUMMARY_TOKENS = 400
"""Tokens that a summary of little may take, if its share of the window allows it."""
SMALL_SHARE = (4, 5)
"""The part of the replaced tokens that a summary of little may take."""
DEFAULT_GROWTH = (6_000, 10)
"""The growth before anything is known: so many tokens in so many calls."""
PREVIEW_CHARS = limits.PREVIEW_BYTES
CHARS_PER_TOKEN = 3
"""Characters of a token, on the safe side: an excerpt of so many tokens is cut to this."""
RISK = 5, 100
"""The part of the cost so far that boundaries may lose, if the conversation ends before they have paid back."""


# Input


class PlanInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made on: the conversation with its stored bodies as this window shows them, how its pieces are
    reduced, and what comes from outside."""

    scope: Scope
    frame: str | None = None
    version: int
    system: int = 0
    """Tokens of the system messages and of everything else before the conversation."""
    items: tuple[HistoryItem, ...] = ()
    """As they were recorded, but with stored bodies as this window shows them."""
    view: ViewState = ViewState()
    window: int
    """The tokens that all of it may have."""
    prices: Prices
    now_us: int = 0
    cold: bool = False
    """The cache is known to be lost: another model, other tools."""
    unread: bool = False
    """There are more items than can be read at once: these must be folded, whatever it costs."""
    stored: Mapping[tuple[int, int], tuple[Part, ...]] = msgspec.field(default_factory=dict)
    """The recorded parts of pieces with stored bodies, by message and piece."""
    handles: tuple[Handle, ...] = ()
    """The handles of the frame that packs may show, if a strategy is to choose among them."""
    flexible: bool = False
    """A part of `system` gives way if there is no room for it, as the tail of a pack does."""
    answered: bool = False
    """A reply to all of the items is there, and its calls are open: so the cache has just taken all of them."""
    rewritten_head: int | None = None
    """Tokens before the system messages that the provider must write again at a boundary, and so all that follows: the
    boundary changes something there. None if it does not."""


class PlanTools(msgspec.Struct, frozen=True):
    """What a plan is made with."""

    measure: Measure
    count: Callable[[str], int]
    summarize: SummarizeItems | None = None
    """None leaves the text of a summary for later: it counts with the most that it may take; see `fill_plan`."""
    summarizing: Callable[[int, int], int] = lambda _tokens, _summary: 0
    """The cost of a summary: of the replaced tokens, and of its own."""


class PlanChoice(msgspec.Struct, frozen=True):
    """An operation that could be applied."""

    op: Op
    figures: PlanFigures
    saved: int
    reduce: tuple[Reduction, ...] = ()
    fold: tuple[int, int] | None = None


# The draft


class PlanDraft:
    """The view while the operations of a plan are applied to it: its items, its size, and the changes."""

    def __init__(self, inputs: PlanInput, tools: PlanTools) -> None:
        self.inputs = inputs
        self.tools = tools
        self.items: list[HistoryItem] = list(inputs.items)
        self.reductions = group_by_message(inputs.view.reduced)
        self.sizes = [self._count_item(item) for item in self.items]
        self.tokens = inputs.system + sum(self.sizes)
        self.before = self.tokens
        self.steps: list[PlanStep] = []
        self.changed: int | None = None
        """The number of the first item that was changed: the cache is lost from there on."""
        self.reduced: dict[tuple[int, int], Reduction] = {}
        self.fold: Fold | None = None
        self.considered: list[tuple[str, PlanFigures]] = []
        replies = [number for number, item in enumerate(self.items) if _find_reply(item) is not None]
        self.unseen = replies[-1] if replies else 0
        """The number of the first item that the model may not have seen: its last reply, and what followed."""
        last = _find_reply(self.items[self.unseen]) if replies else None
        self.last_us = 0 if last is None else last.time_us
        fresh = [item for item in self.items if isinstance(item, MessageGroup) and item.last > inputs.view.planned]
        self.calls = inputs.view.calls + sum(_count_replies(item, inputs.view.planned) for item in fresh)
        self.grown = inputs.view.grown + sum(item.tokens for item in fresh)
        idle_us = inputs.now_us - self.last_us
        is_idle = not self.last_us or idle_us > inputs.prices.ttl_s * 1_000_000
        self.cold = inputs.cold or (is_idle and not inputs.answered)
        self._critical = {
            item.seq for item in self.items if isinstance(item, MessageGroup) and item.priority == "critical"
        }
        self._question = 0 if inputs.unread else _find_question(self.items)
        self.keeps: frozenset[int] = frozenset()
        """The seqs of groups that a strategy leaves in view inside a fold."""
        self.level: Level = "none"
        self.handles: list[str] = []
        """The handles that packs leave out."""
        self.handle_tokens = sum(tools.measure(handle.tokens, 0) for handle in inputs.handles)
        self.pays_for_loss = False
        """Whether a loss has a price."""

    # Reading

    def is_kept(self, item: HistoryItem) -> bool:
        """Whether a fold leaves the item in view: it is then shown behind the summary."""
        if not isinstance(item, MessageGroup):
            return False
        return item.seq == self._question or item.seq in self.keeps or item.seq in self._critical

    def leaving_items(self, number: int) -> list[HistoryItem]:
        """The items that a fold of so many of the oldest replaces."""
        return [item for item in self.items[:number] if not self.is_kept(item)]

    def _leaving_tokens(self, number: int) -> int:
        return sum(size for item, size in zip(self.items[:number], self.sizes, strict=False) if not self.is_kept(item))

    def _count_item(self, item: HistoryItem, reductions: Reductions | None = None) -> int:
        if isinstance(item, Summary):
            return self.tools.measure(item.tokens, item.blocks)
        by_message = self.reductions if reductions is None else reductions
        saved = sum(piece.saved for message in item.messages for piece in by_message.get(message.seq, {}).values())
        return self.tools.measure(max(0, item.tokens - saved), item.blocks)

    def tail(self, turns: int, most: int) -> int:
        """The number of the first item of the last turns, or of as many of these as fit; unseen items are always among
        them."""
        size, start = sum(self.sizes[self.unseen :]), self.unseen
        turns -= sum(isinstance(item, MessageGroup) and item.starts_turn for item in self.items[start:])
        while start > 0 and turns > 0:
            item = self.items[start - 1]
            size += self.sizes[start - 1]
            if isinstance(item, Summary) or size > most:
                break
            turns -= item.starts_turn
            start -= 1
        return start

    def count_to_target(self, target: int, before: int | None = None, share: int = 0) -> int:
        """How many of the oldest items must leave, so that the view, with their summary, has so many tokens. Unseen
        items stay, and those from `before` on. The result is a clean cut, if there is one."""
        left, number = self.tokens, 0
        last = self.unseen if before is None else min(before, self.unseen)
        replacement = room = replaced = 0
        clean = {0, *self._clean_cuts(last)}
        while number < last and (left + replacement > target or number not in clean):
            item = self.items[number]
            if not self.is_kept(item):
                left -= self.sizes[number]
                room += _max_summary_tokens(item, share)
                replaced += item.tokens
                replacement = self.tools.measure(self._cap_summary(room, replaced, share), 1)
            number += 1
        return number

    def _replacement_tokens(self, number: int, share: int) -> int:
        """The tokens that replace so many of the oldest items."""
        return self.tools.measure(self._summary_room(number, share), 1) if number else 0

    def turn(self) -> int:
        """The number of the item that begins the current turn; 0 if it began before all of them."""
        for number in range(len(self.items) - 1, 0, -1):
            item = self.items[number]
            if isinstance(item, MessageGroup) and item.starts_turn:
                return number
        return 0

    def turn_start(self, number: int, before: int, most: int) -> int:
        """The next start of a turn, if it is no more than so many tokens further; else the same item."""
        more = 0
        for at in range(number, before + 1):
            item = self.items[at] if at < len(self.items) else None
            if isinstance(item, MessageGroup) and item.starts_turn:
                return at
            if at < before:
                more += self.sizes[at]
            if more > most:
                break
        return number

    def cut(self, number: int) -> int:
        """The last clean cut up to this item."""
        return max(self._clean_cuts(number), default=0)

    def _clean_cuts(self, number: int) -> Iterator[int]:
        """The cuts up to this item that separate no group: a message may come between a call and its result."""
        reach = 0
        for at in range(number):
            reach = max(reach, self.items[at].last)
            if at + 1 == len(self.items) or self.items[at + 1].first > reach:
                yield at + 1

    def excerpts(self, op: TimeDecayMicro, before: int) -> tuple[Reduction, ...]:
        """Reductions of large tool results before an item, to excerpts."""
        return self._shorten_pieces(
            self.reducible_pieces(0, before, results=True), "excerpt", op.over, op.keep * CHARS_PER_TOKEN
        )

    def snips(self, limit: int) -> tuple[Reduction, ...]:
        """Reductions of all pieces of more than so many tokens, to their start and end."""
        return self._shorten_pieces(self.reducible_pieces(0, self.unseen), "snip", limit, limit * CHARS_PER_TOKEN)

    def unseen_pieces(self) -> list[tuple[Reduction, ...]]:
        """The pieces that the model has not seen, and those of the open question, reduced to previews; the largest
        savings first."""
        question = next((at for at, item in enumerate(self.items[: self.unseen]) if item.seq == self._question), None)
        pieces = [*self.reducible_pieces(self.unseen, len(self.items))]
        pieces += () if question is None else self.reducible_pieces(question, question + 1)
        reduced = self._shorten_pieces(pieces, "spool", 0, PREVIEW_CHARS)
        return [(piece,) for piece in sorted(reduced, key=lambda piece: (-piece.saved, piece.message, piece.piece))]

    def reducible_pieces(
        self, first: int, before: int, *, results: bool = False, least: int = 0, forms: Sequence[PieceForm] = ("whole",)
    ) -> Iterator[ReduciblePiece]:
        """The pieces of some items that may be shown in part, and are as recorded or in one of these forms yet, in
        messages of so many tokens. A reply counts as seen."""
        for number, item in enumerate(self.items[first:before], first):
            for message in item.messages if isinstance(item, MessageGroup) and item.seq not in self._critical else ():
                if (results and not message.tool_results) or (message.role == "assistant" and number >= self.unseen):
                    continue
                if message.tokens < least:
                    continue
                reductions = self.reductions.get(message.seq, {})
                for at, parts, call in pieces_of(message):
                    reduction = reductions.get(at)
                    if (reduction is None or reduction.form in forms) and can_shrink(message, parts):
                        yield ReduciblePiece(message, at, parts, call, reduction, number)

    def count_piece(self, piece: ReduciblePiece) -> int:
        """The tokens of a piece as it was recorded: those of the message, if the piece is all of it."""
        alone = len(piece.message.tool_results) + len(piece.message.content) == 1 and not piece.message.tool_calls
        return piece.message.tokens if alone else count_piece_tokens(piece.parts, self.tools.count)

    def _shorten_pieces(
        self, pieces: Iterable[ReduciblePiece], form: PieceForm, over: int, chars: int
    ) -> tuple[Reduction, ...]:
        """Reductions of the pieces of more than so many tokens, each to about so many characters. A stored body that
        was paged in goes back to its stored preview, whatever the form: that is the same in every window."""
        reductions: list[Reduction] = []
        for piece in pieces:
            if piece.message.tokens <= over:
                continue
            stored = self.inputs.stored.get((piece.message.seq, piece.number))
            shape: PieceForm = "spool" if stored is not None and piece.reduction is not None else form
            parts = piece.parts if stored is None or shape != "spool" else stored
            text = text_of(parts)
            is_preview = shape == "spool" and piece.parts == stored
            if is_preview or (stored is None and len(text) <= chars * 2):
                continue
            tokens = self.count_piece(piece)
            if tokens <= over:
                continue
            head, tail = find_shown_extent(piece, shape, chars, text, stored is not None)
            reduction = Reduction(
                message=piece.message.seq,
                piece=piece.number,
                form=shape,
                head=head,
                tail=tail,
                tokens=tokens,
                size=piece_size(stored or parts) if stored or shape == "spool" else 0,
                digest="",
                source=piece.call,
            )
            if shape != "spool" and not shows_less(parts, reduction):
                continue
            after = self.tools.count(reduction_text(parts, reduction, piece_id(piece.message.seq, piece.number)))
            if after < tokens:
                reductions.append(msgspec.structs.replace(reduction, saved=tokens - after))
        return tuple(reductions)

    # Evaluating

    def evaluate(
        self, op: Op, *, reduce: tuple[Reduction, ...] = (), fold: tuple[int, int] | None = None
    ) -> PlanChoice | None:
        """The figures of an operation; None if it would do nothing. A summary counts with the most that it may take."""
        if fold is not None:
            if not self._has_items_to_fold(fold[0]):
                return None
            leaving = self._leaving_tokens(fold[0])
            replacement = self._replacement_tokens(*fold)
            rewritten = sum(self.sizes[: max(fold[0], self.cached_until())]) - leaving + replacement
            rewritten += self.count_before(0)
        elif reduce:
            leaving, rewritten = self._measure_reduction(reduce)
            replacement = 0
        else:
            return None
        figures = self._figures(
            leaving - replacement, rewritten, self.tools.summarizing(leaving, replacement) if fold is not None else 0
        )
        pieces = len(reduce) if fold is None else sum(isinstance(item, MessageGroup) for item in self.items[: fold[0]])
        return PlanChoice(op, self._with_loss(figures, pieces), leaving - replacement, reduce, fold)

    def _with_loss(self, figures: PlanFigures, pieces: int) -> PlanFigures:
        if not self.pays_for_loss:
            return figures
        return msgspec.structs.replace(figures, lost=price_loss(figures, pieces, self._recalls, self.inputs.prices))

    @functools.cached_property
    def _recalls(self) -> Recalls:
        return count_recalls(self.inputs.items, self.inputs.view)

    def cached_until(self) -> int:
        """The number of the first item that the next call must write in any case."""
        cached = self._count_cached()
        if self.changed is None:
            return cached
        return min(cached, self.changed) if self.inputs.rewritten_head is None else 0

    def count_before(self, number: int) -> int:
        """The tokens before an item that a first change there makes the provider write again: none, unless the boundary
        changes what stands before the conversation."""
        if self.inputs.rewritten_head is None or self.changed is not None:
            return 0
        return self._count_before(number)

    def _count_before(self, number: int) -> int:
        return (self.inputs.rewritten_head or 0) + self.inputs.system + sum(self.sizes[:number])

    def _count_cached(self) -> int:
        """How many items the last call sent."""
        return len(self.items) if self.inputs.answered else self.unseen

    def _measure_reduction(self, reduce: tuple[Reduction, ...]) -> tuple[int, int]:
        """The tokens that leave, and those from the first change on that must be written again."""
        after = {message: {**pieces} for message, pieces in self.reductions.items()}
        for piece in reduce:
            after.setdefault(piece.message, {})[piece.piece] = piece
        changed = {piece.message for piece in reduce}
        first = next(number for number, item in enumerate(self.items) if _has_message(item, changed))
        sizes = [self._count_item(item, after) for item in self.items[first:]]
        less = sum(self.sizes[first:]) - sum(sizes)
        return less, sum(sizes[: max(0, self.cached_until() - first)]) + self.count_before(first)

    @functools.cached_property
    def credit(self) -> int:
        """What boundaries may cost that have not paid back, if the next call is the last: what was earned, and a part of
        what the calls so far would have cost."""
        return self.earned + self.plain_cost * RISK[0] // RISK[1]

    @functools.cached_property
    def earned(self) -> int:
        """The savings of the boundaries so far, minus their costs."""
        view, prices = self.inputs.view, self.inputs.prices
        saved = sum(piece.saved for piece in view.reduced)
        saved += sum(item.replaced - item.tokens for item in self.inputs.items if isinstance(item, Summary))
        calls = prices.cache_read * max(0, self.calls - view.calls)
        cold = (prices.cache_write - prices.cache_read) * sum(at > view.planned for at, _ in self._past_calls if at)
        return view.earned + (calls + cold) * self.tools.measure(max(0, saved), 0)

    @functools.cached_property
    def plain_cost(self) -> int:
        """The least that the calls so far would have cost, if all had been shown."""
        prices, before, cost = self.inputs.prices, 0, 0
        for is_cold, tokens in self._past_calls:
            read = 0 if is_cold else before
            cost += prices.cache_read * read + prices.cache_write * (tokens - read)
            before = tokens
        return cost

    @functools.cached_property
    def _past_calls(self) -> list[tuple[int, int]]:
        """The calls of messages in view: the reply's seq if the cache was cold, else 0; and the tokens of everything
        before the reply."""
        ttl_us = self.inputs.prices.ttl_s * 1_000_000
        total, newest, replied = self.inputs.system + (self.inputs.rewritten_head or 0), 0, 0
        calls: list[tuple[int, int]] = []
        for item in self.inputs.items:
            if isinstance(item, Summary):
                total += self.tools.measure(item.replaced, item.blocks)
                continue
            for message in item.messages:
                if message.role == "assistant":
                    is_cold = bool(replied) and newest - replied > ttl_us
                    calls.append((message.seq if is_cold else 0, total))
                    replied = message.time_us
                newest = max(newest, message.time_us)
            total += self.tools.measure(item.replaced, item.blocks)
        return calls

    @property
    def growth(self) -> int:
        """The tokens that a call adds, by those so far."""
        return max(1, (self.grown + DEFAULT_GROWTH[0]) // (self.calls + DEFAULT_GROWTH[1]))

    def _figures(self, saved: int, rewritten: int, summarizing: int) -> PlanFigures:
        prices = self.inputs.prices
        growth = self.growth
        horizon = max(0, saved) // growth
        saves = prices.cache_read * saved
        rewriting = 0 if self.cold else (prices.cache_write - prices.cache_read) * rewritten
        earns = prices.cache_read * saved * saved // growth + (prices.cache_write * saved if self.cold else 0)
        return PlanFigures(
            before=self.before,
            after=self.tokens - saved,
            window=self.inputs.window,
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

    def _has_items_to_fold(self, number: int) -> bool:
        """Whether there is anything to fold: more than one existing summary."""
        leaving = self.leaving_items(number)
        return bool(leaving) and not (len(leaving) == 1 and isinstance(leaving[0], Summary))

    def _summary_room(self, number: int, share: int) -> int:
        """The tokens that a summary of so many items may take: those of earlier summaries, and a part of what is new, a
        larger one of little than of much. An outline takes few, and those of earlier summaries."""
        leaving = self.leaving_items(number)
        inside = sum(_max_summary_tokens(item, share) for item in leaving)
        return self._cap_summary(inside, sum(item.tokens for item in leaving), share)

    def _cap_summary(self, inside: int, replaced: int, share: int) -> int:
        if not share:
            return OUTLINE_TOKENS + inside
        least = max(MIN_SUMMARY_TOKENS, min(SMALL_SUMMARY_TOKENS, replaced * SMALL_SHARE[0] // SMALL_SHARE[1]))
        return min(share, max(least, inside))

    # Applying

    def apply_choice(self, choice: PlanChoice) -> bool:
        return self.apply_op(choice.op, reduce=choice.reduce, fold=choice.fold)

    def apply_op(
        self, op: Op, *, reduce: tuple[Reduction, ...] = (), fold: tuple[int, int] | None = None, text: str = ""
    ) -> bool:
        """Apply an operation; whether it did anything. One that would free nothing is not applied."""
        before = self.tokens
        first: int | None = None
        if fold is not None and self._has_items_to_fold(fold[0]):
            leaving = self.leaving_items(fold[0])
            first = self._apply_fold(*fold, text)
            if first is not None:
                self._note_loss(leaving, summarised=has_summary(op))
        elif reduce:
            first = self._apply_reductions(reduce)
            self.level = self.level if first is None else max(self.level, "moderate", key=LEVELS.index)
        if first is not None:
            self.steps.append(PlanStep(op=op, first_changed_index=first, before=before, after=self.tokens))
            self.changed = first if self.changed is None or fold is not None else min(first, self.changed)
        return first is not None

    def leave_out(self, handles: Sequence[Handle]) -> None:
        """Collapse these handles: packs leave them out."""
        self.handles += (handle.id for handle in handles)
        self.handle_tokens -= sum(self.tools.measure(handle.tokens, 0) for handle in handles)
        self._note_loss(handles, summarised=False)

    def _note_loss(self, items: Sequence[HistoryItem | Handle], *, summarised: bool) -> None:
        """Raise the level to that of this loss."""
        level: Level = "moderate" if items else "none"
        if not summarised:
            for item in items:
                low = not isinstance(item, Summary) and PRIORITY_SCORES[item.priority] <= PRIORITY_SCORES["low"]
                loss: Level = "moderate" if isinstance(item, Summary) else "aggressive" if low else "critical"
                level = max(level, loss, key=LEVELS.index)
        self.level = max(self.level, level, key=LEVELS.index)

    def _apply_reductions(self, reduce: tuple[Reduction, ...]) -> int | None:
        first: int | None = None
        for piece in bind_reductions(reduce, self.items, self.inputs.stored):
            self.reductions.setdefault(piece.message, {})[piece.piece] = piece
            self.reduced[piece.message, piece.piece] = piece
        changed = {piece.message for piece in reduce}
        for number, item in enumerate(self.items):
            if _has_message(item, changed):
                first = number if first is None else first
                size = self._count_item(item)
                self.tokens += size - self.sizes[number]
                self.sizes[number] = size
        return first

    def _apply_fold(self, number: int, share: int, text: str = "") -> int | None:
        """Replace so many of the oldest items, those that stay excepted, by one summary; None if it would not be
        shorter."""
        inside = self.leaving_items(number)
        staying = [
            (item, size) for item, size in zip(self.items[:number], self.sizes, strict=False) if self.is_kept(item)
        ]
        text, tokens = (text, self.tools.count(text)) if text else self._write_summary(inside, number, share)
        size, leaving = self.tools.measure(tokens, 1), self._leaving_tokens(number)
        if not tokens or size >= leaving:
            return None
        fold = self._build_fold(inside, [item for item, _ in staying], text, tokens)
        folded = {*fold.messages}
        self.reduced = {key: piece for key, piece in self.reduced.items() if piece.message not in folded}
        summary = Summary(
            seq=0,
            first=fold.first,
            last=fold.last,
            messages=fold.count,
            text=text,
            tokens=tokens,
            replaced=fold.replaced,
        )
        self.tokens += size - leaving
        self.items[:number] = [summary, *(item for item, _ in staying)]
        self.sizes[:number] = [size, *(size for _, size in staying)]
        self.unseen -= number - 1 - len(staying)
        self.fold = fold
        earlier = inside[0].text if isinstance(inside[0], Summary) else None
        return 1 if text and earlier == text else 0

    def _build_fold(
        self, inside: Sequence[HistoryItem], staying: Sequence[HistoryItem], text: str, tokens: int
    ) -> Fold:
        earlier = self.fold
        messages = tuple(message.seq for item in inside if isinstance(item, MessageGroup) for message in item.messages)
        return Fold(
            first=min(item.first for item in (*inside, *staying)),
            last=max(item.last for item in (*inside, *staying)),
            messages=tuple(sorted((*(earlier.messages if earlier else ()), *messages))),
            summaries=(
                *(earlier.summaries if earlier else ()),
                *(item.seq for item in inside if isinstance(item, Summary) and item.seq),
            ),
            count=sum(item.count for item in inside),
            replaced=sum(item.replaced for item in inside),
            text=text,
            tokens=tokens,
            kept=tuple(
                sorted(message.seq for item in staying if isinstance(item, MessageGroup) for message in item.messages)
            ),
        )

    def shrink_summary(self, window: int) -> None:
        """Give a summary that is not written yet less room, if the view does not fit: before anything new is cut."""
        over = self.tokens - window
        if self.fold is None or self.fold.text or over <= 0:
            return
        fold = msgspec.structs.replace(
            self.fold, tokens=max(min(MIN_SUMMARY_TOKENS, self.fold.tokens), self.fold.tokens - over)
        )
        size = self.tools.measure(fold.tokens, 1)
        self.steps = shift_steps(self.steps, size - self.sizes[0])
        self.tokens += size - self.sizes[0]
        self.sizes[0], self.fold = size, fold
        self.items[0] = msgspec.structs.replace(self.items[0], tokens=fold.tokens)

    def _write_summary(self, inside: list[HistoryItem], number: int, share: int) -> tuple[str, int]:
        """The text that replaces these items, and its tokens. Without a summarizer, no text, and the most tokens that
        it may take."""
        room = self._summary_room(number, share)
        if share and self.tools.summarize is None:
            return "", room
        text = build_outline(inside)
        if share and self.tools.summarize is not None:
            shown = [show_for_summary(item, self.reductions) for item in inside]
            text = self.tools.summarize(shown, room)
        return text, self.tools.count(text) if text.strip() else 0

    def plan(self, name: str, why: BoundaryReason | None) -> Plan:
        inputs = self.inputs
        handle_tokens = sum(self.tools.measure(handle.tokens, 0) for handle in inputs.handles)
        if self.steps:
            figures = self._actual_figures()
        else:
            figures = min((one for _, one in self.considered), key=_net_cost, default=self._empty_figures())
        return Plan(
            scope=inputs.scope,
            frame=inputs.frame,
            version=inputs.version,
            policy=name,
            why=why if self.steps or self.handles else None,
            steps=tuple(self.steps),
            reduced=tuple(self.reduced.values()),
            fold=self.fold,
            figures=figures,
            considered=tuple(self.considered),
            prices=inputs.prices,
            target_met=self.tokens + self.handle_tokens <= inputs.window and meets_targets(self.steps),
            more=inputs.unread,
            level=self.level,
            handles=tuple(self.handles),
            handle_tokens=handle_tokens,
            freed_tokens=handle_tokens - self.handle_tokens,
        )

    def _actual_figures(self) -> PlanFigures:
        """The figures of what was applied, counted on the result."""
        start = min(step.first_changed_index or 0 for step in self.steps)
        rewritten = sum(self.sizes[start : max(start, self._count_cached())])
        rewritten += 0 if self.inputs.rewritten_head is None else self._count_before(start)
        cost = 0
        if self.fold is not None:
            size = self.tools.measure(self.fold.tokens, 1)
            cost = self.tools.summarizing(self.before - self.tokens + size, size)
        recalls = self._recalls
        figures = self._figures(self.before - self.tokens, rewritten, cost)
        figures = msgspec.structs.replace(
            figures,
            after=self.tokens,
            results=recalls.results,
            repeats=recalls.repeats,
            earned=self.earned - figures.rewriting - figures.summarizing + self._earn_at_once(),
        )
        folded = 0 if self.fold is None else sum(self._is_folded(item) for item in self.inputs.items)
        return self._with_loss(figures, len(self.reduced) + folded)

    def _earn_at_once(self) -> int:
        """What a smaller view saves at a call on a cold cache, beyond what it saves at every call."""
        prices = self.inputs.prices
        return (prices.cache_write - prices.cache_read) * (self.before - self.tokens) if self.cold else 0

    def _is_folded(self, item: HistoryItem) -> bool:
        fold = self.fold
        return (
            isinstance(item, MessageGroup) and fold is not None and item.last <= fold.last and item.seq not in fold.kept
        )

    def _empty_figures(self) -> PlanFigures:
        return PlanFigures(
            before=self.before,
            after=self.before,
            window=self.inputs.window,
            cold=self.cold,
            calls=self.calls,
            grown=self.grown,
        )


def _max_summary_tokens(item: HistoryItem, share: int) -> int:
    """The most that an item adds to the tokens of a summary; to those of an outline, only an earlier summary adds."""
    return item.tokens if isinstance(item, Summary) else item.tokens // SUMMARY_RATIO if share else 0


def _net_cost(figures: PlanFigures) -> int:
    return figures.net


def _find_reply(item: HistoryItem) -> Message | None:
    """The last reply of the model in an item."""
    return find_newest((item,), "assistant")


def _find_question(items: Sequence[HistoryItem]) -> int:
    """The group of the newest message in the user's own words, unless a reply without calls has answered it; 0 for none.
    It stays in view, where it is cached, however long its turn becomes."""
    for item in reversed(items):
        for message in reversed(item.messages) if isinstance(item, MessageGroup) else ():
            if message.role == "user" and has_own_words(message.text):
                return item.seq
            if message.role == "assistant" and not message.tool_calls:
                return 0
    return 0


def _count_replies(item: MessageGroup, after: int) -> int:
    return sum(message.role == "assistant" and message.seq > after for message in item.messages)


def _has_message(item: HistoryItem, messages: Iterable[int]) -> bool:
    return isinstance(item, MessageGroup) and any(message.seq in messages for message in item.messages)


# Steps


def meets_targets(steps: Sequence[PlanStep]) -> bool:
    """Whether every collapse frees as much as it should, the outline counted. With a summary, the target is a wish: the
    current turn stays."""
    collapses = [(step, step.op) for step in steps if isinstance(step.op, Collapse)]
    return all(step.after <= op.target_tokens for step, op in collapses if not op.summary_tokens)


def shift_steps(steps: Sequence[PlanStep], more: int) -> list[PlanStep]:
    """The steps of a plan when its summary takes so many tokens more."""
    last = max(at for at, step in enumerate(steps) if is_fold(step.op))
    shifted = [*steps]
    for at in range(last, len(steps)):
        before = steps[at].before + (more if at > last else 0)
        shifted[at] = msgspec.structs.replace(steps[at], before=before, after=steps[at].after + more)
    return shifted
