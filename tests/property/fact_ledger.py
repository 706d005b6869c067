"""Ledgers in plain Python: facts, and what someone may find among them.

A ledger is a list of facts. Everything is looked for by going through all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.property.fact_commands import GLOBAL, SUPPOSED, Home, Who

LADDER = ("nobody", "guest", "peer", "manager", "policy")
"""The rungs that are used here, the lowest first."""
NAMED = {"employee": "peer", "nobody": "unverified"}
WIDEST = ("global", "task", "hypothetical", "draft")
LATE = "it is older news"


class FactRefusal(Exception):
    """The name of the error that a command meets."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


def rank(authority: str) -> int:
    return LADDER.index(authority if authority != "unverified" else "nobody")


def is_same_json(one: Any, other: Any) -> bool:
    """As JSON tells values apart."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def infer_home(value: Any) -> Home:
    return ("hypothetical", "") if value == SUPPOSED else GLOBAL


@dataclass
class ModelFact:
    seq: int
    key: str
    value: Any
    home: Home
    authority: str
    by: str
    at: int
    since: int
    requires: frozenset[str]
    expires: int | None = None
    ref: str = ""
    memory: str = "user"
    constraint: str | None = None
    source: str = ""
    depends_on: list[int] = field(default_factory=list)
    status: str = "live"
    against: int = 0
    supersedes: list[int] = field(default_factory=list)
    superseded_by: int = 0
    doubts: set[int] = field(default_factory=set)
    """The deaths because of which it needs a review: it names one of them."""
    disputes: list[tuple[str, str]] = field(default_factory=list)
    """Who took it back without the authority for it."""
    reason: str = ""
    ended: int | None = None
    rule: str | None = None
    why: str = ""

    @property
    def id(self) -> str:
        return f"k{self.seq}"

    def out(self, now: int) -> bool:
        return self.expires is not None and self.expires <= now

    def lives(self, now: int) -> bool:
        return self.status == "live" and not self.out(now)

    def holds(self, now: int) -> bool:
        return self.lives(now) and not self.against

    def end(self, status: str, now: int, why: str = "") -> None:
        self.status, self.ended, self.why, self.doubts, self.disputes = status, now, why, set(), []


class ModelLedger:
    """All facts of one ledger, the oldest first."""

    def __init__(self) -> None:
        self.facts: dict[int, ModelFact] = {}
        self.version = 0
        """How many events there were: told by the engine."""
        self.guarded: set[int] = set()
        """Facts that it takes more permissions to know of than when they were made. What was linked to one before may go on
        to name it."""

    # What is there for someone

    def known(self, who: Who) -> list[ModelFact]:
        return [each for each in self.facts.values() if who.knows(each.requires)]

    def held(self, key: str, home: Home, who: Who, now: int) -> list[ModelFact]:
        return [each for each in self.known(who) if (each.key, each.home) == (key, home) and each.holds(now)]

    def current(self, key: str, home: Home, who: Who, now: int) -> ModelFact | None:
        held = self.held(key, home, who, now)
        if held:
            return find_best(held)
        dead = [each for each in self.known(who) if (each.key, each.home) == (key, home) and each.status != "live"]
        last = max(dead, key=lambda each: (each.ended or 0, each.superseded_by != 0, each.seq), default=None)
        if last is None or not last.superseded_by:
            return None
        end = self.end(last, who)
        return end if end.holds(now) else None

    def end(self, fact: ModelFact, who: Who) -> ModelFact:
        """Where a fact's chain leads, as far as someone may follow it."""
        after = self.facts.get(fact.superseded_by)
        return fact if after is None or not who.knows(after.requires) else self.end(after, who)

    def below(self, roots: Iterable[int], besides: Iterable[int] = ()) -> set[int]:
        """What lives and rests on these, directly or not; not through those besides."""
        found: set[int] = set()
        ahead, besides = set(roots), set(besides)
        while ahead:
            direct = {
                each.seq
                for each in self.facts.values()
                if each.status == "live" and not ahead.isdisjoint(each.depends_on)
            }
            ahead = direct - found - besides
            found |= ahead
        return found

    def derived(self, fact: ModelFact, who: Who) -> list[int]:
        return [each.seq for each in self.known(who) if fact.seq in each.depends_on and each.status == "live"]

    def history(self, key: str, who: Who, limit: int) -> list[ModelFact]:
        """What was held under a key, the newest so many, and what is linked to that under others."""
        known = {each.seq: each for each in self.known(who)}
        found = {*[each.seq for each in known.values() if each.key == key][-limit:]}
        ahead = list(found)
        while ahead:
            fact = known[ahead.pop()]
            links = {*fact.supersedes, fact.superseded_by} & {*known} - found
            more = {each for each in links if known[each].key != key}
            found |= more
            ahead += more
        return [known[each] for each in sorted(found)]

    def find(self, name: str, who: Who, home: Home = GLOBAL, *, dead: bool = False) -> ModelFact | None:
        """What a name means to someone: an id, a name outside, or a key. Raises Refused if that is not clear."""
        known = self.known(who)
        for each in known:
            if each.id == name:
                return each
        for live in (False, True) if dead else (True, False):
            for what in ("ref", "key"):
                found = [each for each in known if getattr(each, what) == name and (each.status == "live") == live]
                if found:
                    return _choose_fact(found, what, home) if live else found[-1]
        return None


def _choose_fact(found: list[ModelFact], what: str, home: Home) -> ModelFact:
    if what == "ref":
        if len({each.key for each in found}) > 1:
            raise FactRefusal("AmbiguousFact")
        return found[-1]
    here = [each for each in found if each.home == home] or found
    if len({each.home for each in here}) > 1:
        raise FactRefusal("AmbiguousFact")
    return next((each for each in reversed(here) if not each.against), here[-1])


def find_best(held: list[ModelFact]) -> ModelFact:
    return max(held, key=lambda each: (rank(each.authority), each.seq))
