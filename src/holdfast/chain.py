"""The hash chain of a stream of events.

    payload_digest = SHA-256(salt ‖ payload)
    command_digest = SHA-256(salt of the command's first event ‖ command)
    hash           = SHA-256(hash of the event before ‖ payload_digest ‖ header)

Laws: the header has everything but the payload, its salt and the position in the feed. So a payload can be erased
with its salt and the chain still verifies, and a copy in another store has the same hashes. Both digests are salted,
so that erased content cannot be guessed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from holdfast.codec import encode
from holdfast.errors import KeyConflict
from holdfast.model.log import Append, AppendResult, StoredEvent, StreamHead
from holdfast.model.names import StreamId

FORMAT = "holdfast/1"
SALT_BYTES = 16
_HEADER = ("seq", "command", "ordinal", "type", "version", "time_us", "principal", "cause", "key")


def payload_digest(salt: bytes, payload: bytes) -> bytes:
    return sha256(salt + payload).digest()


def command_digest(salt: bytes, order: bytes) -> bytes:
    return sha256(salt + order).digest()


def _hash_event(previous: bytes, payload: bytes, stream: StreamId, header: tuple[object, ...], digest: bytes) -> bytes:
    encoded = encode((FORMAT, stream.tenant, stream.kind, stream.key, *header, digest.hex()))
    return sha256(previous + payload + encoded).digest()


def event_hash(previous: bytes, event: StoredEvent) -> bytes:
    """Return the hash that an event has after the event with the hash `previous`."""
    header = tuple(getattr(event, name) for name in _HEADER)
    return _hash_event(previous, event.payload_digest, event.stream, header, event.command_digest)


def chain_events(append: Append, heads: Sequence[StreamHead]) -> list[tuple[StreamHead, list[StoredEvent]]]:
    """Return the new head and the stored events of each write of an append. `heads` has the present heads, in order."""
    digest = command_digest(append.writes[0].events[0].salt, append.order)
    links: list[tuple[StreamHead, list[StoredEvent]]] = []
    ordinal = 0
    for write, head in zip(append.writes, heads, strict=True):
        stored: list[StoredEvent] = []
        seq, previous = head.version, head.hash
        for new in write.events:
            seq += 1
            payload = payload_digest(new.salt, new.payload)
            origin = append.time_us, append.principal, append.cause, append.key
            header = (seq, append.command, ordinal, new.type, new.version, *origin)
            previous = _hash_event(previous, payload, head.stream, header, digest)
            stored.append(StoredEvent(head.stream, *header, digest, payload, previous, new.salt, new.payload))
            ordinal += 1
        links.append((StreamHead(head.stream, seq, previous), stored))
    return links


def answer_repeated_key(key: str, order: bytes, first: tuple[StoredEvent, ...]) -> AppendResult:
    """Answer a repeated key: the same command gets the events of the first time, another command raises KeyConflict."""
    tenant, salt = first[0].stream.tenant, first[0].salt
    if salt is None:
        raise KeyConflict(tenant=tenant, key=key, reason="the content of that command was erased")
    if command_digest(salt, order) != first[0].command_digest:
        raise KeyConflict(tenant=tenant, key=key, reason="that command had other content")
    return AppendResult(first, repeated=True)


def extend_feed_digest(before: bytes, event: bytes) -> bytes:
    """Extend the digest of a feed by the hash of its next event. It fixes the order of all events."""
    return sha256(before + event).digest()


def find_chain_fault(previous: StreamHead, event: StoredEvent) -> str | None:
    """Return what is wrong with an event that should follow this head, or None."""
    if event.seq != previous.version + 1:
        return f"event {event.seq} is in the place of event {previous.version + 1}"
    if (event.payload is None) != (event.salt is None):
        return "the payload is erased but its salt is not, or the other way round"
    if event.payload is not None and payload_digest(event.salt or b"", event.payload) != event.payload_digest:
        return "the payload does not match its digest"
    if event_hash(previous.hash, event) != event.hash:
        return "the header, a digest or an earlier event was changed"
    return None
