"""Long-term memory: `engine.memory`. Each method runs one flow; here it blocks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.flows.memory import bootstrap, delivery, recall, removal, vectors
from holdfast.flows.sessions.ingest import to_time_us
from holdfast.model import limits
from holdfast.model.content import Role
from holdfast.model.memory.deliveries import Delivery, DeliveryBacklog, DeliveryReport
from holdfast.model.memory.passages import PassageTotals
from holdfast.model.memory.recall import ForgetReport, MemoryAnswer, UserKnowledge
from holdfast.model.names import Scope
from holdfast.model.sessions.layers import Identity
from holdfast.runtime.base import EngineBase


class MemoryFacet(EngineBase):
    """What outlives sessions: `engine.memory`. It has what ended conversations left, once a worker has delivered it."""

    def recall(
        self,
        query: str,
        *,
        user: str,
        budget: int = 1_000,
        identity: Identity | None = None,
        sessions: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        roles: Sequence[Role] = (),
    ) -> MemoryAnswer:
        """Recall what helps to answer a question about a user, in at most `budget` tokens.

            answer = engine.memory.recall("Where does Ada live?", user="ada")

        Only the memory of this user is searched. With `identity`, only what its permissions allow; without it, the
        program itself asks, and sees everything. `sessions`, `since`, `until` and `roles` narrow the search. The
        passages are as they were said: packs show them without superseded values."""
        reader = recall.check_reader(self._context, user, identity)
        within = recall.check_range(sessions, to_time_us("since", since), to_time_us("until", until), roles)
        return self._drive(recall.recall_for_program(self._context, query, budget, reader, within))

    def bootstrap(self, *, user: str, budget: int = 1_000, identity: Identity | None = None) -> UserKnowledge:
        """Return what is known of a user, for the start of a session: current facts, what earlier conversations had come
        to, and what the user said last."""
        reader = recall.check_reader(self._context, user, identity)
        return self._drive(bootstrap.bootstrap(self._context, reader, budget))

    def totals(self, *, user: str) -> PassageTotals:
        """Return how much the built-in memory has of a user."""
        return self._drive(recall.count_passages(self._context, recall.check_reader(self._context, user, None)))

    def forget(self, *, user: str | None = None, session: Scope | None = None) -> ForgetReport:
        """Forget everything of a user, or of one session, given by its scope.

        Passages, their index and their vectors are removed from the store, and what waits in the outbox is not delivered.
        Facts stay, and so do sessions: erase them with `engine.ledger(user=…).erase(…)` and `session.destroy()`."""
        return self._drive(removal.forget(self._context, user=user, scope=session))

    def embed(self, *, limit: int = limits.READ_EVENTS) -> int:
        """Embed passages that have no vector yet, with the engine's embedder. Returns how many. A worker does this."""
        return self._drive(vectors.embed_pending(self._context, limit=limit))

    def deliver(self, *, limit: int = 100) -> DeliveryReport:
        """Deliver conversations that ended to long-term memory now, at most `limit` of them, and learn facts from them.

        `with engine.worker(): …` does this in the background. Any number of processes can deliver at the same time."""
        return self._drive(delivery.deliver(self._context, limit=limit))

    def backlog(self) -> DeliveryBacklog:
        """Return what waits for long-term memory, and what was set aside because it failed too often."""
        return self._drive(delivery.read_backlog(self._context))

    def requeue(self, failed: Delivery) -> None:
        """Make an entry of the backlog due at once, as if it had never failed."""
        self._drive(delivery.requeue(self._context, failed))
