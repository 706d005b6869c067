"""The bases of all commands."""

from __future__ import annotations

import msgspec

from holdfast.model.names import LedgerId, Scope, StreamId


class SessionCommandBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    scope: Scope

    @property
    def stream(self) -> StreamId:
        return self.scope.stream


class FrameCommandBase(SessionCommandBase, frozen=True, kw_only=True):
    frame: str


class LedgerCommandBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    ledger: LedgerId

    @property
    def stream(self) -> StreamId:
        return self.ledger.stream
