"""Stored shapes do not change unnoticed: a change comes with a higher number, so that older rows are made anew."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from holdfast import chain
from holdfast.model.events import EVENTS
from holdfast.model.log import GENESIS, Append, NewEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import PROJECTION_VERSION, TABLES
from holdfast.model.state import LEDGER_FORMAT, SNAPSHOT_FORMAT, LedgerState, SessionState

SNAPSHOT = (15, "77648c07b7443749")
LEDGER = (1, "4fed47c49e388537")
PROJECTION = (10, "0e027a87611f72f0")
PAYLOADS = {
    ("session.created", 4): "e28b1812505a190e",
    ("session.forked", 1): "ee8007bdd0d59fb3",
    ("session.branched", 1): "d8c3a6d59d92e978",
    ("message.recorded", 4): "30f72b81a1ad82e2",
    ("evidence.kept", 2): "166d509bd4d9b175",
    ("summary.recorded", 3): "158f296c9459d06c",
    ("frame.compacted", 3): "ed23e82d8b54a882",
    ("context.redacted", 1): "0fc49ead537e8edd",
    ("messages.withdrawn", 1): "e4030c8b7bc6ccb0",
    ("messages.restored", 1): "a50e8d2c58056379",
    ("handle.moved", 3): "732587f010c696e5",
    ("handle.replaced", 2): "1ceaa7875a1a9f1f",
    ("pack.recorded", 2): "e7dc748cc727a80b",
    ("session.reset", 1): "6d874701410a4bc6",
    ("session.closed", 1): "2e0554cf4b0d6300",
    ("session.timed_out", 1): "c4c2f3c1df8114be",
    ("session.destroyed", 1): "92f1ece4defb2478",
    ("offload.acknowledged", 1): "01a786f67ad56885",
    ("payloads.erased", 1): "0f2760bb09572a6f",
    ("frame.pushed", 1): "b66da38ca326b7a1",
    ("frame.updated", 1): "18ca5726670bc22c",
    ("frame.popped", 2): "24cf3ae054104c46",
    ("frame.suspended", 1): "4b301e50d3f27b1d",
    ("frame.resumed", 1): "fa07bc045db28345",
    ("token.reissued", 1): "cbc1b86ca461abf6",
    ("token.revoked", 1): "0ee44dfce515403c",
    ("frame.handle_added", 2): "9a12722b8ce41c9e",
    ("frame.result_added", 1): "50be6ffc52d4eb71",
    ("budget.reserved", 1): "13a92292f25a7b59",
    ("budget.committed", 1): "49418176453d5ac3",
    ("budget.cancelled", 1): "08cdfe724aff834f",
    ("budget.used", 1): "ec60b7812b517b0a",
    ("budget.granted", 1): "2cee64ff712d92b1",
    ("call.started", 2): "1ac2ee340b232b54",
    ("actor.resumed", 1): "137123dcb845473d",
    ("identity.refreshed", 1): "19e1871f598251a3",
    ("turn.taken", 1): "ffcadcf670b3b6fd",
    ("turn.renewed", 1): "b81fb19a1fc648e1",
    ("turn.ended", 1): "057825717d163844",
    ("turn.awaited", 1): "0169695332eae07a",
    ("model.used", 1): "b75cb866205036cd",
    ("working.set", 1): "c9247e01c6497a17",
    ("working.cleared", 1): "36154e8153c12eb7",
    ("environment.observed", 1): "8516371895280fa5",
    ("environment.cleared", 1): "36154e8153c12eb7",
    ("fact.asserted", 1): "8e593bd49511b6b7",
    ("fact.superseded", 1): "0851133f547758c2",
    ("fact.retracted", 1): "881700c6a7796753",
    ("fact.expired", 1): "25f08931c3db1fe1",
    ("fact.promoted", 1): "17dc070fc087f969",
    ("fact.endorsed", 1): "6dd6d1b49ed6085b",
    ("fact.confirmed", 1): "5f2b8a81fd192700",
    ("fact.disputed", 1): "2df3d27b30145ca5",
    ("fact.reinstated", 1): "e9a58aa78a246279",
    ("fact.marked", 1): "8c87f5783bc1965f",
    ("fact.withdrawn", 1): "f7f523439e7c5976",
    ("fact.restored", 1): "587d2e8ff48147e8",
    ("ledger.forked", 1): "661dd49b8b367526",
    ("ledger.branched", 1): "d8c3a6d59d92e978",
    ("facts.proposed", 2): "c60285788b91b911",
    ("proposal.decided", 1): "773a2cc938ce3202",
    ("situation.updated", 1): "825ba47c29cf26d7",
    ("action.recorded", 1): "5c094fd529ec834b",
    ("entry.chunks_stored", 1): "fa73402767187567",
    ("entry.appended", 1): "d6d08c2ae1e09cf0",
}
HASH = "2379e744e8445894b96c7c42d10e97892e958e5d5e6d0bb82287952f94dcb2f8"


def _digest(shape: object) -> str:
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]


_NOT_STORED = {"description", "title", "$defs"}


def _schema(kind: type) -> Any:
    """What is stored of a type. Names of classes and prose are free to change: neither is stored."""
    schema = msgspec.json.schema(kind)
    definitions: dict[str, Any] = schema.get("$defs", {})

    def expand(node: Any, path: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [expand(each, path) for each in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$ref"), str):
            name = node["$ref"].removeprefix("#/$defs/")
            if name in path:  # a type that contains itself: how far up it is says which one
                return {"up": len(path) - path.index(name)}
            return expand(definitions[name], (*path, name))
        if "discriminator" in node:  # it repeats the tags, each with the name of a class
            node = {key: value for key, value in node.items() if key != "discriminator"}
        bare = {key: expand(value, path) for key, value in node.items() if key not in _NOT_STORED}
        if "anyOf" in bare:
            bare["anyOf"].sort(key=lambda each: json.dumps(each, sort_keys=True))
        if "properties" in bare:  # fields are stored in this order
            bare["properties"] = list(bare["properties"].items())
        return bare

    return expand(schema, ())


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
    [(head, _)] = chain.chain_events(append, [StreamHead(stream, 0, GENESIS)])
    assert head.hash.hex() == HASH
