"""Chunks of the bodies of entries: exact, shared, and the same for the same content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec
from holdfast.core.entries.chunks import ChunkContent, SplitBody, join_body, split_body
from holdfast.core.entries.decide import decide_append, entry_faults
from holdfast.core.fold import fold_session
from holdfast.core.project import project_event
from holdfast.errors import EntryConflict
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.entries.commands import AppendEntries, EntryDraft
from holdfast.model.entries.entry import BytesBody, Chunk, ChunkRef, JsonBody, SharedPart
from holdfast.model.entries.events import EntryAppended, EntryChunksStored, chunk_refs
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput, EntryInput
from holdfast.model.names import Scope
from holdfast.model.rows import ChunkRow, EntryRow
from holdfast.model.sessions.events import SessionCreated
from holdfast.model.state import SessionState
from tests.core import json_strategies
from tests.support import figure

EXAMPLES = figure(30, 5_000)
STEPS = 150
SCOPE = Scope("t", "a", "s")

texts = st.builds(
    lambda text, times: text * times, st.sampled_from("aé😀"), st.sampled_from([1, 1, 200, 200, 3_000, 60_000])
)
leaves = json_strategies.json_leaves | texts
bodies: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.builds(lambda item, times: [item] * times, inner, st.sampled_from([7, 8, 40]))
        | st.dictionaries(json_strategies.texts, inner, max_size=4)
    ),
    max_leaves=6,
).filter(lambda value: len(codec.encode(value)) < 1_000_000)
"""Lists of lists of long texts grow beyond what a failure could show."""


class Session:
    """The entries of one session, decided and folded without a store."""

    def __init__(self) -> None:
        self.state = fold_session(SessionState(), SessionCreated(), SessionCreated.name, 1)
        self.events: dict[int, Event] = {}
        self.rows: dict[str, EntryRow] = {}
        self.chunks: dict[str, ChunkRef] = {}
        self.blobs: dict[str, bytes] = {}
        self.bytes = 0

    def append(self, key: str, value: Json, kind: str = "k") -> tuple[Event, ...]:
        split = split_body(value)
        self.blobs |= split.blobs
        draft = EntryDraft(kind=kind, key=key, parent=None, body=split.draft, digest=split.digest, size=split.size)
        command = AppendEntries(scope=SCOPE, entries=(draft,), chunks=split.chunks)
        inputs = DecisionInput(time_us=1, entries=EntryInput(rows=self.rows, chunks=self.chunks))
        events = decide_append(self.state, command, inputs)
        for event in events:
            assert [*entry_faults(self.state, event)] == []
            for row in project_event(SCOPE, self.state, event, event.name, 1, {}):
                if isinstance(row, EntryRow):
                    self.rows[row.entry] = row
                elif isinstance(row, ChunkRow):
                    self.chunks[row.digest] = ChunkRef(row.seq, row.at)
            self.state = fold_session(self.state, event, event.name, 1)
            stored = codec.decode(codec.encode_event(event), type(event))
            assert stored == event
            self.events[self.state.version] = stored
            self.bytes += len(codec.encode(event))
        return events

    def get(self, key: str) -> Json:
        event = self.events[self.rows[key].seq]
        assert isinstance(event, EntryAppended)
        assert isinstance(event.body, JsonBody)
        value: Any = codec.decode(codec.encode(event.body.value), object)
        return join_body(value, event.body.parts, self._find)

    def _find(self, ref: ChunkRef) -> ChunkContent:
        event = self.events[ref.seq]
        assert isinstance(event, EntryChunksStored)
        chunk = event.chunks[ref.at]
        return ChunkContent(chunk, codec.encode(chunk.value) if chunk.ref is None else self.blobs[chunk.digest])


@given(st.lists(bodies, min_size=1, max_size=3))
@settings(max_examples=EXAMPLES)
def test_a_body_comes_back_as_it_was_given(values: list[Json]) -> None:
    session = Session()
    for number, value in enumerate(values):
        session.append(str(number), value)
    for number, value in enumerate(values):
        assert codec.encode(session.get(str(number))) == codec.encode(value)


@given(bodies)
@settings(max_examples=EXAMPLES)
def test_the_same_content_is_stored_once(value: Json) -> None:
    session = Session()
    session.append("one", value)
    assert session.append("one", value) == ()
    (again,) = session.append("two", value)
    assert isinstance(again, EntryAppended)
    assert {*chunk_refs(again)} <= {*session.chunks.values()}
    assert len(codec.encode(again)) <= limits.SPOOL_BYTES + 100 * len(codec.encode(split_body(value).draft))


def _message(number: int) -> dict[str, Json]:
    return {"id": f"m{number}", "role": "user", "content": f"what was said in message {number}, " * 6}


GROWTH: dict[str, Callable[[int], Json]] = {
    "small messages": lambda step: [_message(each) for each in range(step)],
    "messages in a checkpoint": lambda step: {"values": {"messages": [_message(each) for each in range(step)]}},
    "messages in a pair": lambda step: [{"messages": [_message(each) for each in range(step)]}, {"step": step}],
    "a window of messages": lambda step: [_message(each) for each in range(step, step + 400)],
    "two lists": lambda step: {
        "a": [_message(each) for each in range(step)],
        "b": [_message(-each) for each in range(2 * step)],
    },
    "large messages": lambda step: [{**_message(each), "text": f"{each} " * 600} for each in range(step)],
    "numbers": lambda step: [*range(20 * step)],
}


@pytest.mark.parametrize("name", GROWTH)
def test_a_list_that_grows_costs_its_elements_not_the_list(name: str) -> None:
    """Many versions of it take a few times the last one, and a fixed amount for each version."""
    session = Session()
    versions = [GROWTH[name](step) for step in range(1, 2 * STEPS, 2)]
    for step, value in enumerate(versions):
        session.append(str(step), value)
    whole = sum(len(codec.encode(value)) for value in versions)
    allowed = 4 * len(codec.encode(versions[-1])) + STEPS * 6_000
    assert session.bytes < allowed < whole
    for step in (0, 3, 4, STEPS // 2, STEPS - 1):
        assert session.get(str(step)) == versions[step]


def test_where_an_element_stands_does_not_change_the_chunks_after_it() -> None:
    messages: list[Json] = [_message(each) for each in range(2_000)]
    chunks = {*split_body(messages).chunks}
    new: Json = {"new": 1}
    for changed in (messages[1:], [new, *messages], [*messages[:1_000], new, *messages[1_000:]]):
        assert len({*split_body(changed).chunks} - chunks) <= 8


def test_a_large_body_of_small_values_is_one_blob() -> None:
    value: dict[str, Json] = {f"key {number}": number for number in range(10_000)}
    split = split_body(value)
    assert len(split.blobs) == 1
    session = Session()
    session.append("one", value)
    assert session.get("one") == value


def _splits() -> list[SplitBody]:
    values: list[Json] = [{"a": 1}, {"a": True}, {"a": 1.0}, ["a", 1], "a"]
    return [split_body(value) for value in values]


def test_values_that_python_takes_for_equal_are_other_content() -> None:
    assert len({split.digest for split in _splits()}) == 5


def test_another_body_kind_or_parent_is_a_conflict() -> None:
    session = Session()
    session.append("key", {"a": 1})
    with pytest.raises(EntryConflict, match="'key'"):
        session.append("key", {"a": True})
    with pytest.raises(EntryConflict):
        session.append("key", {"a": 1}, kind="another")


def test_one_command_may_repeat_an_entry_but_not_contradict_itself() -> None:
    session = Session()
    one = EntryDraft(kind="k", key="a", parent=None, body=BytesBody(b"1"), digest="0" * 64, size=1)
    other = msgspec.structs.replace(one, digest="1" * 64)
    inputs = DecisionInput(time_us=1)
    assert len(decide_append(session.state, AppendEntries(scope=SCOPE, entries=(one, one)), inputs)) == 1
    with pytest.raises(EntryConflict):
        decide_append(session.state, AppendEntries(scope=SCOPE, entries=(one, other)), inputs)


GOOD = EntryAppended(kind="k", key="a", body=JsonBody(1), digest="0" * 64, size=1)
FORGED: dict[str, Event] = {
    "a name with a line end": msgspec.structs.replace(GOOD, key="a\n"),
    "a long name": msgspec.structs.replace(GOOD, kind="a" * (limits.LONG_NAME_BYTES + 1)),
    "an empty parent": msgspec.structs.replace(GOOD, parent=""),
    "a short digest": msgspec.structs.replace(GOOD, digest="0"),
    "a negative size": msgspec.structs.replace(GOOD, size=-1),
    "a later chunk": msgspec.structs.replace(GOOD, body=JsonBody(None, (SharedPart((), (ChunkRef(2, 0),)),))),
    "a part of nothing": msgspec.structs.replace(GOOD, body=JsonBody(None, (SharedPart((), ()),))),
    "a value of two chunks": msgspec.structs.replace(
        GOOD, body=JsonBody(None, (SharedPart((), (ChunkRef(1, 0),) * 2),))
    ),
    "no chunks": EntryChunksStored(chunks=()),
    "a chunk without a digest": EntryChunksStored(chunks=(Chunk(digest="x"),)),
    "a chunk in itself": EntryChunksStored(chunks=(Chunk(digest="0" * 64, children=(ChunkRef(2, 0),)),)),
    "a chunk at no place": EntryChunksStored(chunks=(Chunk(digest="0" * 64, children=(ChunkRef(1, -1),)),)),
}


@pytest.mark.parametrize("name", FORGED)
def test_an_event_that_no_command_makes_has_a_fault(name: str) -> None:
    state = Session().state
    assert [*entry_faults(state, GOOD)] == []
    assert [*entry_faults(state, FORGED[name])] != []
