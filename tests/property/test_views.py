"""Views and erasures: a view shows whole units whatever happens meanwhile, and nothing of what was erased is anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Usage, errors
from holdfast.flows.history import views
from holdfast.flows.sessions.messages import record_drafts
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.model.sessions.messages import CallDraft, MessageDraft, ResultDraft
from holdfast.ports import EventStore
from holdfast.types import Summary, SummaryDraft
from tests.property.session_model import CharCounter
from tests.property.store_tools import all_events, dump, fast_folder, store_of_kind
from tests.property.transcript_player import check_pairs
from tests.support import CountingIds, SteppingClock, figure

SECRET = "the-secret-7f3a9c"
CALLS = [{"name": "search", "args": {"for": SECRET}, "id": "p"}, {"name": "read", "args": {}, "id": "q"}]


def opened(url: str, **options: Any) -> holdfast.Engine:
    return holdfast.open(url, clock=SteppingClock(), ids=CountingIds(), counter=CharCounter(), **options)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[holdfast.Engine]:
    with store_of_kind(request.param) as url, opened(url) as engine:
        yield engine


def on_disk(folder: Path) -> list[str]:
    """The files below this folder in which the secret can be read."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if SECRET.encode() in path.read_bytes())


def in_log(engine: holdfast.Engine) -> list[int]:
    return [event.seq for event in all_events(engine) if SECRET.encode() in (event.payload or b"")]


# Erasing

MEMBERS = {"the call": 3, "a result": 4, "the result that closed the other": 6, "the result that came late": 9}


def _secretive(session: holdfast.Session) -> None:
    """A group of two calls that knows a secret, with words between its results, and summaries that tell of it."""
    session.record("user", "hello")
    session.record("assistant", SECRET, tool_calls=CALLS)
    session.result("q", [SECRET])
    session.record("user", "hurry up, please, I have no time")
    session.close_calls(f"{SECRET} was too slow")
    session.record("assistant", "that did not work")
    session.record("user", "try again then")
    session.result("p", f"late {SECRET}")
    for first, last, text in ((2, 6, f"a {SECRET}"), (7, 8, "tried"), (2, 8, f"b {SECRET}")):
        session.context.summarize(summary_of(session, first, last), text)


def summary_of(session: holdfast.Session, first: int, last: int) -> SummaryDraft:
    version = session.state().version
    return SummaryDraft(scope=session.scope, first=first, last=last, version=version, items=(), tokens=0)


