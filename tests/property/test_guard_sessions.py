"""The guard over random days: facts come, die and come back while they are spoken of, and no rendering of any conversation
shows what is dead, nor loses what lives; what was recorded stays as it was, and looking changes nothing."""

from __future__ import annotations

import itertools
import json
import re
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Fact, Policy, SummarizeOldest, Unit, errors
from tests.edges.engines import HandClock
from tests.postgres import empty_url
from tests.support import CountingIds, figure

VALUES = ("Amber Lane 31", "Birch", "cobalt-7740", "8,450 crowns")
KEYS = ("address", "contact")
LEDGERS = ("own", "ada's")
DIALECTS = ("text", "anthropic", "openai")
FORMS = (str, str.upper, str.lower, lambda text: text.replace(" ", "  "), lambda text: text.replace(" ", "\n"))
SENTENCES = (
    "We take {}.",
    "It was {}, and it was fine.",
    "Not {} but {}!",
    "- {}\n- {}",
    "Take {} or {}; the rest can wait.",
)
LONG = "Some say one thing, and others another. " * 30

values, forms = st.sampled_from(VALUES), st.sampled_from(FORMS)
told = st.builds(lambda form, value: form(value), forms, values)
said = st.builds(lambda text, *two: text.format(*two), st.sampled_from(SENTENCES), told, told)
data = st.recursive(
    told,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("to", "note")), inner, max_size=2),
    max_leaves=3,
)
ledgers, keys, some = st.sampled_from(LEDGERS), st.sampled_from(KEYS), st.integers(0, 3)
know = st.tuples(st.just("know"), ledgers, keys, values, st.sampled_from(("", "", "draft", "soon")))
end = st.tuples(st.sampled_from(("retract", "expire", "promote", "reinstate")), ledgers, some)
say = st.tuples(st.just("say"), st.sampled_from(("user", "assistant")), said)
work = st.tuples(st.just("work"), st.dictionaries(st.just("to"), told, max_size=1), data | said)
other = st.sampled_from((("fold",), ("frame",), ("leave",), ("wait",), ("pack",)))
steps = st.one_of(know, know, end, say, work, other)
first = st.tuples(know, know, say, work, say)
"""Something is known and told before anything else happens."""
days = st.builds(lambda begun, rest: [*begun, *rest], first, st.lists(steps, min_size=4, max_size=12))


