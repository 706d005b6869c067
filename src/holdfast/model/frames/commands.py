"""Commands of frames: push and pop, suspension, budgets and recovery."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.model.command import FrameCommandBase, SessionCommandBase
from holdfast.model.content import Json, Part, Usage
from holdfast.model.frames.frames import Ending
from holdfast.model.history.commands import (
    AddHandle,
    ReplaceHandle,
)
from holdfast.model.sessions.commands import (
    StartCall,
)


class PushFrame(SessionCommandBase, frozen=True, kw_only=True, tag="push_frame"):
    goal: str
    inputs: Json = None
    parent: str | None = None
    budget: int
    max_subframe_depth: int | None = None
    max_tool_calls: int | None = None
    timeout_us: int | None = None


class UpdateFrame(FrameCommandBase, frozen=True, kw_only=True, tag="update_frame"):
    goal: str | None = None
    inputs: Json = None
    context_hash: str | None = None


class PopFrame(FrameCommandBase, frozen=True, kw_only=True, tag="pop_frame"):
    status: Ending
    summary: str = ""
    result: tuple[Part, ...] = ()
    digest: str
    cascade: bool = False


class TimeOutFrame(FrameCommandBase, frozen=True, kw_only=True, tag="time_out_frame"):
    pass


class SuspendFrame(FrameCommandBase, frozen=True, kw_only=True, tag="suspend_frame"):
    reason: str
    expires_us: int | None = None
    resumable_by: tuple[str, ...] = ()
    cascade: bool = False


class ReissueToken(FrameCommandBase, frozen=True, kw_only=True, tag="reissue_token"):
    expires_us: int | None = None


class RevokeToken(FrameCommandBase, frozen=True, kw_only=True, tag="revoke_token"):
    reason: str


class ResumeFrame(FrameCommandBase, frozen=True, kw_only=True, tag="resume_frame"):
    digest: str


class ReserveTokens(FrameCommandBase, frozen=True, kw_only=True, tag="reserve_tokens"):
    purpose: str
    amount: int


class CommitTokens(FrameCommandBase, frozen=True, kw_only=True, tag="commit_tokens"):
    reservation: str | None
    """None for usage without a reservation."""
    tokens: int
    usage: Usage | None = None


class CancelTokens(FrameCommandBase, frozen=True, kw_only=True, tag="cancel_tokens"):
    reservation: str


class GrantTokens(FrameCommandBase, frozen=True, kw_only=True, tag="grant_tokens"):
    amount: int


class ResumeActor(SessionCommandBase, frozen=True, kw_only=True, tag="resume_actor"):
    pass


FrameCommand: TypeAlias = (
    PushFrame
    | UpdateFrame
    | PopFrame
    | TimeOutFrame
    | SuspendFrame
    | ReissueToken
    | RevokeToken
    | ResumeFrame
    | AddHandle
    | ReplaceHandle
    | ReserveTokens
    | CommitTokens
    | CancelTokens
    | GrantTokens
    | StartCall
    | ResumeActor
)
