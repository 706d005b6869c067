"""What is said and done in a session: recording it, and reading it back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast import codec
from holdfast.core import sessions
from holdfast.errors import InvalidContent, shown
from holdfast.flows import effects, ingest, manifests
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.load import load
from holdfast.flows.place import Place, given_to, order, together
from holdfast.flows.read import message
from holdfast.model import limits
from holdfast.model.commands import CloseCalls, RecordMessages
from holdfast.model.content import BlobRef, Source, ToolCall, Usage, blob_refs
from holdfast.model.drafts import Draft, DraftResult
from holdfast.model.events import EvidenceKept, MessageRecorded, SessionDestroyed
from holdfast.model.frames import Reservation
from holdfast.model.handles import Priority
from holdfast.model.log import Recorded
from holdfast.model.messages import Message
from holdfast.model.names import check_size, checked_name, checked_whole
from holdfast.model.state import OpenCall

if TYPE_CHECKING:
    from holdfast.render.packs import Pack

_KEPT = (MessageRecorded.name, EvidenceKept.name)


def record(
    place: Place,
    message: object,
    content: ingest.Content | None = None,
    *,
    tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
    usage: Usage | None = None,
    stop: str | None = None,
    metadata: dict[str, Any] | None = None,
    priority: Priority | None = None,
    reservation: Reservation | str | None = None,
    pack: Pack | Literal[False] | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message]:
    """Keep a message; when this returns, it survives power loss.

    `message` is a role, with `content` and `tool_calls`: record("user", "Hello"). The content is text, parts, or parts as
    dicts: in the shape of our own parts ({"type": "image", "url": …}), of OpenAI or of Anthropic. Or `message` is what a
    provider returned: a response of OpenAI or Anthropic, an object of their clients or a plain dict, or finished Deltas:
    record(response).

    `key` makes a retry safe: the same message under the same key is kept once. `expect` is the version that the session
    must be at; otherwise VersionConflict. `cause` names the event that led to this one.

    `priority` says how long it stays in view when room is short: critical (always), high, medium (if nothing is said), low
    or background. A result has the priority of its call, and a system message is Critical.

    A reply that is no answer is recorded with its usage, and shown to no model: one that is empty, a refusal, one that the
    provider cut off or filtered. The message says why in `skipped`, and its calls are not to be run. Of a reply that you
    record by its parts, `stop` says why the model stopped, in the provider's words: "length", "refusal".

    In a frame, its usage is taken from the frame's budget; `reservation` is what was reserved for it there.

    A reply is tied to the `pack` that it answers: without one, to the pack that was built last through this handle, once;
    False ties it to none. The manifest of the pack is stored together with the reply, and what was reserved with it is
    settled."""
    drafts = _drafts(message, content, tool_calls, usage, metadata, priority, stop)
    answered = manifests.tied(place, drafts, pack)
    made = record_drafts(place, drafts, reservation=reservation, pack=answered, key=key, expect=expect, cause=cause)
    return (yield from made)[-1]


def record_all(
    place: Place,
    messages: Sequence[object],
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[list[Message]]:
    """Keep several messages, all or none. Each is what `record` takes, or a pair of role and content."""
    if type(messages) not in (list, tuple) or not messages:
        raise InvalidContent(reason="the messages to record are a list of at least one")
    drafts: list[Draft] = []
    for pairs, run in itertools.groupby(messages, key=lambda each: type(each) is tuple):
        if pairs:
            drafts += (draft for pair in run for draft in _pair(pair))
        else:
            drafts += _providers().read_all(list(run))
    return (yield from record_drafts(place, drafts, key=key, expect=expect, cause=cause))


def result(
    place: Place,
    call: ToolCall | OpenCall | str,
    value: object,
    *,
    is_error: bool = False,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message]:
    """Keep what a tool returned: text, any JSON value, parts of a message, or bytes from a file or an iterator, which are
    streamed. `call` is the call, its id, or the provider's id of a call that waits.

    A result for a call that `close_open_calls` has closed is kept as evidence: the message says `late`."""
    draft = Draft(role="tool", tool_results=(DraftResult(call, value, is_error),), metadata=metadata)
    return (yield from record_drafts(place, [draft], key=key, expect=expect, cause=cause))[-1]


def close_open_calls(
    place: Place,
    reason: str = "closed",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Message | None]:
    """Give every call that waits an error for a result, so that the model can be called again; None if none waits. For a
    frame, only those that were made in it."""
    if not codec.checked_text("the reason", reason):
        raise InvalidContent(reason="closing calls needs a reason")
    command = CloseCalls(scope=place.scope, reason=reason, frame=place.frame)
    appended = yield from order(place, command, closing=reason, key=key, expect=expect, cause=cause)
    return message(appended.events[0]) if appended.events else None


def messages(place: Place, *, before: int | None = None, limit: int = 100) -> Flow[list[Message]]:
    """The last messages, oldest first; with `before`, the last ones before that seq."""
    return (yield from _back(place, before, limit, MessageRecorded.name))


def evidence(place: Place, *, before: int | None = None, limit: int = 100) -> Flow[list[Message]]:
    """The last late results and whatever else is kept beside the transcript, oldest first."""
    return (yield from _back(place, before, limit, EvidenceKept.name))


def events(place: Place, *, after: int = 0, limit: int = 100) -> Flow[tuple[Recorded, ...]]:
    """The session's stored events, as the log has them."""
    checked_whole("after", after)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from check_there(place)
    return (yield from effects.read(place.scope.stream, after, limit))


