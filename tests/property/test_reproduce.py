"""Whatever happened before and since: a pack that was recorded can be made again, byte for byte, wherever its log is; and
of any two it is told what died and what was folded between them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.core import upcast
from holdfast.model import limits
from holdfast.model.history.events import ContextCompacted
from holdfast.model.packs.pack import Brief, ManifestEntry, PackDiff
from holdfast.model.sessions.events import PayloadsErased
from holdfast.model.tools.tool import Tool
from holdfast.runtime import reproduction
from holdfast.storage.memory import MemoryStore
from holdfast.testing.appends import all_events, positions_in_feed_order
from holdfast.types import SummarizeOldest
from tests.edges.engines import EngineDesk
from tests.property.store_tools import fast_folder
from tests.support import CountingIds, figure

EXAMPLES = figure(10, 1_500)
STEPS = figure(25, 60)
KEYS = ("city", "courier", "colour")
VALUES = ("Lisbon", "Swift Parcel", "dark green", "Porto", "12 Elm Street")
BRIEFS = (
    None,
    Brief(
        prompt="You are kind.",
        invariants=("Never guess.",),
        tools=(Tool(name="look", description="Look.", parameters={"type": "object", "properties": {}}),),
    ),
)
WORDS = "and so on, as was said before, at some length "

keys, values = st.sampled_from(KEYS), st.sampled_from(VALUES)
texts = st.builds("{} is {}. {}".format, keys, values, st.sampled_from(["", WORDS, WORDS * 12]))
steps = st.one_of(
    st.tuples(st.just("ask"), texts),
    st.tuples(
        st.just("call"),
        st.fixed_dictionaries(
            {"budget": st.sampled_from([600, 1_500, 6_000]), "brief": st.sampled_from(BRIEFS)},
            optional={
                "query": st.builds("Where is {}?".format, keys),
                "profile": st.sampled_from(["high_stakes", "balanced", "comprehensive"]),
                "guard": st.sampled_from(["annotate", "off"]),
                "min_compaction": st.sampled_from(["light", "aggressive"]),
                "model": st.just("claude-sonnet-4-5"),
                "max_output": st.just(1_000),
                "within": st.just([("draft", "d")]),
            },
        ),
        texts,
        st.sampled_from(["reply", "tool", "keep", "nothing"]),
    ),
    st.tuples(st.just("assert"), keys, values, st.sampled_from([{}, {"ttl_s": 50}, {"is_constraint": True}])),
    st.tuples(st.just("draft"), keys, values),
    st.tuples(st.just("retract"), keys),
    st.tuples(st.just("work"), keys, values),
    st.tuples(st.just("around"), keys, values),
    st.tuples(st.just("fold"), st.integers(1, 4)),
    st.tuples(st.just("page")),
    st.tuples(st.just("handle"), texts),
    st.tuples(st.just("wait"), st.sampled_from([1, 100])),
    st.tuples(st.just("system"), texts),
)
plain = st.tuples(st.just("call"), st.just({"budget": 6_000, "brief": None}), texts, st.just("reply"))
turns: st.SearchStrategy[Any] = st.one_of(
    plain,
    plain,
    st.tuples(st.just("ask"), texts),
    st.tuples(st.just("assert"), keys, values, st.just({})),
    st.tuples(st.just("fold"), st.integers(1, 4)),
)
"""What makes two packs differ, and little else."""


def _lives(done: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What is done, and where: 0 in the frame, else outside of it; perhaps with a reset on the way."""
    some = st.lists(st.tuples(st.integers(0, 5), done), min_size=6, max_size=STEPS)
    return st.builds(lambda before, after: [*before, (1, ("reset",)), *after], some, some) | some


lives = _lives(steps)
erasing = _lives(st.one_of(turns, turns, steps, st.tuples(st.just("erase"), st.integers(0, 3))))


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def now_us(self) -> int:
        self.now += 1
        return self.now


