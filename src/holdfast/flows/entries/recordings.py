"""Messages and entries of another framework in one transaction: a checkpoint, and what was said up to it.

Law: both are stored, or neither is.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.flows.context import SessionContext, execute_commands
from holdfast.flows.effects import Flow
from holdfast.flows.entries.entries import EntryDrafts, build_appending, read_appended
from holdfast.flows.sessions.messages import build_all_drafts, build_recording, read_recorded
from holdfast.model.entries.entry import Entry, NewEntry
from holdfast.model.sessions.messages import Message


def record_with_entries(
    context: SessionContext, messages: Sequence[object], entries: Sequence[NewEntry], *, expect: int
) -> Flow[tuple[list[Message], list[Entry]]]:
    """Record messages as they were found, then append entries. The session must be at the version `expect`."""
    recording, bodies = yield from build_recording(context, build_all_drafts(messages), as_found=True)
    drafts = EntryDrafts(entries)
    appending, refs = yield from build_appending(context, drafts)
    result = yield from execute_commands(context.engine, [recording, appending], expect=expect, bodies=[*bodies, *refs])
    return read_recorded(result), (yield from read_appended(context, drafts, result))
