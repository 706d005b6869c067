"""What users do with a session, each as a flow over the place where it is done."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, get_args

import msgspec

from holdfast import codec
from holdfast.core import sessions, upcast
from holdfast.errors import InvalidContent, InvalidCursor, InvalidJson, InvalidName, TooLarge, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Order, execute
from holdfast.flows.load import StateCache, load
from holdfast.model import limits
from holdfast.model.commands import CloseSession, Command, CreateSession, ErasePayloads, Given, RecordMessage
from holdfast.model.content import BlobRef, Body, File, Image, Opaque, Part, Role, Text, blob_refs
from holdfast.model.events import MessageRecorded
from holdfast.model.log import Appended, FeedPage, Recorded
from holdfast.model.names import Scope, checked_name, checked_whole
from holdfast.model.rows import SessionRow
from holdfast.model.state import SessionState
from holdfast.ports import BodyCheck, Clock, IdSource, TokenCounter

Content: TypeAlias = str | Part | Sequence[str | Part]


class Context(msgspec.Struct, frozen=True):
    """Who acts, in which tenant, and what comes in from outside."""

    tenant: str
    principal: str
    cache: StateCache
    clock: Clock
    ids: IdSource
    counter: TokenCounter
    bodies: BodyCheck | None = None


class Place(msgspec.Struct, frozen=True):
    """A session as seen by someone."""

    context: Context
    scope: Scope


class Message(msgspec.Struct, frozen=True):
    """A message as it was recorded. Once erased, it has no role and no content any more."""

    id: str
    seq: int
    role: Role | None
    content: tuple[Part, ...]
    tokens: int
    time_us: int
    principal: str

    @property
    def erased(self) -> bool:
        return self.role is None

    @property
    def text(self) -> str:
        """The text in it, joined; of bodies kept as blobs, the preview."""
        texts = (
            part.text if isinstance(part, Text) else part.preview
            for part in self.content
            if isinstance(part, Text | Body)
        )
        return "\n".join(texts)

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.time_us / 1e6, UTC)


def create(
    place: Place, metadata: dict[str, Any] | None = None, *, key: str | None = None, cause: str | None = None
) -> Flow[None]:
    data = codec.checked_json("metadata", {} if metadata is None else metadata)
    if not isinstance(data, dict):
        raise InvalidJson(where="metadata", reason="it is not an object")
    yield from _order(place, CreateSession(scope=place.scope, metadata=data), key=key, cause=cause)


def record(
    place: Place,
    role: str,
    content: Content,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message]:
    """Keep a message; when this returns, it survives power loss.

    `key` makes a retry safe: the same message under the same key is kept once. `expect` is the version that the session
    must be at; otherwise VersionConflict. `cause` names the event that led to this one."""
    parts = checked_parts(content)
    counter = place.context.counter
    tokens = sum(counter.count(_counted(part)) for part in parts)
    command = RecordMessage(scope=place.scope, role=_checked_role(role), content=parts)
    given = Given(time_us=place.context.clock.now_us(), tokens=tokens, counter=counter.name)
    bodies = blob_refs(parts)
    appended = yield from _order(place, command, given, key=key, expect=expect, cause=cause, bodies=bodies)
    if appended.repeated:
        return message(appended.events[0])
    event = appended.events[0]
    return Message(event.id, event.seq, command.role, parts, tokens, event.time_us, event.principal)


def close(
    place: Place,
    reason: str = "done",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End the session; it takes no more messages. Closing it again changes nothing."""
    if not codec.checked_text("the reason", reason):
        raise InvalidContent(reason="closing needs a reason")
    yield from _order(place, CloseSession(scope=place.scope, reason=reason), key=key, expect=expect, cause=cause)


def erase(place: Place, seqs: Sequence[int], reason: str, *, key: str | None = None) -> Flow[None]:
    """Remove the content of these events for good. Their headers and digests stay, so the hash chain still verifies."""
    if type(seqs) not in (list, tuple, range):
        raise InvalidContent(reason="the events to erase are a list of their seqs")
    named = tuple(checked_whole("an event to erase", seq, 1) for seq in seqs)
    command = ErasePayloads(scope=place.scope, seqs=named, reason=codec.checked_text("the reason", reason))
    yield from _order(place, command, key=key)


def state(place: Place) -> Flow[SessionState]:
    """Where the session stands now, whoever wrote last."""
    found = yield from load(place.scope.stream, place.context.cache, fresh=True)
    if found.status == "absent":
        raise sessions.not_found(place.scope)
    if found.metadata:  # the caller may do with it as he likes; ours stays
        copy = codec.checked_json("metadata", found.metadata)
        found = msgspec.structs.replace(found, metadata=copy)
    return found


def messages(place: Place, *, before: int | None = None, limit: int = 100) -> Flow[list[Message]]:
    """The last messages, oldest first; with `before`, the last ones before that seq."""
    if before is not None:
        checked_whole("before", before)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    found = yield from effects.read_back(place.scope.stream, before, limit, (MessageRecorded.name,))
    if not found:
        yield from state(place)
    return [message(event) for event in reversed(found)]


