"""The guard over random days: facts come, end and come back while they are spoken of. What a model is shown is the
transcript with superseded values redacted or marked where they stood before the end of their facts, and nothing else."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Fact, Policy, errors
from holdfast.model.packs.pack import GUARD_MODES, GuardMode
from holdfast.types import MessageGroup, SummarizeOldest
from tests.postgres import empty_url
from tests.support import CountingIds, figure

VALUES = ("Amber Lane 31", "Birch", "cobalt-7740", "8,450 crowns")
DISTINCTIVE = ("Amber Lane 31", "cobalt-7740")
KEYS = ("address", "contact")
LEDGERS = ("own", "ada's")
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
know = st.tuples(st.just("know"), ledgers, keys, values, st.sampled_from(("", "", "draft")))
end = st.tuples(st.sampled_from(("retract", "expire", "promote", "reinstate")), ledgers, some)
say = st.tuples(st.just("say"), st.sampled_from(("user", "assistant")), said)
work = st.tuples(st.just("work"), st.dictionaries(st.just("to"), told, max_size=1), data | said)
other = st.sampled_from((("fold",), ("frame",), ("leave",), ("wait",), ("pack",)))
steps = st.one_of(know, know, end, say, work, other)


@st.composite
def days(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """A fact is known and spoken of, and changes; before and after that anything may happen."""
    ledger, key, (old, new) = draw(ledgers), draw(keys), draw(st.permutations(VALUES))[:2]
    form = draw(forms)
    spoken = draw(
        st.permutations(
            [
                ("say", draw(st.sampled_from(("user", "assistant"))), f"We take {form(old)}."),
                ("work", {"to": old}, draw(st.sampled_from((f"It was {form(old)}, as ever.", {"to": form(old)})))),
                ("say", "assistant", draw(said)),
            ]
        )
    )
    rest = st.lists(steps, max_size=4)
    return [
        ("know", ledger, key, old, ""),
        *draw(rest),
        *spoken,
        draw(st.sampled_from((("pack",), ("fold",), ("wait",), ("say", "user", "And then?")))),
        ("know", ledger, key, new, ""),
        ("say", draw(st.sampled_from(("user", "assistant"))), draw(said)),
        ("say", "user", draw(said)),
        *draw(rest),
    ]


MARKER = re.compile(
    r" ?\[(?:outdated(?:: \w+)?|\w+ (?:has changed since|no longer applies)"
    r"|(?:The arguments of this call contain|This message states) an outdated value(?:: [\w, ]+)?)\]"
)


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", MARKER.sub(" \0 ", text).lower())


def holds(text: str, value: str) -> int:
    """How often the words of a value stand in a text, one after another."""
    said, sought = " ".join(words_of(text)), " ".join(words_of(value))
    return len(re.findall(rf"(?<![a-z0-9]){sought}(?![a-z0-9])", said))


class Still:
    """A clock that goes on by itself, stands still or runs backwards."""

    def __init__(self, step_us: int) -> None:
        self._now, self._step = 1_700_000_000_000_000, step_us
        self.now_s = 0

    def now_us(self) -> int:
        self._now += self._step
        return self._now + self.now_s * 1_000_000


class Day:
    def __init__(self, url: str, policy: Policy, step_us: int) -> None:
        self.clock = Still(step_us)
        self.engine: Any = holdfast.open(url, clock=self.clock, ids=CountingIds(), policy=policy)
        self.policy = policy.guard
        theirs = self.engine.ledger(user="ada")
        self.session: Any = self.engine.create_session("s", ledgers=[theirs.id])
        self.ledgers: dict[str, Any] = {"own": self.session.ledger(), "ada's": theirs}
        self.frame: Any = None
        self.transcript: list[Any] = []
        self.ended: dict[str, int] = {}
        """How many messages were recorded when a value was last seen to end, by value."""
        self.rendered: dict[Any, tuple[int, Any]] = {}

    def do(self, what: str, *told: Any) -> None:
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
            for fact in ledger.items(within="any", status=status, limit=100)
        ]

    def _know(self, ledger: str, key: str, value: str, how: str) -> None:
        scope = {"scope": "draft", "scope_id": "d"} if how == "draft" else {}
        self.ledgers[ledger].set(key, value, **scope)

    def _change(self, what: str, ledger: str, number: int) -> None:
        dead = self.ledgers[ledger].items(within="any", status="dead")
        some = dead if what == "reinstate" else self.ledgers[ledger].items(within="any")
        if some:
            with suppress(errors.HoldfastError):
                target = self.ledgers[ledger] if what == "retract" else self.ledgers[ledger].review
                getattr(target, what)(some[number % len(some)])

    def _say(self, role: str, text: str) -> None:
        self.transcript.append(self.place.record(role, text))

    def _work(self, args: dict[str, str], result: Any) -> None:
        reply = self.place.record("assistant", "One moment.", tool_calls=[{"name": "look", "args": args}])
        self.transcript += [reply, self.place.result(reply.tool_calls[0], result)]

    def _fold(self) -> None:
        self._say("assistant", LONG)
        self.place.context.compact(strategy=SummarizeOldest(keep_recent=2), window=100_000)

    def _frame(self) -> None:
        self.frame = self.session.frame("Look into it.", budget=100_000) if self.frame is None else self.frame

    def _leave(self) -> None:
        if self.frame is not None:
            self.frame.pop("completed", "done")
            self.frame = None

    def _wait(self) -> None:
        self.clock.now_s += 10

    def _pack(self) -> None:
        """A second pack records nothing; and while no boundary comes between two, the later extends the earlier."""
        self.place.pack(budget=100_000)
        version = self.session.state().version
        pack = self.place.pack(budget=100_000)
        assert self.session.state().version == version
        messages = pack.history.messages
        turn = next(
            (each.seq for each in reversed(messages) if each.role == "user"), messages[-1].seq if messages else 0
        )
        assert all(each.at >= turn for each in pack.manifest.exposed), "only the current turn is left as it is"
        name = None if self.frame is None else self.frame.id
        boundary, rendered = self.session.state().view(name).boundary, self.place.context.render("openai")
        before = self.rendered.get(name)
        if before is not None and before[0] == boundary:
            assert rendered[: len(before[1])] == before[1]
        self.rendered[name] = (boundary, rendered)

    # Looking at it

    def check(self) -> None:
        version = self.session.state().version
        live = self._live_values()
        for value in VALUES:
            known = any(fact.value == value for fact in self.facts())
            if known and value not in live:
                self.ended.setdefault(value, len(self.transcript))
            else:
                self.ended.pop(value, None)
        for place in filter(None, (self.session, self.frame)):
            self._check_shown(place, live)
        assert self.session.state().version == version
        recorded = {each.seq: each for each in self.session.messages(limit=500)}
        assert recorded == {each.seq: each for each in self.transcript}

    def _live_values(self) -> set[str]:
        """Those that hold somewhere: also in a draft, whose business they are."""
        return {str(fact.value) for fact in self.facts() if fact.is_valid}

    def _check_shown(self, place: Any, live: set[str]) -> None:
        history = place.context.view()
        assert place.context.view() == history
        places = {each.seq: at for at, each in enumerate(self.transcript)}
        messages = [each for item in history.items if isinstance(item, MessageGroup) for each in item.messages]
        users = [each.seq for each in messages if each.role == "user"]
        turn = users[-1] if users else (messages[-1].seq if messages else 0)
        for shown in messages:
            told = self.transcript[places[shown.seq]]
            assert shown.tool_calls == told.tool_calls, "arguments are never edited"
            newer = {value for value, since in self.ended.items() if places[shown.seq] >= since}
            stated = {value for value in self.ended if holds(self._spelled(told), value)}
            if shown.seq >= turn or stated <= newer:
                assert shown.text == told.text, "neither the current turn is touched, nor what is newer than the change"
            self._check_kept(shown, told, live | newer)
            if self.policy == "redact" and shown.seq < turn:
                self._check_gone(shown, {each for each in self.ended if places[shown.seq] < self.ended[each]})

    def _spelled(self, message: Any) -> str:
        """All that a message states, and the call that it answers."""
        asked = {call.id: str(call.args.get("to", "")) for each in self.transcript for call in each.tool_calls}
        stated = " ".join((message.text, *(asked[each.tool_call_id] for each in message.tool_results)))
        return stated.replace("\\n", " ")  # a line end inside of JSON

    def _check_kept(self, shown: Any, told: Any, kept: set[str]) -> None:
        for value in kept:
            assert holds(shown.text, value) >= holds(told.text, value), (value, told.text, shown.text)
        filler = "the rest can wait"
        assert (filler in shown.text) == (filler in told.text)

    def _check_gone(self, shown: Any, ended: set[str]) -> None:
        """A distinctive value is gone, or a marker stands right behind it, or at the end of its line."""
        for value in ended & {*DISTINCTIVE}:
            pattern = r"\W+".join(map(re.escape, words_of(value)))
            for found in re.finditer(rf"(?i)(?<![a-z0-9]){pattern}(?![a-z0-9])", shown.text):
                behind = shown.text[found.end() :].partition("\n")[0]
                assert MARKER.search(behind), (value, shown.text)


def live_through(url: str, day: list[tuple[Any, ...]], policy: Policy, step_us: int = 1_000_000) -> None:
    lived = Day(url, policy, step_us)
    with lived.engine:
        for step in day:
            lived.do(*step)
            lived.check()
        assert lived.engine.admin.verify().problems == ()


RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


steps_us = st.sampled_from((1_000_000, 0, -1_000))


@settings(RELAXED, max_examples=figure(20, 1_000))
@given(days(), st.sampled_from(GUARD_MODES), steps_us)
def test_nothing_but_superseded_values_is_touched(day: list[tuple[Any, ...]], guard: GuardMode, step_us: int) -> None:
    live_through("memory:", day, Policy(guard=guard), step_us)


@settings(RELAXED, max_examples=figure(2, 400))
@given(days(), steps_us)
def test_nor_in_a_file(tmp_path: Path, day: list[tuple[Any, ...]], step_us: int) -> None:
    live_through(str(tmp_path / f"{next(NUMBERS)}.db"), day, Policy(), step_us)


@settings(RELAXED, max_examples=figure(3, 100))
@given(days(), steps_us)
def test_nor_on_a_server(day: list[tuple[Any, ...]], step_us: int) -> None:
    with ExitStack() as borrowed:
        live_through(borrowed.enter_context(empty_url()), day, Policy(), step_us)


NUMBERS = itertools.count()
