"""The two worlds: every remote class, blocking and awaited, by the blocking public class that it stands for."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.client import objects
from holdfast.client.admin import AwaitedAdmin, BlockingAdmin
from holdfast.client.bodies import AwaitedBlobs, BlockingBlobs
from holdfast.client.engine import AwaitedEngine, BlockingEngine
from holdfast.runtime import (
    async_engine,
    async_facets,
    async_ledgers,
    async_memory,
    async_sessions,
    facets,
    ledgers,
    memory,
    sessions,
)
from holdfast.runtime.admin import Admin
from holdfast.runtime.engine import Blobs, Engine

TWINS: Mapping[type, type] = {
    async_engine.AsyncEngine: Engine,
    async_engine.AsyncBlobs: Blobs,
    async_engine.AsyncAdmin: Admin,
    async_memory.AsyncMemoryFacet: memory.MemoryFacet,
    async_sessions.AsyncSession: sessions.Session,
    async_sessions.AsyncFrame: sessions.Frame,
    async_sessions.AsyncFramesFacet: sessions.FramesFacet,
    async_facets.AsyncContextFacet: facets.ContextFacet,
    async_facets.AsyncPacksFacet: facets.PacksFacet,
    async_facets.AsyncHandlesFacet: facets.HandlesFacet,
    async_facets.AsyncFrameHandlesFacet: facets.FrameHandlesFacet,
    async_facets.AsyncSituationFacet: facets.SituationFacet,
    async_facets.AsyncWorkingFacet: facets.WorkingFacet,
    async_facets.AsyncEnvironmentFacet: facets.EnvironmentFacet,
    async_facets.AsyncEntriesFacet: facets.EntriesFacet,
    async_facets.AsyncBudgetFacet: facets.BudgetFacet,
    async_ledgers.AsyncLedger: ledgers.Ledger,
    async_ledgers.AsyncFactsFacet: ledgers.FactsFacet,
    async_ledgers.AsyncReviewFacet: ledgers.ReviewFacet,
}
"""The blocking twin of each class for an event loop."""
_MIXINS: Mapping[type, tuple[type, type]] = {
    Engine: (BlockingEngine, AwaitedEngine),
    Blobs: (BlockingBlobs, AwaitedBlobs),
    Admin: (BlockingAdmin, AwaitedAdmin),
    sessions.Session: (objects.BlockingSession, objects.AwaitedSession),
    sessions.Frame: (objects.BlockingFrame, objects.AwaitedFrame),
    sessions.FramesFacet: (objects.BlockingFrames, objects.AwaitedFrames),
    facets.HandlesFacet: (objects.BlockingHandleTool, objects.AwaitedHandleTool),
    facets.FrameHandlesFacet: (objects.BlockingHandleTool, objects.AwaitedHandleTool),
    facets.SituationFacet: (objects.BlockingSituationTool, objects.AwaitedSituationTool),
}
"""What a class does beside requests, in both worlds."""


def _build_world(world: int) -> dict[type, type]:
    twins = TWINS if world else {blocking: blocking for blocking in TWINS.values()}
    classes: dict[type, type] = {}
    for public, blocking in twins.items():
        mixins = (_MIXINS[blocking][world],) if blocking in _MIXINS else ()
        classes[blocking] = objects.build_class(public, blocking, mixins, twins)
        classes[blocking]._classes = classes  # type: ignore[attr-defined]
    return classes


BLOCKING: Mapping[type, type] = _build_world(0)
AWAITED: Mapping[type, type] = _build_world(1)
