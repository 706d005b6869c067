"""Every way for a caller's value into the public API, as data: how to hand it in, and what must come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from holdfast import BlobRef, Body, Data, File, Image, Offload, Opaque, Part, Scope, SessionRow, Text, errors
from holdfast.model.content import Role
from holdfast.testing import hostile
from holdfast.testing.appends import ONE, session_row
from tests.edges import layer_entrances
from tests.edges.entrance import (
    Entrance,
    Keyed,
    as_given,
    as_json,
    as_json_object,
    as_key,
    as_returned,
    asked,
    converts,
    converts_to_object,
    is_body,
    is_bool,
    is_int,
    is_json,
    is_key,
    is_number,
    is_returned,
    is_series,
    is_text,
    is_text_part,
    joined,
    never,
    or_none,
    text_in,
)

BODY = b"a body"
ROLES = get_args(Role)


def _said(make: Callable[[Any], Any], back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Record a message made of the value, read it again, and take the value out."""

    def use(engine: Any, value: Any, _: int) -> object:
        session = engine.session("s")
        session.record("user", make(value))
        return back([unspooled(engine, part) for part in session.messages(limit=1)[0].content])

    return use


def unspooled(engine: Any, part: Part) -> Part:
    """A part as it was before it was found to be too large for the log."""
    match part:
        case Body(ref=BlobRef(media_type="text/plain") as ref):
            return Text(engine.read_blob(ref).decode())
        case Body(ref=BlobRef(media_type="application/json") as ref):
            return Data(json.loads(engine.read_blob(ref)))
        case Opaque(issuer, BlobRef() as ref):
            return Opaque(issuer, engine.read_blob(ref).decode())
    return part


def _recorded_with(name: str) -> Callable[[Any, Any, int], object]:
    """An option of record(), and what the log says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session("s")
        message = session.record("user", f"number {number}", **{name: value})
        return getattr(session.events(after=message.seq - 1, limit=1)[0], name, value)

    return use


def _own(engine: Any, number: int) -> Any:
    return engine.session(f"s{number}")


def _made(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}")


def _asked_a_tool(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").record("assistant", None, tool_calls=[{"name": "read", "id": "p"}])


def _long(engine: Any, number: int) -> None:
    engine.create_session(f"s{number}").record_all([("user", "word " * 100), ("assistant", "word " * 100)])


def _calls(make: Callable[[Any], Any], back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Record a reply with this call."""

    def use(engine: Any, value: Any, number: int) -> object:
        _own(engine, number).record("assistant", "text", tool_calls=[make(value)])
        return back(_own(engine, number).messages(limit=1)[0].tool_calls[0])

    return use


