"""Every way for a caller's value into the public API, as data: how to hand it in, and what must come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from holdfast import BlobRef, File, Image, Text, errors
from holdfast.model.content import Role
from holdfast.testing.appends import ONE, session_row
from holdfast.types import Body, Data, Offload, Opaque, Part, Scope, SessionRow
from tests import hostile
from tests.edges import entry_inputs, layer_inputs
from tests.edges.input_cases import (
    InputCase,
    SingleKeyMapping,
    accept_nothing,
    as_json,
    as_json_object,
    as_key,
    expected_return,
    identity,
    is_body,
    is_bool,
    is_convertible,
    is_convertible_object,
    is_int,
    is_json,
    is_key,
    is_number,
    is_series,
    is_text,
    is_text_part,
    is_tool_return,
    join_bytes,
    or_none,
    part_text,
    query_only,
)
from tests.edges.surface import call

BODY = b"a body"


ROLES = get_args(Role)


def _record_content(make: Callable[[Any], Any], back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Record a message made of the value, read it again, and take the value out."""

    def use(engine: Any, value: Any, _: int) -> object:
        session = engine.session("s")
        session.record("user", make(value))
        return back([read_spooled(engine, part) for part in session.messages(limit=1)[0].content])

    return use


def read_spooled(engine: Any, part: Part) -> Part:
    """A part as it was before it was found to be too large for the log."""
    match part:
        case Body(ref=BlobRef(media_type="text/plain") as ref):
            return Text(engine.blobs.read(ref).decode())
        case Body(ref=BlobRef(media_type="application/json") as ref):
            return Data(json.loads(engine.blobs.read(ref)))
        case Opaque(issuer, BlobRef() as ref):
            return Opaque(issuer, engine.blobs.read(ref).decode())
    return part


def _record_option(name: str) -> Callable[[Any, Any, int], object]:
    """An option of record(), and what the log says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session("s")
        message = session.record("user", f"number {number}", **{name: value})
        return getattr(session.events(after=message.seq - 1, limit=1)[0], name, value)

    return use


def _fork_option(name: str) -> Callable[[Any, Any, int], object]:
    """An option of fork(), and what the log of the parent says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = _session(engine, number)
        session.fork(**{name: value})
        return getattr(session.events()[-1], name)

    return use


def _session(engine: Any, number: int) -> Any:
    return engine.session(f"s{number}")


