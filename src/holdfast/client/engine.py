"""What a remote engine does beside requests: it opens ledgers and watches, and closes its connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from holdfast.client import flows
from holdfast.client.calls import RemoteLedgerContext
from holdfast.client.watch import RemoteAsyncWatch, RemoteWatch, find_feed
from holdfast.core.sessions.layers import check_identity
from holdfast.errors import LocalOnly
from holdfast.flows.context import EngineContext
from holdfast.flows.facts.changes import resolve_ledger, writer_for
from holdfast.model.names import DEFAULT_ACTOR, LedgerId, Scope
from holdfast.model.sessions.layers import Identity
from holdfast.runtime import ledgers
from holdfast.runtime.engine import check_scope_context, derive_context


class _Engine:
    """What both worlds share."""

    _drive: Any
    _context: EngineContext
    _classes: Mapping[type, type]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._drive.address.url}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("store", "_store", "_blob_store"):
            raise LocalOnly(what="the store itself", reason="it is open on the server")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def ledger(
        self,
        ledger: LedgerId | None = None,
        /,
        *,
        user: str | None = None,
        project: str | None = None,
        organization: str | None = None,
        identity: Identity | None = None,
    ) -> Any:
        home = resolve_ledger(self._context, ledger, user=user, project=project, organization=organization)
        checked = None if identity is None else check_identity(identity)
        writer = writer_for(self._context, None)
        return self._classes[ledgers.Ledger](
            self._drive, RemoteLedgerContext(self._context, home, writer, None, checked)
        )

    def worker(self, *, every_s: float = 5.0, limit: int = 100) -> NoReturn:  # noqa: ARG002 - as the engine has it
        raise LocalOnly(what="a worker", reason="the server delivers to long-term memory by itself")

    def acting_as(self, *, tenant: str | None = None, principal: str | None = None) -> Any:
        derived = derive_context(self._context, tenant, principal)
        if derived.tenant != self._context.tenant or derived.principal != self._context.principal:
            raise LocalOnly(
                what="acting as another tenant or principal",
                reason="the key decides for whom a program acts; connect with another key",
            )
        same: Any = type(self)
        return same(self._drive, self._context)


class BlockingEngine(_Engine):
    """A remote engine that blocks."""

    def recover(self, scope: Scope, **options: Any) -> Any:
        return self._drive(flows.recover(check_scope_context(self._context, scope), options))

    def watch(
        self,
        session: str | None = None,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        ledger: LedgerId | None = None,
        after: str | int | None = "",
        timeout_s: float | None = None,
    ) -> Any:
        feed = find_feed(self._context, session, actor, thread, ledger)
        return RemoteWatch(self._drive, feed, after, timeout_s)

    def close(self) -> None:
        self._drive.close()


class AwaitedEngine(_Engine):
    """A remote engine for an event loop."""

    async def recover(self, scope: Scope, **options: Any) -> Any:
        return await self._drive(flows.recover(check_scope_context(self._context, scope), options))

    def watch(
        self,
        session: str | None = None,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        ledger: LedgerId | None = None,
        after: str | int | None = "",
        timeout_s: float | None = None,
    ) -> Any:
        feed = find_feed(self._context, session, actor, thread, ledger)
        return RemoteAsyncWatch(self._drive, feed, after, timeout_s)

    async def close(self) -> None:
        await self._drive.close()
