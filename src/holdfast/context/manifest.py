"""Why a pack is as it is: one entry for every candidate."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from holdfast import codec
from holdfast.context.assemble import Placed, Tail
from holdfast.core.previews import Spooling
from holdfast.model.handles import Priority
from holdfast.model.messages import History, Item, Summary
from holdfast.model.names import LedgerId, Scope
from holdfast.model.pack import Brief, Entry, Exposure, Fate, Manifest, Request, Section, TokenSummary
from holdfast.model.policy import Policy
from holdfast.model.state import OpenCall
from holdfast.model.tools import Tool

RENDERER = "packs/3"
"""Raised whenever the same material would be laid out in other words."""


class Seen(NamedTuple):
    """What became of one item of the history."""

    item: Item
    """As it is shown, or would have been."""
    fate: Fate
    reason: str
    tokens: int
    score: float = 0.0
    share: float = 1.0
    """How much of its bytes is shown, if it is shown in part."""


class Stands(NamedTuple):
    """Something that stands before the history."""

    section: Section
    id: str
    text: str
    tokens: int
    source: str
    at: int = 0


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A pack before anyone asked why."""

    scope: Scope
    frame: str | None
    version: int
    ledgers: tuple[tuple[LedgerId, int], ...]
    request: Request
    boundary: int
    candidates: tuple[tuple[int, str, float], ...]
    first: tuple[Stands, ...]
    seen: Callable[[], tuple[Seen, ...]]
    tail: Tail
    history: History
    bodied: bool
    """It may have images, files or large parts of a provider's own in it."""
    tokens: TokenSummary
    exposed: tuple[Exposure, ...]
    counter: str
    policy: Policy
    spooling: Spooling = Spooling()


def tools_text(tools: Sequence[Tool]) -> str:
    """Tools as they are counted and hashed."""
    return codec.encode([[each.name, each.description, each.parameters] for each in tools]).decode()


def plain_count(shown: History, first: Sequence[Stands], count: Callable[[str], int]) -> int:
    """The tokens of a pack as the counter says: what the provider's count of the same prompt is compared with."""
    tools = (each.text for each in first if each.section == "tools")
    texts = sum(map(count, (*tools, *shown.tail)))
    return texts + sum(each.tokens for each in shown.system) + sum(each.tokens for each in shown.items)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def brief_bytes(brief: Brief) -> bytes:
    """A brief as it is kept."""
    return codec.encode(brief)


def manifest_of(made: Made, brief: Brief, context_hash: str) -> Manifest:
    return Manifest(
        scope=made.scope,
        frame=made.frame,
        version=made.version,
        ledgers=made.ledgers,
        request=made.request,
        brief=hashlib.sha256(brief_bytes(brief)).hexdigest(),
        boundary=made.boundary,
        candidates=made.candidates,
        entries=(
            *map(_first, made.first),
            *_history(made.seen(), made.history.open_calls),
            *map(_tail, made.tail.placed),
        ),
        exposed=made.exposed,
        tokens=made.tokens,
        counter=made.counter,
        renderer=RENDERER,
        policy=hashlib.sha256(codec.encode([made.policy, made.spooling])).hexdigest()[:16],
        context_hash=context_hash,
    )


def _first(stands: Stands) -> Entry:
    return Entry(
        id=stands.id,
        section=stands.section,
        fate="included",
        reason="stands first in every pack",
        tokens=stands.tokens,
        source=stands.source,
        priority="critical",
        at=stands.at,
        digest=digest(stands.text),
    )


def _history(seen: Sequence[Seen], waiting: Sequence[OpenCall]) -> Iterator[Entry]:
    """Messages in a row to which the same happened are told of together. Those that a summary goes around are told of one
    by one: what is between them is not in view."""
    summarised = max((each.item.last for each in seen if isinstance(each.item, Summary)), default=0)

    def same(each: Seen) -> tuple[Fate, str, Priority, int]:
        inside = isinstance(each.item, Summary) or each.fate == "reduced" or each.item.first <= summarised
        return each.fate, each.reason, _priority(each.item), each.item.first if inside else 0

    for _, run in itertools.groupby(seen, key=same):
        yield _stretch(list(run), summarised)
    for call in waiting:
        yield Entry(
            id=call.id,
            section="history",
            fate="omitted",
            reason="its message waits for the results of its calls",
            source=f"call of {call.name}",
        )


def _priority(item: Item) -> Priority:
    return "medium" if isinstance(item, Summary) else item.priority


def _stretch(run: Sequence[Seen], summarised: int) -> Entry:
    """What happened to messages in a row; `summarised` is the last seq that summaries reach to."""
    fate = run[0].fate
    first, last = run[0].item, run[-1].item
    single = len(run) == 1
    summary = first if single and isinstance(first, Summary) else None
    count = sum(each.item.count for each in run)
    name = f"m{first.first}" if first.first == last.last else f"m{first.first}-m{last.last}"
    if summary is None and first.first <= summarised:
        name = f"m{first.first}"  # a summary goes around it, perhaps one from the same message to the same
    shown = ""
    if summary is not None:
        shown = digest(summary.text)
    elif fate == "reduced" and not isinstance(first, Summary):
        shown = digest("\n".join(each.text for each in first.messages))
    return Entry(
        id=name,
        section="history",
        fate=fate,
        reason=run[0].reason,
        tokens=sum(each.tokens for each in run),
        priority=_priority(first),
        source=f"{count:,} message{'' if count == 1 else 's'}",
        score=max(each.score for each in run),
        at=first.first,
        to=last.last,
        digest=shown,
        share=run[0].share,
    )


def _tail(placed: Placed) -> Entry:
    piece = placed.piece
    return Entry(
        id=piece.id,
        section=piece.section,
        fate=placed.fate,
        reason=placed.reason,
        tokens=placed.tokens,
        source=piece.source,
        authority=piece.authority,
        priority=piece.priority,
        score=piece.score,
        rank=placed.rank,
        at=piece.at,
        digest=digest(piece.known_by or placed.text) if placed.text else "",
        share=piece.share if placed.text else 1.0,
    )
