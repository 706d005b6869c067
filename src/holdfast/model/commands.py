"""Commands: orders, which may be refused. Their canonical bytes are what an idempotency key is bound to."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Role
from holdfast.model.names import Scope


class _Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    scope: Scope


class CreateSession(_Command, frozen=True, kw_only=True, tag="create_session"):
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)


class RecordMessage(_Command, frozen=True, kw_only=True, tag="record_message"):
    role: Role
    content: tuple[Part, ...]


class CloseSession(_Command, frozen=True, kw_only=True, tag="close_session"):
    reason: str


class ErasePayloads(_Command, frozen=True, kw_only=True, tag="erase_payloads"):
    seqs: tuple[int, ...]
    reason: str


Command: TypeAlias = CreateSession | RecordMessage | CloseSession | ErasePayloads


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What comes from outside, once, and is then stored: a replay never asks again."""

    time_us: int
    tokens: int = 0
    counter: str = ""