def check_there(place: Place) -> Flow[None]:
    """Raises if there is no such session any more, whoever destroyed it."""
    sessions.check_there((yield from load(place.scope.stream, place.context.cache, fresh=True)), place.scope)


def _back(place: Place, before: int | None, limit: int, kind: str) -> Flow[list[Message]]:
    if before is not None:
        checked_whole("before", before)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    wanted = (kind, SessionDestroyed.name)
    found = yield from effects.read_back(place.scope.stream, before, limit, wanted)
    if before is not None or not found or found[0].type == SessionDestroyed.name:
        yield from check_there(place)
    return [message(event) for event in reversed(found)]


def _providers() -> Any:
    """What reads responses is loaded when the first one comes in: it is a good part of the time of an import."""
    from holdfast import providers  # noqa: PLC0415 - that is the point

    return providers


def _pair(pair: object) -> tuple[Draft, ...]:
    if type(pair) is not tuple or len(pair) != 2:
        raise InvalidContent(reason="a message to record is a response, an object, or a pair of role and content")
    return _drafts(*pair)


def _drafts(
    message: object,
    content: object = None,
    tool_calls: object = (),
    usage: Usage | None = None,
    metadata: dict[str, Any] | None = None,
    priority: Priority | None = None,
    stop: str | None = None,
) -> tuple[Draft, ...]:
    if type(message) is str:
        if type(tool_calls) not in (list, tuple):
            raise InvalidContent(reason=f"tool_calls is {shown(tool_calls)}, not a list")
        calls = tuple(ingest.draft_call(call) for call in tool_calls)  # type: ignore[attr-defined]
        beside: dict[str, Any] = {"usage": usage, "metadata": metadata, "priority": priority}
        if not _has_dicts(content):
            own = Draft(role=message, content=content, tool_calls=calls, **beside)
            return (own if stop is None else _stopped(own, stop),)
        *before, last = _providers().read_content(message, content)
        if last.role == "tool":
            del beside["priority"]
        if calls:  # with calls it is no empty reply
            beside |= {"tool_calls": (*last.tool_calls, *calls), "skipped": None}
        last = msgspec.structs.replace(last, **beside)
        return (*before, last if stop is None else _stopped(last, stop))
    if content is not None or tool_calls or usage is not None or stop is not None:
        raise InvalidContent(reason="content, tool_calls, usage and stop go with a role; a response brings its own")
    drafts: tuple[Draft, ...] = _providers().read(message)
    if metadata is None and priority is None:
        return drafts
    return tuple(
        msgspec.structs.replace(
            draft,
            metadata=draft.metadata if metadata is None else metadata,
            priority=None if draft.role in ("system", "tool") else priority,
        )
        for draft in drafts
    )


def _stopped(draft: Draft, stop: str) -> Draft:
    """A reply that ended for this reason."""
    if draft.role != "assistant":
        raise InvalidContent(reason="stop says why a model stopped: it goes with a reply of the assistant")
    source = Source(stop=checked_name("stop", stop))
    return msgspec.structs.replace(draft, source=source, skipped=_providers().STOPS.get(stop))


