"""Several engines on one store, as processes would have it: what the state machines over whole histories stand on."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar

import msgspec
from hypothesis.stateful import RuleBasedStateMachine

import holdfast
from tests.property.session_model import CharCounter, ManualClock
from tests.property.store_tools import Kind, fast_folder, store_of_kind
from tests.support import CountingIds


class EngineMachine(RuleBasedStateMachine):
    """What outlives a process, each engine opens for itself; what is in memory lives in one store, whichever engine is on
    it."""

    kind: ClassVar[Kind]

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        self.folder = self.cleanup.enter_context(fast_folder())
        self.url = self.cleanup.enter_context(store_of_kind(self.kind))
        self.clock = ManualClock()
        self.ids = CountingIds()
        self.exports = 0
        self.shared = holdfast.open(self.url) if self.kind == "memory" else None

    def open(self, cached: int, **more: Any) -> holdfast.Engine:
        engine = holdfast.open(
            self.url, clock=self.clock, ids=self.ids, counter=CharCounter(), cached_streams=cached, **more
        )
        if self.shared is None:
            self.cleanup.callback(engine.close)
            return engine
        context = msgspec.structs.replace(engine._context, bodies=self.shared._context.bodies)
        return holdfast.Engine(self.shared.store, self.shared._blob_store, context)

    def teardown(self) -> None:
        self.cleanup.close()
