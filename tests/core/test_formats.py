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
from holdfast.model.state import LEDGER_FORMAT, SNAPSHOT_FORMAT, LedgerState, SessionState

SNAPSHOT = (10, "013f0ce35189c35a")
LEDGER = (1, "a9c218f0bea76856")
PROJECTION = (8, "f1a6a46626063805")
PAYLOADS = {
    ("session.created", 3): "bbbe2192ac52cd2d",
    ("message.recorded", 4): "04ccec9320758212",
    ("evidence.kept", 2): "476c0d83c76d2710",
    ("summary.recorded", 3): "56dd9a719766b178",
    ("frame.compacted", 2): "37a9c0c38bb32eda",
    ("context.redacted", 1): "44b0aeb7318ff632",
    ("handle.moved", 2): "4e8ee9b8461c02a3",
    ("handle.replaced", 2): "c5194d39f5aed8af",
    ("pack.recorded", 2): "ec3913955e301802",
    ("session.reset", 1): "5f022e4329ddfefb",
    ("session.closed", 1): "724d1e8e5bc20f92",
    ("session.timed_out", 1): "4a9040c7e2c7beb4",
    ("session.destroyed", 1): "de34b2fa7f9049cd",
    ("offload.acknowledged", 1): "bbfcf1000c761d90",
    ("payloads.erased", 1): "e59ece396f377ec7",
    ("frame.pushed", 1): "5964d4299a02958d",
    ("frame.updated", 1): "fc8a4dd72713126c",
    ("frame.popped", 2): "169e6d737461be07",
    ("frame.suspended", 1): "c08d4bb495598072",
    ("frame.resumed", 1): "dd0eb12d839d0770",
    ("token.reissued", 1): "4c6519c7d952ff03",
    ("token.revoked", 1): "db43426b974bd44e",
    ("frame.handle_added", 2): "82f2cf811e870be9",
    ("frame.result_added", 1): "2d940ac5674dbe19",
    ("budget.reserved", 1): "f168e6be357af221",
    ("budget.committed", 1): "e391fe5f14f9232a",
    ("budget.cancelled", 1): "e28b7a41e2870159",
    ("budget.used", 1): "be0cf2a7118990f0",
    ("budget.granted", 1): "65e8bce6c827a268",
    ("call.started", 1): "714a7c8f077f5e03",
    ("actor.resumed", 1): "7a1e4638b568d101",
    ("identity.refreshed", 1): "57917da15a16b9ae",
    ("working.set", 1): "4d57089d7b3d610f",
    ("working.cleared", 1): "d9983581638d4327",
    ("environment.observed", 1): "d1dfe482cba2922d",
    ("environment.cleared", 1): "cb2302f9985d52e9",
    ("fact.asserted", 1): "7ff1a7e2aba33399",
    ("fact.superseded", 1): "30bb3b4367317bdf",
    ("fact.retracted", 1): "f2ca8cc280ba1492",
    ("fact.expired", 1): "b2d9cd04ba9dd207",
    ("fact.promoted", 1): "49ebb90ecdf0e771",
    ("fact.endorsed", 1): "becb322f180cf6c2",
    ("fact.confirmed", 1): "0a3ee5a7e5e38e62",
    ("fact.disputed", 1): "b1849025beeabeb6",
    ("fact.reinstated", 1): "6a204d4075953fa0",
    ("fact.marked", 1): "fe7bade0933b26c6",
    ("facts.proposed", 1): "01ef604a6f296d6e",
    ("proposal.decided", 1): "24ea9efc5d8d8261",
    ("situation.updated", 1): "02eb1cf3f4637bc8",
    ("action.recorded", 1): "3e1a59f67c8c71e6",
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
    """When this fails, raise SNAPSHOT_FORMAT, or LEDGER_FORMAT, and record the new value."""
    assert (SNAPSHOT_FORMAT, _digest(_schema(SessionState))) == SNAPSHOT
    assert (LEDGER_FORMAT, _digest(_schema(LedgerState))) == LEDGER


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
