"""An erased event takes along every event that repeats something of it: words, names, or a digest that a guess can be
checked against. What repeats nothing of it stays."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Identity
from holdfast.core import upcast
from holdfast.model.packs.events import PackRecorded
from holdfast.types import SummarizeOldest
from tests.edges.test_erased_views import WINDOW, check_sound, erased_in, talk
from tests.edges.test_erasure import SECRET
from tests.support import CountingIds, SteppingClock


@pytest.fixture
def memory() -> Iterator[holdfast.Engine]:
    with holdfast.open("memory:", clock=SteppingClock(), ids=CountingIds()) as engine:
        yield engine


@pytest.fixture
def session(memory: holdfast.Engine) -> holdfast.Session:
    return memory.create_session("s")


def newest(session: holdfast.Session) -> int:
    return session.state().version


def seqs_of(session: holdfast.Session, kind: str) -> list[int]:
    return [event.seq for event in session.events(limit=1_000) if event.type == kind]


def told_in(session: holdfast.Session, text: str) -> list[str]:
    """The types of the events that say this, also in a manifest, which is stored compressed."""
    found = []
    for event in session.events(limit=1_000):
        said = event.payload or b""
        current = upcast.decode_event(event)
        if isinstance(current, PackRecorded) and isinstance(current.manifest, bytes):
            said += zlib.decompress(current.manifest)
        if text.encode() in said:
            found.append(event.type)
    return found


# What the guard recorded


def test_what_the_guard_found_in_an_erased_message_is_erased(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path
) -> None:
    """Such a record says which facts the message states, and has a digest of their keys, which anyone can guess."""
    ledger = session.ledger()
    ledger.set("shipping_address", "12 Main St")
    first = session.record("user", "Ship it to 12 Main St, please.").seq
    second = session.record("user", "Again, 12 Main St is where I live.").seq
    third = session.record("user", "What now?").seq
    ledger.set("shipping_address", "5 Oak Ave")
    assert "12 Main St" not in session.pack().text
    [record] = seqs_of(session, "context.redacted")
    session.erase([first], "asked to")
    assert erased_in(session) == {first, record}
    assert "12 Main St" not in session.pack().text, "the other message is guarded as before"
    session.erase([third], "asked to")
    assert erased_in(session) == {first, third, record}, "what states no such fact takes nothing along"
    assert [item.seq for item in session.context.view().items] == [second]
    check_sound(memory, tmp_path)


# What a detector proposed


def test_a_value_that_was_proposed_goes_with_the_message_that_states_it(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path
) -> None:
    """The user only agrees; the value is in the question before."""
    session.ledger().set("delivery_slot", "morning")
    offer = session.record("assistant", "Should I change your delivery slot to evening?").seq
    answer = session.observe("Yes please, do that.").message.seq
    [proposed] = seqs_of(session, "facts.proposed")
    assert told_in(session, "evening") == ["message.recorded", "facts.proposed"]
    session.erase([offer], "asked to")
    assert erased_in(session) == {offer, proposed}
    assert not session.messages()[-1].erased
    assert session.messages()[-1].seq == answer
    assert told_in(session, "evening") == []
    check_sound(memory, tmp_path)


# What a summary took in


def test_a_summary_goes_with_the_summary_that_it_took_in(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path
) -> None:
    talk(session, "one", "two", "three", "four")
    texts = iter((f"{SECRET} is what they spoke of", f"{SECRET} was all along what they spoke of"))
    for keep in (2, 1):
        draft = session.context.draft_summary(keep_turns=keep)
        assert draft is not None
        session.context.summarize(draft, next(texts))
    first, second = seqs_of(session, "summary.recorded")
    session.erase([first], "asked to")
    assert erased_in(session) == {first, second}
    assert told_in(session, SECRET) == []
    check_sound(memory, tmp_path)


def test_a_text_that_replaces_a_summary_goes_with_it(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path
) -> None:
    talk(session, "one", "two", "three")
    at = session.context.compact(strategy=SummarizeOldest(keep_recent=2), window=WINDOW).at
    assert at is not None
    other = session.context.replace_summary(at, f"{SECRET} in better words").seq
    session.erase([at], "asked to")
    assert erased_in(session) == {at, other}
    check_sound(memory, tmp_path)


def test_a_summary_of_other_messages_stays(session: holdfast.Session) -> None:
    talk(session, "one", "two", "three", "four")
    draft = session.context.draft_summary(keep_turns=2)
    assert draft is not None
    summary = session.context.summarize(draft, "they spoke")
    *_, last = session.messages()
    paged = session.handles.page_out(f"h{last.seq}_0")
    session.erase([last.seq], "asked to")
    assert erased_in(session) == {last.seq, newest(session) - 1}
    assert paged.at == last.seq
    assert [item.seq for item in session.context.view().items][:1] == [summary.seq]


# What a pack showed


def _set_working(session: holdfast.Session) -> None:
    session.working.set(SECRET, "a value")


def _set_environment(session: holdfast.Session) -> None:
    session.environment.set(SECRET, "a value")


def _refresh_identity(session: holdfast.Session) -> None:
    session.refresh_identity(Identity(user_name=SECRET))


def _update_situation(session: holdfast.Session) -> None:
    session.situation.update({"goal": SECRET})


@pytest.mark.parametrize("change", [_set_working, _set_environment, _refresh_identity, _update_situation])
def test_the_record_of_a_pack_goes_with_each_layer_that_it_shows(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path, change: Any
) -> None:
    """A manifest has the names of items, and unsalted digests of what is shown."""
    session.record("user", "What now?")
    session.pack()
    session.record("assistant", "Nothing.")
    change(session)
    changed = newest(session)
    session.pack()
    session.record("assistant", "Still nothing.")
    before, after = seqs_of(session, "pack.recorded")
    session.erase([changed], "asked to")
    assert erased_in(session) == {changed, after}
    assert told_in(session, SECRET) == []
    assert [pack.seq for pack in session.packs.list()] == [before]
    check_sound(memory, tmp_path)


def test_the_record_of_a_pack_goes_with_its_frame(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path
) -> None:
    """The manifest has the titles of handles that did not fit."""
    frame = session.frame("work", budget=100_000)
    frame.handles.add("document", "text " * 5_000, title=SECRET)
    frame.record("user", "What now?")
    frame.pack(budget=1_000)
    frame.record("assistant", "Nothing.")
    [packed] = seqs_of(session, "pack.recorded")
    assert told_in(session, SECRET) == ["frame.handle_added", "pack.recorded"]
    frame.pop()
    session.erase([2], "asked to")
    assert packed in erased_in(session)
    assert told_in(session, SECRET) == []
    check_sound(memory, tmp_path)


# What a call was started with


def test_the_key_of_a_call_goes_with_the_call(
    memory: holdfast.Engine, session: holdfast.Session, tmp_path: Path
) -> None:
    reply = session.record("assistant", "", tool_calls=[{"name": "pay", "args": {"to": SECRET}}])
    [call] = reply.tool_calls
    session.start_call(call, call_key=f"pay-{SECRET}")
    result = session.result(call, "paid").seq
    [started] = seqs_of(session, "call.started")
    session.erase([reply.seq], "asked to")
    assert erased_in(session) == {reply.seq, started, result}
    assert told_in(session, SECRET) == []
    check_sound(memory, tmp_path)
