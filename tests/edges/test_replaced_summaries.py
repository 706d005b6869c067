"""Another text for a summary in view: it changes that item alone, only while the summary is in view, and is erased with
what it tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Prices, errors
from holdfast.core import upcast
from holdfast.model.history.events import SummaryRecorded
from holdfast.types import SummarizeOldest, SummaryDraft
from tests.edges.test_erased_views import check_sound, erased_in, folded, talk
from tests.edges.test_erasure import SECRET
from tests.support import figure

BETTER = "The user asked about harbours and cranes; the assistant saw both."


class Writer:
    """A summarizer that says what it was given to read, or fails."""

    prices: Prices | None = None

    def __init__(self, text: str = BETTER) -> None:
        self.text = text
        self.seen: list[str] = []
        self.failing = True

    def summarize(self, draft: SummaryDraft, tokens: int) -> str:
        if self.failing:
            raise RuntimeError("no model today")
        self.seen.append(draft.text)
        return self.text


@pytest.fixture
def session() -> Iterator[holdfast.Session]:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        talk(session, "About harbours", "About cranes", "About ropes")
        yield session


def test_a_rule_made_summary_is_used_at_once_and_replaced_later(session: holdfast.Session) -> None:
    at = folded(session)
    (old,) = session.context.summaries()
    assert (old.seq, old.made_by, old.messages) == (at, "rule", 4)
    before = session.context.view()
    new = session.context.replace_summary(at, BETTER)
    after = session.context.view()
    assert session.context.summaries() == (new,)
    assert (new.first, new.last, new.messages, new.replaced) == (old.first, old.last, old.messages, old.replaced)
    assert (new.made_by, after.items[0].text) == ("model", BETTER)  # type: ignore[union-attr]
    assert after.items[1:] == before.items[1:]
    event = upcast.decode_event(session.events(after=new.seq - 1, limit=1)[0])
    assert isinstance(event, SummaryRecorded)
    assert (event.replaces, event.first_changed) == (at, 0)
    assert event.original - event.final == before.tokens - after.tokens
    assert session.messages(limit=100)[0].text.startswith("About harbours")


def test_only_a_summary_in_view_can_be_replaced(session: holdfast.Session) -> None:
    at = folded(session)
    session.context.replace_summary(at, BETTER)
    with pytest.raises(errors.PlanStale):
        session.context.replace_summary(at, "Another text.")
    talk(session, "About tides", "About winds")
    later = folded(session)
    with pytest.raises(errors.PlanStale):
        session.context.replace_summary(session.context.summaries()[0].seq - 1, "Another text.")
    session.context.replace_summary(later, "All of it.")
    first = session.messages(limit=100)[0].seq
    (kept,) = session.context.summaries()
    session.erase([first], "asked to")
    with pytest.raises(errors.PlanStale):
        session.context.replace_summary(kept.seq, "Too late.")


@pytest.mark.parametrize("text", ["", "  \n", "word " * 2_000])
def test_an_empty_or_longer_text_is_refused(session: holdfast.Session, text: str) -> None:
    at = folded(session)
    before = session.context.view()
    with pytest.raises(errors.InvalidArgument):
        session.context.replace_summary(at, text)
    assert session.context.view() == before


def test_a_repeated_command_is_the_same_answer(session: holdfast.Session) -> None:
    at = folded(session)
    first = session.context.replace_summary(at, BETTER, key="once")
    talk(session, "About tides")
    assert session.context.replace_summary(at, BETTER, key="once") == first
    assert len(session.context.summaries()) == 1
    with pytest.raises(errors.KeyConflict):
        session.context.replace_summary(at, "Another text.", key="once")


def test_what_is_erased_is_in_neither_text(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine:
        session = engine.create_session("s")
        (secret, *_) = talk(session, f"The code is {SECRET}", "About cranes", "About ropes")
        at = folded(session)
        new = session.context.replace_summary(at, f"The user told the code {SECRET}.")
        talk(session, "About tides", "About winds")
        over = folded(session)
        session.erase([secret], "asked to")
        assert {secret, at, new.seq, over} <= erased_in(session)
        assert not any(SECRET in str(item) for item in session.context.view().items)
        check_sound(engine, tmp_path)


def test_a_replaced_summary_survives_a_move_and_a_rebuild(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine:
        session = engine.create_session("s")
        talk(session, "About harbours", "About cranes", "About ropes")
        session.context.replace_summary(folded(session), BETTER)
        check_sound(engine, tmp_path)


def test_the_summarizer_writes_anew_what_the_rules_made() -> None:
    writer = Writer()
    with holdfast.open("memory:", summarizer=writer) as engine:
        session = engine.create_session("s")
        talk(session, "About harbours", "About cranes", "About ropes")
        folded(session)
        assert session.context.summaries()[0].made_by == "rule"  # it failed, and nobody waited for it
        assert session.context.improve_summaries() == ()
        writer.failing = False
        (new,) = session.context.improve_summaries()
        assert (new.text, new.made_by) == (BETTER, "model")
        assert "About harbours" in writer.seen[-1]
        assert session.context.improve_summaries() == ()
        talk(session, "About tides", "About winds")
        folded(session)
        assert session.context.summaries()[0].made_by == "model"


def test_without_a_summarizer_there_is_nobody_to_ask(session: holdfast.Session) -> None:
    with pytest.raises(errors.InvalidArgument, match="summarizer"):
        session.context.improve_summaries()


def test_it_works_without_blocking() -> None:
    async def use() -> None:
        writer = Writer()
        async with await holdfast.open_async("memory:", summarizer=writer) as engine:
            session = await engine.create_session("s")
            for text in ("About harbours", "About cranes", "About ropes"):
                await session.record("user", f"{text}. What about {'this ' * 60}?")
                await session.record("assistant", f"I see: {'words ' * 60}")
            await session.context.compact(strategy=SummarizeOldest(keep_recent=2), window=8_000)
            writer.failing = False
            (new,) = await session.context.improve_summaries()
            assert await session.context.summaries() == (new,)

    asyncio.run(use())


@settings(max_examples=figure(5, 300), deadline=None)
@given(st.lists(st.sampled_from(["talk", "fold", "replace", "erase"]), max_size=12))
def test_whatever_comes_between_the_log_tells_the_same(steps: list[str]) -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        talk(session, "About harbours", "About cranes")
        for number, step in enumerate(steps):
            if step == "talk":
                talk(session, f"About number {number}")
            elif step == "fold":
                session.context.compact(strategy=SummarizeOldest(keep_recent=2), window=8_000)
            elif step == "erase" and (messages := session.messages(limit=100)):
                session.erase([messages[number % len(messages)].seq], "asked to")
            for summary in session.context.summaries() if step == "replace" else ():
                new = session.context.replace_summary(summary.seq, f"In short: {number}.")
                assert new in session.context.summaries()
        assert engine.admin.verify().problems == ()