def _has_dicts(content: object) -> bool:
    """Whether some of it is in a shape of dicts, or of a client's objects."""
    parts: Sequence[object] = content if type(content) in (list, tuple) else (content,)  # type: ignore[assignment]
    return any(type(part) is dict or hasattr(type(part), "model_dump") for part in parts)


def _reservation(place: Place, reservation: Reservation | str | None) -> str | None:
    if reservation is None:
        return None
    if place.frame is None:
        raise InvalidContent(reason="a reservation belongs to a frame: record with the frame that made it")
    return checked_name("reservation", reservation.id if type(reservation) is Reservation else reservation)


def record_drafts(
    place: Place,
    drafts: Sequence[Draft],
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    as_found: bool = False,
    reservation: Reservation | str | None = None,
    pack: Pack | None = None,
) -> Flow[list[Message]]:
    """Keep these, all or none; `as_found`, what breaks the rules of a session is kept as evidence. With a pack, they are
    the reply to it."""
    if pack is not None:
        return (yield from _answering(place, drafts, pack, reservation, key=key, expect=expect, cause=cause))
    part, bodies = yield from recording(place, drafts, as_found=as_found, reservation=reservation)
    assert isinstance(part.command, RecordMessages), "messages are recorded by that"
    bound = _bound(part.command)
    appended = yield from together(
        place.context, [part], key=key, expect=expect, cause=cause, bodies=bodies, bound=bound
    )
    return [message(event) for event in appended.events if event.type in _KEPT]


def _answering(
    place: Place,
    drafts: Sequence[Draft],
    pack: Pack,
    reservation: Reservation | str | None,
    *,
    key: str | None,
    expect: int | None,
    cause: str | None,
) -> Flow[list[Message]]:
    """The reply to a pack, and what is kept with it. A key stands for the reply alone: who tries again may have no pack any
    more, or another one."""
    erased = yield from manifests.shows_erased(place, pack)
    part, bodies = yield from recording(place, drafts, reservation=reservation or pack.reservation)
    whole = part.command
    assert isinstance(whole, RecordMessages), "messages are recorded by that"
    own = msgspec.structs.replace(whole, reservation=_reservation(place, reservation))
    parts = [part]
    if not erased:
        kept, refs = yield from manifests.recording(place, pack, reply=len(drafts), reservation=whole.reservation)
        parts, bodies = [part, kept], [*bodies, *refs]
    appended = yield from together(
        place.context,
        parts,
        key=key,
        expect=expect,
        cause=cause,
        bodies=bodies,
        bound=_bound(own),
    )
    return [message(event) for event in appended.events if event.type in _KEPT]


def _bound(command: RecordMessages) -> bytes:
    """What an idempotency key stands for: the messages, but not what Holdfast makes of them itself. So who tries again with
    another version of it, or spells the same arguments otherwise, gets the same answer."""
    bare = tuple(
        msgspec.structs.replace(
            new, tool_calls=tuple(msgspec.structs.replace(call, raw=None) for call in new.tool_calls), skipped=None
        )
        for new in command.messages
    )
    return codec.encode_commands([msgspec.structs.replace(command, messages=bare)])


def recording(
    place: Place,
    drafts: Sequence[Draft],
    *,
    as_found: bool = False,
    reservation: Reservation | str | None = None,
) -> Flow[tuple[Part, list[BlobRef]]]:
    """What it takes to keep these, and the bodies that must be there."""
    check_size("the batch", len(drafts), "messages", "BATCH_MESSAGES", "Record in several steps.")
    context = place.context
    taken = []
    for draft in drafts:
        taken.append((yield from ingest.taken_in(context, draft, as_found=as_found)))
    command = RecordMessages(
        scope=place.scope,
        messages=tuple(taken),
        as_found=as_found,
        frame=place.frame,
        reservation=_reservation(place, reservation),
    )
    given = given_to(
        context,
        tokens=[ingest.count(context.counter, new) for new in taken],
        spent=[context.weights.spend(new.usage) for new in taken if new.usage] if place.frame is not None else (),
        closing="the log has none" if as_found else None,
    )
    return Part(command, given), list(blob_refs(part for new in taken for part in ingest.parts_in(new)))
