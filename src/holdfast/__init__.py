"""Holdfast: the state engine for AI agents."""

import importlib
from typing import TYPE_CHECKING

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.model.content import BlobRef, File, Image, Text, ToolCall, ToolResult, Usage
from holdfast.model.facts.fact import Fact
from holdfast.model.history.handles import Handle
from holdfast.model.history.plans import Plan
from holdfast.model.history.prices import Prices
from holdfast.model.packs.pack import Brief, Manifest, Profile
from holdfast.model.policy import Policy
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message
from holdfast.model.situation.situations import UPDATE_SITUATION
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY, Tool

if TYPE_CHECKING:
    from holdfast import types
    from holdfast.client.connect import connect, connect_async
    from holdfast.render.pack import Pack
    from holdfast.runtime.async_engine import AsyncEngine
    from holdfast.runtime.async_ledgers import AsyncLedger
    from holdfast.runtime.async_sessions import AsyncFrame, AsyncSession
    from holdfast.runtime.engine import Engine
    from holdfast.runtime.factory import open, open_async
    from holdfast.runtime.ledgers import Ledger
    from holdfast.runtime.options import FactOptions, PackOptions
    from holdfast.runtime.sessions import Frame, Session
    from holdfast.runtime.store_copy import copy
    from holdfast.runtime.telemetry import Telemetry

__version__ = "0.16.0"

__all__ = [
    "READ_HANDLE",
    "RECALL_MEMORY",
    "UPDATE_SITUATION",
    "AsyncEngine",
    "AsyncFrame",
    "AsyncLedger",
    "AsyncSession",
    "BlobRef",
    "Brief",
    "Engine",
    "Fact",
    "FactOptions",
    "File",
    "Frame",
    "Handle",
    "HoldfastError",
    "Identity",
    "Image",
    "Ledger",
    "Manifest",
    "Message",
    "Pack",
    "PackOptions",
    "Plan",
    "Policy",
    "Prices",
    "Profile",
    "Session",
    "Telemetry",
    "Text",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Usage",
    "connect",
    "connect_async",
    "copy",
    "errors",
    "open",
    "open_async",
    "types",
]

_LAZY = {
    "AsyncEngine": "runtime.async_engine",
    "AsyncFrame": "runtime.async_sessions",
    "AsyncLedger": "runtime.async_ledgers",
    "AsyncSession": "runtime.async_sessions",
    "Engine": "runtime.engine",
    "FactOptions": "runtime.options",
    "Frame": "runtime.sessions",
    "Ledger": "runtime.ledgers",
    "Pack": "render.pack",
    "PackOptions": "runtime.options",
    "Session": "runtime.sessions",
    "Telemetry": "runtime.telemetry",
    "connect": "client.connect",
    "connect_async": "client.connect",
    "copy": "runtime.store_copy",
    "open": "runtime.factory",
    "open_async": "runtime.factory",
}
"""Names that are loaded on first use, with their modules: most of the code is behind them."""


def __getattr__(name: str) -> object:
    if name == "types":
        return importlib.import_module("holdfast.types")
    if name in _LAZY:
        member = globals()[name] = getattr(importlib.import_module(f"holdfast.{_LAZY[name]}"), name)
        return member
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
