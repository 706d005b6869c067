"""What could be in a pack behind the history: facts, things at hand, surroundings, handles, the frames above.

Laws: what the reader may not know of is no candidate; reading changes nothing; what is looked at is bounded by named
limits, not by how much there is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from holdfast import codec
from holdfast.context.assemble import Piece
from holdfast.context.fact_lines import (
    beside_their_facts,
    constrains,
    describe_dispute,
    describe_review,
    fact_line,
    identify_line,
    rank_line,
)
from holdfast.context.levels import light
from holdfast.core import relevance
from holdfast.core.authority import may_know, outranks
from holdfast.core.infer import declares_itself_invalid
from holdfast.core.infer import text_of as value_text
from holdfast.core.layers import LOCATION, TIMEZONE, ran_out
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform_facts import NEWEST, facts_by_id, ledger_where, state_of
from holdfast.flows.knowing import InUse, in_use, ledgers_of
from holdfast.flows.place import Place
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.facts import Fact, FactScope, FactState, Search
from holdfast.model.layers import Surrounding
from holdfast.model.messages import Item, Unit
from holdfast.model.names import LedgerId
from holdfast.model.pack import Fate, Request
from holdfast.model.rows import FactRow, ledger_of
from holdfast.model.situation import Situation
from holdfast.model.state import OpenProposal, SessionState

Within = tuple[tuple[FactScope, str], ...]


class Ledgers(NamedTuple):
    """The ledgers that a pack reads, in the order in which they have a say, and what its reader may know."""

    used: tuple[InUse, ...]
    permissions: tuple[str, ...] | None

    @property
    def ids(self) -> tuple[LedgerId, ...]:
        return tuple(each.ledger for each in self.used)


class Found(NamedTuple):
    """A fact to choose from."""

    ledger: int
    """The place of its ledger."""
    fact: Fact
    score: float
    gone: str = ""
    fate: Fate = "omitted"
    """What it then counts as."""


def ledgers_in_use(place: Place, state: SessionState, permissions: tuple[str, ...] | None) -> Flow[Ledgers]:
    return Ledgers(tuple((yield from in_use(ledgers_of(place.scope, state)))), permissions)


# Facts


def facts(
    place: Place, used: Ledgers, request: Request, known: Sequence[tuple[int, str, float]] | None
) -> Flow[list[Found]]:
    """The facts to choose from, the best first: constraints, what fits the query, and the newest. With `known`, those that
    were chosen from before, as they fitted then: an index may find others today."""
    if not used.ids:
        return []
    scores: dict[tuple[int, str], float] = {}
    if known is not None:
        states, scores = yield from _again(used, known)
    else:
        states = yield from _looked_up(place, used, request)
    seen = {name: state.fact for name, state in states.items() if _may_be_shown(state.fact, used, request)}
    if known is None:  # only what may be known is ranked: the rest would show in the scores
        names = list(seen)
        scores = {names[at]: score for at, score in relevance.ranking(request.query, list(seen.values()))}
    beaten, claimed = yield from _beaten(place, used, [(at, fact) for (at, _), fact in seen.items()], request.as_of_us)
    found = [
        Found(name[0], claimed.get(name, seen[name]), score, beaten.get(name, ""))
        for name, score in scores.items()
        if name in seen
    ]
    return found + (_withheld(states, used) if request.audit else [])


def _withheld(states: Mapping[tuple[int, str], FactState], used: Ledgers) -> list[Found]:
    """What the reader may not know of, for a manifest that they are not shown."""
    return [
        Found(at, state.fact, 0.0, f"takes the permission {', '.join(state.fact.requires)}", "withheld")
        for (at, _), state in states.items()
        if state.fact.is_valid and not may_know(state.fact.requires, used.permissions)
    ]


def _looked_up(place: Place, used: Ledgers, request: Request) -> Flow[dict[tuple[int, str], FactState]]:
    found: dict[tuple[int, str], FactState] = {}
    places = {each: at for at, each in enumerate(used.ids)}
    for at, where in _homes(used, request):
        states = yield from _of_home(where | {"constrains": 1}, used, request, request.effective)
        found |= {(at, state.fact.id): state for state in states}
    asked = Search(
        tenant=place.context.tenant,
        ledgers=tuple(codec.encode_stream_key(each.stream) for each in used.ids),
        words=relevance.query_terms(request.query),
        permissions=used.permissions,
        scopes=(("global", ""), *request.within),
        now_us=request.as_of_us,
        limit=limits.PACK_FACTS,
    )
    if asked.words:
        for row, _ in (yield from effects.search(asked)):
            state = state_of(row)
            found.setdefault((places[ledger_of(row)], state.fact.id), state)
    for at, where in _homes(used, request):
        for state in (yield from _of_home(where, used, request, limits.PACK_FACTS, limits.PACK_PAGES)):
            found.setdefault((at, state.fact.id), state)
    return found


def _homes(used: Ledgers, request: Request) -> Iterator[tuple[int, dict[str, str | int]]]:
    """Where what lives and may be shown is to be found: the scopes that are asked for, ledger by ledger."""
    for at, each in enumerate(used.ids):
        for scope, scope_id in (("global", ""), *request.within):
            yield at, {**ledger_where(each.stream), "live": 1, "scope": scope, "scope_id": scope_id}


def _of_home(
    where: Mapping[str, str | int], used: Ledgers, request: Request, most: int, pages: int | None = None
) -> Flow[list[FactState]]:
    """The newest of them until there are so many that may be shown, with those on the way that may not. Each constraint
    takes a token at least, so those beyond the budget need not be read: they are too many as it is."""
    found: list[FactState] = []
    last: FactRow | None = None
    while most > 0 and (pages is None or pages > 0):
        rows = yield from effects.rows(FactRow, where, last, limits.PACK_FACTS, order=NEWEST)
        states = [*map(state_of, rows)]
        found += states
        most -= sum(_may_be_shown(each.fact, used, request) for each in states)
        if len(rows) < limits.PACK_FACTS:
            break
        last, pages = rows[-1], None if pages is None else pages - 1
    return found


def _again(
    used: Ledgers, known: Sequence[tuple[int, str, float]]
) -> Flow[tuple[dict[tuple[int, str], FactState], dict[tuple[int, str], float]]]:
    found: dict[tuple[int, str], FactState] = {}
    by_ledger: dict[int, list[str]] = {}
    for at, fact, _ in known:
        by_ledger.setdefault(at, []).append(fact)
    for at, ids in by_ledger.items():
        states = yield from facts_by_id(used.ids[at].stream, ids)
        found |= {(at, fact): state for fact, state in states.items()}
    scores = {(at, fact): score for at, fact, score in known}
    return {each: found[each] for each in scores if each in found}, scores


def _may_be_shown(fact: Fact, used: Ledgers, request: Request) -> bool:
    here = fact.scope == "global" or (fact.scope, fact.scope_id) in request.within
    return here and fact.is_valid and not fact.ran_out(request.as_of_us) and may_know(fact.requires, used.permissions)


def _beaten(
    place: Place, used: Ledgers, candidates: Sequence[tuple[int, Fact]], now_us: int
) -> Flow[tuple[dict[tuple[int, str], str], dict[tuple[int, str], Fact]]]:
    """Those that another ledger holds something against that has the say: authority decides, then the order of ledgers.
    What was said in the session itself is a claim against it then, and shown as one."""
    if len(used.ids) < 2:
        return {}, {}
    ladder = place.context.policy.ladder
    subjects = list(dict.fromkeys(fact.key for _, fact in candidates))
    best: dict[tuple[str, str, str], tuple[int, Fact]] = {}
    for at, each in enumerate(used.ids):
        where = ledger_where(each.stream) | {"live": 1}
        for fact in (state.fact for state in (yield from _of_subjects(where, subjects))):
            if not fact.current_at(now_us) or not may_know(fact.requires, used.permissions):
                continue
            slot = fact.key, fact.scope, fact.scope_id
            if slot not in best or outranks(ladder, fact.authority, best[slot][1].authority):
                best[slot] = at, fact
    beaten: dict[tuple[int, str], str] = {}
    claimed: dict[tuple[int, str], Fact] = {}
    for at, fact in candidates:
        above = best.get((fact.key, fact.scope, fact.scope_id))
        if above is None or above[0] == at or fact.claim:
            continue
        same = above[1].value == fact.value
        own = used.ids[at].kind == "session" and fact.source.type == "conversation"
        if own and not same and outranks(ladder, above[1].authority, fact.authority):
            claimed[at, fact.id] = msgspec.structs.replace(fact, against=f"{above[1].id}@{used.ids[above[0]]}")
        else:
            what = "the same" if same else "another value"
            beaten[at, fact.id] = f"{used.ids[above[0]]} holds {what}, by {above[1].authority}"
    return beaten, claimed


def _of_subjects(where: Mapping[str, str | int], subjects: Sequence[str]) -> Flow[list[FactState]]:
    rows = yield from effects.rows(FactRow, where, None, limits.READ_EVENTS, among={"subject": subjects}, order=NEWEST)
    return [state_of(row) for row in rows]


def fact_pieces(
    place: Place,
    used: Ledgers,
    found: Sequence[Found],
    request: Request,
    items: Sequence[Item],
    proposals: Sequence[OpenProposal] = (),
) -> Flow[list[Piece]]:
    """Constraints first, then in the order in which they fit, each claim behind the fact that it is against.
    `proposals` are those that wait for someone's word: what they are about is disputed."""
    pieces: list[Piece] = []
    beside = _beside_the_point(found, request, items)
    asked = {(each.ledger, each.proposal.fact): each for each in proposals if each.proposal.fact is not None}
    omits = "omit" in (place.context.policy.review, request.profile.review)
    order = sorted(found, key=lambda one: not constrains(one.fact))
    for at in beside_their_facts(each.fact for each in order):
        each = order[at]
        fact, home = each.fact, used.ids[each.ledger]
        waiting = asked.get((home.stream.key, fact.id))
        gone = each.gone
        review = (yield from _review(home, fact, used, request)) if fact.review else ""
        if review and omits:
            gone = gone or "needs a review, since something that it rests on has changed"
        if request.profile.review == "omit" and declares_itself_invalid(fact.value):
            gone = gone or "says of itself that it is invalid"
        gone = gone or beside.get((each.ledger, fact.id), "")
        note = review + describe_dispute(fact, None if waiting is None else waiting.proposal)
        score, recency = rank_line(fact, each.score, pieces[-1] if pieces else None)
        pieces.append(
            Piece(
                id=piece_id(each, used.ids),
                section="facts",
                text="" if gone else light(fact_line(fact, request.as_of_us, note)),
                priority="critical" if constrains(fact) else "medium",
                score=score,
                recency=recency,
                source=_said_by(fact, home),
                authority=fact.authority,
                gone=gone,
                fate=each.fate,
                known_by=identify_line(fact, waiting),
            )
        )
    return pieces


