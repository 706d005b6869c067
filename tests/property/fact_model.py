"""Ledgers in plain Python: what any sequence of commands must come to, said without the engine's own words."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from tests.property.fact_commands import (
    ENDORSE,
    GLOBAL,
    PROGRAM,
    SOURCES,
    Assert,
    Command,
    Confirm,
    Endorse,
    Erase,
    Expire,
    Home,
    Promote,
    Reinstate,
    Retract,
    Supersede,
    Who,
)
from tests.property.fact_ledger import (
    LATE,
    NAMED,
    WIDEST,
    FactRefusal,
    ModelFact,
    ModelLedger,
    find_best,
    infer_home,
    is_same_json,
    rank,
)


class _Turn:
    """Someone's turn to change a ledger, which is his to change."""

    def __init__(self, ledger: ModelLedger, who: Who, now: int) -> None:
        self.ledger, self.who, self.now = ledger, who, now
        self.doubted = {each.seq for each in ledger.facts.values() if each.doubts}

    def carry_out(self, command: Command) -> list[int]:
        match command:
            case Assert():
                return self._assert(command)
            case Erase(facts):
                return self._erase([str(each) for each in facts])
            case Supersede(fact, by, reason):
                return self._supersede(str(fact), str(by), reason)
        return self._change(self._named(str(command.fact), dead=isinstance(command, Reinstate)), command)

    def _change(
        self, fact: ModelFact, command: Retract | Expire | Promote | Endorse | Confirm | Reinstate
    ) -> list[int]:
        match command:
            case Retract(reason=reason):
                return self._retract(fact, reason)
            case Expire():
                return self._expire(fact)
            case Promote(home=home):
                self._promote(fact, home)
            case Endorse(authority=authority):
                self._endorse(fact, authority)
            case Confirm():
                self._check_lives(fact)
                if fact.doubts or fact.disputes:
                    self._check_may(fact)
                    self._confirm(fact)
            case Reinstate():
                self._reinstate(fact)
        return [fact.seq]

    # What may be refused

    def _named(self, name: str, home: Home = GLOBAL, *, dead: bool = False) -> ModelFact:
        found = self.ledger.find(name, self.who, home, dead=dead)
        if found is None:
            raise FactRefusal("FactNotFound")
        return found

    def _check_lives(self, fact: ModelFact) -> None:
        if not fact.lives(self.now):
            raise FactRefusal("FactNotLive")

    def _check_may(self, fact: ModelFact) -> None:
        if rank(fact.authority) > rank(self.who.authority):
            raise FactRefusal("NotAuthorised")

    def _check_apart(self, fact: ModelFact, ended: Iterable[ModelFact]) -> None:
        """Nothing takes the place of what it rests on."""
        if any(fact.seq in self.ledger.below([each.seq]) for each in ended):
            raise FactRefusal("SupersessionCycle")

    # Asserting

    def _assert(self, said: Assert) -> list[int]:
        home = said.home or infer_home(said.value)
        names = [
            (str(each), self.ledger.find(str(each), self.who, home)) for each in (*said.supersedes, *said.depends_on)
        ]
        found = [fact for _, fact in names]
        fact = self._made(said, home, found[len(said.supersedes) :])
        if None in found:
            raise FactRefusal("FactNotFound")
        targets: dict[int, ModelFact] = {}
        for each in found[: len(said.supersedes)]:
            assert each is not None
            end = each if each.status == "live" else self.ledger.end(each, self.who)
            if end.lives(self.now):
                _check_wide(home, end)
                targets[end.seq] = end
        held = self.ledger.held(said.key, home, self.who, self.now)
        if all(each in held for each in targets.values()):
            known = self._heard_before(fact, said, held)
            if known is not None:
                return [known.seq]
        if not targets and (newer := self._overtaken(fact, said, held)) is not None:
            self.ledger.facts[fact.seq] = fact
            fact.end("superseded", self.now, LATE)
            fact.superseded_by, fact.rule = newer.seq, "temporal"
            return [fact.seq]
        self._enter(fact, said, held, targets)
        return [fact.seq]

    def _made(self, said: Assert, home: Home, sources: list[ModelFact | None]) -> ModelFact:
        asked = self.who.default or self.who.authority
        if said.authority is not None:
            asked = NAMED.get(said.authority, said.authority)
            if rank(asked) > rank(self.who.authority):
                raise FactRefusal("AuthorityExceeded")
        requires = {*said.requires}
        rests = []
        for each in sources:
            if each is None:
                raise FactRefusal("FactNotFound")
            rests.append(each)
        for each in rests:
            self._check_lives(each)
            asked = min(asked, each.authority, key=rank)
            requires |= each.requires
        if not self.who.knows(frozenset(requires)):
            raise FactRefusal("PermissionMissing")
        kind = said.kind if said.kind is not None else "policy" if said.constraint else None
        return ModelFact(
            seq=self.ledger.version + 1,
            key=said.key,
            value=said.value,
            home=home,
            authority=asked,
            by=self.who.name,
            at=self.now,
            since=self.now + (said.since or 0),
            requires=frozenset(requires),
            expires=None if said.expires is None else self.now + said.expires,
            ref=said.ref,
            memory=said.memory or SOURCES[said.source],
            constraint=kind,
            source=said.source,
            reason=said.reason,
            depends_on=list(dict.fromkeys(each.seq for each in rests)),
            doubts={doubt for each in rests for doubt in each.doubts},
        )

    def _heard_before(self, new: ModelFact, said: Assert, held: list[ModelFact]) -> ModelFact | None:
        """The fact that this only repeats, with what the repetition does to it."""
        known = find_best(held) if held else None
        if known is not None and self._says_no_more(new, said, known):
            if rank(new.authority) > rank(known.authority):
                if {*new.depends_on} != {*known.depends_on}:
                    return None
                known.authority, known.disputes = new.authority, []
            if (known.doubts or known.disputes) and not new.doubts and rank(new.authority) >= rank(known.authority):
                self._confirm(known)
            return known
        if not any(rank(each.authority) > rank(new.authority) for each in held):
            return None
        for claim in reversed(self._claims(new)):
            if self._says_no_more(new, said, claim) and rank(new.authority) <= rank(claim.authority):
                return claim
        return None

    def _confirm(self, fact: ModelFact) -> None:
        """It holds, and rests on what took the place of what it rested on, where there is such a thing."""
        under = {fact.seq, *self.ledger.below([fact.seq])}
        moved: list[int] = []
        for each in fact.depends_on:
            end = self.ledger.end(self.ledger.facts[each], self.who) if each in self.ledger.facts else None
            if end is not None and end.lives(self.now) and end.seq not in under and end.requires <= fact.requires:
                moved.append(end.seq)
            else:
                moved.append(each)
        fact.depends_on, fact.doubts, fact.disputes = list(dict.fromkeys(moved)), set(), []

    def _claims(self, fact: ModelFact) -> list[ModelFact]:
        return [
            each
            for each in self.ledger.known(self.who)
            if (each.key, each.home) == (fact.key, fact.home) and each.against and each.lives(self.now)
        ]

    def _says_no_more(self, new: ModelFact, said: Assert, known: ModelFact) -> bool:
        return (
            is_same_json(new.value, known.value)
            and {*new.depends_on} <= {*known.depends_on}
            and new.requires <= known.requires
            and new.expires in (None, known.expires)
            and said.constraint in (None, known.constraint is not None)
            and said.kind in (None, known.constraint)
            and said.memory in (None, known.memory)
            and said.ref in ("", known.ref)
        )

    def _overtaken(self, new: ModelFact, said: Assert, held: list[ModelFact]) -> ModelFact | None:
        sensitive = said.key.startswith("price") if said.sensitive is None else said.sensitive
        if said.since is None or not sensitive:
            return None
        newer = [each for each in held if each.since > new.since and rank(each.authority) >= rank(new.authority)]
        return max(newer, key=lambda each: (each.since, each.seq), default=None)

    def _enter(self, new: ModelFact, said: Assert, held: list[ModelFact], targets: dict[int, ModelFact]) -> None:
        ended = self._contest(new, {each.seq: each for each in held} | targets)
        if any(each.seq in new.depends_on for each in ended):
            raise FactRefusal("SupersessionCycle")
        gone = self._run_out(new)
        if new.doubts:
            self.doubted.add(new.seq)
        else:
            lost = [each.seq for each in (*ended, *gone)]
            new.doubts = {each for each in lost if not self.ledger.below([each]).isdisjoint(new.depends_on)}
        self.ledger.facts[new.seq] = new
        self._die(gone, "expired")
        self._replace(new, ended, targets, said.reason, dated=said.since is not None)

    def _contest(self, new: ModelFact, rivals: dict[int, ModelFact]) -> list[ModelFact]:
        """Who outranks it makes it a claim. What ends: rivals, unless it is one, and claims that do not outrank it."""
        higher = [each for each in rivals.values() if rank(each.authority) > rank(new.authority)]
        claims = [
            each
            for each in self._claims(new)
            if each.seq not in rivals and each is not new and rank(each.authority) <= rank(new.authority)
        ]
        new.against = 0
        if not higher:
            return [*rivals.values(), *claims]
        against = find_best(higher)
        new.against = against.seq
        if new.seq in self.ledger.facts and not against.requires <= new.requires:
            self.ledger.guarded.add(new.seq)
        new.requires |= against.requires
        return claims

    def _run_out(self, new: ModelFact) -> list[ModelFact]:
        """What stands in its place and has run out, though nobody swept."""
        return [
            each
            for each in self.ledger.known(self.who)
            if each is not new and (each.key, each.home) == (new.key, new.home)
            if each.status == "live" and each.out(self.now)
        ]

    # Ending

    def _replace(
        self, new: ModelFact, ended: list[ModelFact], targets: Iterable[int], reason: str, *, dated: bool = False
    ) -> None:
        dying = {each.seq for each in ended} | {new.seq}
        above = {each.seq: not self.ledger.below([each.seq]).isdisjoint(new.depends_on) for each in ended}
        followers: list[tuple[ModelFact, int]] = []
        doubtful: dict[int, set[int]] = {}
        for each in ended:
            if is_same_json(each.value, new.value) and not above[each.seq]:
                followers += [
                    (one, each.seq)
                    for one in self.ledger.facts.values()
                    if one.status == "live" and each.seq in one.depends_on and one.seq not in dying
                ]
            else:
                doubtful[each.seq] = self.ledger.below([each.seq]) - dying
        self._mark(doubtful)
        for each in ended:
            each.end("superseded", self.now, reason)
            each.superseded_by = new.seq
            each.rule = "explicit" if each.seq in targets else "temporal" if dated else "implicit"
            if each.seq not in targets and rank(new.authority) > rank(each.authority):
                each.rule = "authority"
            new.supersedes += [each.seq] if each.seq not in new.supersedes else []
        for one, old in followers:
            one.depends_on = list(dict.fromkeys(new.seq if each == old else each for each in one.depends_on))

    def _mark(self, doubtful: dict[int, set[int]]) -> None:
        """Who rests on what died needs a review, for one of these reasons; who needs one already keeps his."""
        for root, facts in doubtful.items():
            for each in facts - self.doubted:
                self.ledger.facts[each].doubts.add(root)

    def _die(self, facts: list[ModelFact], status: str, why: str = "") -> None:
        gone = {each.seq for each in facts}
        self._mark({each: self.ledger.below([each]) - gone for each in gone})
        for each in facts:
            each.end(status, self.now, why)

    def _supersede(self, name: str, other: str, reason: str) -> list[int]:
        names = [self.ledger.find(each, self.who) for each in (name, other)]
        fact, by = names
        if fact is None or by is None:
            raise FactRefusal("FactNotFound")
        if fact is by:
            raise FactRefusal("SupersessionCycle")
        self._check_apart(by, [fact])
        if fact.superseded_by != by.seq:
            self._check_lives(fact)
            self._check_lives(by)
            self._check_may(fact)
            _check_wide(by.home, fact)
            if rank(fact.authority) > rank(by.authority):
                raise FactRefusal("NotAuthorised")
            self._replace(by, [fact], [fact.seq], reason)
        return [fact.seq]

    def _retract(self, fact: ModelFact, reason: str) -> list[int]:
        if fact.status == "retracted":
            return [fact.seq]
        self._check_lives(fact)
        if rank(fact.authority) > rank(self.who.authority):
            said = (self.who.name, self.who.authority)
            fact.disputes += [said] if said not in fact.disputes else []
            return []
        below = self.ledger.below([fact.seq])
        kept = {each for each in below if rank(self.ledger.facts[each].authority) > rank(self.who.authority)}
        taken = {fact.seq, *self.ledger.below([fact.seq], kept)}
        self._mark({fact.seq: below - taken})
        for each in taken:
            self.ledger.facts[each].end("retracted", self.now, reason)
        known = [each for each in sorted(taken - {fact.seq}) if self.who.knows(self.ledger.facts[each].requires)]
        return [fact.seq, *known]

    def _expire(self, fact: ModelFact) -> list[int]:
        if fact.status != "expired":
            if fact.status != "live":
                raise FactRefusal("FactNotLive")
            if not fact.out(self.now):
                self._check_may(fact)
            self._die([fact], "expired")
        return [fact.seq]

    def _erase(self, names: list[str]) -> list[int]:
        found = [self.ledger.find(name, self.who) for name in names]
        gone = {each.seq: each for each in found if each is not None}
        if None in found:
            raise FactRefusal("FactNotFound")
        for fact in gone.values():
            self._check_may(fact)
        self._mark({each: self.ledger.below([each]) - {*gone} for each in gone})
        for each in gone:
            del self.ledger.facts[each]
        for left in self.ledger.facts.values():
            left.supersedes = [each for each in left.supersedes if each not in gone]
        return []

    # Moving

    def _promote(self, fact: ModelFact, home: Home) -> None:
        if fact.home == home:
            return
        if WIDEST.index(home[0]) > WIDEST.index(fact.home[0]):
            raise FactRefusal("InvalidArgument")
        self._check_lives(fact)
        self._check_may(fact)
        held = self.ledger.held(fact.key, home, self.who, self.now)
        known = find_best(held) if held else None
        if known is not None and _covers(known, fact):
            self._check_apart(known, [fact])
            self._replace(known, [fact], [], "")
            return
        fact.home = home
        ended = self._contest(fact, {each.seq: each for each in held})
        self._check_apart(fact, ended)
        self._die(self._run_out(fact), "expired")
        self._replace(fact, ended, [], "")

    def _endorse(self, fact: ModelFact, authority: str | None) -> None:
        self._check_lives(fact)
        if self.who.permissions is not None and ENDORSE not in self.who.permissions:
            raise FactRefusal("PermissionMissing")
        asked = self.who.authority if authority is None else NAMED.get(authority, authority)
        if rank(asked) > rank(self.who.authority):
            raise FactRefusal("AuthorityExceeded")
        if rank(asked) <= rank(fact.authority):
            return
        fact.authority, fact.disputes = asked, []
        ended: list[ModelFact] = []
        if fact.against:
            held = self.ledger.held(fact.key, fact.home, self.who, self.now)
            ended = self._contest(fact, {each.seq: each for each in held})
            self._check_apart(fact, ended)
        self._die(self._run_out(fact), "expired")
        self._replace(fact, ended, [], "")

    def _reinstate(self, fact: ModelFact) -> None:
        if fact.lives(self.now):
            return
        if fact.status != "superseded" or fact.out(self.now):
            raise FactRefusal("FactNotLive")
        self._check_may(fact)
        instead = {
            each.seq: each
            for each in self.ledger.known(self.who)
            if (each.key, each.home) == (fact.key, fact.home) and each.status == "live" and not each.against
        }
        end = self.ledger.end(fact, self.who)
        if end.status == "live":
            instead[end.seq] = end
        if not {*fact.depends_on}.isdisjoint(instead):
            raise FactRefusal("SupersessionCycle")
        for each in instead.values():
            self._check_may(each)
        below = {each: self.ledger.below([each]) for each in instead}
        fact.status, fact.superseded_by, fact.ended, fact.rule, fact.why, fact.against = "live", 0, None, None, "", 0
        fact.doubts = self._shaken(fact, below)
        self._mark({each: facts - {*instead, fact.seq} for each, facts in below.items()})
        for each in instead.values():
            each.end("retracted", self.now)

    def _shaken(self, fact: ModelFact, below: dict[int, set[int]]) -> set[int]:
        """Why a fact that was dead meanwhile can no longer rest on what it rested on."""
        doubts: set[int] = set()
        for each in fact.depends_on:
            source = self.ledger.facts.get(each)
            doubts |= {each} if source is None or not source.lives(self.now) else source.doubts
            doubts |= {root for root, facts in below.items() if each in facts}
        return doubts

    def sweep(self) -> int:
        gone = [each for each in self.ledger.facts.values() if each.status == "live" and each.out(self.now)]
        self._die(gone, "expired")
        return len(gone)


def apply_command(ledger: ModelLedger, command: Command, who: Who, now: int) -> tuple[ModelLedger, list[int]]:
    """What the command makes of the ledger, and the facts that are its answer. Raises Refused."""
    after = copy.deepcopy(ledger)
    return after, _Turn(after, who, now).carry_out(command)


def apply_sweep(ledger: ModelLedger, now: int) -> tuple[ModelLedger, int]:
    """What is left when all that has run out has expired, and how many that were."""
    after = copy.deepcopy(ledger)
    return after, _Turn(after, PROGRAM, now).sweep()


def _check_wide(home: Home, fact: ModelFact) -> None:
    """What is only supposed, a draft, or one task's changes nothing outside of it."""
    if home not in (GLOBAL, fact.home):
        raise FactRefusal("InvalidArgument")


def _covers(known: ModelFact, fact: ModelFact) -> bool:
    """Whether nothing is lost if a fact gives way to one that says the same."""
    return (
        is_same_json(known.value, fact.value)
        and rank(known.authority) >= rank(fact.authority)
        and {*fact.depends_on} <= {*known.depends_on}
        and fact.requires <= known.requires
        and (fact.expires, fact.constraint) == (known.expires, known.constraint)
    )
