"""Summaries that are made before their boundary: the boundary uses them without asking, for exactly the messages they were
made of, or asks as if there were none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Prices, errors
from holdfast.model import limits
from holdfast.model.history.views import Summary
from holdfast.types import Faithful, SummaryDraft
from tests.support import figure

BUDGET = 4_000


class Writer:
    """A summarizer that notes what it was asked for."""

    prices: Prices | None = None

    def __init__(self) -> None:
        self.asked: list[SummaryDraft] = []
        self.fails = False

    def summarize(self, draft: SummaryDraft, tokens: int) -> str:
        self.asked.append(draft)
        if self.fails:
            raise RuntimeError("no model today")
        return f"Summary number {len(self.asked)}."


def say(session: Any, words: int = 120) -> Any:
    """A turn: a question, a pack, a reply."""
    session.record("user", "question " * words)
    pack = session.pack(budget=BUDGET)
    session.record("assistant", "answer " * words, pack=pack)
    return pack


def until_prepared(session: Any, writer: Writer, most: int = 40) -> Any:
    """Turns, until a summary is prepared; the last pack."""
    for _ in range(most):
        pack = say(session)
        if session.context.prepare(pack):
            assert len(writer.asked) == 1
            assert session.context.summaries() == (), "nothing is stored"
            return pack
        assert not writer.asked, "far from the boundary nothing is asked"
    raise AssertionError("it was never prepared")


@pytest.fixture
def writer() -> Writer:
    return Writer()


def test_a_boundary_uses_what_was_prepared_and_asks_nothing(writer: Writer) -> None:
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        pack = until_prepared(session, writer)
        version = session.state().version
        assert session.context.prepare(pack), "and once is enough"
        assert (len(writer.asked), session.state().version) == (1, version)
        while not session.context.summaries():
            pack = say(session)
        (summary,) = session.context.summaries()
        assert len(writer.asked) == 1
        assert (summary.text, summary.made_by) == ("Summary number 1.", "model")
        assert (summary.first, summary.last) == (writer.asked[0].first, writer.asked[0].last)
        assert pack.tokens.used < 0.85 * BUDGET
        assert engine.admin.verify().ok


def test_without_preparing_the_boundary_asks_itself(writer: Writer) -> None:
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        while not session.context.summaries():
            say(session)
        assert len(writer.asked) == 1


@settings(max_examples=figure(5, 100), deadline=None)
@given(st.lists(st.integers(10, 200), min_size=30, max_size=60))
def test_packs_never_wait_if_each_turn_is_small_and_prepared(turns: list[int]) -> None:
    writer = Writer()
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        for words in turns:
            before = len(writer.asked)
            pack = say(session, words)
            assert len(writer.asked) == before, "a pack waited"
            session.context.prepare(pack)
        assert engine.admin.verify().ok
        boundaries = sum(each.type == "frame.compacted" for each in session.events(limit=1_000))
        assert len(writer.asked) <= boundaries + 1, "each is used, but for the last"


def test_what_is_shown_otherwise_since_is_summarised_anew(writer: Writer) -> None:
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        session.ledger().set("shipping_address", "12 Elm Street")
        session.record("user", "Ship the lamp to 12 Elm Street, please. " + "word " * 100)
        pack = until_prepared(session, writer)
        assert "12 Elm Street" in writer.asked[0].text
        session.ledger().set("shipping_address", "456 Oak Avenue")
        while not session.context.summaries():
            pack = say(session)
        assert len(writer.asked) > 1
        assert "12 Elm Street" not in writer.asked[-1].text
        assert session.context.summaries()[0].text == f"Summary number {len(writer.asked)}."
        assert pack is not None


def test_what_was_erased_since_is_forgotten(writer: Writer) -> None:
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        secret = session.record("user", "The code is 4711. " + "word " * 100)
        until_prepared(session, writer)
        session.erase([secret.seq], "asked to")
        while not session.context.summaries():
            say(session)
        assert len(writer.asked) == 2
        assert "4711" not in writer.asked[1].text


def test_a_summarizer_that_fails_prepares_nothing_and_one_that_is_missing_is_named(writer: Writer) -> None:
    writer.fails = True
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        for _ in range(20):
            pack = say(session)
            assert session.context.prepare(pack) is False
        assert writer.asked
        bad: list[dict[str, Any]] = [{"pack": "pack"}, {"window": "wide"}, {"window": 0}, {"model": 3}, {"before": -1}]
        for wrong in bad:
            with pytest.raises(errors.InvalidInput):
                session.context.prepare(**{"window": 1_000, **wrong})
    with holdfast.open("memory:") as engine, pytest.raises(errors.InvalidArgument, match="summarizer="):
        engine.create_session("s").context.prepare(window=1_000)


@pytest.mark.parametrize("policy", [holdfast.types.Frugal(), holdfast.types.Classic()])
def test_other_policies_prepare_what_is_due(writer: Writer, policy: Any) -> None:
    with holdfast.open("memory:", summarizer=writer, compaction=policy) as engine:
        session = engine.create_session("s")
        for _ in range(40):
            session.record("user", "question " * 60)
            session.record("assistant", "answer " * 60)
        if session.context.prepare(window=6_000):
            asked = len(writer.asked)
            session.context.compact(window=6_000)
            assert len(writer.asked) == asked == 1
        else:
            assert not writer.asked
        assert engine.admin.verify().ok


def test_so_many_conversations_are_prepared_at_once() -> None:
    from holdfast.flows.load import PreparedSummaries, PreparedSummary
    from holdfast.model.names import Scope

    kept = PreparedSummaries(2)
    streams = [Scope("t", "a", f"s{number}").stream for number in range(3)]
    for stream in streams:
        kept.put(stream, None, PreparedSummary(5, 3, "", "text"))
    assert [kept.get(stream, None, 5) is None for stream in streams] == [True, False, False]
    assert kept.get(streams[2], None, 6) is None, "the view has changed since"
    assert kept.get(streams[2], None, 0) is None
    assert limits.PREPARED_SUMMARIES >= 1


def test_it_is_awaited_in_the_background(writer: Writer) -> None:
    async def run() -> None:
        async with await holdfast.open_async("memory:", summarizer=writer) as engine:
            session = await engine.create_session("s")
            pack: Any = None
            for _ in range(40):
                task = asyncio.create_task(session.context.prepare(pack)) if pack is not None else None
                await session.record("user", "question " * 120)
                if task is not None:
                    await task
                before = len(writer.asked)
                pack = await session.pack(budget=BUDGET)
                assert len(writer.asked) == before
                await session.record("assistant", "answer " * 120, pack=pack)
            found = [item for item in (await session.context.view()).items if isinstance(item, Summary)]
            assert found
            assert all(each.text.startswith("Summary number") for each in found)

    asyncio.run(run())


def test_a_frame_prepares_its_own_conversation(writer: Writer) -> None:
    with holdfast.open("memory:", summarizer=writer, compaction=Faithful()) as engine:
        frame = engine.create_session("s").frame("Work.", budget=1_000_000)
        pack = until_prepared(frame, writer)
        while not frame.context.summaries():
            pack = say(frame)
        assert len(writer.asked) == 1
        assert writer.asked[0].frame == frame.id
        assert pack is not None