def words_of(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', re.sub(r'(?<=[0-9]),(?=[0-9])', '', text.lower())))} "


def tells(texts: list[str], value: str) -> bool:
    return any(words_of(value) in each for each in texts)


def read_in(shown: Any) -> list[str]:
    """All that there is to read, piece by piece, also what is JSON inside a text."""
    if isinstance(shown, dict):
        return [each for inner in shown.values() for each in read_in(inner)]
    if isinstance(shown, list):
        return [each for inner in shown for each in read_in(inner)]
    if isinstance(shown, str):
        with suppress(ValueError):
            inner = json.loads(shown)
            if not isinstance(inner, str):
                return read_in(inner)
    return [words_of(str(shown).replace("\\n", " "))]


class Day:
    def __init__(self, url: str, policy: Policy) -> None:
        self.clock = HandClock()
        self.engine: Any = holdfast.open(url, clock=self.clock, ids=CountingIds(), policy=policy)
        theirs = self.engine.ledger(user="ada")
        self.session: Any = self.engine.create_session("s", ledgers=[theirs.id])
        self.ledgers: dict[str, Any] = {"own": self.session.ledger(), "ada's": theirs}
        self.frame: Any = None
        self.transcript: list[Any] = []

    def do(self, what: str, *told: Any) -> None:
        self.clock.now_s += 1
        if what in ("retract", "expire", "promote", "reinstate"):
            self._change(what, *told)
            return
        getattr(self, f"_{what}")(*told)

    @property
    def place(self) -> Any:
        return self.session if self.frame is None else self.frame

    def facts(self) -> list[Fact]:
        return [
            fact
            for ledger in self.ledgers.values()
            for status in ("live", "dead")
            for fact in ledger.facts(within="any", status=status, limit=100)
        ] + [fact for ledger in self.ledgers.values() for fact in self._run_out(ledger)]

    def _run_out(self, ledger: Any) -> list[Fact]:
        """Live ones that nobody swept are in no list."""
        found = [ledger.history(key) for key in KEYS]
        return [each for facts in found for each in facts if each.is_valid and each.ran_out(self.clock.now_us())]

    def _know(self, ledger: str, key: str, value: str, how: str) -> None:
        scope = {"scope": "draft", "scope_id": "d"} if how == "draft" else {}
        self.ledgers[ledger].assert_(key, value, ttl_s=5 if how == "soon" else None, **scope)

    def _change(self, what: str, ledger: str, number: int) -> None:
        dead = self.ledgers[ledger].facts(within="any", status="dead")
        some = dead if what == "reinstate" else self.ledgers[ledger].facts(within="any")
        if some:
            with suppress(errors.HoldfastError):
                getattr(self.ledgers[ledger], what)(some[number % len(some)])

    def _say(self, role: str, text: str) -> None:
        self.transcript.append(self.place.record(role, text))

    def _work(self, args: dict[str, str], result: Any) -> None:
        reply = self.place.record("assistant", "One moment.", tool_calls=[{"name": "look", "args": args}])
        self.transcript += [reply, self.place.result(reply.tool_calls[0], result)]

    def _fold(self) -> None:
        self._say("assistant", LONG)
        self.place.compact(strategy=SummarizeOldest(keep_recent=2), window=100_000)

    def _frame(self) -> None:
        self.frame = self.session.frame("Look into it.", budget=100_000) if self.frame is None else self.frame

    def _leave(self) -> None:
        if self.frame is not None:
            self.frame.pop("completed", "done")
            self.frame = None

    def _wait(self) -> None:
        self.clock.now_s += 10

    def _pack(self) -> None:
        """What is put down is what is shown, so that a second one puts down nothing."""
        self.place.pack(budget=100_000)
        version = self.session.state().version
        pack = self.place.pack(budget=100_000)
        assert self.session.state().version == version
        assert pack.manifest.exposed == ()

    # Looking at it

    def check(self) -> None:
        version, facts = self.session.state().version, self.facts()
        for place in filter(None, (self.session, self.frame)):
            self._check_shown(place, facts)
        assert self.session.state().version == version
        recorded = {each.seq: each for each in self.session.messages(limit=500)}
        assert recorded == {each.seq: each for each in self.transcript}

    def _lives(self, fact: Fact) -> bool:
        return fact.is_valid and not fact.ran_out(self.clock.now_us()) and fact.scope != "draft"

    def _check_shown(self, place: Any, facts: list[Fact]) -> None:
        history = place.history()
        live = {str(fact.value) for fact in facts if self._lives(fact)}
        dead = {str(fact.value) for fact in facts} - live
        asked = self._question(place, history, dead, facts)
        for dialect in DIALECTS:
            texts = read_in(place.render(dialect))
            assert read_in(place.render(dialect)) == texts
            if asked:
                texts = [each.replace(words_of(asked), " ", 1) for each in texts]
            for value in dead:
                assert not tells(texts, value), (value, dialect, texts)
        own = {each.seq: each for each in self.transcript}
        for item in history.items:
            seqs = range(item.first, item.last + 1) if isinstance(item, Unit) or item.seq == item.first else ()
            before = read_in([self._read(own[seq]) for seq in seqs if seq in own])
            shown = read_in([self._read(each) for each in item.messages] if isinstance(item, Unit) else item.text)
            for value in live:
                assert not tells(before, value) or tells(shown, value), (value, before, shown)

    def _question(self, place: Any, history: Any, dead: set[Any], facts: list[Fact]) -> str:
        """The newest message of the user, as it is shown: of what is dead it may tell what was so before."""
        messages = [each for item in history.items if isinstance(item, Unit) for each in item.messages]
        newest = next((each for each in reversed(messages) if each.role == "user"), None)
        if newest is None:
            return ""
        for value in dead:
            since = max(fact.ended_us or fact.expires_us or 0 for fact in facts if fact.value == value)
            supposed = all(fact.is_valid and fact.scope == "draft" for fact in facts if fact.value == value)
            if tells([words_of(newest.text)], value):
                assert since < newest.time_us or supposed, (value, newest)
        return str(newest.text)

    def _read(self, message: Any) -> list[Any]:
        return [message.text, *(call.args for call in message.tool_calls)]


def live_through(url: str, day: list[tuple[Any, ...]], policy: Policy) -> None:
    lived = Day(url, policy)
    with lived.engine:
        for step in day:
            lived.do(*step)
            lived.check()
        assert lived.engine.verify().problems == ()


RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@settings(RELAXED, max_examples=figure(80, 1_000))
@given(days)
def test_no_rendering_shows_what_is_dead_nor_loses_what_lives(day: list[tuple[Any, ...]]) -> None:
    live_through("memory:", day, Policy())


@settings(RELAXED, max_examples=figure(8, 400))
@given(days)
def test_nor_does_one_from_a_file(tmp_path: Path, day: list[tuple[Any, ...]]) -> None:
    live_through(str(tmp_path / f"{next(NUMBERS)}.db"), day, Policy())


@settings(RELAXED, max_examples=figure(3, 100))
@given(days)
def test_nor_does_one_from_a_server(day: list[tuple[Any, ...]]) -> None:
    with ExitStack() as borrowed:
        live_through(borrowed.enter_context(empty_url()), day, Policy())


NUMBERS = itertools.count()
