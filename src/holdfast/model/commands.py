"""All commands of sessions. A command may be refused. An idempotency key is bound to its canonical bytes."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.model.entries.commands import EntryCommand
from holdfast.model.facts.commands import (
    DecideProposal,
    ProposeFacts,
)
from holdfast.model.frames.commands import (
    FrameCommand,
)
from holdfast.model.history.commands import (
    CompactContext,
    MoveHandle,
    RedactContext,
    RestoreMessages,
    Summarize,
    WithdrawMessages,
)
from holdfast.model.packs.commands import RecordPack
from holdfast.model.sessions.commands import (
    AcknowledgeOffload,
    BranchSession,
    CloseCalls,
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    ForkSession,
    LayerCommand,
    RecordMessages,
    RecordModelUses,
    ResetSession,
    TimeOutSession,
    TurnCommand,
)
from holdfast.model.situation.commands import SituationCommand

SessionCommand: TypeAlias = (
    CreateSession
    | ForkSession
    | BranchSession
    | RecordMessages
    | RecordModelUses
    | CloseCalls
    | Summarize
    | CompactContext
    | RedactContext
    | MoveHandle
    | WithdrawMessages
    | RestoreMessages
    | RecordPack
    | ResetSession
    | CloseSession
    | TimeOutSession
    | DestroySession
    | AcknowledgeOffload
    | ErasePayloads
    | ProposeFacts
    | DecideProposal
    | LayerCommand
    | SituationCommand
    | TurnCommand
    | FrameCommand
    | EntryCommand
)
"""A command to a session; a command to a ledger is a `LedgerCommand`."""