def events(place: Place, *, after: int = 0, limit: int = 100) -> Flow[tuple[Recorded, ...]]:
    """The session's stored events, as the log has them."""
    checked_whole("after", after)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    found = yield from effects.read(place.scope.stream, after, limit)
    if not found:
        yield from state(place)
    return found


def listed(
    context: Context, *, actor: str | None = None, after: SessionRow | None = None, limit: int = 100
) -> Flow[tuple[SessionRow, ...]]:
    """The tenant's sessions in order of their names; `after` is the last row of the page before."""
    where: dict[str, str | int] = {"tenant": context.tenant}
    if actor is not None:
        where["actor"] = checked_name("actor", actor)
    if after is not None:
        if type(after) is not SessionRow:
            raise InvalidContent(reason="a page goes on after the last row of the one before")
        for column in SessionRow.key:
            codec.checked_text(f"the {column} of the row before", getattr(after, column))
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    return (yield from effects.rows(SessionRow, where, after, limit))


def feed(_context: Context, cursor: str = "", *, limit: int = 100) -> Flow[FeedPage]:
    """Events of all sessions and tenants in one order, from a cursor that survives restarts."""
    if type(cursor) is not str:
        raise InvalidCursor(cursor=shown(cursor))
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    return (yield from effects.feed(cursor, limit))


def message(recorded: Recorded) -> Message:
    event = upcast.current(recorded)
    if not isinstance(event, MessageRecorded):
        return Message(recorded.id, recorded.seq, None, (), 0, recorded.time_us, recorded.principal)
    return Message(
        recorded.id, recorded.seq, event.role, event.content, event.tokens, recorded.time_us, recorded.principal
    )


def checked_parts(content: Content) -> tuple[Part, ...]:
    """Content as parts, each checked: text is Unicode, references are well formed."""
    if type(content) is str and content:
        return (Text(codec.checked_text("the text", content)),)
    given: Sequence[object] = content if type(content) in (list, tuple) else (content,)  # type: ignore[assignment]
    if len(given) > limits.CONTENT_PARTS:
        raise TooLarge(
            what="the message",
            size=len(given),
            unit="parts",
            limit_name="CONTENT_PARTS",
            limit=limits.CONTENT_PARTS,
            advice="Record several messages.",
        )
    parts = tuple(_checked_part(Text(part) if type(part) is str else part) for part in given)
    if all(part == _NOTHING for part in parts):
        raise InvalidContent(reason="a message needs content")
    return parts


_NOTHING = Text("")


def _checked_part(part: object) -> Part:
    if type(part) not in (Text, Body, File, Image, Opaque):
        raise InvalidContent(reason=f"{shown(part)} is not a part of a message")
    match part:
        case Text(text):
            codec.checked_text("the text", text)
        case Body(ref, preview):
            checked_ref(ref)
            codec.checked_text("the preview", preview)
        case File(ref, name):
            checked_ref(ref)
            if name is not None:
                checked_name("file name", name)
        case Image(ref, url):
            _check_image(ref, url)
        case Opaque(issuer, body):
            checked_name("issuer", issuer)
            if type(body) is BlobRef:
                checked_ref(body)
            else:
                codec.checked_text("the opaque part", body)
    return part  # type: ignore[return-value]


def _check_image(ref: BlobRef | None, url: str | None) -> None:
    if (ref is None) == (url is None):
        raise InvalidContent(reason="an image has either a blob or a URL")
    if ref is not None:
        checked_ref(ref)
    if url is not None:
        codec.checked_text("the URL", url)


def checked_ref(ref: object) -> BlobRef:
    if type(ref) is not BlobRef:
        raise InvalidContent(reason="a reference to a body is what put_blob() returns")
    digest = ref.digest
    if type(digest) is not str or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise InvalidName(what="blob digest", value=digest, reason="it is not 64 hexadecimal digits", limit=64)
    checked_whole("the size of a blob", ref.size, 0, limits.BLOB_BYTES)
    if ref.media_type is not None:
        checked_name("media type", ref.media_type)
    return ref


def _checked_role(role: str) -> Role:
    known: tuple[Role, ...] = get_args(Role)
    for each in known:
        if type(role) is str and role == each:
            return each
    raise InvalidContent(reason=f"the role {shown(role)} is not one of {', '.join(known)}")


def _counted(part: Part) -> str:
    """What of a part is text that a model reads."""
    match part:
        case Text(text):
            return text
        case Body(preview=preview):
            return preview
        case _:
            return ""


def _order(
    place: Place,
    command: Command,
    given: Given | None = None,
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    bodies: tuple[BlobRef, ...] = (),
) -> Flow[Appended]:
    context = place.context
    check = context.bodies.check if context.bodies is not None else None
    order = Order(
        command=command,
        given=given or Given(time_us=context.clock.now_us()),
        principal=context.principal,
        cause=None if cause is None else checked_name("cause", cause),
        key=None if key is None else checked_name("idempotency key", key),
        expected=None if expect is None else checked_whole("the expected version", expect),
        needs=tuple(functools.partial(check, context.tenant, ref) for ref in bodies) if check else (),
    )
    return execute(order, context.cache, context.ids)
