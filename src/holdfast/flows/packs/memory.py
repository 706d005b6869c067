"""The memory of the last packs: what they read of facts, so that the next pack of a conversation need not read it again.

Laws:
- A memory is used only for the versions of the ledgers that it was read at, the same reader and the same request, and only
  until the next of its facts expires or becomes valid.
- It holds nothing of a ledger that this process has changed since: a fact that was erased is gone from it.
- Its size is bounded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from holdfast import codec
from holdfast.model import limits
from holdfast.model.facts.fact import Fact, FactState
from holdfast.model.names import LedgerId, StreamId
from holdfast.text.guard.finder import find_past_keys

if TYPE_CHECKING:
    from holdfast.core.history.guard import GuardMemory
    from holdfast.core.packs.assembly import PackCandidate
    from holdfast.flows.facts.queries import UsedLedger
    from holdfast.model.packs.pack import Fate

_FACT_BYTES = 1_024
"""About the size of a fact or of its candidate in memory, without its text."""
_TERM_BYTES = 128
"""About the size of a term of a view."""


class PackLedgers(NamedTuple):
    """The ledgers that a pack reads, in the order of their precedence, and what its reader may know."""

    used: tuple[UsedLedger, ...]
    permissions: tuple[str, ...] | None

    @property
    def ids(self) -> tuple[LedgerId, ...]:
        return tuple(used.ledger for used in self.used)


class RankedFact(NamedTuple):
    """A fact to choose from."""

    ledger: int
    """The index of its ledger."""
    fact: Fact
    score: float
    omission: str = ""
    """Why it is left out; empty if it may be included."""
    fate: Fate = "omitted"
    """Its fate if there is an omission."""


class FactPages(NamedTuple):
    """The facts that a pack reads whatever its query, by the index of their ledger and their id."""

    ledgers: PackLedgers
    request: tuple[Any, ...]
    """What else they depend on."""
    since_us: int
    until_us: int
    """The times for which they are the same."""
    constraints: dict[tuple[int, str], FactState]
    newest: dict[tuple[int, str], FactState]

    def is_for(self, ledgers: PackLedgers, request: tuple[Any, ...], as_of_us: int) -> bool:
        """Whether a pack of this request would read the same."""
        return self.since_us <= as_of_us < self.until_us and self.ledgers == ledgers and self.request == request


class FactMaterial(NamedTuple):
    """The facts that a pack chooses from, and their candidates."""

    pages: FactPages | None = None
    request: tuple[Any, ...] = ()
    """What they depend on beside the pages."""
    until_us: int = 0
    """They are the same until then; 0 if they are only for one pack."""
    facts: tuple[RankedFact, ...] = ()
    scores: tuple[tuple[int, str, float], ...] = ()
    """Of the facts that the reader may know: index of the ledger, id and score."""
    past_keys: frozenset[str] = frozenset()
    """Those whose earlier values the query asks for."""
    current_keys: frozenset[str] = frozenset()
    """Of facts that are no claims."""
    candidates: tuple[PackCandidate, ...] = ()
    weight: int = 0
    """The approximate size in memory, in bytes."""

    def is_for(self, request: tuple[Any, ...], as_of_us: int) -> bool:
        """Whether a pack of this request has the same facts, if it has the same pages."""
        return as_of_us < self.until_us and self.request == request


def build_material(
    query: str,
    facts: tuple[RankedFact, ...],
    candidates: tuple[PackCandidate, ...],
    pages: FactPages | None = None,
    request: tuple[Any, ...] = (),
    until_us: int = 0,
) -> FactMaterial:
    states = () if pages is None else (*pages.constraints.values(), *pages.newest.values())
    texts = sum(len(one.text) for one in candidates) + sum(_text_length(state.fact) for state in states)
    return FactMaterial(
        pages=pages,
        request=request,
        until_us=until_us,
        facts=facts,
        scores=tuple((one.ledger, one.fact.id, one.score) for one in facts if one.fate != "withheld"),
        past_keys=frozenset(find_past_keys(query, {one.fact.key for one in facts})),
        current_keys=frozenset(one.fact.key for one in facts if not one.fact.is_claim),
        candidates=candidates,
        weight=2 * texts + _FACT_BYTES * (len(candidates) + len(states)),
    )


def _text_length(fact: Fact) -> int:
    """Of the key and the value of a fact."""
    return len(fact.key) + len(fact.value if isinstance(fact.value, str) else codec.encode(fact.value))


class LastPack(NamedTuple):
    """What the last pack of a conversation read."""

    material: FactMaterial
    guard: GuardMemory

    @property
    def weight(self) -> int:
        """The approximate size in memory, in bytes."""
        statements = self.guard.statements.items()
        weight = sum(2 * len(text) + _FACT_BYTES * len(known[1]) for text, known in statements)
        rows = [row for _, current in self.guard.current.values() for row in current]
        for facts in self.guard.facts.values():
            weight += _TERM_BYTES * len(facts.terms)
            rows += (*facts.plain, *facts.common)
        weight += sum(_FACT_BYTES + 2 * (len(row.state) + len(row.words)) for row in rows)
        return self.material.weight + weight


_Conversation: TypeAlias = tuple[StreamId, str | None]


class PackMemory:
    """The last pack of each of the conversations used last."""

    def __init__(self, most: int = limits.PACK_MEMORY_BYTES) -> None:
        self._most = most
        self._weight = 0
        self._packs: OrderedDict[_Conversation, tuple[LastPack, int]] = OrderedDict()
        """With their weights."""
        self._mutex = threading.Lock()

    def get(self, stream: StreamId, frame: str | None) -> LastPack | None:
        with self._mutex:
            pack, _ = self._packs.get((stream, frame), (None, 0))
            if pack is not None:
                self._packs.move_to_end((stream, frame))
            return pack

    def put(self, stream: StreamId, frame: str | None, pack: LastPack) -> None:
        weight = pack.weight
        with self._mutex:
            self._forget((stream, frame))
            if weight > self._most:
                return
            self._packs[stream, frame] = pack, weight
            self._weight += weight
            while self._weight > self._most:
                self._forget(next(iter(self._packs)))

    def drop(self, stream: StreamId) -> None:
        """Remove what was read of a session or of a ledger."""
        with self._mutex:
            for conversation in [each for each, (pack, _) in self._packs.items() if _reads(each, pack, stream)]:
                self._forget(conversation)

    def _forget(self, conversation: _Conversation) -> None:
        _, weight = self._packs.pop(conversation, (None, 0))
        self._weight -= weight


def _reads(conversation: _Conversation, pack: LastPack, stream: StreamId) -> bool:
    pages = pack.material.pages
    ledgers = () if pages is None else pages.ledgers.ids
    return conversation[0] == stream or any(ledger.stream == stream for ledger in ledgers)
