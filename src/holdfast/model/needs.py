"""What events need of the blob store."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.content import BlobRef, Part, blob_refs
from holdfast.model.events import (
    Event,
    EvidenceKept,
    FramePopped,
    HandleAdded,
    HandleMoved,
    HandleReplaced,
    MessageRecorded,
)
from holdfast.model.view_events import ContextCompacted, PackRecorded


def parts_of(event: Event | None) -> Iterator[Part]:
    """All parts in an event, wherever they stand in it."""
    if isinstance(event, MessageRecorded | EvidenceKept):
        yield from event.content
        for result in event.tool_results:
            yield from result.content
    elif isinstance(event, HandleAdded):
        yield from event.content
    elif isinstance(event, HandleReplaced):
        yield from event.content or ()
    elif isinstance(event, FramePopped):
        yield from event.result


def refs_of(event: Event | None) -> Iterator[BlobRef]:
    """The bodies that an event needs, wherever it names them."""
    yield from blob_refs(parts_of(event))
    pieces = event.reduced if isinstance(event, ContextCompacted) else ()
    if isinstance(event, HandleMoved):
        pieces = (event.piece,)
    yield from (each.ref for each in pieces if each.ref is not None)
    if isinstance(event, HandleReplaced) and event.ref is not None:
        yield event.ref
    if isinstance(event, PackRecorded):
        if isinstance(event.manifest, BlobRef):
            yield event.manifest
        if event.brief is not None:
            yield event.brief
