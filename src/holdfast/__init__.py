"""Holdfast: the state engine for AI agents."""

from typing import TYPE_CHECKING

from holdfast import errors
from holdfast.core.previews import Spooling
from holdfast.errors import HoldfastError
from holdfast.flows.maintain import Problem, Report
from holdfast.flows.reading import Reading
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
from holdfast.model.detection import Candidate, Observation, Proposal, Said, Span
from holdfast.model.facts import Dispute, Fact, FactSource, Known, Link, Mention, Why
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
from holdfast.model.layers import Environment, Identity, Surrounding, WorkingItem
from holdfast.model.log import FeedPage, Recorded, Totals
from holdfast.model.messages import History, Message, Offload, Summary, SummaryDraft, Unit, View
from holdfast.model.names import LedgerId, Scope, StreamId
from holdfast.model.observed import Judged, Observed
from holdfast.model.pack import (
    Brief,
    Change,
    Entry,
    Exposure,
    Manifest,
    PackDiff,
    PackRecord,
    Profile,
    Request,
    TokenSummary,
)
from holdfast.model.plan import (
    Classic,
    CustomStrategy,
    Faithful,
    Figures,
    Frugal,
    Occupancy,
    Plan,
    Prices,
    PriorityBased,
    Step,
    SummarizeOldest,
    TruncateAt,
)
from holdfast.model.policy import Ladder, Policy
from holdfast.model.rows import LedgerRow, SessionRow
from holdfast.model.situation import UPDATE_SITUATION, Action, ActionCall, Situation, SituationUpdate, Stated
from holdfast.model.state import OpenCall, OpenProposal, SessionState
from holdfast.model.tools import READ_HANDLE, FunctionTool, Tool
from holdfast.runtime.engine import Engine
from holdfast.runtime.held import Frame, Ledger, Session
from holdfast.runtime.opening import open, open_async

if TYPE_CHECKING:
    from holdfast.planner import SpoolDecision, plan_eviction, plan_spool
    from holdfast.providers.deltas import Deltas
    from holdfast.render.packs import Pack
    from holdfast.runtime.async_engine import AsyncEngine
    from holdfast.runtime.async_held import AsyncFrame, AsyncLedger, AsyncSession
    from holdfast.runtime.moving import Copied, copy

__version__ = "0.9.0"

__all__ = [
    "READ_HANDLE",
    "UPDATE_SITUATION",
    "Action",
    "ActionCall",
    "AsyncEngine",
    "AsyncFrame",
    "AsyncLedger",
    "AsyncSession",
    "BlobRef",
    "Body",
    "Brief",
    "Budget",
    "Candidate",
    "Change",
    "Classic",
    "Copied",
    "CustomStrategy",
    "Data",
    "Deltas",
    "Dispute",
    "Engine",
    "Entry",
    "Environment",
    "Exposure",
    "Fact",
    "FactSource",
    "Faithful",
    "FeedPage",
    "Figures",
    "File",
    "Frame",
    "FrameRecord",
    "FrameState",
    "Frugal",
    "FunctionTool",
    "Handle",
    "History",
    "HoldfastError",
    "Identity",
    "Image",
    "Judged",
    "Known",
    "Ladder",
    "Ledger",
    "LedgerId",
    "LedgerRow",
    "Limits",
    "Link",
    "Manifest",
    "Mention",
    "Message",
    "Observation",
    "Observed",
    "Occupancy",
    "Offload",
    "Opaque",
    "OpenCall",
    "OpenProposal",
    "Pack",
    "PackDiff",
    "PackRecord",
    "Part",
    "Pending",
    "Plan",
    "Policy",
    "Prices",
    "PriorityBased",
    "Problem",
    "Profile",
    "Proposal",
    "Reading",
    "Recorded",
    "Recovery",
    "Report",
    "Request",
    "Reservation",
    "ResultRef",
    "Said",
    "Scope",
    "Session",
    "SessionRow",
    "SessionState",
    "Situation",
    "SituationUpdate",
    "Source",
    "Span",
    "Spend",
    "SpoolDecision",
    "Spooling",
    "Started",
    "Stated",
    "Step",
    "StreamId",
    "SummarizeOldest",
    "Summary",
    "SummaryDraft",
    "Surrounding",
    "Suspended",
    "SuspensionToken",
    "Swept",
    "Text",
    "TokenSummary",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Totals",
    "TruncateAt",
    "Unit",
    "Usage",
    "View",
    "Weights",
    "Why",
    "WorkingItem",
    "copy",
    "errors",
    "open",
    "open_async",
    "plan_eviction",
    "plan_spool",
]


def __getattr__(name: str) -> object:
    """What brings much along, or is rarely needed, comes when it is asked for."""
    if name == "AsyncEngine":
        from holdfast.runtime.async_engine import AsyncEngine  # noqa: PLC0415 - that is the point

        return AsyncEngine
    if name in ("AsyncFrame", "AsyncLedger", "AsyncSession"):
        from holdfast.runtime import async_held  # noqa: PLC0415 - the same

        return getattr(async_held, name)
    if name == "Pack":
        from holdfast.render.packs import Pack  # noqa: PLC0415 - the same

        return Pack
    if name == "Deltas":
        from holdfast.providers.deltas import Deltas  # noqa: PLC0415 - the same

        return Deltas
    if name in ("SpoolDecision", "plan_eviction", "plan_spool"):
        from holdfast import planner  # noqa: PLC0415 - the same

        return getattr(planner, name)
    if name in ("Copied", "copy"):
        from holdfast.runtime import moving  # noqa: PLC0415 - the same

        return getattr(moving, name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
