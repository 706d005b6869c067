"""The engine: an open store with its sessions and ledgers. Each method runs one flow; here it blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, TypeVar, Unpack

import msgspec

from holdfast.core.sessions.decide import session_not_found
from holdfast.core.sessions.layers import check_identity
from holdfast.errors import InvalidArgument, describe_value
from holdfast.flows.context import EngineContext, LedgerContext, SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts import changes, queries
from holdfast.flows.frames import recovery, suspension
from holdfast.flows.sessions import ingest, lifecycle
from holdfast.model.content import BlobRef
from holdfast.model.frames.frames import Recovery, SuspendedFrame, SuspensionToken
from holdfast.model.names import DEFAULT_ACTOR, LedgerId, Scope, check_flag, check_name, check_options
from holdfast.model.rows import LedgerRow, SessionRow
from holdfast.model.sessions.layers import Identity
from holdfast.ports import BlobStore, EventStore
from holdfast.runtime.admin import Admin
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.runtime.ledgers import Ledger
from holdfast.runtime.logs import log_answer
from holdfast.runtime.memory import MemoryFacet
from holdfast.runtime.options import SessionOptions
from holdfast.runtime.sessions import Frame, Session
from holdfast.runtime.watch import Watch, WatchProgress, build_target, find_source
from holdfast.runtime.worker import Worker

if TYPE_CHECKING:
    from holdfast.runtime.telemetry import Telemetry

T = TypeVar("T")


class Engine:
    """An open store, and the entry to its sessions and ledgers. Get one with `holdfast.open()`.

    Threads can share an engine. A forked process must open its own."""

    def __init__(
        self,
        store: EventStore,
        blobs: BlobStore,
        context: EngineContext,
        locks: StreamLocks | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.store = store
        self._blob_store = blobs
        self._context = context
        self._locks = locks or StreamLocks()
        self._telemetry = telemetry

    @property
    def admin(self) -> Admin:
        """Maintenance: verify, rebuild, collect, backup, export, import, sweep, the outbox and the feed."""
        return Admin(self._drive, self.store, self._blob_store, self._context)

    @property
    def memory(self) -> MemoryFacet:
        """Long-term memory: recall, bootstrap, forget, and the deliveries to it."""
        return MemoryFacet(self._drive, self._context)

    @property
    def blobs(self) -> Blobs:
        """Large bodies: put, read, and read in chunks."""
        return Blobs(self._blob_store, self._context)

    def create_session(
        self,
        session: str,
        *,
        user: str | None = None,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        key: str | None = None,
        cause: str | None = None,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Create a session. Raises SessionExists if there is one with this name.

            session = engine.create_session("support-7", user="ada")

        `user` is short for an identity with that id and name, and for the user's ledger, first in `ledgers`.
        SessionOptions lists all options."""
        check_options("create_session", SessionOptions, options)
        context = build_session_context(self._context, actor, session, thread)
        completed = add_user(self._context, user, options)
        self._drive(lifecycle.create(context, key=key, cause=cause, **completed))
        return Session(self._drive, context)

    def session(
        self,
        session: str,
        *,
        user: str | None = None,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        create: bool = False,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Open a session by its name. Raises SessionNotFound if there is none, unless `create` is True.

            session = engine.session("support-7", user="ada", create=True)

        `user` and the options apply only if the session is created now: an existing session keeps its own, as
        state() shows. `actor` is the agent that the session belongs to; `thread` separates several conversations
        under one name."""
        check_options("session", SessionOptions, options)
        context = build_session_context(self._context, actor, session, thread)
        completed = add_user(self._context, user, options)
        if check_flag("create", create):
            self._drive(lifecycle.ensure(context, **completed))
        else:
            self._drive(lifecycle.state(context))
        return Session(self._drive, context)

    def sessions(
        self,
        *,
        actor: str | None = None,
        status: Literal["open", "closed", "destroyed"] | None = None,
        active_since_us: int | None = None,
        idle_since_us: int | None = None,
        order: Literal["name", "recent"] = "name",
        after: SessionRow | None = None,
        limit: int = 100,
    ) -> tuple[SessionRow, ...]:
        """List the sessions of the tenant by name, or, with `order="recent"`, the last active first.

        `active_since_us` and `idle_since_us` limit the time of the last event, both inclusive. Destroyed sessions
        are listed only with `status="destroyed"`. For the next page, pass the last row of this one as `after`."""
        return self._drive(
            lifecycle.list_sessions(
                self._context,
                actor=actor,
                status=status,
                active_since_us=active_since_us,
                idle_since_us=idle_since_us,
                order=order,
                after=after,
                limit=limit,
            )
        )

    def ledger(
        self,
        ledger: LedgerId | None = None,
        /,
        *,
        user: str | None = None,
        project: str | None = None,
        organization: str | None = None,
        identity: Identity | None = None,
    ) -> Ledger:
        """Open a ledger of facts: of a user, a project or an organization, or any ledger by its id.

            ledger = engine.ledger(user="ada")

        With `identity`, the ledger shows and accepts what that identity may read and write. Without it, the program
        itself acts: it sees everything and may use any authority."""
        return Ledger(self._drive, build_ledger_context(self._context, ledger, user, project, organization, identity))

    def ledgers(
        self,
        *,
        kind: Literal["user", "project", "organization", "session"] | None = None,
        after: LedgerRow | None = None,
        limit: int = 100,
    ) -> tuple[LedgerRow, ...]:
        """List the ledgers of the tenant by name. For the next page, pass the last row of this one as `after`."""
        return self._drive(queries.ledgers(self._context, kind=kind, after=after, limit=limit))

    def resume(self, token: SuspensionToken | str, *, cause: str | None = None) -> Frame:
        """Resume the suspended frame that this token belongs to, and return it.

        A token works once, also if several processes use it at the same time."""
        return Frame(self._drive, self._drive(suspension.resume(self._context, token, cause=cause)))

    def suspended(
        self,
        *,
        actor: str | None = None,
        session: str | None = None,
        after: SuspendedFrame | None = None,
        limit: int = 100,
    ) -> list[SuspendedFrame]:
        """List the suspended frames of the tenant by session, without their tokens.

        For the next page, pass the last item of this one as `after`."""
        return self._drive(
            suspension.list_suspended(self._context, actor=actor, session=session, after=after, limit=limit)
        )

    def recover(self, scope: Scope, *, key: str | None = None, cause: str | None = None) -> Recovery:
        """Take over a session after an interruption, by its scope. See Session.recover()."""
        return self._drive(recovery.recover(check_scope_context(self._context, scope), key=key, cause=cause))

    def watch(
        self,
        session: str | None = None,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        ledger: LedgerId | None = None,
        after: str | int | None = "",
        timeout_s: float | None = None,
    ) -> Watch:
        """Follow the events of a session, of a ledger, or of the whole tenant, and wait for new ones.

            for event in engine.watch("support-7", after=last_cursor):
                print(event.type, event.cursor)

        Events come in order, and none is skipped, whichever process stores them. `after` is the cursor of the last
        event that you have; without it, the watch begins with the first event, and with None, with the next one. In a
        session or a ledger the cursor is the seq of the event, so `after=session.state().version` works too.

        The watch ends when the loop is left, when the engine is closed, or after `timeout_s` seconds without an event:
        0 for what is stored now. Events are shown in full, whoever may read them: choose what you pass on to a
        user."""
        target = build_target(self._context, self.store, session, actor, thread, ledger)
        return Watch(self._drive, WatchProgress(target, after, timeout_s, find_source(self.store)))

    def worker(self, *, every_s: float = 5.0, limit: int = 100) -> Worker:
        """Deliver conversations that ended to long-term memory in the background, while the block runs.

            with engine.worker():
                serve()

        Facts that the users stated are learned with it. The worker looks every `every_s` seconds, and when the store
        announces a change; at most `limit` entries are one round. Any number of workers, in any number of processes, share
        the work. What fails is logged, tried again later, and set aside after DELIVERY_TRIES: `holdfast doctor` shows it.
        `holdfast worker` does the same in a process of its own."""
        return Worker(self._drive, self._context, self.store, every_s, limit)

    def acting_as(self, *, tenant: str | None = None, principal: str | None = None) -> Engine:
        """Return an engine on the same store for another tenant or principal. Closing one closes both."""
        context = derive_context(self._context, tenant, principal)
        return Engine(self.store, self._blob_store, context, self._locks, self._telemetry)

    def close(self) -> None:
        """Close the store. Stored data stays."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(self, flow: Flow[T], /) -> T:
        if self._telemetry is not None:
            flow = self._telemetry._trace(flow)
        answer = drive(flow, self.store, self._locks)
        log_answer(answer)
        return answer


class Blobs:
    """The large bodies of one tenant, stored by their content: `engine.blobs`."""

    def __init__(self, store: BlobStore, context: EngineContext) -> None:
        self._store = store
        self._context = context

    def put(self, body: bytes | BinaryIO | Iterable[bytes], *, media_type: str | None = None) -> BlobRef:
        """Store a large body, streamed, and return the reference to use in a message."""
        return self._context.bodies.put(self._context.tenant, body, media_type)

    def chunks(self, ref: BlobRef) -> Iterator[bytes]:
        """Read a body in chunks. It is verified at the end: StorageCorrupt may be raised after the last chunk."""
        return self._store.chunks(self._context.tenant, ingest.check_ref(ref))

    def read(self, ref: BlobRef) -> bytes:
        """Read a complete body."""
        return b"".join(self.chunks(ref))


def build_session_context(engine: EngineContext, actor: object, session: object, thread: object) -> SessionContext:
    """Check the names of a session."""
    return SessionContext(engine, Scope.check(engine.tenant, actor, session, thread))


def build_ledger_context(
    engine: EngineContext,
    ledger: LedgerId | None,
    user: str | None,
    project: str | None,
    organization: str | None,
    identity: Identity | None,
) -> LedgerContext:
    """Check the name of a ledger and the identity that uses it."""
    checked = changes.resolve_ledger(engine, ledger, user=user, project=project, organization=organization)
    writer = changes.writer_for(engine, None if identity is None else check_identity(identity))
    return LedgerContext(engine, checked, writer)


def add_user(engine: EngineContext, user: str | None, options: SessionOptions) -> dict[str, Any]:
    """Add the identity of a user to the options of a session, and the user's ledger, unless the options have them. A
    session with a memory always reads the ledger of its user, so that superseded values are known."""
    completed: dict[str, Any] = {**options}
    identity = completed.get("identity")
    if user is None and completed.get("memory") is True and isinstance(identity, Identity):
        user = identity.user_id or None
    if user is None:
        return completed
    user_ledger = changes.resolve_ledger(engine, user=user)
    if identity is None:
        completed["identity"] = Identity(user_id=user, user_name=user)
    elif isinstance(identity, Identity) and not identity.user_id:
        completed["identity"] = msgspec.structs.replace(identity, user_id=user)
    elif isinstance(identity, Identity) and identity.user_id != user and completed.get("memory") is True:
        reason = (
            f"its user_id is {describe_value(identity.user_id)}, but the user is {describe_value(user)}; "
            "a session with a memory has the memory and the facts of one user"
        )
        raise InvalidArgument(argument="identity", reason=reason)
    ledgers = tuple(completed.get("ledgers", ()))
    completed["ledgers"] = ledgers if user_ledger in ledgers else (user_ledger, *ledgers)
    return completed


def check_scope_context(engine: EngineContext, scope: object) -> SessionContext:
    """Check the scope of a session. A session of another tenant is not found."""
    if type(scope) is not Scope:
        reason = f"{describe_value(scope)} is not a holdfast.types.Scope: pass the scope of a session"
        raise InvalidArgument(argument="scope", reason=reason)
    checked = Scope.check(scope.tenant, scope.actor, scope.session, scope.thread)
    if checked.tenant != engine.tenant:
        raise session_not_found(checked)
    return SessionContext(engine, checked)


def derive_context(engine: EngineContext, tenant: str | None, principal: str | None) -> EngineContext:
    """Return the context for another tenant or principal."""
    return msgspec.structs.replace(
        engine,
        tenant=engine.tenant if tenant is None else check_name("tenant", tenant),
        principal=engine.principal if principal is None else check_name("principal", principal),
    )
