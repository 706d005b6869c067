"""Holdfast: the state engine for AI agents."""

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.flows.maintain import Problem, Report
from holdfast.flows.sessions import Message
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Part, Text
from holdfast.model.log import FeedPage, Recorded, Totals
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import SessionRow
from holdfast.model.state import SessionState
from holdfast.runtime.engine import AsyncEngine, AsyncSession, Engine, Session
from holdfast.runtime.opening import open, open_async

__version__ = "0.1.0"

__all__ = [
    "AsyncEngine",
    "AsyncSession",
    "BlobRef",
    "Body",
    "Engine",
    "FeedPage",
    "File",
    "HoldfastError",
    "Image",
    "Message",
    "Opaque",
    "Part",
    "Problem",
    "Recorded",
    "Report",
    "Scope",
    "Session",
    "SessionRow",
    "SessionState",
    "StreamId",
    "Text",
    "Totals",
    "errors",
    "open",
    "open_async",
]
