"""What one run of the benchmark found. Data only."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchmarks.gateway.latencies import Latencies, MemoryUse
from benchmarks.gateway.scores import SessionScore

PLAIN = "plain"
FAITHFUL = "Holdfast, faithful"
FRUGAL = "Holdfast, frugal"
CACHE_MODE = "headroom, cache mode"
TOKEN_MODE = "headroom, token mode"
OURS = (FAITHFUL, FRUGAL)
PEERS = (CACHE_MODE, TOKEN_MODE)


class ReplayFinding(msgspec.Struct):
    """A contender, over all sessions."""

    name: str
    sessions: dict[str, SessionScore]
    billed: dict[str, int]
    """By the fake provider, with replies, in picodollars."""
    cpu_ms: float = 0.0
    """CPU time of the contender for one call."""
    rss: int = 0
    removed: int = 0
    """Tool results that were not in some request as they are."""
    readable: int = 0
    """Those of them that a handle gives back."""
    stated_cost: int = 0
    """What the gateway itself says that its calls cost, in picodollars."""
    stated_plain: int = 0
    """What it says that they would have cost without it."""

    @property
    def total(self) -> SessionScore:
        return SessionScore.total(self.sessions.values())


class Comparison(msgspec.Struct, frozen=True):
    """A contender against the plain replay of the same requests."""

    own: ReplayFinding
    plain: ReplayFinding

    @property
    def cost(self) -> float:
        return self.own.total.cost / self.plain.total.cost

    @property
    def billed(self) -> float:
        return self.own.total.billed / self.plain.total.billed

    @property
    def worst(self) -> float:
        return max(self._ratios)

    @property
    def worst_billed(self) -> float:
        """As worst, by the bill of the fake provider."""
        return max(score.billed / self.plain.sessions[name].billed for name, score in self.own.sessions.items())

    @property
    def dearer(self) -> int:
        return sum(ratio > 1 + 1e-9 for ratio in self._ratios)

    @property
    def _ratios(self) -> list[float]:
        return [score.cost / self.plain.sessions[name].cost for name, score in self.own.sessions.items()]

    def on(self, names: frozenset[str]) -> Comparison:
        """On some of the sessions."""
        return Comparison(_select(self.own, names), _select(self.plain, names))

    @property
    def stated_error(self) -> float:
        """How far what the gateway says of the plain bill is from the bill of the plain replay, as a share of it."""
        truth = sum(self.plain.billed[name] for name in self.own.billed)
        return self.own.stated_plain / truth - 1


def _select(finding: ReplayFinding, names: frozenset[str]) -> ReplayFinding:
    sessions = {name: score for name, score in finding.sessions.items() if name in names}
    return ReplayFinding(finding.name, sessions, {name: finding.billed[name] for name in sessions})


class VariantFinding(msgspec.Struct, frozen=True):
    """A contender on another course of some sessions."""

    course: str
    name: str
    cost: float
    """Over that of the plain replay of the same course."""
    worst: float
    grounding: float
    failed: int
    resent: int


class TimeFindings(msgspec.Struct, frozen=True):
    """What was measured while nothing else of the run was at work."""

    latencies: list[Latencies]
    memory: MemoryUse
    load: float
    """In the minute before."""


class Work(msgspec.Struct, frozen=True):
    """When the parts of a contender were made, in UTC."""

    name: str
    begun: str
    ended: str


class InstalledSize(msgspec.Struct, frozen=True):
    core: int
    """Bytes of the package and what it needs."""
    extra: int
    """Bytes that the gateway needs beside it."""


class GatewayFindings(msgspec.Struct):
    """All of it."""

    version: str
    date: str
    machine: str
    sessions: int
    calls: int
    small_head: int
    """Tokens before the messages."""
    large_head: int
    small: dict[str, ReplayFinding]
    """By contender, with the small head."""
    large: dict[str, ReplayFinding]
    few: int
    """The sessions with other courses."""
    variants: list[VariantFinding]
    times: TimeFindings | None
    size: InstalledSize
    works: list[Work] = []
    held_out: frozenset[str] = frozenset()
    """The sessions that the summarizer's weights were fitted without."""
    missing: str = ""
    """Why a peer is not among the contenders."""

    @property
    def is_whole(self) -> bool:
        return bool(self.large and self.variants and self.times)

    def compare(self, name: str, findings: Mapping[str, ReplayFinding] | None = None) -> Comparison:
        findings = self.small if findings is None else findings
        return Comparison(findings[name], findings[PLAIN])
