"""All events. Each class is in the package of its noun; `event` says what it declares.

Law: a stored event never changes. A new form has a higher `version`, and an upcaster from the one before.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from holdfast.model.content import BlobRef, Part
from holdfast.model.entries.events import EntryEvent
from holdfast.model.event import EventBase, FrameTreeEvent
from holdfast.model.facts.events import LedgerBranched, LedgerEvent, LedgerForked, ProposalEvent
from holdfast.model.frames.events import FrameEvent
from holdfast.model.history.events import HistoryEvent
from holdfast.model.packs.events import PackEvent
from holdfast.model.sessions.events import (
    OffloadAcknowledged,
    PayloadsErased,
    SessionBranched,
    SessionClosed,
    SessionDestroyed,
    SessionEvent,
    SessionForked,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.situation.events import SituationEvent
from holdfast.model.structs import find_values

Event: TypeAlias = (
    SessionEvent | HistoryEvent | PackEvent | FrameEvent | LedgerEvent | ProposalEvent | SituationEvent | EntryEvent
)


EVENTS: dict[str, type[Event]] = {event.name: event for event in get_args(Event)}


QUOTING_EVENTS = tuple(name for name, event in EVENTS.items() if event.quoted_events is not EventBase.quoted_events)
"""Events that quote earlier ones."""


FRAME_EVENTS = {name for name, event in EVENTS.items() if issubclass(event, FrameTreeEvent)}
"""Events of frames and their budgets. The events of one tree are erased together, so that the budgets add up."""


LEDGER_EVENTS = {event.name for event in get_args(LedgerEvent)} | {PayloadsErased.name}
"""Events of ledgers; all others are events of sessions."""


OFFLOAD_EVENTS = {SessionReset.name, SessionClosed.name, SessionTimedOut.name, SessionDestroyed.name}
"""Events that end a conversation: the history since the last one becomes an entry of the outbox."""


RETAINED_EVENTS = {
    *(PayloadsErased.name, OffloadAcknowledged.name, SessionDestroyed.name),
    *(SessionForked.name, SessionBranched.name, LedgerForked.name, LedgerBranched.name),
}
"""Events that stay when a session is destroyed: they contain nothing of the conversation."""


_PART_TYPES = get_args(Part)


def event_parts(event: Event | None) -> list[Part]:
    """All parts in an event."""
    return find_values(event, _PART_TYPES)


def event_blob_refs(event: Event | None) -> list[BlobRef]:
    """All blobs that an event refers to."""
    return find_values(event, (BlobRef,))