class BackwardsClock(Clock):
    def now_us(self) -> int:
        self.now -= 1_000
        return self.now


def shown(pack: Any) -> tuple[Any, ...]:
    """All that there is of a pack to send or to read."""
    return (
        pack.anthropic(),
        pack.openai(),
        pack.openai_responses(),
        str(pack),
        pack.explain(),
        pack.context_hash,
        pack.manifest,
    )


@contextmanager
def scratch_stores() -> Iterator[list[MemoryStore]]:
    """The stores of their own that packs are made again in, the newest last."""
    made: list[MemoryStore] = []

    def make() -> MemoryStore:
        made.append(MemoryStore())
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "MemoryStore", make)
        yield made


CALL = ("call", {"budget": 6000, "brief": None}, "city is Lisbon. ", "reply")


class Life:
    """A session with a frame in it, and the packs that were recorded, by their ids."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.engine = holdfast.open(url, clock=self.clock, ids=CountingIds())
        self.session = self.engine.create_session("s", ledgers=[self.engine.ledger(user="ada").id], memory=True)
        self.ledgers = (self.session.ledger(), self.engine.ledger(user="ada"))
        self.frame = self.session.frame("find the city", budget=10**6)
        self.packs: dict[str, Any] = {}
        self.shown: dict[str, tuple[Any, ...]] = {}

    def place(self, where: int) -> Any:
        if where == 0 and self.session.state().frames:
            return self.frame
        return self.session

    def step(self, where: int, step: tuple[Any, ...]) -> None:
        place, ledger = self.place(where), self.ledgers[where % 2]
        match step:
            case "ask", text:
                place.record("user", text)
            case "call", options, text, then:
                self.call(place, dict(options), text, then)
            case "fold", keep:
                place.context.compact(strategy=SummarizeOldest(keep_recent=keep), window=9_000)
            case "system", text:
                place.record("system", text)
            case "assert", key, value, more:
                ledger.set(key, value, **more)
            case "draft", key, value:
                ledger.set(key, value, scope="draft", scope_id="d")
            case "retract", key:
                with suppress(errors.FactNotFound, errors.AmbiguousFact, errors.FactNotLive):
                    ledger.retract(key, reason="no more")
            case _:
                self.beside(step)

    def beside(self, step: tuple[Any, ...]) -> None:
        match step:
            case "work", key, value:
                self.session.working.set(key, value, ttl_s=70)
            case "around", key, value:
                self.session.environment.set(key, value, ttl_s=90)
            case ("page",):
                said = [each for each in self.session.messages(limit=3) if each.frame is None and each.text]
                with suppress(errors.InvalidArgument):
                    self.session.handles.page_out(f"h{said[0].seq}_0") if said else None
            case "handle", text:
                with suppress(errors.FrameNotFound, errors.AlreadyTerminal):
                    self.frame.handles.add("document", text, title=text[:9])
            case "wait", seconds:
                self.clock.now += seconds * 1_000_000
            case ("reset",):
                self.session.reset()
            case "erase", number:
                said = self.session.messages(limit=4)
                self.session.erase([each.seq for each in said[number : number + 1]], "asked to")
            case _:
                raise AssertionError(step)

    def call(self, place: Any, options: dict[str, Any], text: str, then: str) -> None:
        try:
            pack = place.pack(**options, **({"reserve": 10} if place is self.frame else {}))
        except (errors.CriticalOverflow, errors.WindowTooSmall, errors.BudgetTooSmall):
            return
        if then == "nothing":
            return
        if then == "keep":
            place.packs.store(pack)
        elif then == "reply":
            place.record("assistant", text)
        else:
            (call,) = place.record("assistant", "", tool_calls=[{"name": "look", "args": {"for": text}}]).tool_calls
            place.result(call, {"found": text})
        record = self.session.packs.list(limit=1)[0]
        assert record.context_hash == pack.context_hash
        self.packs[record.id] = pack
        self.shown[record.id] = shown(pack)

    def check(self, engine: holdfast.Engine) -> None:
        session = engine.session("s")
        assert [each.id for each in session.packs.list(limit=1_000)] == list(self.shown)[::-1]
        order = [(event.stream, event.seq) for event in all_events(engine.store)]
        with scratch_stores() as scratch:
            for name, made in self.shown.items():
                assert shown(session.packs.reproduce(name)) == made
                assert session.packs.manifest(name) == made[-1]
                there = [(event.stream, event.seq) for event in all_events(scratch[-1])]
                positions = positions_in_feed_order(scratch[-1])
                assert positions == sorted(set(positions))
                assert there == [place for place in order if place in {*there}]


@settings(max_examples=EXAMPLES)
@given(lives, st.sampled_from(["memory", "sqlite"]))
def test_every_recorded_pack_is_made_again_byte_for_byte(life: list[tuple[int, Any]], kind: str) -> None:
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        urls = ["memory:", str(folder / "a.db")]
        lived = Life(urls[kind == "sqlite"])
        exits.enter_context(lived.engine)
        for where, step in life:
            lived.step(where, step)
        before = lived.session.state()
        lived.check(lived.engine)
        assert lived.session.state() == before
        other = exits.enter_context(holdfast.open(urls[kind == "memory"]))
        holdfast.copy(lived.engine, other)
        lived.check(other)


@pytest.mark.parametrize("page", [4, 7, limits.READ_EVENTS])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_pack_is_made_again_where_events_stand_in_the_order_of_the_log(
    kind: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message from before the end of a fact stands before it, one from after it behind it, however the clocks go."""
    clock = BackwardsClock()
    with fast_folder() as folder, closing(EngineDesk(Path(folder))) as desk:
        engine = desk.open(kind, clock=clock)
        ledger = engine.ledger(user="ada")
        session = engine.create_session("s", ledgers=[ledger.id])
        ledger.set("town", "Oslo")
        before = session.record("user", "I live in Oslo.").seq
        session.ledger().set("plan", "a walk")
        session.working.set("note", "near Oslo")
        end = ledger.set("town", "Rome")
        after = session.record("user", "It was in Oslo that we met.").seq
        session.ledger().set("plan", "a swim")
        session.pack(budget=6_000)
        session.record("assistant", "I see.")
        ledger.set("town", "Bern")
        monkeypatch.setattr(limits, "READ_EVENTS", page)
        with scratch_stores() as scratch:
            session.packs.reproduce(session.packs.list(limit=1)[0])
        fact = ledger.fact("k1")
        assert (fact.superseded_by, fact.ended_seq) == (end.id, 3)
        note = session.working.items()["note"].seq
        for store in (engine.store, scratch[-1]):
            said = store.positions(session.scope.stream, (before, note, after))
            ((died,),) = (store.positions(ledger.id.stream, (fact.ended_seq,)),)
            assert said[0] < said[1] < died < said[2]