def _create_session(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _record_tool_call(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").record("assistant", None, tool_calls=[{"name": "read", "id": "p"}])


def _create_long_session(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").record_all([("user", "word " * 100), ("assistant", "word " * 100)])


def _record_call(make: Callable[[Any], Any], back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Record a reply with this call."""

    def use(engine: Any, value: Any, number: int) -> object:
        _session(engine, number).record("assistant", "text", tool_calls=[make(value)])
        return back(_session(engine, number).messages(limit=1)[0].tool_calls[0])

    return use


def _record_reply(back: Callable[[Any], object], **options: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    """Record a reply with options made of the value."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {name: make(value) for name, make in options.items()}
        _session(engine, number).record("assistant", "text", **given)
        return back(_session(engine, number).messages(limit=1)[0])

    return use


def _record_result(engine: Any, value: Any, number: int) -> object:
    _session(engine, number).result("p", value)
    return read_returned(engine, _session(engine, number).messages(limit=1)[0].tool_results[0].content, value)


def read_returned(engine: Any, content: Any, value: Any) -> object:
    """What a tool or a frame returned, from the one part that was made of it."""
    [part] = content
    kept: Any = read_spooled(engine, part)
    if isinstance(kept, Data):
        return kept.value
    if not isinstance(kept, Text):
        return engine.blobs.read(kept.ref)
    in_pieces = isinstance(value, bytes | bytearray | memoryview) or hasattr(type(value), "__next__")
    return kept.text.encode() if in_pieces else kept.text


def _record_result_option(back: Callable[[Any], object], option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        _session(engine, number).result("p", "text", **{option: value})
        return back(_session(engine, number).messages(limit=1)[0])

    return use


def _summarize(engine: Any, value: Any, number: int) -> object:
    session = _session(engine, number)
    session.context.summarize(session.context.draft_summary(keep_turns=0), value)
    return session.context.window().items[0].text


def _end_session(end: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """End a conversation for this reason; what its event says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        stream = _session(engine, number).scope.stream
        call(_session(engine, number), end)(value)
        store = getattr(engine.store, "blocking", engine.store)
        return back(store.read_back(stream, limit=1)[0].payload)

    return use


def _payload_reason(payload: bytes) -> object:
    return json.loads(payload)["reason"]


def _fill_outbox(engine: Any, number: int) -> None:
    """The outbox has one entry, once and for all."""
    if not engine.admin.outbox(limit=1):
        session = engine.create_session(f"s{number}")
        session.record("user", "text")
        session.reset()


def _outbox_entry(engine: Any, **changes: Any) -> Offload:
    entry: Offload = engine.admin.outbox(limit=1)[0]
    return msgspec.structs.replace(entry, **changes)


def _query_scope(use: str, name: str) -> Callable[[Any, Any, int], object]:
    """An entry of a session that goes by this name."""

    def ask(engine: Any, value: Any) -> None:
        scope = msgspec.structs.replace(Scope(_tenant(engine), "main", "none"), **{name: value})
        entry = _outbox_entry(engine, scope=scope)
        engine.admin.outbox(after=entry) if use == "outbox" else getattr(engine.admin, use)(entry)

    return query_only(ask)


def _is_message(value: object) -> bool:
    return type(value) is dict and "role" in value


def _record_role(engine: Any, value: Any, _: int) -> object:
    session = engine.session("s")
    session.record(value, "text")
    return session.messages(limit=1)[0].role


def _create_with(back: Callable[[Any], object], **where: str) -> Callable[[Any, Any, int], object]:
    """create_session() with the value as one of its arguments; the others keep the sessions apart."""

    def use(engine: Any, value: Any, number: int) -> object:
        arguments: dict[str, Any] = {"session": f"s{number}", **where, **dict.fromkeys(where, value)}
        return back(engine.create_session(**arguments))

    return use


def _first_event(session: Any) -> Any:
    return session.events(limit=1)[0]


def _create_with_metadata(
    make: Callable[[Any], Any], back: Callable[[Any], object]
) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        return back(engine.create_session(f"s{number}", metadata=make(value)).state().metadata)

    return use


def _key_of_dict(engine: Any, value: Any, number: int) -> object:
    inner = engine.create_session(f"s{number}", metadata={"inner": SingleKeyMapping(value)}).state().metadata["inner"]
    return next(iter(inner))


def _end_with_reason(engine: Any, value: Any, number: int) -> object:
    session = engine.session(f"s{number}")
    session.end(value)
    return session.state().close_reason


def _query_session(do: Callable[[Any, Any], object]) -> Callable[[Any, Any, int], object]:
    return query_only(lambda engine, value: do(engine.session("s"), value))


def _with_preparation(prepare: Callable[[Any, int], object], entrances: dict[str, InputCase]) -> dict[str, InputCase]:
    return {name: entrance._replace(prepare=prepare) for name, entrance in entrances.items()}


def _query_option(name: str, *, of_session: bool) -> Callable[[Any, Any, int], object]:
    """ "messages(limit)" as a question: the value is the one option of this method."""
    method, option = name.removesuffix(")").split("(")

    def ask(engine: Any, value: Any) -> None:
        call(engine.session("s") if of_session else engine, method)(**{option: value})

    return query_only(ask)


def _tenant(engine: Any) -> str:
    tenant: str = engine.session("s").scope.tenant
    return tenant


def _change_tenant(engine: Any, value: Any, number: int) -> object:
    other = engine.acting_as(tenant=value)
    tenant = other.create_session(f"s{number}").events(limit=1)[0].stream.tenant
    return None if tenant == _tenant(engine) else tenant


def _put_for_tenant(engine: Any, value: Any, _: int) -> object:
    other = engine.acting_as(tenant=value)
    return other.blobs.read(other.blobs.put(BODY))


def _record_as_principal(engine: Any, value: Any, _: int) -> object:
    session = engine.acting_as(principal=value).session("s")
    return session.record("user", "text").principal


def _put_blob(make: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, _: int) -> object:
        return engine.blobs.read(engine.blobs.put(make(value)))

    return use


def _session_row(value: Any, updated_us: Any = 0) -> SessionRow:
    names = {"actor": value, "session": value, "thread": value}
    return msgspec.structs.replace(session_row(ONE), **names, updated_us=updated_us)


def _blob_ref(**changes: Any) -> BlobRef:
    return BlobRef(**{"digest": "0" * 64, "size": len(BODY), **changes})


def _stored_ref(engine: Any, **changes: Any) -> BlobRef:
    return _blob_ref(**{"digest": engine.blobs.put(BODY).digest, **changes})


def _record_ref_size(engine: Any, value: Any, number: int) -> object:
    ref = _stored_ref(engine, size=value)
    return _record_content(Body, lambda content: content[0].ref.size)(engine, ref, number)


def _record_media_type(engine: Any, value: Any, number: int) -> object:
    ref = _stored_ref(engine, media_type=value)
    return _record_content(Body, lambda content: content[0].ref.media_type)(engine, ref, number)


def _record_file_name(engine: Any, value: Any, number: int) -> object:
    ref = _stored_ref(engine)
    return _record_content(lambda name: File(ref, name), lambda content: content[0].name)(engine, value, number)


def _record_preview(engine: Any, value: Any, number: int) -> object:
    ref = _stored_ref(engine)
    return _record_content(lambda preview: Body(ref, preview), lambda content: content[0].preview)(
        engine, value, number
    )


MESSAGE_INPUTS: dict[str, InputCase] = {
    "record(content)": InputCase(
        _record_content(identity, lambda content: [part.text for part in content]),
        lambda value: is_text(value) or is_series(value) or is_text_part(value),
        lambda value: list(value) if is_series(value) else [part_text(value)],
        (hostile.HostileError,),
    ),
    "record([part])": InputCase(
        _record_content(lambda value: [value], lambda content: content[0].text),
        lambda value: is_text(value) or is_text_part(value),
        part_text,
    ),
    "record(Text(text))": InputCase(_record_content(Text, lambda content: content[0].text), is_text),
    "record(Body(ref))": InputCase(_record_content(Body, lambda content: content[0].ref), accept_nothing),
    "record(Body(preview))": InputCase(_record_preview, is_text),
    "record(File(ref))": InputCase(_record_content(File, lambda content: content[0].ref), accept_nothing),
    "record(File(name))": InputCase(_record_file_name, or_none(is_text)),
    "record(Image(ref))": InputCase(
        _record_content(lambda value: Image(ref=value), lambda content: content[0].ref), accept_nothing
    ),
    "record(Image(url))": InputCase(
        _record_content(lambda value: Image(url=value), lambda content: content[0].url), is_text
    ),
    "record(Opaque(issuer))": InputCase(
        _record_content(lambda value: Opaque(value, "{}"), lambda content: content[0].issuer), is_text
    ),
    "record(Opaque(body))": InputCase(
        _record_content(lambda value: Opaque("openai", value), lambda content: content[0].body), is_text
    ),
    "record(BlobRef(digest))": InputCase(
        _record_content(lambda value: Body(_blob_ref(digest=value)), lambda content: content[0].ref.digest),
        accept_nothing,
    ),
    "record(BlobRef(size))": InputCase(_record_ref_size, is_int, also=(errors.BlobNotFound, errors.StorageCorrupt)),
    "record(BlobRef(media_type))": InputCase(_record_media_type, or_none(is_text)),
    "record(role)": InputCase(_record_role, lambda value: type(value) is str and value in ROLES),
    "record(key)": InputCase(_record_option("key"), or_none(is_text)),
    "record(cause)": InputCase(_record_option("cause"), or_none(is_text)),
    "record(expect)": InputCase(_record_option("expect"), or_none(is_int), also=(errors.VersionConflict,)),
}


RECORD_INPUTS: dict[str, InputCase] = {
    "record(message)": InputCase(_query_session(lambda session, value: session.record(value)), _is_message),
    "record(tool_calls)": InputCase(
        _query_session(lambda session, value: session.record("assistant", "text", tool_calls=value)),
        lambda value: type(value) in (list, tuple),
    ),
    "record(usage)": InputCase(
        _query_session(lambda session, value: session.record("assistant", "text", usage=value)),
        lambda value: value is None or type(value) is dict,
    ),
    "record_all(messages)": InputCase(_query_session(lambda session, value: session.record_all(value)), accept_nothing),
    "record_all([message])": InputCase(_query_session(lambda session, value: session.record_all([value])), _is_message),
    "record_all([(role, text)])": InputCase(
        _query_session(lambda session, value: session.record_all([("user", "first"), (value, "text")])),
        lambda value: value in ("system", "user", "assistant"),
    ),
    "record_all([(user, content)])": InputCase(
        _query_session(lambda session, value: session.record_all([("user", "first"), ("user", value)])),
        lambda value: is_text(value) or is_series(value) or is_text_part(value),
    ),
    "record_all(key)": InputCase(
        _query_session(lambda session, value: session.record_all([("user", "text")], key=value)), or_none(is_text)
    ),
    "result(call)": InputCase(
        _query_session(lambda session, value: session.result(value, "text")), is_text, also=(errors.CallNotFound,)
    ),
    "context.summarize(draft)": InputCase(
        _query_session(lambda session, value: session.context.summarize(value, "text")), accept_nothing
    ),
    "context.summarize(text)": InputCase(_summarize, is_text, prepare=_create_long_session),
}


CALL_INPUTS: dict[str, InputCase] = {
    "record([tool call])": InputCase(_record_call(identity, identity), accept_nothing),
    "record(tool call's name)": InputCase(_record_call(lambda value: {"name": value}, lambda call: call.name), is_text),
    "record(tool call's id)": InputCase(
        _record_call(lambda value: {"name": "read", "id": value}, lambda call: call.provider_id), or_none(is_text)
    ),
    "record(tool call's args)": InputCase(
        _record_call(lambda value: {"name": "read", "args": value}, lambda call: call.args),
        lambda value: type(value) in (dict, str),
    ),
    "record(tool call's args, inside)": InputCase(
        _record_call(lambda value: {"name": "read", "args": {"a": [value]}}, lambda call: call.args["a"][0]), is_json
    ),
    "record(usage's figure)": InputCase(
        _record_reply(lambda said: said.usage.input_tokens, usage=lambda value: {"input_tokens": value}), is_int
    ),
    "record(stop)": InputCase(
        _record_reply(lambda said: said.source and said.source.stop, stop=identity), or_none(is_text)
    ),
    "record(metadata)": InputCase(
        _record_reply(lambda said: said.metadata, metadata=identity), is_convertible_object, as_json_object
    ),
    "record(metadata value)": InputCase(
        _record_reply(lambda said: said.metadata["a"], metadata=lambda value: {"a": value}), is_convertible, as_json
    ),
}
"""Each with a session of its own."""


RESULT_INPUTS: dict[str, InputCase] = {
    "result(value)": InputCase(
        _record_result,
        is_tool_return,
        expected_return,
        (hostile.HostileError,),
    ),
    "result(is_error)": InputCase(
        _record_result_option(lambda said: said.tool_results[0].is_error, "is_error"), is_bool
    ),
    "result(metadata)": InputCase(
        _record_result_option(lambda said: said.metadata, "metadata"), is_convertible_object, as_json_object
    ),
    "result(key)": InputCase(
        lambda engine, value, number: _session(engine, number).result("p", "text", key=value) and value,
        or_none(is_text),
    ),
    "close_calls(reason)": InputCase(
        lambda engine, value, number: _session(engine, number).close_calls(value).text,
        is_text,
        lambda value: f"No result: {value}",
    ),
}
"""Each with a session of its own, in which a call waits."""


SESSION_INPUTS: dict[str, InputCase] = {
    "create_session(session)": InputCase(_create_with(lambda made: made.scope.session, session=""), is_text),
    "create_session(actor)": InputCase(_create_with(lambda made: made.scope.actor, actor=""), is_text),
    "create_session(thread)": InputCase(_create_with(lambda made: made.scope.thread, thread=""), or_none(is_text)),
    "create_session(key)": InputCase(_create_with(lambda made: _first_event(made).key, key=""), or_none(is_text)),
    "create_session(cause)": InputCase(_create_with(lambda made: _first_event(made).cause, cause=""), or_none(is_text)),
    "create_session(metadata)": InputCase(
        _create_with_metadata(identity, identity), is_convertible_object, as_json_object
    ),
    "create_session(metadata value)": InputCase(
        _create_with_metadata(lambda value: {"key": value}, lambda metadata: metadata["key"]), is_convertible, as_json
    ),
    "create_session(metadata, nested)": InputCase(
        _create_with_metadata(lambda value: {"a": [{"b": [value]}]}, lambda metadata: metadata["a"][0]["b"][0]),
        is_convertible,
        as_json,
    ),
    "create_session(metadata key)": InputCase(_key_of_dict, is_key, as_key),
    "session(session)": InputCase(
        query_only(lambda engine, value: engine.session(value)), is_text, also=(errors.SessionNotFound,)
    ),
    "end(reason)": InputCase(_end_with_reason, is_text, prepare=_create_session),
    "create_session(idle_timeout_s)": InputCase(
        lambda engine, value, number: engine.create_session(f"s{number}", idle_timeout_s=value).state().idle_timeout_us,
        or_none(lambda value: is_number(value) and value > 0),  # type: ignore[operator]
        lambda value: 0 if value is None else max(1, int(value * 1_000_000)),
    ),
    "session(create)": InputCase(query_only(lambda engine, value: engine.session("s", create=value)), is_bool),
    "reset(reason)": InputCase(_end_session("reset", _payload_reason), is_text, prepare=_create_session),
    "destroy(reason)": InputCase(_end_session("destroy", _payload_reason), is_text, prepare=_create_long_session),
    "destroy(offload)": InputCase(
        lambda engine, value, number: _session(engine, number).destroy(offload=value) or value,
        is_bool,
        prepare=_create_session,
    ),
    "destroy(forks)": InputCase(
        _query_session(lambda session, value: session.destroy(forks=value)),
        lambda value: value in ("refuse", "destroy"),
    ),
    "fork(at)": InputCase(
        _query_session(lambda session, value: session.fork(value)),
        or_none(lambda value: is_int(value) or is_text(value)),
    ),
    "fork(as_)": InputCase(
        lambda engine, value, number: _session(engine, number).fork(as_=value).scope.session,
        is_text,
        prepare=_create_session,
    ),
    "fork(ephemeral)": InputCase(_query_session(lambda session, value: session.fork(ephemeral=value)), is_bool),
    "fork(key)": InputCase(_fork_option("key"), or_none(is_text), prepare=_create_session),
    "fork(cause)": InputCase(_fork_option("cause"), or_none(is_text), prepare=_create_session),
    "diff(other)": InputCase(_query_session(lambda session, value: session.diff(value)), accept_nothing),
    "erase(seqs)": InputCase(
        _query_session(lambda session, value: session.erase(value, "a test")), is_series, also=(hostile.HostileError,)
    ),
    "erase([seq])": InputCase(_query_session(lambda session, value: session.erase([value], "a test")), is_int),
    "erase(reason)": InputCase(
        lambda engine, value, number: _session(engine, number).erase([1], value) or value,
        is_text,
        prepare=_create_session,
    ),
}


ENGINE_INPUTS: dict[str, InputCase] = {
    "sessions(after row)": InputCase(
        query_only(lambda engine, value: engine.sessions(after=_session_row(value))), is_text
    ),
    "sessions(after row's time)": InputCase(
        query_only(lambda engine, value: engine.sessions(after=_session_row("s", value), order="recent")), is_int
    ),
    "acting_as(tenant)": InputCase(_change_tenant, or_none(is_text)),
    "acting_as(tenant), a body": InputCase(_put_for_tenant, or_none(is_text), lambda _: BODY),
    "acting_as(principal)": InputCase(
        _record_as_principal, or_none(is_text), lambda value: "local" if value is None else value
    ),
    "put_blob(body)": InputCase(_put_blob(identity), is_body, join_bytes, (hostile.HostileError,)),
    "put_blob([chunk])": InputCase(
        _put_blob(lambda value: [value]), lambda value: isinstance(value, bytes | bytearray | memoryview), join_bytes
    ),
    "put_blob(media_type)": InputCase(
        lambda engine, value, _: engine.blobs.put(BODY, media_type=value).media_type, or_none(is_text)
    ),
    "read_blob(ref)": InputCase(query_only(lambda engine, value: engine.blobs.read(value)), accept_nothing),
    "read_blob(digest)": InputCase(
        query_only(lambda engine, value: engine.blobs.read(_blob_ref(digest=value))), accept_nothing
    ),
    "read_blob(size)": InputCase(
        query_only(lambda engine, value: engine.blobs.read(_stored_ref(engine, size=value))),
        is_int,
        also=(errors.StorageCorrupt,),
    ),
}


OUTBOX_INPUTS: dict[str, InputCase] = {
    "admin.offloaded(entry)": InputCase(
        query_only(lambda engine, value: engine.admin.offloaded(value)), accept_nothing
    ),
    "admin.offloaded(after)": InputCase(
        query_only(lambda engine, value: engine.admin.offloaded(_outbox_entry(engine), after=value)), is_int
    ),
    "admin.offloaded(limit)": InputCase(
        query_only(lambda engine, value: engine.admin.offloaded(_outbox_entry(engine), limit=value)), is_int
    ),
    "admin.offloaded(entry's actor)": InputCase(
        _query_scope("offloaded", "actor"), is_text, also=(errors.SessionNotFound,)
    ),
    "outbox(entry's session)": InputCase(_query_scope("outbox", "session"), is_text),
    "acknowledge(entry)": InputCase(query_only(lambda engine, value: engine.admin.acknowledge(value)), accept_nothing),
    "acknowledge(entry's number)": InputCase(
        query_only(lambda engine, value: engine.admin.acknowledge(_outbox_entry(engine, entry=value))),
        is_int,
        also=(errors.OffloadNotFound,),
    ),
    "acknowledge(entry's scope)": InputCase(
        query_only(lambda engine, value: engine.admin.acknowledge(_outbox_entry(engine, scope=value))), accept_nothing
    ),
    "acknowledge(key)": InputCase(
        query_only(lambda engine, value: engine.admin.acknowledge(_outbox_entry(engine), key=value)), or_none(is_text)
    ),
    **{
        f"acknowledge(entry's {name})": InputCase(
            _query_scope("acknowledge", name), or_none(is_text), also=(errors.SessionNotFound,)
        )
        for name in Scope.__struct_fields__
    },
}
"""With an entry in the outbox."""


SESSION_QUESTIONS: dict[str, Callable[[Any], bool]] = {
    "activity(before)": or_none(is_int),
    "activity(limit)": is_int,
    "messages(before)": or_none(is_int),
    "messages(limit)": is_int,
    "evidence(before)": or_none(is_int),
    "evidence(limit)": is_int,
    "events(after)": is_int,
    "events(limit)": is_int,
    "context.window(tokens)": is_int,
    "context.draft_summary(keep_turns)": is_int,
    "reset(keep_system)": is_bool,
    "environment.get(as_of_us)": or_none(is_int),
}


ENGINE_QUESTIONS: dict[str, Callable[[Any], bool]] = {
    "sessions(actor)": or_none(is_text),
    "sessions(status)": lambda value: value in (None, "open", "closed", "destroyed"),
    "sessions(order)": lambda value: value in ("name", "recent"),
    "sessions(active_since_us)": or_none(is_int),
    "sessions(idle_since_us)": or_none(is_int),
    "sessions(after)": lambda value: value is None,
    "sessions(limit)": is_int,
    "admin.sweep(limit)": is_int,
    "admin.outbox(after)": lambda value: value is None,
    "admin.outbox(limit)": is_int,
    "admin.feed(cursor)": is_text,
    "admin.feed(limit)": is_int,
    "admin.collect(grace_s)": is_number,
}


QUESTIONS: dict[str, InputCase] = {
    name: InputCase(_query_option(name, of_session=name in SESSION_QUESTIONS), fits)
    for name, fits in (SESSION_QUESTIONS | ENGINE_QUESTIONS).items()
}


ALL_INPUTS: dict[str, InputCase] = {
    **MESSAGE_INPUTS,
    **RECORD_INPUTS,
    **_with_preparation(_create_session, CALL_INPUTS),
    **_with_preparation(_record_tool_call, RESULT_INPUTS),
    **SESSION_INPUTS,
    **layer_inputs.ALL_LAYER_INPUTS,
    **_with_preparation(_create_session, entry_inputs.ENTRY_INPUTS),
    **ENGINE_INPUTS,
    **_with_preparation(_fill_outbox, OUTBOX_INPUTS),
    **QUESTIONS,
}