def piece_id(found: Found, ledgers: Sequence[LedgerId]) -> str:
    """What a fact is called in a pack: with its ledger, if several are read."""
    return found.fact.id if len(ledgers) == 1 else f"{found.fact.id}@{ledgers[found.ledger]}"


def _beside_the_point(found: Sequence[Found], request: Request, items: Sequence[Item]) -> dict[tuple[int, str], str]:
    """The facts that have too little to do with the question, and with what was said if only what is relevant is shown."""
    chosen = [each for each in found if not each.gone and not constrains(each.fact)]
    if request.profile.history == "relevant":
        from holdfast.context.relevant import fitting_facts  # noqa: PLC0415 - a good part of the time of an import

        said = [each.text for item in items if isinstance(item, Unit) for each in item.messages]
        fits = [bool(why) for why in fitting_facts(request.query, [each.fact for each in chosen], said)]
    else:
        fits = [each.score >= request.profile.least_score for each in chosen]
    return {
        (each.ledger, each.fact.id): f"does not fit the question ({each.score:.2f})"
        for each, fit in zip(chosen, fits, strict=True)
        if not fit
    }


def _said_by(fact: Fact, home: LedgerId) -> str:
    who = fact.source.identity or fact.source.name or fact.source.type
    return f"{fact.key}, {home}, {who}"


