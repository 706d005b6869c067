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
from holdfast.model.log import FeedPage, Recorded, Totals
from holdfast.model.messages import Message, Offload, Summary, SummaryDraft, Unit, View
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import SessionRow
from holdfast.model.state import OpenCall, SessionState
from holdfast.runtime.engine import Engine, Session
from holdfast.runtime.opening import open, open_async

if TYPE_CHECKING:
    from holdfast.providers.deltas import Deltas
    from holdfast.runtime.async_engine import AsyncEngine, AsyncSession
    from holdfast.runtime.moving import Copied, copy

__version__ = "0.3.0"

__all__ = [
    "AsyncEngine",
    "AsyncSession",
    "BlobRef",
    "Body",
    "Copied",
    "Data",
    "Deltas",
    "Engine",
    "FeedPage",
    "File",
    "HoldfastError",
    "Image",
    "Message",
    "Offload",
    "Opaque",
    "OpenCall",
    "Part",
    "Problem",
    "Recorded",
    "Report",
    "Scope",
    "Session",
    "SessionRow",
    "SessionState",
    "Source",
    "StreamId",
    "Summary",
    "SummaryDraft",
    "Text",
    "ToolCall",
    "ToolResult",
    "Totals",
    "Unit",
    "Usage",
    "View",
    "copy",
    "errors",
    "open",
    "open_async",
]


def __getattr__(name: str) -> object:
    """What brings much along, or is rarely needed, comes when it is asked for."""
    if name in ("AsyncEngine", "AsyncSession"):
        from holdfast.runtime import async_engine  # noqa: PLC0415 - that is the point

        return getattr(async_engine, name)
    if name == "Deltas":
        from holdfast.providers.deltas import Deltas  # noqa: PLC0415 - the same

        return Deltas
    if name in ("Copied", "copy"):
        from holdfast.runtime import moving  # noqa: PLC0415 - the same

        return getattr(moving, name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
