"""What careless callers, odd policies and senseless detectors get to see at the entrances of facts: typed errors with
advice, and nothing stored; what was said is kept, whatever a detector makes of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Engine, Message, Policy, errors
from holdfast.errors import InvalidInput
from holdfast.model import limits
from holdfast.types import AuthorityLadder, MessageSpan, Observation, Proposal
from tests import hostile
from tests.edges.engines import EngineDesk, contents, expect_refusal, log_of
from tests.edges.fact_engines import (
    GUEST,
    STORES,
    ScriptedDetector,
    open_ledger,
    open_session_ledger,
    proposal,
    values_by_key,
)
from tests.edges.fact_inputs import FACT_INPUTS
from tests.edges.hostile_inputs import MESSAGE_CHARS, check_inputs, is_printable
from tests.edges.surface import find_method, list_parameters
from tests.support import figure

SAMPLE = figure(97, 1)
"""One value in so many is handed in, other ones at each entrance."""


OF_SESSIONS = ("observe", "facts.accept", "facts.decline", "facts.get", "facts.search", "ledger")
OF_REVIEW = ("list", "confirm", "endorse", "reinstate", "promote", "expire", "supersede")


def test_every_argument_of_every_method_has_an_entrance() -> None:
    """So that what is added is asked, too. Keys, causes and reasons are looked at in one place each."""
    of_ledgers = [name for name, method in vars(holdfast.Ledger).items() if callable(method) and name[0] != "_"]
    methods = {name: find_method(holdfast.Ledger, name) for name in of_ledgers}
    methods |= {f"review.{name}": find_method(holdfast.Ledger, f"review.{name}") for name in OF_REVIEW}
    methods |= {f"session.{name}": find_method(holdfast.Session, name) for name in OF_SESSIONS}
    missing = []
    for name, method in methods.items():
        for option in list_parameters(method):
            known = {f"{name}({option})", f"{name.removeprefix('session.')}({option})"}
            if known.isdisjoint(FACT_INPUTS) and option not in ("key", "cause", "reason"):
                missing.append(f"{name}({option})")
    assert len(methods) > 20
    assert missing == []


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_value_at_every_entrance_is_taken_or_refused(kind: str, desk: EngineDesk) -> None:
    engine = check_inputs(desk, kind, FACT_INPUTS, SAMPLE)
    assert engine.admin.verify().problems == ()


# Contradictions and bounds


CONTRADICTIONS: dict[str, Callable[[Any], object]] = {
    "two times to expire": lambda ledger: ledger.set("a", 1, ttl_s=1, expires_at_us=1),
    "no constraint, of a kind": lambda ledger: ledger.set("a", 1, is_constraint=False, constraint_type="budget"),
    "no lifetime at all": lambda ledger: ledger.set("a", 1, ttl_s=0),
    "several where one is meant": lambda ledger: ledger.retract(["known", "known"]),
    "nothing where one is meant": lambda ledger: ledger.retract([]),
    "several to supersede": lambda ledger: ledger.review.supersede(["known", "known"], "known"),
    "a page after a key": lambda ledger: ledger.items(after="known"),
    "a scope without its id": lambda ledger: ledger.items(within=["task"]),
    "a scope with too much": lambda ledger: ledger.items(within=[("task", "t", "x")]),
    "no page at all": lambda ledger: ledger.items(limit=0),
    "too large a page": lambda ledger: ledger.search("a", limit=limits.READ_EVENTS + 1),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused_by_the_name_of_its_argument(name: str, engine: Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    ledger.set("known", 1)
    before = contents(engine)
    with pytest.raises(InvalidInput) as refusal:
        CONTRADICTIONS[name](ledger)
    assert re.search(r"^Invalid argument `\w+`: |\b[Pp]ass\b", str(refusal.value))
    assert contents(engine) == before


TOO_MUCH: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a value": ("FACT_BYTES", lambda ledger: ledger.set("a", "x" * limits.FACT_BYTES)),
    "a reason": ("BRIEF_BYTES", lambda ledger: ledger.set("a", 1, reason="x" * (limits.BRIEF_BYTES + 1))),
    "links": ("FACT_LINKS", lambda ledger: ledger.set("a", 1, supersedes=["known"] * (limits.FACT_LINKS + 1))),
    "sources": ("FACT_LINKS", lambda ledger: ledger.set("a", 1, depends_on=["known"] * (limits.FACT_LINKS + 1))),
    "origins": ("FACT_LINKS", lambda ledger: ledger.set("a", 1, provenance=["m"] * (limits.FACT_LINKS + 1))),
    "permissions": ("PERMISSIONS", lambda ledger: ledger.set("a", 1, requires=["p"] * (limits.PERMISSIONS + 1))),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_is_refused_by_the_name_of_the_limit(name: str, engine: Engine) -> None:
    limit_name, do = TOO_MUCH[name]
    ledger = open_ledger(engine, user="ada")
    ledger.set("known", 1)
    with expect_refusal(engine, errors.TooLarge, limit_name=limit_name):
        do(ledger)


def test_a_fact_can_be_as_large_as_the_limit(engine: Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    value = "é" * ((limits.FACT_BYTES - 2) // 2)
    assert ledger.set("a", value).value == value
    current = ledger.get("a")
    assert current is not None
    assert current.value == value


def test_what_is_handed_out_is_the_callers_own(engine: Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    given: dict[str, Any] = {"list": [1]}
    fact = ledger.set("a", given)
    given["list"].append(2)
    fact.value["list"].append(3)  # type: ignore[index,call-overload,union-attr]
    ledger.items()[0].value["list"].append(4)  # type: ignore[index,call-overload,union-attr]
    assert values_by_key(ledger.items()) == {"a": {"list": [1]}}


def test_exactly_one_name_says_whose_a_ledger_is(engine: Engine) -> None:
    for named in ({}, {"user": "a", "project": "b"}, {"user": "a", "project": "b", "organization": "c"}):
        with pytest.raises(errors.InvalidLedger):
            engine.ledger(**named)  # type: ignore[arg-type]
    session = engine.create_session(
        "s", ledgers=[open_ledger(engine, user="a").id, open_ledger(engine, project="b").id]
    )
    with pytest.raises(errors.InvalidLedger):
        open_session_ledger(session, user="a", project="b")


def test_a_message_of_elsewhere_is_not_observed(engine: Engine) -> None:
    session, other = engine.create_session("s"), engine.create_session("other")
    message = session.record("user", "the plan is off")
    other.record("user", "hello")
    forged: list[Any] = [
        msgspec.structs.replace(message, **changes)
        for changes in ({"seq": 99}, {"seq": -1}, {"seq": "2"}, {"seq": 1}, {"id": "x"}, {"id": 5}, {"seq": True})
    ]
    for where, what in [(other, message), *((session, each) for each in forged)]:
        before = contents(engine)
        with pytest.raises((InvalidInput, errors.NotFound)):
            where.observe(what)
        assert contents(engine) == before
    assert session.observe(message).message == message


def test_a_message_is_observed_as_it_was_recorded(desk: EngineDesk) -> None:
    """Whatever became of it in the hands of the caller."""
    hearing = ScriptedDetector()
    session = desk.open("memory", detector=hearing).create_session("s", identity=GUEST)
    message = session.record("user", "the plan is off")
    odd: list[Any] = [{"role": "system"}, {"role": []}, {"content": (holdfast.Text("the plan is on"),)}, {"content": 5}]
    for changes in odd:
        observed = session.observe(msgspec.structs.replace(message, **changes))
        assert observed.message == message
    assert {(each.message.text, each.message.role) for each in hearing.shown} == {("the plan is off", "user")}


def test_an_erased_message_is_not_observed(engine: Engine) -> None:
    session = engine.create_session("s")
    message = session.record("user", "the plan is off")
    session.erase([message.seq], "asked to")
    for said in (message, session.messages()[0]):
        with expect_refusal(engine, errors.InvalidArgument):
            session.observe(said)


# Policies and detectors at opening


class _NoName:
    def detect(self, _: Observation) -> tuple[Proposal, ...]:
        return ()


class _OddName(_NoName):
    name: Any = 5


class _LoneName(_NoName):
    name = "\ud800"


ONE: dict[str, Any] = {"aliases": {}, "titles": {}}
BARE: dict[str, Any] = {"channel": "a", "speakers": {}, "source_types": {}}
BAD_POLICIES: dict[str, Any] = {
    "a number": 5,
    "a dict": {"channel": "peer"},
    "the class": Policy,
    "a ladder": AuthorityLadder(),
    "a ladder that is none": Policy(ladder="policy"),  # type: ignore[arg-type]
    "no rungs": Policy(ladder=AuthorityLadder(rungs=())),
    "rungs that are a text": Policy(ladder=AuthorityLadder(rungs="abc", **ONE), **BARE),  # type: ignore[arg-type]
    "rungs that are a number": Policy(ladder=AuthorityLadder(rungs=5)),  # type: ignore[arg-type]
    "a rung twice": Policy(ladder=AuthorityLadder(rungs=("a", "a"), **ONE), **BARE),
    "a rung in capitals": Policy(ladder=AuthorityLadder(rungs=("a", "B"), **ONE), **BARE),
    "a rung that is a list": Policy(ladder=AuthorityLadder(rungs=("a", ["b"]), **ONE), **BARE),  # type: ignore[arg-type]
    "a rung without a name": Policy(ladder=AuthorityLadder(rungs=("a", ""), **ONE), **BARE),
    "a rung that nobody can name": Policy(ladder=AuthorityLadder(rungs=("a", "b_c"), **ONE), **BARE),
    "a rung with blanks": Policy(ladder=AuthorityLadder(rungs=("a", " b"), **ONE), **BARE),
    "a rung with a control character": Policy(ladder=AuthorityLadder(rungs=("a", "b\0"), **ONE), **BARE),
    "a rung with a lone surrogate": Policy(ladder=AuthorityLadder(rungs=("a", "\ud800"), **ONE), **BARE),
    "a rung that is too long": Policy(ladder=AuthorityLadder(rungs=("a", "b" * 300), **ONE), **BARE),
    "aliases that are none": Policy(ladder=AuthorityLadder(aliases=5)),  # type: ignore[arg-type]
    "an alias of nothing": Policy(ladder=AuthorityLadder(aliases={"boss": "boss of bosses"})),
    "an alias of a list": Policy(ladder=AuthorityLadder(aliases={"boss": []})),  # type: ignore[dict-item]
    "an alias that is a number": Policy(ladder=AuthorityLadder(aliases={5: "policy"})),  # type: ignore[dict-item]
    "titles that are none": Policy(ladder=AuthorityLadder(titles=None)),  # type: ignore[arg-type]
    "a title of nothing": Policy(ladder=AuthorityLadder(titles={"boss": "none"})),
    "a channel that is no rung": Policy(channel="boss"),
    "a channel that is a number": Policy(channel=5),  # type: ignore[arg-type]
    "speakers that are none": Policy(speakers=5),  # type: ignore[arg-type]
    "a speaker on no rung": Policy(speakers={"assistant": "boss"}),
    "a speaker that is no role": Policy(speakers={"boss": "policy"}),
    "a type of source on no rung": Policy(source_types={"policy": "boss"}),
    "a word that is a number": Policy(time_sensitive=("price", 5)),  # type: ignore[arg-type]
    "words that are a text": Policy(time_sensitive="price"),  # type: ignore[arg-type]
    "words that are a number": Policy(time_sensitive=5),  # type: ignore[arg-type]
    "a confidence that is a text": Policy(apply_from="0.8"),  # type: ignore[arg-type]
    "a confidence that is none": Policy(apply_from=float("nan")),
    "a confidence over one": Policy(apply_from=1.5),
    "a confidence below zero": Policy(ask_from=-0.1),
    "confidences the wrong way round": Policy(ask_from=0.9, apply_from=0.1),
    "a permission that is a number": Policy(endorse=5),  # type: ignore[arg-type]
    "a permission without a name": Policy(endorse=""),
}
BAD_DETECTORS: dict[str, Any] = {
    "a number": 5,
    "a text": "rules",
    "an object": object(),
    "one without a name": _NoName(),
    "a name that is a number": _OddName(),
    "a name that cannot be stored": _LoneName(),
}


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
def test_a_policy_or_detector_that_cannot_be_meant_is_refused_at_opening(awaited: bool, desk: EngineDesk) -> None:
    taken = []
    odd = [("policy", *each) for each in BAD_POLICIES.items()] + [("detector", *each) for each in BAD_DETECTORS.items()]
    for option, name, value in odd:
        error = _refusal(desk, awaited=awaited, **{option: value})
        if error is None or not is_printable(error):
            taken.append(f"{option}: {name}")
    assert taken == []
    assert not any(desk.folder.iterdir())


def _refusal(desk: EngineDesk, **options: Any) -> InvalidInput | None:
    try:
        desk.open_url(str(desk.folder / "never.db"), **options)
    except InvalidInput as error:
        return error
    return None


def test_every_hostile_value_as_a_policy_or_a_detector_is_refused() -> None:
    for case in hostile.CASES:
        for option in ("policy", "detector"):
            value = case.make()
            if value is None:
                continue
            with pytest.raises((InvalidInput, hostile.HostileError)):
                holdfast.open("memory:", **{option: value})


def test_another_ladder_is_used_throughout(desk: EngineDesk) -> None:
    ladder = AuthorityLadder(rungs=("captain", "mate", "crew"), aliases={"skipper": "captain"}, titles={"cook": "mate"})
    speakers = {"assistant": "crew", "tool": "crew"}
    ship = desk.open("memory", policy=Policy(ladder=ladder, channel="mate", speakers=speakers, source_types={}))
    ledger = open_ledger(ship, project="ship")
    assert ledger.set("course", "north").authority == "mate"
    assert ledger.set("course", "south", authority="nobody").is_claim
    assert ledger.set("course", "west", authority="Skipper").authority == "captain"
    assert ledger.set("dinner", "fish", authority="second cook").authority == "mate"


# Detectors that make no sense


def _cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _deep() -> Any:
    value: Any = 1
    for _ in range(limits.JSON_DEPTH + 1):
        value = [value]
    return value


SENSELESS: dict[str, dict[str, Any]] = {
    "a key that is a number": {"key": 5},
    "a key with a lone surrogate": {"key": "\ud800"},
    "a value that is no number": {"value": float("nan")},
    "a value that is no JSON": {"value": object()},
    "a value of bytes": {"value": b"x"},
    "a value in itself": {"value": _cyclic()},
    "a value too deep": {"value": _deep()},
    "a value with a lone surrogate": {"value": "\ud800"},
    "a value over the limit": {"value": "x" * limits.FACT_BYTES},
    "a value beyond counting": {"value": 10**30},
    "a scope that is none": {"scope": "everywhere"},
    "a scope that is a number": {"scope": 5},
    "a scope's id with a control character": {"scope": "task", "scope_id": "\0"},
    "a scope's id that is a number": {"scope": "task", "scope_id": 5},
    "a scope's id that is too long": {"scope": "task", "scope_id": "x" * 300},
    "a change that is none": {"change": "destroy"},
    "a change that is a list": {"change": []},
    "a rule that is none": {"rule": "because"},
    "a reason that is a number": {"reason": 5},
    "a reason with a lone surrogate": {"reason": "\ud800"},
    "a reason without end": {"reason": "x" * 3_000_000},
    "an authority that is a number": {"authority": 5},
    "an authority with a control character": {"authority": "policy\0"},
    "an authority that is too long": {"authority": "x" * 300},
    "a confidence that is a text": {"confidence": "high"},
    "a confidence that is no number": {"confidence": float("nan")},
    "a confidence over one": {"confidence": 1.01},
    "a confidence below zero": {"confidence": -0.5},
    "old places that are none": {"old": 5},
    "an old place that is none": {"old": ("here",)},
    "old places without end": {"old": (MessageSpan(0, 0, 1),) * (limits.FACT_LINKS + 1)},
    "a new place that is none": {"new": 5},
    "a new place behind the end": {"new": MessageSpan(0, 0, 10_000)},
    "a new place before the beginning": {"new": MessageSpan(0, -3, 2)},
    "a new place of nothing": {"new": MessageSpan(0, 2, 2)},
    "a new place the wrong way round": {"new": MessageSpan(0, 4, 2)},
    "a new place in another message": {"new": MessageSpan(99, 0, 1)},
    "a new place between characters": {"new": MessageSpan(0, 0.5, 1.5)},  # type: ignore[arg-type]
    "a fact that it was not shown": {"fact": "0:k1"},
    "a fact that is a list": {"fact": []},
    "nothing to supersede": {"change": "supersede"},
    "nothing to retract": {"change": "retract"},
    "nothing to expire": {"change": "expire"},
}


@pytest.mark.parametrize("confidence", [0.9, 0.6], ids=["applied", "asked"])
def test_what_makes_no_sense_is_left_out_and_the_rest_counts(confidence: float, desk: EngineDesk) -> None:
    hearing = ScriptedDetector()
    engine = desk.open("memory", detector=hearing)
    session = engine.create_session("s", identity=GUEST)
    for name, changes in SENSELESS.items():
        hearing.answer = lambda _, each=changes: (  # type: ignore[misc]
            proposal(**{"confidence": confidence, **each}),
            proposal(key="sense", value=len(each), confidence=confidence),
        )
        observed = session.observe(f"hello, {name}")
        assert [judged.proposal.key for judged in observed.proposals if judged.outcome != "noted"] == ["sense"], name
        assert observed.error == "", name
        assert observed.message.text == f"hello, {name}"
    assert {*values_by_key(open_session_ledger(session).items())} <= {"sense"}
    assert engine.admin.verify().ok


def _raises(_: Observation) -> Any:
    raise RuntimeError("out of order \ud800")


def _refuses(_: Observation) -> Any:
    raise errors.InvalidName(what="name", value="x", reason="a test", limit=1)


def _breaks_off(_: Observation) -> Iterator[Proposal]:
    yield proposal()
    raise hostile.HostileError("no more")


def _spoils(observation: Observation) -> tuple[Proposal, ...]:
    """Changes what it was shown."""
    for each in observation.facts:
        each.value.clear()  # type: ignore[union-attr]
    return ()


def _recursing(observation: Observation) -> Any:
    return _recursing(observation)


FAILING: dict[str, tuple[Callable[[Observation], Any], str]] = {
    "one that raises": (_raises, "RuntimeError"),
    "one that raises one of ours": (_refuses, "InvalidName"),
    "one that breaks off": (_breaks_off, "HostileError"),
    "one that returns nothing": (lambda _: None, "TypeError"),
    "one that returns a number": (lambda _: 5, "TypeError"),
    "one that recurses": (_recursing, "RecursionError"),
    "one that returns a text": (lambda _: "abc", ""),
    "one that returns junk": (lambda _: [1, None, "x", {}, object(), Proposal], ""),
    "one that returns dicts": (lambda _: [msgspec.to_builtins(proposal())], ""),
    "one that spoils what it is shown": (_spoils, ""),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_detector_that_fails_costs_nothing_of_what_was_said(name: str, desk: EngineDesk) -> None:
    answer, trouble = FAILING[name]
    for kind in ("memory", "memory awaited"):
        engine = desk.open(kind, detector=ScriptedDetector(answer))
        ledger = open_ledger(engine, user="ada")
        fact = ledger.set("plan", {"go": "north"})
        session = engine.create_session("s", identity=GUEST, ledgers=[ledger.id])
        observed = session.observe("the plan is off", key="once")
        assert observed.error.partition(":")[0] == trouble
        assert len(observed.error.encode()) <= MESSAGE_CHARS
        assert (observed.proposals, [each.text for each in session.messages()]) == ((), ["the plan is off"])
        assert ledger.items() == (fact,)
        assert engine.admin.verify().ok


@pytest.mark.parametrize("kind", STORES)
def test_a_detector_that_never_ends_is_heard_for_a_while(kind: str, desk: EngineDesk) -> None:
    made = itertools.count()

    def endless(_: Observation) -> Iterator[Proposal]:
        while True:
            number = next(made)
            yield proposal(key=f"k {number}", value=number, confidence=0.9 if number % 2 else 0.6)

    engine = desk.open(kind, detector=ScriptedDetector(endless))
    session = engine.create_session("s", identity=GUEST)
    observed = session.observe("hello")
    assert next(made) <= 1_000
    assert len(observed.proposals) <= 1_000
    assert len(session.facts.proposals()) <= limits.OPEN_PROPOSALS
    assert [each.text for each in session.messages()] == ["hello"]
    assert engine.admin.verify().ok


def test_ten_thousand_proposals_at_once_are_too_many_to_be_heard_out(desk: EngineDesk) -> None:
    engine = desk.open(
        "memory", detector=ScriptedDetector(lambda _: [proposal(key=f"k {number}") for number in range(10_000)])
    )
    session = engine.create_session("s", identity=GUEST)
    observed = session.observe("hello")
    assert 0 < len(observed.proposals) < 10_000
    assert len(log_of(engine)) <= limits.COMMAND_EVENTS
    assert engine.admin.verify().ok


def test_a_detector_that_keeps_state_sees_what_it_is_given_alone(desk: EngineDesk) -> None:
    """It is shown the same for the same; what it remembers changes nothing of what others are shown."""
    hearing = ScriptedDetector()
    engine = desk.open("memory", detector=hearing)
    one, two = (engine.create_session(name, identity=GUEST) for name in ("one", "two"))
    open_session_ledger(one).set("plan", "north")
    one.observe("the plan")
    two.observe("the plan")
    assert [len(each.facts) for each in hearing.shown] == [1, 0]
    assert hearing.shown[1].previous == ()


def test_a_message_as_given_back_is_the_one_that_was_recorded(engine: Engine) -> None:
    session = engine.create_session("s")
    observed = session.observe("hello")
    assert isinstance(observed.message, Message)
    assert session.messages() == [observed.message]