def _review(home: LedgerId, fact: Fact, used: Ledgers, request: Request) -> Flow[str]:
    """What stands beside a fact under review: what it rests on has ended, and this holds now instead."""
    dead = (yield from facts_by_id(home.stream, [fact.review])).get(fact.review)
    if dead is None or not may_know(dead.fact.requires, used.permissions):
        return describe_review(None, None)
    now = None
    if dead.fact.superseded_by is not None:
        now = (yield from facts_by_id(home.stream, [dead.fact.superseded_by])).get(dead.fact.superseded_by)
    return describe_review(dead.fact, now.fact if now is not None and _may_be_shown(now.fact, used, request) else None)


def past_pieces(used: Ledgers, request: Request, keys: Sequence[str]) -> Flow[list[Piece]]:
    """The earlier values of the keys that a question about the past names, marked as such."""
    pieces: list[Piece] = []
    for home in used.ids if keys else ():
        where = ledger_where(home.stream) | {"live": 0}
        rows = yield from effects.rows(
            FactRow, where, None, limits.PAST_FACTS, among={"subject": sorted(keys)}, order=NEWEST
        )
        for fact in (state_of(row).fact for row in rows):
            here = fact.scope == "global" or (fact.scope, fact.scope_id) in request.within
            if fact.claim or not here or not may_know(fact.requires, used.permissions):
                continue
            ended = "" if fact.ended_us is None else f", until {_moment(fact.ended_us, 'UTC')}"
            pieces.append(
                Piece(
                    id=fact.id if len(used.ids) == 1 else f"{fact.id}@{home}",
                    section="notes",
                    text=light(f"- earlier value of {fact.key}, no longer current{ended}: {_line(fact.value)}"),
                    priority="high",
                    recency=fact.at_us,
                    source=_said_by(fact, home),
                    authority=fact.authority,
                    known_by=f"{fact.id} past",
                )
            )
    return pieces


