"""Old events in today's shape: lifted version by version, and refused with all that is known when that cannot be done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec
from holdfast.core import upcast
from holdfast.errors import EventUnreadable
from holdfast.model.events import EVENTS, Event
from holdfast.model.log import StoredEvent
from holdfast.model.names import StreamId
from tests.core import strategies
from tests.support import figure

EXAMPLES = figure(50, 5_000)
STREAM = StreamId("tenant", "session", ("actor", "session"))


class Greeted(msgspec.Struct, frozen=True, kw_only=True):
    """An event that has been through two changes of shape and one of name."""

    name = "greeting.said"
    version = 3
    words: list[str]
    loud: bool


def _split(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "greeted", {"words": payload["text"].split()}


def _rename(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "greeting.said", {**payload, "loud": False}


UPCASTERS: dict[tuple[str, int], upcast.Upcaster] = {("greeted", 1): _split, ("greeted", 2): _rename}
KINDS: Any = {Greeted.name: Greeted}


def _stored(kind: str, version: int, payload: bytes | None) -> StoredEvent:
    return StoredEvent(STREAM, 7, "0" * 32, 0, kind, version, 1, "p", None, None, b"", b"", b"", b"salt", payload)


def _read(kind: str, version: int, payload: bytes | None) -> object:
    return upcast.decode_event(_stored(kind, version, payload), UPCASTERS, KINDS)


@given(strategies.events)
@settings(max_examples=EXAMPLES)
def test_an_event_of_today_is_read_as_it_is(event: Event) -> None:
    assert upcast.decode_event(_stored(event.name, event.version, codec.encode_event(event))) == event


@pytest.mark.parametrize(
    ("kind", "version", "payload"),
    [
        ("greeted", 1, b'{"text":"good day"}'),
        ("greeted", 2, b'{"words":["good","day"]}'),
        ("greeting.said", 3, b'{"words":["good","day"],"loud":false}'),
    ],
)
def test_every_older_shape_becomes_the_same_event(kind: str, version: int, payload: bytes) -> None:
    assert _read(kind, version, payload) == Greeted(words=["good", "day"], loud=False)


UNREADABLE: dict[str, tuple[str, int, bytes]] = {
    "a type that nobody knows": ("unheard.of", 1, b"{}"),
    "a newer version": ("greeting.said", 4, b'{"words":[],"loud":true,"more":1}'),
    "a version before the first": ("greeted", 0, b"{}"),
    "an old name with a new version": ("greeted", 3, b'{"words":[],"loud":true}'),
    "a missing step": ("greeting.said", 2, b'{"words":[]}'),
    "no JSON": ("greeting.said", 3, b"\xff\xfe"),
    "text that is not UTF-8": ("greeting.said", 3, b'{"words":["\xf6"],"loud":false}'),
    "an old one whose text is not UTF-8": ("greeted", 1, b'{"text":"\xf6"}'),
    "nothing": ("greeting.said", 3, b""),
    "a list": ("greeting.said", 3, b"[]"),
    "another shape": ("greeting.said", 3, b'{"words":"good day","loud":false}'),
    "a missing field": ("greeting.said", 3, b'{"words":[]}'),
    "an old one that is no JSON": ("greeted", 1, b"{"),
    "an old one that is a list": ("greeted", 1, b"[1]"),
    "an old one whose result does not fit": ("greeted", 2, b'{"words":7}'),
    "an old one without what its step needs": ("greeted", 1, b'{"other":1}'),
    "an old one of another kind than its step needs": ("greeted", 1, b'{"text":7}'),
    "brackets without an end": ("greeting.said", 3, b"[" * 100_000),
    "old brackets without an end": ("greeted", 1, b'{"text":' * 100_000),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused_with_all_that_is_known(name: str) -> None:
    kind, version, payload = UNREADABLE[name]
    with pytest.raises(EventUnreadable) as refusal:
        _read(kind, version, payload)
    error = refusal.value
    assert (error.stream, error.seq, error.type, error.version) == (STREAM, 7, kind, version)
    assert error.reason
    assert f"Event 7 of {STREAM}" in str(error)


@pytest.mark.parametrize("kind", ["greeting.said", "unheard.of", *EVENTS])
def test_an_erased_payload_is_no_event_whatever_its_type(kind: str) -> None:
    assert upcast.decode_event(_stored(kind, 1, None)) is None


@given(st.sampled_from([*EVENTS, "nonsense"]), st.integers(-5, 5), st.binary(max_size=50))
@settings(max_examples=EXAMPLES)
def test_garbage_is_unreadable_or_an_event_and_nothing_else(kind: str, version: int, payload: bytes) -> None:
    try:
        event = upcast.decode_event(_stored(kind, version, payload))
    except EventUnreadable:
        return
    assert type(event) is EVENTS[kind]


def test_every_step_leads_on_to_an_event_of_today() -> None:
    """A step may end at another step or at the current version, never nowhere."""
    for kind, version in upcast.UPCASTERS:
        assert (kind, version + 1) in upcast.UPCASTERS or any(event.version == version + 1 for event in EVENTS.values())
