"""Holdfast: the state engine for AI agents."""

from typing import TYPE_CHECKING

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.flows.maintain import Problem, Report
from holdfast.model.content import (
    BlobRef,
    Body,
    Data,
    File,
    Image,
    Opaque,
    Part,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.model.frames import (
    Budget,
    FrameRecord,
    FrameState,
    Limits,
    Pending,
    Recovery,
    Reservation,
    Spend,
    Started,
    Suspended,
    SuspensionToken,
    Swept,
    Weights,
)
from holdfast.model.handles import Handle, ResultRef
from holdfast.model.log import FeedPage, Recorded, Totals
from holdfast.model.messages import Message, Offload, Summary, SummaryDraft, Unit, View
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import SessionRow
from holdfast.model.state import OpenCall, SessionState
from holdfast.runtime.engine import Engine
from holdfast.runtime.held import Frame, Session
from holdfast.runtime.opening import open, open_async

if TYPE_CHECKING:
    from holdfast.providers.deltas import Deltas
    from holdfast.runtime.async_engine import AsyncEngine
    from holdfast.runtime.async_held import AsyncFrame, AsyncSession
    from holdfast.runtime.moving import Copied, copy

__version__ = "0.4.0"

__all__ = [
    "AsyncEngine",
    "AsyncFrame",
    "AsyncSession",
    "BlobRef",
    "Body",
    "Budget",
    "Copied",
    "Data",
    "Deltas",
    "Engine",
    "FeedPage",
    "File",
    "Frame",
    "FrameRecord",
    "FrameState",
    "Handle",
    "HoldfastError",
    "Image",
    "Limits",
    "Message",
    "Offload",
    "Opaque",
    "OpenCall",
    "Part",
    "Pending",
    "Problem",
    "Recorded",
    "Recovery",
    "Report",
    "Reservation",
    "ResultRef",
    "Scope",
    "Session",
    "SessionRow",
    "SessionState",
    "Source",
    "Spend",
    "Started",
    "StreamId",
    "Summary",
    "SummaryDraft",
    "Suspended",
    "SuspensionToken",
    "Swept",
    "Text",
    "ToolCall",
    "ToolResult",
    "Totals",
    "Unit",
    "Usage",
    "View",
    "Weights",
    "copy",
    "errors",
    "open",
    "open_async",
]


def __getattr__(name: str) -> object:
    """What brings much along, or is rarely needed, comes when it is asked for."""
    if name == "AsyncEngine":
        from holdfast.runtime.async_engine import AsyncEngine  # noqa: PLC0415 - that is the point

        return AsyncEngine
    if name in ("AsyncFrame", "AsyncSession"):
        from holdfast.runtime import async_held  # noqa: PLC0415 - the same

        return getattr(async_held, name)
    if name == "Deltas":
        from holdfast.providers.deltas import Deltas  # noqa: PLC0415 - the same

        return Deltas
    if name in ("Copied", "copy"):
        from holdfast.runtime import moving  # noqa: PLC0415 - the same

        return getattr(moving, name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