@settings(max_examples=EXAMPLES)
@given(erasing)
@example([(0, ("ask", "city is Lisbon. ")), (1, CALL), (0, ("erase", 1))])  # the newest activity of a live frame
def test_what_was_erased_is_in_no_pack_that_can_be_had(life: list[tuple[int, Any]]) -> None:
    """A pack that shows it is gone with it; another one is the same as ever, or it is said that it cannot be."""
    lived = Life("memory:")
    for where, step in life:
        lived.step(where, step)
    left = {each.id for each in lived.session.packs.list(limit=1_000)}
    events = [(each.seq, upcast.decode_event(each)) for each in lived.session.events(limit=1_000)]
    erasures = [(seq, event.seqs) for seq, event in events if isinstance(event, PayloadsErased)]
    for name, made in lived.shown.items():
        shows = {seq for each in made[-1].entries if _shows(each) for seq in range(each.at, max(each.at, each.to) + 1)}
        if name not in left:
            with pytest.raises(errors.PackChanged):
                lived.session.packs.manifest(name)
            continue
        since = {each for seq, seqs in erasures if seq > made[-1].version for each in seqs}
        assert shows.isdisjoint(since)
        try:
            assert shown(lived.session.packs.reproduce(name)) == made
        except errors.PackChanged as changed:
            assert "was erased since" in changed.reason  # noqa: PT017 - it may be the same as well
    assert lived.engine.admin.verify().problems == ()