# Things at hand, and around


def working_pieces(state: SessionState, request: Request) -> list[Piece]:
    fits = fitting(request.query)
    pieces: list[Piece] = []
    for name, item in sorted(state.working.items()):
        if ran_out(item, request.as_of_us):
            continue
        score = fits(f"{name} {value_text(item.value)}")
        pieces.append(
            Piece(
                id=name,
                section="working_set",
                text=f"- {name}: {_line(item.value)}",
                label=len(f"- {name}: "),
                score=score,
                recency=item.at_us,
                origin=item.seq,
                source="working set",
                gone="" if score >= request.profile.least_score else f"does not fit the question ({score:.2f})",
            )
        )
    return pieces


def environment_pieces(state: SessionState, request: Request) -> list[Piece]:
    """The time, unless the request does without, and what was observed and has not run out."""
    around = {name: item for name, item in sorted(state.environment.items()) if not ran_out(item, request.as_of_us)}
    zone = around.pop(TIMEZONE, None)
    clock = "time"
    while clock in around:  # someone has observed something of that name
        clock = f"the {clock}"
    now = Piece(
        id=clock,
        section="environment",
        text=f"- time: {_moment(request.as_of_us, 'UTC' if zone is None else str(zone.value))}",
        priority="high",
        recency=request.as_of_us,
        source="clock",
    )
    pieces = [now] if request.time else []
    newer = _newer(around, request)
    for name, item in around.items():
        seen = _moment(item.observed_us, "UTC")
        pieces.append(
            Piece(
                id=name,
                section="environment",
                text=f"- {name}: {_line(item.value)} (observed {seen})",
                label=len(f"- {name}: "),
                priority="high" if name == LOCATION else "medium",
                recency=item.observed_us,
                origin=item.seq,
                source="environment",
                gone=f"a newer observation ({newer[name]}) tells of the same thing" if name in newer else "",
            )
        )
    return pieces


def _newer(around: Mapping[str, Surrounding], request: Request) -> dict[str, str]:
    """What was observed later of the same thing, if only what is relevant is shown."""
    if request.profile.history != "relevant":
        return {}
    from holdfast.context.relevant import outdated  # noqa: PLC0415 - a good part of the time of an import

    names = [*around]
    found = outdated([(_line(around[name].value), around[name].observed_us) for name in names])
    return {name: names[at] for name, at in zip(names, found, strict=True) if at is not None}


def _moment(time_us: int, zone: str) -> str:
    try:
        at = datetime.fromtimestamp(time_us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_us // 1_000_000:,} seconds after 1970"  # no calendar goes so far
    try:
        at = at if zone == "UTC" else at.astimezone(ZoneInfo(zone))
    except (LookupError, ValueError, OverflowError, OSError):
        zone = "UTC"  # this machine does not know it
    return f"{at:%a %Y-%m-%d %H:%M} {zone}"


def _line(value: Json) -> str:
    return " ".join(value_text(value).split())


def fitting(query: str) -> Callable[[str], float]:
    """How well texts fit a query: the share of its words that they have, from 0 to 1."""
    return functools.partial(relevance.share, relevance.asked_for(query))


def situation_pieces(situation: Situation) -> list[Piece]:
    return [
        Piece(
            id=name,
            section="situation",
            text=f"- {name}: {' '.join(text.split())}",
            label=len(f"- {name}: "),
            priority="high",
            recency=-number,
            origin=situation.stated[name].seq if name in situation.stated else situation.version,
            source="situation",
        )
        for number, (name, text) in enumerate(situation.fields)
    ]


# Handles
