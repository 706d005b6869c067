"""Stored shapes do not change unnoticed: a change comes with a higher number, so that older rows are made anew."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from holdfast import chain
from holdfast.model.events import EVENTS
from holdfast.model.log import GENESIS, Append, Head, NewEvent, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import PROJECTION_VERSION, TABLES
from holdfast.model.state import SNAPSHOT_FORMAT, SessionState

SNAPSHOT = (2, "4b2b47a8897384c2")
PROJECTION = (3, "363a3dc166a37ffc")
PAYLOADS = {
    ("session.created", 2): "391bd4617b7d402a",
    ("message.recorded", 2): "a26de2cc0df1fc96",
    ("evidence.kept", 1): "137a1cbddeeb8fdc",
    ("summary.recorded", 1): "fdb3029f88c57b32",
    ("session.reset", 1): "5f022e4329ddfefb",
    ("session.closed", 1): "724d1e8e5bc20f92",
    ("session.timed_out", 1): "4a9040c7e2c7beb4",
    ("session.destroyed", 1): "de34b2fa7f9049cd",
    ("offload.acknowledged", 1): "bbfcf1000c761d90",
    ("payloads.erased", 1): "e59ece396f377ec7",
}
HASH = "2379e744e8445894b96c7c42d10e97892e958e5d5e6d0bb82287952f94dcb2f8"


def _digest(shape: object) -> str:
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]


def _schema(kind: type) -> Any:
    """What is stored of a type; its name and its prose are free to change."""

    def bare(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: bare(value) for key, value in schema.items() if key not in {"description", "title"}}
        return [bare(each) for each in schema] if isinstance(schema, list) else schema

    return bare(msgspec.json.schema(kind))


def test_the_state_in_a_snapshot_has_the_recorded_shape() -> None:
    """When this fails, raise SNAPSHOT_FORMAT and record the new value."""
    assert (SNAPSHOT_FORMAT, _digest(_schema(SessionState))) == SNAPSHOT


def test_the_rows_have_the_recorded_columns() -> None:
    """When this fails, raise PROJECTION_VERSION and record the new value."""
    shapes = [(table.table, table.key, table.__struct_fields__, _schema(table)) for table in TABLES]
    assert (PROJECTION_VERSION, _digest(shapes)) == PROJECTION


def test_every_event_has_the_recorded_shape() -> None:
    """When this fails, raise the event's version, write an upcaster from the old one, and record the new value."""
    assert {(event.name, event.version): _digest(_schema(event)) for event in EVENTS.values()} == PAYLOADS


def test_the_same_event_has_the_same_hash_for_ever() -> None:
    """When this fails, every stored chain is broken: there is no new value to record."""
    stream = StreamId("tenant", "session", ("actor", "session", "thread"))
    write = StreamWrite(stream, 0, (NewEvent("message.recorded", 1, b'{"a":1}', bytes(range(16))),))
    append = Append("0123456789abcdef" * 2, b"order", 1_700_000_000_000_000, "ada", (write,), "cause", "key")
    [(head, _)] = chain.record(append, [Head(stream, 0, GENESIS)])
    assert head.hash.hex() == HASH
