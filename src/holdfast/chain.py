"""The hash chain of a stream.

    payload_digest = SHA-256(salt ‖ payload)
    command_digest = SHA-256(salt of the command's first event ‖ command)
    hash           = SHA-256(hash of the event before ‖ payload_digest ‖ header)

Laws: the header is everything but the payload, its salt and the position in the feed, so a payload can be erased with its
salt and the chain still verifies, and a copy in another store has the same hashes. Both digests are salted, so that what
was erased cannot be guessed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from holdfast.codec import encode
from holdfast.errors import KeyConflict
from holdfast.model.log import Append, Appended, Head, Recorded
from holdfast.model.names import StreamId

FORMAT = "holdfast/1"
SALT_BYTES = 16


def payload_digest(salt: bytes, payload: bytes) -> bytes:
    return sha256(salt + payload).digest()


def command_digest(salt: bytes, order: bytes) -> bytes:
    return sha256(salt + order).digest()


def _link(
    previous: bytes,
    sealed: bytes,
    stream: StreamId,
    seq: int,
    command: str,
    ordinal: int,
    type_: str,
    version: int,
    time_us: int,
    principal: str,
    cause: str | None,
    key: str | None,
    digest: bytes,
) -> bytes:
    header = encode(
        (
            FORMAT,
            stream.tenant,
            stream.kind,
            stream.key,
            seq,
            command,
            ordinal,
            type_,
            version,
            time_us,
            principal,
            cause,
            key,
            digest.hex(),
        )
    )
    return sha256(previous + sealed + header).digest()


def event_hash(previous: bytes, event: Recorded) -> bytes:
    return _link(
        previous,
        event.payload_digest,
        event.stream,
        event.seq,
        event.command,
        event.ordinal,
        event.type,
        event.version,
        event.time_us,
        event.principal,
        event.cause,
        event.key,
        event.command_digest,
    )


def record(append: Append, heads: Sequence[Head]) -> list[tuple[Head, list[Recorded]]]:
    """The events of an append, chained to the heads of its streams (one head a write, in order), after the new heads."""
    digest = command_digest(append.writes[0].events[0].salt, append.order)
    links: list[tuple[Head, list[Recorded]]] = []
    ordinal = 0
    for write, head in zip(append.writes, heads, strict=True):
        recorded: list[Recorded] = []
        seq, previous = head.version, head.hash
        for new in write.events:
            seq += 1
            sealed = payload_digest(new.salt, new.payload)
            header = (
                head.stream,
                seq,
                append.command,
                ordinal,
                new.type,
                new.version,
                append.time_us,
                append.principal,
                append.cause,
                append.key,
                digest,
            )
            previous = _link(previous, sealed, *header)
            recorded.append(Recorded(*header, sealed, previous, new.salt, new.payload))
            ordinal += 1
        links.append((Head(head.stream, seq, previous), recorded))
    return links


def repeated(key: str, order: bytes, first: tuple[Recorded, ...]) -> Appended:
    """The answer to a key that was used before: the same command gets the same events, another one a conflict."""
    tenant, salt = first[0].stream.tenant, first[0].salt
    if salt is None:
        raise KeyConflict(tenant=tenant, key=key, reason="its content was erased since")
    if command_digest(salt, order) != first[0].command_digest:
        raise KeyConflict(tenant=tenant, key=key, reason="its content differs")
    return Appended(first, repeated=True)


def ordered(before: bytes, event: bytes) -> bytes:
    """The order of a whole feed, as one digest: of the feed up to here, and the hash of the event that follows."""
    return sha256(before + event).digest()


def fault(previous: Head, event: Recorded) -> str | None:
    """What is wrong with an event that should follow this head, or None."""
    if event.seq != previous.version + 1:
        return f"event {event.seq} stands where event {previous.version + 1} belongs"
    if (event.payload is None) != (event.salt is None):
        return "the payload is erased but its salt is not, or the reverse"
    if event.payload is not None and payload_digest(event.salt or b"", event.payload) != event.payload_digest:
        return "the payload does not match its digest"
    if event_hash(previous.hash, event) != event.hash:
        return "the header, the digest or an event before it was changed"
    return None
