"""What users hold: an engine and its sessions. Each operation is written once, as a flow; here it blocks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, BinaryIO, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from holdfast.flows import maintain
from holdfast.flows import sessions as flows
from holdfast.flows.effects import Flow
from holdfast.flows.maintain import Report
from holdfast.flows.sessions import Context, Place
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.log import Totals
from holdfast.model.names import Scope, checked_name
from holdfast.ports import BlobStore, EventStore
from holdfast.runtime import care, transfer
from holdfast.runtime.drive import Turns, drive

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_ACTOR = "main"


def _blocking(flow: Callable[Concatenate[Any, P], Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """A flow over a place as a method that blocks."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = self._drive(flow(self._place, *args, **kwargs))
        return answer

    return functools.update_wrapper(method, flow)


class Handle:
    def __init__(self, drive: Callable[[Flow[Any]], Any], place: Place) -> None:
        self._drive = drive
        self._place = place

    @property
    def scope(self) -> Scope:
        return self._place.scope

    @property
    def id(self) -> str:
        return self._place.scope.session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place.scope.stream}>"


class Session(Handle):
    """One session. Holds no state of its own: any process may hold another handle to the same session."""

    record = _blocking(flows.record)
    messages = _blocking(flows.messages)
    events = _blocking(flows.events)
    state = _blocking(flows.state)
    close = _blocking(flows.close)
    erase = _blocking(flows.erase)


class Engine:
    """A store, opened. Threads may share it; a forked process must open its own."""

    def __init__(self, store: EventStore, blobs: BlobStore, context: Context, turns: Turns | None = None) -> None:
        self.store = store
        self.blobs = blobs
        self._bodies = context.bodies if isinstance(context.bodies, care.Bodies) else care.Bodies(blobs)
        self._place = msgspec.structs.replace(context, bodies=self._bodies)
        self._turns = turns or Turns()

    sessions = _blocking(flows.listed)
    feed = _blocking(flows.feed)

    def acting_as(self, *, tenant: str | None = None, principal: str | None = None) -> Engine:
        """The same engine for another tenant or in another's name; close either one to close both."""
        return Engine(self.store, self.blobs, renamed(self._place, tenant, principal), self._turns)

    def create_session(
        self,
        session: str,
        *,
        actor: str = DEFAULT_ACTOR,
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
        cause: str | None = None,
    ) -> Session:
        place = place_of(self._place, actor, session, thread)
        self._drive(flows.create(place, metadata, key=key, cause=cause))
        return Session(self._drive, place)

    def session(self, session: str, *, actor: str = DEFAULT_ACTOR, thread: str | None = None) -> Session:
        """A session that is there already; SessionNotFound otherwise."""
        place = place_of(self._place, actor, session, thread)
        self._drive(flows.state(place))
        return Session(self._drive, place)

    def put_blob(self, body: bytes | BinaryIO | Iterable[bytes], *, media_type: str | None = None) -> BlobRef:
        """Keep a large body, streamed; the reference goes into a message."""
        ref = care.put_blob(self.blobs, self._place.tenant, body, media_type)
        self.note_body(ref)
        return ref

    def note_body(self, ref: BlobRef) -> None:
        """This body was just put into the blob store by other means: a message that names it need not read it again."""
        self._bodies.note(self._place.tenant, ref)

    def blob_chunks(self, ref: BlobRef) -> Iterator[bytes]:
        """A body in pieces, checked on the way. The last piece may end in StorageCorrupt: use nothing before it ended."""
        return self.blobs.chunks(self._place.tenant, flows.checked_ref(ref))

    def read_blob(self, ref: BlobRef) -> bytes:
        return b"".join(self.blob_chunks(ref))

    def verify(self) -> Report:
        """Compare everything with everything: hash chains, heads, snapshots, rows, and the bodies that events name."""
        return care.verify(self._drive, self.blobs)

    def rebuild(self) -> int:
        """Make all rows anew from the log; how many streams there were."""
        return self._drive(maintain.rebuild())

    def collect_blobs(self, *, grace_s: float = limits.BLOB_GRACE_S) -> int:
        """Remove bodies that no event names and that nobody put within the grace period; how many."""
        return care.collect_blobs(self._drive, self.blobs, self._place.clock, grace_s)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """A copy of the file and its blobs, complete in itself, while others write."""
        care.backup(self.store, self.blobs, care.checked_path(target))

    def export(self, target: str | os.PathLike[str]) -> int:
        """All tenants' events and blobs as JSON lines; how many events."""
        return transfer.export(self._drive, self.blobs, care.checked_path(target))

    def import_(self, source: str | os.PathLike[str]) -> int:
        """Take in an export; events that are here already are passed over. How many were new."""
        return transfer.import_(self._drive, self.blobs, care.checked_path(source))

    def totals(self) -> Totals:
        return self.store.totals()

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(self, flow: Flow[T]) -> T:
        return drive(flow, self.store, self._turns)


def place_of(context: Context, actor: object, session: object, thread: object) -> Place:
    return Place(context, Scope.checked(context.tenant, actor, session, thread))


def renamed(context: Context, tenant: str | None, principal: str | None) -> Context:
    return msgspec.structs.replace(
        context,
        tenant=context.tenant if tenant is None else checked_name("tenant", tenant),
        principal=context.principal if principal is None else checked_name("principal", principal),
    )
