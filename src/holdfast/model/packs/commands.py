"""The command that stores a pack."""

from __future__ import annotations

from holdfast.model.command import SessionCommandBase
from holdfast.model.content import BlobRef
from holdfast.model.history.plans import Level


class RecordPack(SessionCommandBase, frozen=True, kw_only=True, tag="record_pack"):
    """Store a pack, alone or together with the messages that come before it in the batch."""

    frame: str | None = None
    at: int
    context_hash: str
    budget: int
    used: int
    counted: int = 0
    messages: int = 0
    counter: str = ""
    level: Level
    query: str
    shown: tuple[tuple[int, int], ...]
    manifest: BlobRef | bytes
    brief: BlobRef | None = None
    reply: int = 0
    """The message of the batch that answers it, counted from 1; 0 for none."""
    reservation: str | None = None