def _shows(entry: ManifestEntry) -> bool:
    return entry.section in ("system", "history", "handles") and entry.fate in ("included", "reduced") and entry.at > 0


# What is told of two of them


def _facts(entries: tuple[ManifestEntry, ...]) -> dict[tuple[str, str], ManifestEntry]:
    own = (each for each in entries if each.section == "facts")
    return {
        (each.id.partition("@")[0], "user ada" if ", user ada, " in each.source else "session"): each for each in own
    }


def _check_deaths(lived: Life, first: Any, second: Any, diff: PackDiff) -> None:
    """Every fact that was shown, and is dead, is said to have died."""
    told = {(each.entry.id.partition("@")[0], each.entry.source): each for each in diff.changes}
    versions = dict(second.manifest.ledgers)
    for (name, whose), entry in _facts(first.manifest.entries).items():
        ledger = lived.ledgers[whose == "user ada"]
        fact = ledger.fact(name)
        by = fact.superseded_by
        if entry.fate not in ("included", "reduced"):
            continue
        if by is not None and int(by[1:]) <= versions[ledger.id]:
            assert f"was superseded by {by} ({fact.rule})" in told[name, entry.source].why
        elif fact.has_expired(second.manifest.request.as_of_us) and fact.status != "retracted":
            assert told[name, entry.source].why == f"{fact.key} expired"


def _check_folds(lived: Life, first: Any, second: Any, diff: PackDiff) -> None:
    """The newest fold between them is told of, if it took in something that the first one shows."""
    span = range(first.manifest.version + 1, second.manifest.version + 1)
    reset = [
        each.seq for each in lived.session.events(limit=1_000) if each.seq in span and each.type == "session.reset"
    ]
    for recorded in reversed(lived.session.events(limit=1_000)):
        event = upcast.decode_event(recorded) if recorded.seq in span else None
        if isinstance(event, ContextCompacted) and event.fold is not None and event.frame == first.manifest.frame:
            stretch = range(event.fold.first, event.fold.last + 1)
            own = [each for each in first.manifest.entries if each.section == "history"]
            whole = [each for each in own if each.fate == "included" and each.at in stretch and each.to in stretch]
            if whole and not reset and second.manifest.request.profile.history == "whole":
                assert f"folded at boundary {recorded.seq}" in diff.explain()
            return


def _begins(first: Any, second: Any) -> bool:
    before, after = first.history, second.history
    same = (before.system, first.tools) == (after.system, second.tools)
    return same and after.items[: len(before.items)] == before.items


@settings(max_examples=EXAMPLES)
@given(lives | _lives(turns))
def test_of_two_packs_it_is_told_what_died_and_what_was_folded(life: list[tuple[int, Any]]) -> None:
    lived = Life("memory:")
    for where, step in life:
        lived.step(where, step)
    last: dict[str | None, Any] = {}
    for name, pack in lived.packs.items():
        first = last.get(pack.manifest.frame)
        if first is not None:
            diff = lived.session.packs.diff(first, name)
            assert diff.second.id == name
            _check_deaths(lived, first, pack, diff)
            _check_folds(lived, first, pack, diff)
            assert diff.prefix_kept == _begins(first, pack), diff.explain()
            assert diff.same + len(diff.changes) > 0
        last[pack.manifest.frame] = pack
    if len(lived.packs) > 1:
        with suppress(errors.PackNotFound):  # the last one may be alone in its conversation
            assert lived.session.packs.diff().second.id == [*lived.packs][-1]
