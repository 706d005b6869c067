"""Sums over the calls of gateways: what was sent, what was not, and what both cost. Pure, but for reading the entries.

Laws: a call is counted once, also where a fork has its entry, too. A call without prices, or without a usage, adds nothing
to either sum of money, and is counted as such. The sums of two sets of calls are those of their union.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.gateway.figures import ENTRY_KIND, ExchangeFigures

if TYPE_CHECKING:
    import holdfast

PRICE_MODEL = (
    "Prices: list prices for the provider's own usage; without Holdfast, the tokens that were not sent would have been"
    " read where the prompt cache was warm and written where it was cold, and nothing written again at a boundary."
)
PICO = 1_000_000_000_000
_PAGE = 1_000


class CallTotals(msgspec.Struct, kw_only=True):
    """The sums over some calls."""

    calls: int = 0
    """Steps of conversations that were answered."""
    side_calls: int = 0
    failed: int = 0
    """Calls without an answer, or with a status that is an error."""
    boundaries: int = 0
    refusals: int = 0
    """Changed requests that a provider refused; they were sent again as they came."""
    sent: int = 0
    """Tokens of prompts."""
    saved: int = 0
    """Tokens that were not sent."""
    read: int = 0
    """Tokens that came from a prompt cache."""
    output: int = 0
    cost: int = 0
    """In picodollars, of the calls with prices."""
    plain_cost: int = 0
    unmetered: int = 0
    """Answered calls whose usage is not known."""
    unpriced: dict[str, int] = {}
    """Calls by models that no price is known of."""

    def add(self, figures: ExchangeFigures) -> None:
        """Add a call."""
        if not 200 <= figures.status < 300:
            self.failed += 1
        elif figures.side:
            self.side_calls += 1
        else:
            self.calls += 1
        self.boundaries += figures.is_boundary
        self.refusals += figures.was_resent
        if figures.sent is None:
            self.unmetered += 200 <= figures.status < 300
            return
        self.sent += figures.sent.tokens
        self.saved += figures.saved
        self.read += figures.sent.read
        self.output += figures.sent.output
        if figures.cost or figures.plain_cost:
            self.cost += figures.cost
            self.plain_cost += figures.plain_cost
        else:
            self.unpriced = {**self.unpriced, figures.model: self.unpriced.get(figures.model, 0) + 1}

    def merge(self, other: CallTotals) -> None:
        """Add the sums over other calls."""
        for name in self.__struct_fields__:
            if name != "unpriced":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        models = sorted({*self.unpriced, *other.unpriced})
        self.unpriced = {name: self.unpriced.get(name, 0) + other.unpriced.get(name, 0) for name in models}

    @property
    def cache_share(self) -> float:
        """The share of the sent tokens that came from a prompt cache."""
        return self.read / self.sent if self.sent else 0.0

    @property
    def has_prices(self) -> bool:
        return bool(self.cost or self.plain_cost)

    def as_document(self) -> dict[str, Any]:
        """The sums as JSON, with money in dollars."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("cost", "plain_cost"):
            amount = document.pop(name)
            document[f"{name}_usd"] = amount / PICO if self.has_prices else None
        return {**document, "cache_share": round(self.cache_share, 4)}


def sum_calls(calls: Iterable[ExchangeFigures]) -> CallTotals:
    totals = CallTotals()
    for figures in calls:
        totals.add(figures)
    return totals


class RecordedCall(NamedTuple):
    session: str
    key: str
    figures: ExchangeFigures


def read_calls(
    engine: holdfast.Engine, *, since_us: int = 0, run: str | None = None, actor: str | None = None
) -> Iterator[RecordedCall]:
    """The calls that gateways recorded since a time, or those of one run; sessions in the order of their last use."""
    seen: set[str] = set()
    for session in _read_sessions(engine, since_us, actor):
        for entry in _read_entries(session, ENTRY_KIND, since_us):
            if entry.key in seen:
                continue
            seen.add(entry.key)
            try:
                figures = msgspec.convert(entry.body, ExchangeFigures)
            except msgspec.ValidationError:
                continue  # of a program that uses the same kind
            if figures.sent_us >= since_us and run in (None, figures.run):
                yield RecordedCall(session.scope.session, entry.key, figures)


def _read_sessions(engine: holdfast.Engine, since_us: int, actor: str | None) -> Iterator[holdfast.Session]:
    last = None
    while page := engine.sessions(actor=actor, order="recent", after=last, limit=_PAGE):
        for row in page:
            if row.updated_us < since_us:
                return
            yield engine.session(row.session, actor=row.actor, thread=row.thread or None)
        last = page[-1]


def _read_entries(session: holdfast.Session, kind: str, since_us: int) -> Iterator[holdfast.types.Entry]:
    before: int | None = None
    while page := session.entries.list(kind=kind, before=before, limit=_PAGE):
        for entry in page:
            if entry.at_us < since_us:
                return
            yield entry
        before = page[-1].seq
