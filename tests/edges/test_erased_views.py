"""What is erased is in no view any more: not in a summary that took it in, not in an excerpt, not in a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.adapters.system import SystemClock
from holdfast.model.rows import BlobRow, PageRow
from holdfast.types import SummarizeOldest, Summary
from tests.edges.engines import EngineDesk, contents, expect_refusal, log_of, read_raw_contents, rows_of
from tests.edges.test_erasure import DAY_S, SECRET, _age
from tests.support import CountingIds, SteppingClock, figure

EXAMPLES = figure(13, 2_000)
WINDOW = 8_000


def talk(place: Any, *texts: str) -> list[int]:
    """A turn for each of these; the seqs of what was asked."""
    asked = []
    for text in texts:
        asked.append(place.record("user", f"{text}. What about {'this ' * 60}?").seq)
        place.record("assistant", f"I see: {'words ' * 60}")
    return asked


def folded(place: Any, keep: int = 2) -> int:
    """Fold all but the newest messages; the event that did."""
    at = place.context.compact(strategy=SummarizeOldest(keep_recent=keep), window=WINDOW).at
    assert at is not None
    return int(at)


def erased_in(session: holdfast.Session) -> set[int]:
    return {event.seq for event in session.events(limit=1_000) if event.payload is None}


def summaries_of(place: Any) -> list[int]:
    return [item.seq for item in place.context.view().items if isinstance(item, Summary)]


def check_sound(engine: holdfast.Engine, folder: Path) -> None:
    """Rows and states are those that the log makes, here and where it is taken to."""
    assert engine.admin.verify().problems == ()
    before = rows_of(engine)
    engine.admin.rebuild()
    assert rows_of(engine) == before
    with moved(engine, folder) as other:
        assert (log_of(other), rows_of(other)) == (log_of(engine), before)


@contextmanager
def moved(engine: holdfast.Engine, folder: Path) -> Iterator[holdfast.Engine]:
    path = folder / "moved.jsonl"
    engine.admin.export(path)
    with holdfast.open("memory:") as other:
        other.admin.import_(path)
        assert other.admin.verify().problems == ()
        yield other
    path.unlink()


def test_an_erased_message_takes_along_every_fold_that_took_it_in(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    secret, *_ = talk(session, SECRET, "one", "two")
    first = folded(session)
    talk(session, "three", "four")
    second = folded(session)
    assert [summaries_of(session), SECRET in session.context.render("text")] == [[second], True]
    session.erase([secret], "asked to")
    assert erased_in(session) == {secret, first, second}
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert summaries_of(session) == []
    assert [
        len(item.messages) for item in session.context.view().items if isinstance(item, holdfast.types.MessageGroup)
    ] == [1] * 9
    check_sound(engine, desk.folder)


def test_a_fold_that_never_took_it_in_stays(engine: holdfast.Engine, desk: EngineDesk) -> None:
    """Conversations are woven into one another in the log: a frame's message lies within a stretch of the session's."""
    session = engine.create_session("s")
    frame = session.frame("work", budget=10**6)
    talk(session, "one")
    (secret,) = talk(frame, SECRET)
    mine, *_ = talk(session, "two", "three")
    talk(frame, "four", "five")
    outside, inside = folded(session), folded(frame)
    session.erase([secret], "asked to")
    assert erased_in(session) == {secret, inside}
    assert [summaries_of(session), summaries_of(frame)] == [[outside], []]
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    session.erase([mine], "asked to")
    assert erased_in(session) == {secret, inside, mine, outside}
    check_sound(engine, desk.folder)


def test_a_boundary_can_be_erased_and_the_view_is_as_it_was(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    talk(session, "one", "two")
    before = session.context.view().items
    at = folded(session)
    session.handles.page_out(f"h{at - 1}_0")
    session.erase([at, at + 1], "asked to")
    assert session.context.view().items == before
    assert [row for row in rows_of(engine) if isinstance(row, PageRow)] == []
    check_sound(engine, desk.folder)


def test_an_erased_piece_is_nowhere_any_more(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    (secret,) = talk(session, SECRET)
    kept, _ = talk(session, "one", "two")
    session.handles.page_out(f"h{secret}_0")
    paged = session.handles.page_out(f"h{kept}_0")
    session.erase([secret], "asked to")
    assert [(handle.id, handle.residency) for handle in session.handles.list()] == [(paged.id, "paged_out")]
    assert [row.message for row in rows_of(engine) if isinstance(row, PageRow)] == [kept]
    assert [f"blob:{row.digest}" for row in rows_of(engine) if isinstance(row, BlobRow)] == [paged.locator]
    for gone in (session.handles.page_in, session.handles.page_out, session.handles.read):
        with expect_refusal(engine, errors.HandleNotFound):
            gone(f"h{secret}_0")
    assert session.handles.page_in(paged).residency == "resident"
    check_sound(engine, desk.folder)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_copy_of_an_erased_piece_is_collected(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind, clock=SystemClock())
    session = engine.create_session("s")
    secret, kept = talk(session, SECRET, "one")
    pages = [session.handles.page_out(f"h{seq}_0") for seq in (secret, kept)]
    _age(engine, 2 * DAY_S, desk.folder)
    assert engine.admin.collect() == 0
    session.erase([secret], "asked to")
    assert engine.admin.collect() == 1
    assert session.handles.page_in(pages[1]).residency == "resident"
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert engine.admin.verify().ok


def test_a_frame_is_erased_with_the_views_of_its_conversation(engine: holdfast.Engine, desk: EngineDesk) -> None:
    """Its messages stay, as all messages do that nobody names."""
    session = engine.create_session("s")
    frame = session.frame(f"{SECRET} goal", budget=10**6)
    asked = talk(frame, "one", "two", "three")
    handle = frame.handles.add("document", f"{SECRET} text")
    frame.handles.replace(handle, f"{SECRET} again", title=SECRET)
    folded(frame)
    frame.handles.page_out(f"h{asked[-1]}_0")
    draft = frame.context.draft_summary(keep_turns=0)
    assert draft is not None
    frame.context.summarize(draft, "they spoke")
    frame.pop()
    session.erase([2], "asked to")
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    with expect_refusal(engine, errors.FrameNotFound):
        folded(frame)
    assert session.context.view().items == ()
    assert [
        item.messages[0].seq for item in frame.context.view().items if isinstance(item, holdfast.types.MessageGroup)
    ] == [*range(3, 9)]
    check_sound(engine, desk.folder)


def test_a_destroyed_session_leaves_nothing_of_its_views(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    secret, *_ = talk(session, "one", SECRET, "two")
    session.handles.page_out(f"h{secret}_0")
    session.handles.page_in(f"h{secret}_0")
    folded(session)
    assert SECRET.encode() in read_raw_contents(engine, desk)
    session.destroy(offload=False)
    log, rows, _ = contents(engine)
    assert [row for row in rows if not isinstance(row, holdfast.types.SessionRow)] == []
    assert all(SECRET.encode() not in (event.payload or b"") for event in log)
    assert engine.admin.verify().ok


# Whatever was done, in whatever order


def _marked(session: holdfast.Session, place: Any) -> None:
    """A turn whose question tells where in the log it stands."""
    talk(place, f"<{session.state().version + 1}>")


def _page(session: holdfast.Session, number: int, move: Callable[[str], object]) -> None:
    """Some message of either conversation, if it is in view."""
    messages = session.messages(limit=1_000)
    chosen = messages[number % len(messages)]
    if chosen.erased:
        with pytest.raises(errors.HandleNotFound):
            move(f"h{chosen.seq}_0")
    else:
        with suppress(errors.InvalidArgument):  # a summary stands for it
            move(f"h{chosen.seq}_0")


def _step(session: holdfast.Session, frame: holdfast.Frame, what: str, number: int) -> None:
    place: Any = (session, frame)[number % 2]
    match what:
        case "talk":
            _marked(session, place)
        case "fold":
            place.context.compact(strategy=SummarizeOldest(keep_recent=number % 3), window=WINDOW)
        case "shrink":
            place.context.compact(window=1 + number * 20, policy=holdfast.types.Classic(large=50, excerpt=10))
        case "page out":
            _page(session, number, session.handles.page_out)
        case "page in":
            _page(session, number, session.handles.page_in)
        case "erase":
            session.erase([max(3, number % session.state().version + 1)], "asked to")


STEPS = ("talk", "talk", "talk", "fold", "shrink", "page out", "page out", "page in", "erase")


@settings(max_examples=EXAMPLES)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60)), max_size=20))
def test_what_was_erased_is_in_no_view_and_the_rest_is_as_the_log_makes_it(steps: list[tuple[str, int]]) -> None:
    with holdfast.open("memory:", clock=SteppingClock(), ids=CountingIds()) as engine:
        session = engine.create_session("s")
        frame = session.frame("work", budget=10**6)
        _marked(session, session)
        for what, number in steps:
            _step(session, frame, what, number)
        texts = [
            session.context.render("text"),
            frame.context.render("text"),
            *(str(event.payload) for event in log_of(engine)),
        ]
        for message in session.messages(limit=1_000):
            shown = f"<{message.seq}>" in "".join(texts)
            assert shown == (not message.erased) or message.role == "assistant"
        before = rows_of(engine), session.context.view(), frame.context.view()
        assert engine.admin.verify().problems == ()
        engine.admin.rebuild()
        assert (rows_of(engine), session.context.view(), frame.context.view()) == before