def _replied(back: Callable[[Any], object], **options: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    """Record a reply with options made of the value."""

    def use(engine: Any, value: Any, number: int) -> object:
        given = {name: make(value) for name, make in options.items()}
        _own(engine, number).record("assistant", "text", **given)
        return back(_own(engine, number).messages(limit=1)[0])

    return use


def _result(engine: Any, value: Any, number: int) -> object:
    _own(engine, number).result("p", value)
    return came_back(engine, _own(engine, number).messages(limit=1)[0].tool_results[0].content, value)


def came_back(engine: Any, content: Any, value: Any) -> object:
    """What a tool or a frame returned, from the one part that was made of it."""
    [part] = content
    kept: Any = unspooled(engine, part)
    if isinstance(kept, Data):
        return kept.value
    if not isinstance(kept, Text):
        return engine.read_blob(kept.ref)
    in_pieces = isinstance(value, bytes | bytearray | memoryview) or hasattr(type(value), "__next__")
    return kept.text.encode() if in_pieces else kept.text


def _resulted(back: Callable[[Any], object], option: str) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        _own(engine, number).result("p", "text", **{option: value})
        return back(_own(engine, number).messages(limit=1)[0])

    return use


def _summarized(engine: Any, value: Any, number: int) -> object:
    session = _own(engine, number)
    session.summarize(session.draft_summary(keep_turns=0), value)
    return session.window().items[0].text


def _ended(end: str, back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """End a conversation for this reason; what its event says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        stream = _own(engine, number).scope.stream
        getattr(_own(engine, number), end)(value)
        store = getattr(engine.store, "blocking", engine.store)
        return back(store.read_back(stream, limit=1)[0].payload)

    return use


def _reason(payload: bytes) -> object:
    return json.loads(payload)["reason"]


def _offered(engine: Any, number: int) -> None:
    """The outbox has one entry, once and for all."""
    if not engine.outbox(limit=1):
        session = engine.create_session(f"s{number}")
        session.record("user", "text")
        session.reset()


def _entry(engine: Any, **changes: Any) -> Offload:
    entry: Offload = engine.outbox(limit=1)[0]
    return msgspec.structs.replace(entry, **changes)


def _in_scope(use: str, name: str) -> Callable[[Any, Any, int], object]:
    """An entry of a session that goes by this name."""

    def ask(engine: Any, value: Any) -> None:
        scope = msgspec.structs.replace(Scope(_tenant(engine), "main", "none"), **{name: value})
        entry = _entry(engine, scope=scope)
        engine.outbox(after=entry) if use == "outbox" else getattr(engine, use)(entry)

    return asked(ask)


def _is_message(value: object) -> bool:
    return type(value) is dict and "role" in value


def _role(engine: Any, value: Any, _: int) -> object:
    session = engine.session("s")
    session.record(value, "text")
    return session.messages(limit=1)[0].role


def _created(back: Callable[[Any], object], **where: str) -> Callable[[Any, Any, int], object]:
    """create_session() with the value as one of its arguments; the others keep the sessions apart."""

    def use(engine: Any, value: Any, number: int) -> object:
        arguments: dict[str, Any] = {"session": f"s{number}", **where, **dict.fromkeys(where, value)}
        return back(engine.create_session(**arguments))

    return use


def _event_of(session: Any) -> Any:
    return session.events(limit=1)[0]


def _metadata(make: Callable[[Any], Any], back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        return back(engine.create_session(f"s{number}", metadata=make(value)).state().metadata)

    return use


def _key_of_dict(engine: Any, value: Any, number: int) -> object:
    inner = engine.create_session(f"s{number}", metadata={"inner": Keyed(value)}).state().metadata["inner"]
    return next(iter(inner))


def _closed(engine: Any, value: Any, number: int) -> object:
    session = engine.session(f"s{number}")
    session.close(value)
    return session.state().close_reason


def _in_session(do: Callable[[Any, Any], object]) -> Callable[[Any, Any, int], object]:
    return asked(lambda engine, value: do(engine.session("s"), value))


def _after(prepare: Callable[[Any, int], object], entrances: dict[str, Entrance]) -> dict[str, Entrance]:
    return {name: entrance._replace(prepare=prepare) for name, entrance in entrances.items()}


def _with_option(name: str, *, of_session: bool) -> Callable[[Any, Any, int], object]:
    """ "messages(limit)" as a question: the value is the one option of this method."""
    method, option = name.removesuffix(")").split("(")

    def ask(engine: Any, value: Any) -> None:
        getattr(engine.session("s") if of_session else engine, method)(**{option: value})

    return asked(ask)


def _tenant(engine: Any) -> str:
    tenant: str = engine.session("s").scope.tenant
    return tenant


def _renamed(engine: Any, value: Any, number: int) -> object:
    other = engine.acting_as(tenant=value)
    tenant = other.create_session(f"s{number}").events(limit=1)[0].stream.tenant
    return None if tenant == _tenant(engine) else tenant


def _body_of(engine: Any, value: Any, _: int) -> object:
    other = engine.acting_as(tenant=value)
    return other.read_blob(other.put_blob(BODY))


def _in_the_name_of(engine: Any, value: Any, _: int) -> object:
    session = engine.acting_as(principal=value).session("s")
    return session.record("user", "text").principal


def _put(make: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, _: int) -> object:
        return engine.read_blob(engine.put_blob(make(value)))

    return use


def _row(value: Any, updated_us: Any = 0) -> SessionRow:
    names = {"actor": value, "session": value, "thread": value}
    return msgspec.structs.replace(session_row(ONE), **names, updated_us=updated_us)


def _ref(**changes: Any) -> BlobRef:
    return BlobRef(**{"digest": "0" * 64, "size": len(BODY), **changes})


def _real_ref(engine: Any, **changes: Any) -> BlobRef:
    return _ref(**{"digest": engine.put_blob(BODY).digest, **changes})


def _size(engine: Any, value: Any, number: int) -> object:
    ref = _real_ref(engine, size=value)
    return _said(Body, lambda content: content[0].ref.size)(engine, ref, number)


def _media_type(engine: Any, value: Any, number: int) -> object:
    ref = _real_ref(engine, media_type=value)
    return _said(Body, lambda content: content[0].ref.media_type)(engine, ref, number)


def _named_file(engine: Any, value: Any, number: int) -> object:
    ref = _real_ref(engine)
    return _said(lambda name: File(ref, name), lambda content: content[0].name)(engine, value, number)


def _preview(engine: Any, value: Any, number: int) -> object:
    ref = _real_ref(engine)
    return _said(lambda preview: Body(ref, preview), lambda content: content[0].preview)(engine, value, number)


MESSAGE_ENTRANCES: dict[str, Entrance] = {
    "record(content)": Entrance(
        _said(as_given, lambda content: [part.text for part in content]),
        lambda value: is_text(value) or is_series(value) or is_text_part(value),
        lambda value: list(value) if is_series(value) else [text_in(value)],
        (hostile.Spite,),
    ),
    "record([part])": Entrance(
        _said(lambda value: [value], lambda content: content[0].text),
        lambda value: is_text(value) or is_text_part(value),
        text_in,
    ),
    "record(Text(text))": Entrance(_said(Text, lambda content: content[0].text), is_text),
    "record(Body(ref))": Entrance(_said(Body, lambda content: content[0].ref), never),
    "record(Body(preview))": Entrance(_preview, is_text),
    "record(File(ref))": Entrance(_said(File, lambda content: content[0].ref), never),
    "record(File(name))": Entrance(_named_file, or_none(is_text)),
    "record(Image(ref))": Entrance(_said(lambda value: Image(ref=value), lambda content: content[0].ref), never),
    "record(Image(url))": Entrance(_said(lambda value: Image(url=value), lambda content: content[0].url), is_text),
    "record(Opaque(issuer))": Entrance(
        _said(lambda value: Opaque(value, "{}"), lambda content: content[0].issuer), is_text
    ),
    "record(Opaque(body))": Entrance(
        _said(lambda value: Opaque("openai", value), lambda content: content[0].body), is_text
    ),
    "record(BlobRef(digest))": Entrance(
        _said(lambda value: Body(_ref(digest=value)), lambda content: content[0].ref.digest), never
    ),
    "record(BlobRef(size))": Entrance(_size, is_int, also=(errors.BlobNotFound, errors.StorageCorrupt)),
    "record(BlobRef(media_type))": Entrance(_media_type, or_none(is_text)),
    "record(role)": Entrance(_role, lambda value: type(value) is str and value in ROLES),
    "record(key)": Entrance(_recorded_with("key"), or_none(is_text)),
    "record(cause)": Entrance(_recorded_with("cause"), or_none(is_text)),
    "record(expect)": Entrance(_recorded_with("expect"), or_none(is_int), also=(errors.VersionConflict,)),
}

RECORD_ENTRANCES: dict[str, Entrance] = {
    "record(message)": Entrance(_in_session(lambda session, value: session.record(value)), _is_message),
    "record(tool_calls)": Entrance(
        _in_session(lambda session, value: session.record("assistant", "text", tool_calls=value)),
        lambda value: type(value) in (list, tuple),
    ),
    "record(usage)": Entrance(
        _in_session(lambda session, value: session.record("assistant", "text", usage=value)),
        lambda value: value is None or type(value) is dict,
    ),
    "record_all(messages)": Entrance(_in_session(lambda session, value: session.record_all(value)), never),
    "record_all([message])": Entrance(_in_session(lambda session, value: session.record_all([value])), _is_message),
    "record_all([(role, text)])": Entrance(
        _in_session(lambda session, value: session.record_all([("user", "first"), (value, "text")])),
        lambda value: value in ("system", "user", "assistant"),
    ),
    "record_all([(user, content)])": Entrance(
        _in_session(lambda session, value: session.record_all([("user", "first"), ("user", value)])),
        lambda value: is_text(value) or is_series(value) or is_text_part(value),
    ),
    "record_all(key)": Entrance(
        _in_session(lambda session, value: session.record_all([("user", "text")], key=value)), or_none(is_text)
    ),
    "result(call)": Entrance(
        _in_session(lambda session, value: session.result(value, "text")), is_text, also=(errors.CallNotFound,)
    ),
    "summarize(draft)": Entrance(_in_session(lambda session, value: session.summarize(value, "text")), never),
    "summarize(text)": Entrance(_summarized, is_text, prepare=_long),
}

CALL_ENTRANCES: dict[str, Entrance] = {
    "record([tool call])": Entrance(_calls(as_given, as_given), never),
    "record(tool call's name)": Entrance(_calls(lambda value: {"name": value}, lambda call: call.name), is_text),
    "record(tool call's id)": Entrance(
        _calls(lambda value: {"name": "read", "id": value}, lambda call: call.provider_id), or_none(is_text)
    ),
    "record(tool call's args)": Entrance(
        _calls(lambda value: {"name": "read", "args": value}, lambda call: call.args),
        lambda value: type(value) in (dict, str),
    ),
    "record(tool call's args, inside)": Entrance(
        _calls(lambda value: {"name": "read", "args": {"a": [value]}}, lambda call: call.args["a"][0]), is_json
    ),
    "record(usage's figure)": Entrance(
        _replied(lambda said: said.usage.input_tokens, usage=lambda value: {"input_tokens": value}), is_int
    ),
    "record(stop)": Entrance(_replied(lambda said: said.source and said.source.stop, stop=as_given), or_none(is_text)),
    "record(metadata)": Entrance(
        _replied(lambda said: said.metadata, metadata=as_given), converts_to_object, as_json_object
    ),
    "record(metadata value)": Entrance(
        _replied(lambda said: said.metadata["a"], metadata=lambda value: {"a": value}), converts, as_json
    ),
}
"""Each with a session of its own."""

RESULT_ENTRANCES: dict[str, Entrance] = {
    "result(value)": Entrance(
        _result,
        is_returned,
        as_returned,
        (hostile.Spite,),
    ),
    "result(is_error)": Entrance(_resulted(lambda said: said.tool_results[0].is_error, "is_error"), is_bool),
    "result(metadata)": Entrance(_resulted(lambda said: said.metadata, "metadata"), converts_to_object, as_json_object),
    "result(key)": Entrance(
        lambda engine, value, number: _own(engine, number).result("p", "text", key=value) and value, or_none(is_text)
    ),
    "close_open_calls(reason)": Entrance(
        lambda engine, value, number: _own(engine, number).close_open_calls(value).text,
        is_text,
        lambda value: f"No result: {value}",
    ),
}
"""Each with a session of its own, in which a call waits."""

SESSION_ENTRANCES: dict[str, Entrance] = {
    "create_session(session)": Entrance(_created(lambda made: made.scope.session, session=""), is_text),
    "create_session(actor)": Entrance(_created(lambda made: made.scope.actor, actor=""), is_text),
    "create_session(thread)": Entrance(_created(lambda made: made.scope.thread, thread=""), or_none(is_text)),
    "create_session(key)": Entrance(_created(lambda made: _event_of(made).key, key=""), or_none(is_text)),
    "create_session(cause)": Entrance(_created(lambda made: _event_of(made).cause, cause=""), or_none(is_text)),
    "create_session(metadata)": Entrance(_metadata(as_given, as_given), converts_to_object, as_json_object),
    "create_session(metadata value)": Entrance(
        _metadata(lambda value: {"key": value}, lambda metadata: metadata["key"]), converts, as_json
    ),
    "create_session(metadata, nested)": Entrance(
        _metadata(lambda value: {"a": [{"b": [value]}]}, lambda metadata: metadata["a"][0]["b"][0]),
        converts,
        as_json,
    ),
    "create_session(metadata key)": Entrance(_key_of_dict, is_key, as_key),
    "session(session)": Entrance(
        asked(lambda engine, value: engine.session(value)), is_text, also=(errors.SessionNotFound,)
    ),
    "close(reason)": Entrance(_closed, is_text, prepare=_made),
    "create_session(idle_timeout_s)": Entrance(
        lambda engine, value, number: engine.create_session(f"s{number}", idle_timeout_s=value).state().idle_timeout_us,
        or_none(lambda value: is_number(value) and value > 0),  # type: ignore[operator]
        lambda value: 0 if value is None else max(1, int(value * 1_000_000)),
    ),
    "session(create)": Entrance(asked(lambda engine, value: engine.session("s", create=value)), is_bool),
    "reset(reason)": Entrance(_ended("reset", _reason), is_text, prepare=_made),
    "destroy(reason)": Entrance(_ended("destroy", _reason), is_text, prepare=_long),
    "destroy(offload)": Entrance(
        lambda engine, value, number: _own(engine, number).destroy(offload=value) or value, is_bool, prepare=_made
    ),
    "erase(seqs)": Entrance(
        _in_session(lambda session, value: session.erase(value, "a test")), is_series, also=(hostile.Spite,)
    ),
    "erase([seq])": Entrance(_in_session(lambda session, value: session.erase([value], "a test")), is_int),
    "erase(reason)": Entrance(
        lambda engine, value, number: _own(engine, number).erase([1], value) or value, is_text, prepare=_made
    ),
}

ENGINE_ENTRANCES: dict[str, Entrance] = {
    "sessions(after row)": Entrance(asked(lambda engine, value: engine.sessions(after=_row(value))), is_text),
    "sessions(after row's time)": Entrance(
        asked(lambda engine, value: engine.sessions(after=_row("s", value), order="recent")), is_int
    ),
    "acting_as(tenant)": Entrance(_renamed, or_none(is_text)),
    "acting_as(tenant), a body": Entrance(_body_of, or_none(is_text), lambda _: BODY),
    "acting_as(principal)": Entrance(
        _in_the_name_of, or_none(is_text), lambda value: "local" if value is None else value
    ),
    "put_blob(body)": Entrance(_put(as_given), is_body, joined, (hostile.Spite,)),
    "put_blob([chunk])": Entrance(
        _put(lambda value: [value]), lambda value: isinstance(value, bytes | bytearray | memoryview), joined
    ),
    "put_blob(media_type)": Entrance(
        lambda engine, value, _: engine.put_blob(BODY, media_type=value).media_type, or_none(is_text)
    ),
    "read_blob(ref)": Entrance(asked(lambda engine, value: engine.read_blob(value)), never),
    "read_blob(digest)": Entrance(asked(lambda engine, value: engine.read_blob(_ref(digest=value))), never),
    "read_blob(size)": Entrance(
        asked(lambda engine, value: engine.read_blob(_real_ref(engine, size=value))),
        is_int,
        also=(errors.StorageCorrupt,),
    ),
}

OUTBOX_ENTRANCES: dict[str, Entrance] = {
    "history(entry)": Entrance(asked(lambda engine, value: engine.history(value)), never),
    "history(after)": Entrance(asked(lambda engine, value: engine.history(_entry(engine), after=value)), is_int),
    "history(limit)": Entrance(asked(lambda engine, value: engine.history(_entry(engine), limit=value)), is_int),
    "history(entry's actor)": Entrance(_in_scope("history", "actor"), is_text, also=(errors.SessionNotFound,)),
    "outbox(entry's session)": Entrance(_in_scope("outbox", "session"), is_text),
    "acknowledge(entry)": Entrance(asked(lambda engine, value: engine.acknowledge(value)), never),
    "acknowledge(entry's number)": Entrance(
        asked(lambda engine, value: engine.acknowledge(_entry(engine, entry=value))),
        is_int,
        also=(errors.OffloadNotFound,),
    ),
    "acknowledge(entry's scope)": Entrance(
        asked(lambda engine, value: engine.acknowledge(_entry(engine, scope=value))), never
    ),
    "acknowledge(key)": Entrance(
        asked(lambda engine, value: engine.acknowledge(_entry(engine), key=value)), or_none(is_text)
    ),
    **{
        f"acknowledge(entry's {name})": Entrance(
            _in_scope("acknowledge", name), or_none(is_text), also=(errors.SessionNotFound,)
        )
        for name in Scope.__struct_fields__
    },
}
"""With an entry in the outbox."""

SESSION_QUESTIONS: dict[str, Callable[[Any], bool]] = {
    "messages(before)": or_none(is_int),
    "messages(limit)": is_int,
    "evidence(before)": or_none(is_int),
    "evidence(limit)": is_int,
    "events(after)": is_int,
    "events(limit)": is_int,
    "window(tokens)": is_int,
    "draft_summary(keep_turns)": is_int,
    "reset(keep_system)": is_bool,
    "environment(as_of_us)": or_none(is_int),
}
ENGINE_QUESTIONS: dict[str, Callable[[Any], bool]] = {
    "sessions(actor)": or_none(is_text),
    "sessions(status)": lambda value: value in (None, "open", "closed", "destroyed"),
    "sessions(order)": lambda value: value in ("name", "recent"),
    "sessions(active_since_us)": or_none(is_int),
    "sessions(idle_since_us)": or_none(is_int),
    "sessions(after)": lambda value: value is None,
    "sessions(limit)": is_int,
    "sweep(limit)": is_int,
    "outbox(after)": lambda value: value is None,
    "outbox(limit)": is_int,
    "feed(cursor)": is_text,
    "feed(limit)": is_int,
    "collect_blobs(grace_s)": is_number,
}
QUESTIONS: dict[str, Entrance] = {
    name: Entrance(_with_option(name, of_session=name in SESSION_QUESTIONS), fits)
    for name, fits in (SESSION_QUESTIONS | ENGINE_QUESTIONS).items()
}

ENTRANCES: dict[str, Entrance] = {
    **MESSAGE_ENTRANCES,
    **RECORD_ENTRANCES,
    **_after(_made, CALL_ENTRANCES),
    **_after(_asked_a_tool, RESULT_ENTRANCES),
    **SESSION_ENTRANCES,
    **layer_entrances.ENTRANCES,
    **ENGINE_ENTRANCES,
    **_after(_offered, OUTBOX_ENTRANCES),
    **QUESTIONS,
}
