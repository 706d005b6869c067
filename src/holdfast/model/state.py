"""The live state of a stream: bounded, whatever the length of its history."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.model.content import Json

SNAPSHOT_FORMAT = 1
"""Raised whenever SessionState, or what folding makes of it, changes: older snapshots are then replayed instead."""


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int = 0
    status: Literal["absent", "open", "closed"] = "absent"
    created_us: int = 0
    updated_us: int = 0
    messages: int = 0
    tokens: int = 0
    close_reason: str = ""
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