@pytest.mark.parametrize("member", MEMBERS)
def test_erasing_any_member_of_a_group_erases_all_of_it_and_all_that_tells_of_it(member: str, tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    with opened(path) as engine, opened(path) as other:
        session = engine.create_session("s")
        _secretive(session)
        assert on_disk(tmp_path)
        other.session("s").context.window()
        session.erase([MEMBERS[member]], "asked to")
        assert in_log(engine) == []
        assert on_disk(tmp_path) == []
        for each in (engine, other):
            view = each.session("s").context.window()
            assert SECRET not in repr(view)
            assert [item.text if isinstance(item, Summary) else item.seq for item in view.items] == [2, 5, "tried"]
            check_pairs(view)
        kept = [message.text for message in session.messages() if not message.erased]
        assert kept == ["hello", "hurry up, please, I have no time", "that did not work", "try again then"]
        assert session.evidence()[0].erased
        assert engine.admin.verify().problems == ()
    assert on_disk(tmp_path) == []


def test_erasing_what_stands_between_calls_and_results_leaves_them_alone(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("assistant", None, tool_calls=CALLS)
    session.record("user", "hurry up")
    session.close_calls("gone")
    session.erase([3], "asked to")
    assert [[message.seq for message in unit.messages] for unit in session.context.window().groups] == [[2, 4]]


def _found(engine: holdfast.Engine, session: holdfast.Session, *drafts: MessageDraft) -> None:
    """Record what another log holds, as it was found there."""
    engine._drive(record_drafts(session._context, drafts, as_found=True))


def test_an_empty_reply_between_call_and_result_does_not_part_them(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    _found(
        engine,
        session,
        MessageDraft(role="assistant", tool_calls=(CallDraft("t", {}, "p"),)),
        MessageDraft(role="assistant"),
        MessageDraft(role="tool", tool_results=(ResultDraft("p", SECRET),)),
    )
    session.erase([2], "asked to")
    assert in_log(engine) == []
    assert engine.admin.verify().problems == ()


def test_evidence_for_a_call_that_never_was_goes_alone(engine: holdfast.Engine) -> None:
    session = engine.create_session("s", metadata={"a": 1})
    session.record("user", "hello")
    results = tuple(ResultDraft(name, SECRET) for name in ("c1_0", "c2_0", "c99_0", "nowhere"))
    _found(engine, session, MessageDraft(role="tool", tool_results=results))
    session.erase([message.seq for message in session.evidence()], "asked to")
    assert in_log(engine) == []
    assert session.state().metadata == {"a": 1}
    assert [message.text for message in session.messages()] == ["hello"]


def test_erasing_a_message_leaves_alone_what_only_seems_to_answer_it(engine: holdfast.Engine) -> None:
    """A log from elsewhere has ids of its own, which may read like ours."""
    session = engine.create_session("s")
    session.record("user", "hello")
    _found(engine, session, MessageDraft(role="tool", tool_results=(ResultDraft("c2_0", "kept"),)))
    session.erase([2], "asked to")
    assert [message.text for message in session.evidence()] == ["kept"]


def test_a_late_result_may_come_in_one_batch_with_a_new_call_of_its_id(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("assistant", None, tool_calls=CALLS)
    session.close_calls("gone")
    late = {"role": "tool", "tool_results": [{"tool_call_id": "p", "result": "late"}]}
    again = {"role": "assistant", "content": "again", "tool_calls": CALLS}
    assert [message.late for message in session.record_all([late, again])] == ["the call was closed before", ""]


def test_a_log_whose_erased_summaries_and_erasures_reach_into_each_other_is_as_good_elsewhere(
    engine: holdfast.Engine,
) -> None:
    """The first summary stands, as an event, among those that the second stands for, and the third cuts through the second
    once that is void: taken in elsewhere, event by event, no two of them may ever seem to be in effect."""
    session = engine.create_session("s")
    for _ in range(4):
        session.record("user", "x" * 30)
    session.context.summarize(summary_of(session, 2, 3), "one")
    for _ in range(2):
        session.record("user", "x" * 30)
    session.context.summarize(summary_of(session, 4, 8), "two")
    session.erase([2], "asked to")
    session.context.summarize(summary_of(session, 5, 7), "three")
    session.erase([10], "nobody need know why")
    assert engine.admin.verify().problems == ()
    with fast_folder() as folder, opened("memory:") as copy:
        engine.admin.export(f"{folder}/log.jsonl")
        copy.admin.import_(f"{folder}/log.jsonl")
        assert dump(copy) == dump(engine)


def test_a_destroyed_session_that_was_not_to_be_kept_leaves_nothing(tmp_path: Path) -> None:
    with opened(str(tmp_path / "log.db")) as engine:
        session = engine.create_session("s", metadata={"note": SECRET})
        _secretive(session)
        session.destroy("over", offload=False)
        assert engine.admin.outbox() == []
        assert in_log(engine) == []
        assert on_disk(tmp_path) == []
        assert engine.admin.verify().problems == ()
        engine.admin.rebuild()
        assert engine.admin.outbox() == []


@pytest.mark.parametrize("at_once", [3, 4, 5, 6])
def test_a_destroyed_session_that_is_erased_only_in_part_can_be_taken_elsewhere(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long one is erased in several steps, and the process may end between two of them."""
    monkeypatch.setattr(limits, "ERASE_EVENTS", at_once)
    with opened(str(tmp_path / "log.db")) as engine, opened("memory:") as copy:
        session = engine.create_session("s")
        _secretive(session)
        store, engine.store = engine.store, cast("EventStore", Failing(engine.store, 2))
        with pytest.raises(errors.StorageUnavailable):
            session.destroy("over", offload=False)
        engine.store = store
        engine.admin.export(tmp_path / "log.jsonl")
        copy.admin.import_(tmp_path / "log.jsonl")
        assert dump(copy) == dump(engine)
        for each in (engine, copy):
            each.admin.sweep()
            assert in_log(each) == []
            assert each.admin.verify().problems == ()


class Failing:
    """A store that takes so many appends and no more."""

    def __init__(self, inner: EventStore, appends: int) -> None:
        self.inner = inner
        self.left = appends

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, append: Append) -> AppendResult:
        if not self.left:
            raise errors.StorageUnavailable(what="the store", reason="the process ends here")
        self.left -= 1
        return self.inner.append(append)


def test_a_session_that_timed_out_can_be_taken_elsewhere_after_its_creation_was_erased(tmp_path: Path) -> None:
    clock = SteppingClock()
    with holdfast.open(tmp_path / "log.db", clock=clock) as engine, opened("memory:") as copy:
        session = engine.create_session("s", idle_timeout_s=0.000_001, metadata={"note": SECRET})
        assert len(engine.admin.sweep().sessions) == 1
        session.erase([1], "asked to")
        engine.admin.export(tmp_path / "log.jsonl")
        copy.admin.import_(tmp_path / "log.jsonl")
        assert dump(copy) == dump(engine)


# Views


@given(before=st.integers(1, 60), size=st.integers(1, 400), budget=st.integers(1, 300))
@settings(max_examples=figure(30, 2_000))
def test_calls_that_wait_take_no_room(before: int, size: int, budget: int) -> None:
    """What is shown beside an open group is what was shown before it was opened."""
    with opened("memory:") as engine:
        session = engine.create_session("s")
        session.record_all([("assistant", "x" * 3)] * before)
        shown = _shown(session, budget)
        session.record("assistant", None, tool_calls=[{"name": "t", "args": {"a": "x" * size}}])
        assert _shown(session, budget) == shown
        assert session.context.window(10_000).omitted == 1


def _shown(session: holdfast.Session, budget: int) -> list[int] | None:
    try:
        return [message.seq for message in session.context.window(budget).messages]
    except errors.WindowTooSmall:
        return None


@given(st.data())
@settings(max_examples=figure(30, 2_000))
def test_a_draft_is_always_something_that_can_be_summarised(data: st.DataObject) -> None:
    """Also where a turn to be kept lies inside what another summary stands for."""
    with opened("memory:") as engine:
        session = engine.create_session("s")
        for _ in range(data.draw(st.integers(1, 4))):
            session.record_all(data.draw(st.lists(_turns, min_size=1, max_size=5)))
            version = session.state().version
            first = data.draw(st.integers(1, version))
            summary = summary_of(session, first, data.draw(st.integers(first, version)))
            try:
                session.context.summarize(summary, "s")
            except errors.InvalidArgument:
                pass
            draft = session.context.draft_summary(data.draw(st.integers(0, 3)))
            if draft is not None and draft.tokens > 1 and data.draw(st.booleans()):
                session.context.summarize(draft, "d")
        assert engine.admin.verify().problems == ()


_turns = st.sampled_from([("user", "xxxx"), ("assistant", "xxxx")])


def test_sums_of_usage_stay_numbers_that_every_store_can_hold(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for _ in range(5):
        session.record("assistant", "hi", usage=Usage(input_tokens=limits.WHOLE_NUMBER))
    assert session.state().usage.input_tokens >= limits.WHOLE_NUMBER
    assert engine.admin.verify().problems == ()


# What others do while a view is being made


class Interrupted:
    """A store in which something happens, once, right before it is read for the nth time."""

    def __init__(self, inner: EventStore, after: int, happens: Callable[[], object]) -> None:
        self.inner = inner
        self.left: int | None = after
        self.happens = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, *args: Any, **kwargs: Any) -> Any:
        self._look()
        return self.inner.read(*args, **kwargs)

    def read_back(self, *args: Any, **kwargs: Any) -> Any:
        self._look()
        return self.inner.read_back(*args, **kwargs)

    def _look(self) -> None:
        if self.left == 0:
            self.left = None
            self.happens()
        elif self.left is not None:
            self.left -= 1


def _talk(session: holdfast.Session) -> None:
    """Groups, one of them with words in between, some of it summarised, one call open at the end."""
    session.record("system", "You are helpful.")
    for _ in range(3):
        session.record("user", "hello " * 9)
        session.record("assistant", None, tool_calls=CALLS)
        session.result("q", "found " * 9)
        session.record("user", "hurry up")
        session.result("p", "found " * 9)
    session.context.summarize(summary_of(session, 3, 7), "they talked")
    session.record("assistant", None, tool_calls=CALLS)
    session.result("q", "found " * 9)


HAPPENINGS: dict[str, Callable[[holdfast.Session], object]] = {
    "a result": lambda session: session.result("p", "found"),
    "more words": lambda session: session.record("user", "hello"),
    "calls are closed": lambda session: session.close_calls("gone"),
    "a summary": lambda session: session.context.summarize(summary_of(session, 2, 12), "they talked on"),
    "a system message is erased": lambda session: session.erase([2], "asked to"),
    "a summarised message is erased": lambda session: session.erase([4], "asked to"),
    "a call is erased": lambda session: session.erase([9], "asked to"),
    "a result is erased": lambda session: session.erase([17], "asked to"),
    "a reset": lambda session: session.reset("again", keep_system=False),
    "the end of it all": lambda session: session.destroy("over", offload=False),
}


@pytest.mark.parametrize("what", HAPPENINGS)
@pytest.mark.parametrize("budget", [60, 150, 2_000])
def test_a_view_holds_together_whatever_happens_while_it_is_made(
    what: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_MIN_PAGE", 2)
    with opened("memory:") as writer:
        for after in range(14):
            session = writer.create_session(f"s{after}")
            _talk(session)
            reader = holdfast.Engine(writer.store, writer._blob_store, _apart(writer))
            view_of = reader.session(f"s{after}")
            happens = _once(HAPPENINGS[what], session)
            reader.store = cast("EventStore", Interrupted(writer.store, after, happens))
            try:
                view = view_of.context.window(budget)
            except (errors.SessionDestroyedError, errors.WindowTooSmall):
                continue
            check_pairs(view)
            assert view.tokens <= budget
            assert not any(message.erased for message in (*view.messages, *view.late))
            assert all(isinstance(item, holdfast.types.MessageGroup) or item.text for item in view.items)


def _once(happening: Callable[[holdfast.Session], object], session: holdfast.Session) -> Callable[[], object]:
    return lambda: happening(session)


def _apart(engine: holdfast.Engine) -> Any:
    """The context of an engine with a memory of its own."""
    with opened("memory:") as other:
        return msgspec.structs.replace(engine._context, cache=other._context.cache)
