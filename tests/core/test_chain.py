"""The hash chain: whatever is changed shows, and what was erased does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import chain
from holdfast.errors import KeyConflict
from holdfast.model.log import Append, NewEvent, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from tests.core import json_strategies, strategies
from tests.support import figure

EXAMPLES = figure(30, 5_000)

Stream = tuple[StreamHead, list[StoredEvent]]

HEADER = (
    "stream",
    "seq",
    "command",
    "ordinal",
    "type",
    "version",
    "time_us",
    "principal",
    "cause",
    "key",
    "command_digest",
)
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "stream": strategies.streams,
    "seq": st.integers(1, 100),
    "command": st.binary(min_size=16, max_size=16).map(bytes.hex),
    "ordinal": st.integers(0, 100),
    "type": json_strategies.names,
    "version": st.integers(1, 100),
    "time_us": json_strategies.whole_numbers,
    "principal": json_strategies.names,
    "cause": st.none() | json_strategies.names,
    "key": st.none() | json_strategies.names,
    "command_digest": json_strategies.digests,
    "payload_digest": json_strategies.digests,
    "hash": json_strategies.digests,
    "salt": st.binary(min_size=16, max_size=16),
    "payload": st.binary(max_size=20),
}


def _fault(stream: Stream) -> str | None:
    """The first fault in a stream, read from its start."""
    at, events = stream
    for event in events:
        if wrong := chain.find_chain_fault(at, event):
            return wrong
        at = StreamHead(at.stream, event.seq, event.hash)
    return None


def test_every_field_of_an_event_is_put_to_the_test() -> None:
    assert set(OTHERS) == set(StoredEvent.__struct_fields__)
    assert set(HEADER) == set(OTHERS) - {"payload_digest", "hash", "salt", "payload"}


@given(strategies.event_chains())
@settings(max_examples=EXAMPLES)
def test_what_was_recorded_verifies(stream: Stream) -> None:
    start, events = stream
    assert _fault(stream) is None
    assert [event.seq for event in events] == list(range(start.version + 1, start.version + 1 + len(events)))
    assert [event.ordinal for event in events] == list(range(len(events)))
    assert len({event.id for event in events}) == len(events)


@pytest.mark.parametrize("field", HEADER)
@given(strategies.event_chains(), st.data())
@settings(max_examples=figure(10, 1_000))
def test_any_change_of_the_header_changes_the_hash(field: str, stream: Stream, data: st.DataObject) -> None:
    start, events = stream
    other = data.draw(OTHERS[field])
    assume(other != getattr(events[0], field))
    changed = msgspec.structs.replace(events[0], **{field: other})
    assert chain.event_hash(start.hash, changed) != chain.event_hash(start.hash, events[0])


@pytest.mark.parametrize("field", OTHERS)
@given(strategies.event_chains(), st.data())
@settings(max_examples=figure(10, 1_000))
def test_any_single_edit_is_found(field: str, stream: Stream, data: st.DataObject) -> None:
    start, events = stream
    at = data.draw(st.integers(0, len(events) - 1))
    other = data.draw(OTHERS[field])
    assume(other != getattr(events[at], field))
    events[at] = msgspec.structs.replace(events[at], **{field: other})
    assert _fault((start, events)) is not None


@given(strategies.event_chains(), st.data())
@settings(max_examples=EXAMPLES)
def test_a_missing_a_doubled_and_a_moved_event_is_found(stream: Stream, data: st.DataObject) -> None:
    start, events = stream
    assume(len(events) > 1)
    at = data.draw(st.integers(0, len(events) - 2))
    assert _fault((start, events[:at] + events[at + 1 :])) is not None
    assert _fault((start, [*events[: at + 1], *events[at:]])) is not None
    assert _fault((start, [*events[:at], events[at + 1], events[at], *events[at + 2 :]])) is not None


@given(strategies.event_chains(), st.data())
@settings(max_examples=EXAMPLES)
def test_a_payload_erased_with_its_salt_leaves_the_chain_valid(stream: Stream, data: st.DataObject) -> None:
    start, events = stream
    at = data.draw(st.integers(0, len(events) - 1))
    whole = events[at]
    events[at] = msgspec.structs.replace(whole, payload=None, salt=None)
    assert _fault((start, events)) is None
    for field in ("payload", "salt"):
        events[at] = msgspec.structs.replace(whole, **{field: None})
        assert _fault((start, events)) is not None


@given(strategies.event_chains(), json_strategies.digests)
@settings(max_examples=EXAMPLES)
def test_a_chain_is_bound_to_what_it_follows(stream: Stream, other: bytes) -> None:
    start, events = stream
    assume(other != start.hash)
    assert _fault((StreamHead(start.stream, start.version, other), events)) is not None
    assert _fault((StreamHead(start.stream, start.version + 1, start.hash), events)) is not None


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16), st.binary(max_size=20))
@settings(max_examples=EXAMPLES)
def test_the_same_content_has_another_digest_under_another_salt(one: bytes, other: bytes, content: bytes) -> None:
    """So that what was erased cannot be guessed from what is left."""
    assert (chain.payload_digest(one, content) == chain.payload_digest(other, content)) == (one == other)
    assert (chain.command_digest(one, content) == chain.command_digest(other, content)) == (one == other)


@given(strategies.event_chains(), st.binary(max_size=20))
@settings(max_examples=EXAMPLES)
def test_a_key_answers_the_same_order_with_the_first_events_and_another_with_a_conflict(
    stream: Stream, other: bytes
) -> None:
    _, recorded = stream
    order = b"the order itself"
    salt = recorded[0].salt or b""
    first = msgspec.structs.replace(recorded[0], command_digest=chain.command_digest(salt, order))
    answer = chain.answer_repeated_key("k", order, (first,))
    assert (answer.events, answer.repeated) == ((first,), True)
    assume(other != order)
    with pytest.raises(KeyConflict, match="other content"):
        chain.answer_repeated_key("k", other, (first,))
    with pytest.raises(KeyConflict, match="erased"):
        chain.answer_repeated_key("k", order, (msgspec.structs.replace(first, payload=None, salt=None),))


def test_an_append_to_several_streams_numbers_each_on_its_own_and_shares_its_ordinals() -> None:
    one, two = (StreamId("t", "session", ("a", name)) for name in ("one", "two"))
    new = tuple(NewEvent("e", 1, b"{}", bytes([number]) * 16) for number in range(4))
    append = Append("0" * 32, b"order", 1, "p", (StreamWrite(one, 7, new[:3]), StreamWrite(two, 0, new[3:])))
    made = list(chain.chain_events(append, [StreamHead(one, 7, b"1" * 32), StreamHead(two, 0, b"2" * 32)]))
    assert [[(event.seq, event.ordinal) for event in events] for _, events in made] == [
        [(8, 0), (9, 1), (10, 2)],
        [(1, 3)],
    ]
    assert [(head.stream, head.version, head.hash) for head, _ in made] == [
        (one, 10, made[0][1][-1].hash),
        (two, 1, made[1][1][-1].hash),
    ]
    assert len({event.command_digest for _, events in made for event in events}) == 1
