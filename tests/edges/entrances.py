"""Every way for a caller's value into the public API, as data: how to hand it in, and what must come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from holdfast import BlobRef, Body, File, Image, Opaque, SessionRow, Text
from holdfast.errors import BlobNotFound, SessionNotFound, StorageCorrupt, VersionConflict
from holdfast.model.content import Role
from holdfast.testing import hostile

BODY = b"a body"
ROLES = get_args(Role)


def _as_given(value: Any) -> Any:
    return value


def _nothing(_: Any, __: int) -> None:
    pass


class Entrance(NamedTuple):
    """`use` hands a value in (the number keeps names apart) and returns what came back, which has to be `expected` of the
    value. `fits` says which values may be accepted at all, `also` which other errors are right for those."""

    use: Callable[[Any, Any, int], object]
    fits: Callable[[Any], bool]
    expected: Callable[[Any], object] = _as_given
    also: tuple[type[BaseException], ...] = ()
    prepare: Callable[[Any, int], object] = _nothing


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_series(value: object) -> bool:
    """In an order that its maker chose: neither a mapping nor a set."""
    return isinstance(value, list | tuple | Iterator) or type(value).__name__ == "deque"


def _is_json(value: object) -> bool:
    return value is None or type(value) in (str, int, float, bool, list, dict)


def _is_json_object(value: object) -> bool:
    return value is None or isinstance(value, Mapping)


def _is_body(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview) or _is_series(value) or hasattr(value, "read")


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300  # type: ignore[operator]


def _never(_: object) -> bool:
    return False


def _said(make: Callable[[Any], Any], back: Callable[[Any], object]) -> Callable[[Any, Any, int], object]:
    """Record a message made of the value, read it again, and take the value out."""

    def use(engine: Any, value: Any, _: int) -> object:
        session = engine.session("s")
        session.record("user", make(value))
        return back(session.messages(limit=1)[0].content)

    return use


def _recorded_with(name: str) -> Callable[[Any, Any, int], object]:
    """An option of record(), and what the log says of it."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session("s")
        message = session.record("user", f"number {number}", **{name: value})
        return getattr(session.events(after=message.seq - 1, limit=1)[0], name, value)

    return use


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
    class Odd(dict[Any, Any]):
        """Lets keys in that cannot be hashed."""

        def items(self) -> Any:
            return [(value, number)]

        def __len__(self) -> int:
            return 1

    return next(iter(engine.create_session(f"s{number}", metadata={"inner": Odd()}).state().metadata["inner"]))


def _closed(engine: Any, value: Any, number: int) -> object:
    session = engine.session(f"s{number}")
    session.close(value)
    return session.state().close_reason


def _asked(ask: Callable[[Any, Any], object]) -> Callable[[Any, Any, int], object]:
    """A question that keeps nothing: if it is answered at all, the value was fine."""

    def use(engine: Any, value: Any, _: int) -> object:
        ask(engine, value)
        return value

    return use


def _renamed(engine: Any, value: Any, number: int) -> object:
    other = engine.acting_as(tenant=value)
    return other.create_session(f"s{number}").events(limit=1)[0].stream.tenant


def _in_the_name_of(engine: Any, value: Any, _: int) -> object:
    session = engine.acting_as(principal=value).session("s")
    return session.record("user", "text").principal


def _put(make: Callable[[Any], Any]) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, _: int) -> object:
        return engine.read_blob(engine.put_blob(make(value)))

    return use


def _joined(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b"".join(map(bytes, value))


def _row(value: Any) -> SessionRow:
    return SessionRow(
        tenant="default",
        actor=value,
        session=value,
        thread=value,
        status="open",
        version=1,
        messages=0,
        tokens=0,
        created_us=0,
        updated_us=0,
    )


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


def _texts(content: Any) -> list[str]:
    return [part.text for part in content]


def _or_none(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


MESSAGE_ENTRANCES: dict[str, Entrance] = {
    "record(content)": Entrance(
        _said(_as_given, _texts),
        lambda value: _is_text(value) or _is_series(value),
        lambda value: [value] if isinstance(value, str) else list(value),
        (hostile.Spite,),
    ),
    "record([part])": Entrance(_said(lambda value: [value], lambda content: content[0].text), _is_text),
    "record(Text(text))": Entrance(_said(Text, lambda content: content[0].text), _is_text),
    "record(Body(ref))": Entrance(_said(Body, lambda content: content[0].ref), _never),
    "record(Body(preview))": Entrance(_preview, _is_text),
    "record(File(ref))": Entrance(_said(File, lambda content: content[0].ref), _never),
    "record(File(name))": Entrance(_named_file, _or_none(_is_text)),
    "record(Image(ref))": Entrance(_said(lambda value: Image(ref=value), lambda content: content[0].ref), _never),
    "record(Image(url))": Entrance(_said(lambda value: Image(url=value), lambda content: content[0].url), _is_text),
    "record(Opaque(issuer))": Entrance(
        _said(lambda value: Opaque(value, "{}"), lambda content: content[0].issuer), _is_text
    ),
    "record(Opaque(body))": Entrance(
        _said(lambda value: Opaque("openai", value), lambda content: content[0].body), _is_text
    ),
    "record(BlobRef(digest))": Entrance(
        _said(lambda value: Body(_ref(digest=value)), lambda content: content[0].ref.digest), _never
    ),
    "record(BlobRef(size))": Entrance(_size, _is_int, also=(BlobNotFound, StorageCorrupt)),
    "record(BlobRef(media_type))": Entrance(_media_type, _or_none(_is_text)),
    "record(role)": Entrance(_role, lambda value: type(value) is str and value in ROLES),
    "record(key)": Entrance(_recorded_with("key"), _or_none(_is_text)),
    "record(cause)": Entrance(_recorded_with("cause"), _or_none(_is_text)),
    "record(expect)": Entrance(_recorded_with("expect"), _or_none(_is_int), also=(VersionConflict,)),
}

SESSION_ENTRANCES: dict[str, Entrance] = {
    "create_session(session)": Entrance(_created(lambda made: made.scope.session, session=""), _is_text),
    "create_session(actor)": Entrance(_created(lambda made: made.scope.actor, actor=""), _is_text),
    "create_session(thread)": Entrance(_created(lambda made: made.scope.thread, thread=""), _or_none(_is_text)),
    "create_session(key)": Entrance(_created(lambda made: _event_of(made).key, key=""), _or_none(_is_text)),
    "create_session(cause)": Entrance(_created(lambda made: _event_of(made).cause, cause=""), _or_none(_is_text)),
    "create_session(metadata)": Entrance(
        _metadata(_as_given, _as_given), _is_json_object, lambda value: dict(value or {})
    ),
    "create_session(metadata value)": Entrance(
        _metadata(lambda value: {"key": value}, lambda metadata: metadata["key"]), _is_json
    ),
    "create_session(metadata, nested)": Entrance(
        _metadata(lambda value: {"a": [{"b": [value]}]}, lambda metadata: metadata["a"][0]["b"][0]), _is_json
    ),
    "create_session(metadata key)": Entrance(_key_of_dict, _is_text),
    "session(session)": Entrance(
        _asked(lambda engine, value: engine.session(value)), _is_text, also=(SessionNotFound,)
    ),
    "close(reason)": Entrance(_closed, _is_text, prepare=lambda engine, number: engine.create_session(f"s{number}")),
    "erase(seqs)": Entrance(
        _asked(lambda engine, value: engine.session("s").erase(value, "a test")), _is_series, also=(hostile.Spite,)
    ),
    "erase([seq])": Entrance(_asked(lambda engine, value: engine.session("s").erase([value], "a test")), _is_int),
    "erase(reason)": Entrance(_asked(lambda engine, value: engine.session("s").erase([1], value)), _is_text),
    "messages(before)": Entrance(
        _asked(lambda engine, value: engine.session("s").messages(before=value)), _or_none(_is_int)
    ),
    "messages(limit)": Entrance(_asked(lambda engine, value: engine.session("s").messages(limit=value)), _is_int),
    "events(after)": Entrance(_asked(lambda engine, value: engine.session("s").events(after=value)), _is_int),
    "events(limit)": Entrance(_asked(lambda engine, value: engine.session("s").events(limit=value)), _is_int),
}

ENGINE_ENTRANCES: dict[str, Entrance] = {
    "sessions(actor)": Entrance(_asked(lambda engine, value: engine.sessions(actor=value)), _or_none(_is_text)),
    "sessions(after)": Entrance(
        _asked(lambda engine, value: engine.sessions(after=value)), lambda value: value is None
    ),
    "sessions(after row)": Entrance(_asked(lambda engine, value: engine.sessions(after=_row(value))), _is_text),
    "sessions(limit)": Entrance(_asked(lambda engine, value: engine.sessions(limit=value)), _is_int),
    "feed(cursor)": Entrance(_asked(lambda engine, value: engine.feed(value)), _is_text),
    "feed(limit)": Entrance(_asked(lambda engine, value: engine.feed(limit=value)), _is_int),
    "acting_as(tenant)": Entrance(_renamed, _or_none(_is_text), lambda value: "default" if value is None else value),
    "acting_as(principal)": Entrance(
        _in_the_name_of, _or_none(_is_text), lambda value: "local" if value is None else value
    ),
    "put_blob(body)": Entrance(_put(_as_given), _is_body, _joined, (hostile.Spite,)),
    "put_blob([chunk])": Entrance(
        _put(lambda value: [value]), lambda value: isinstance(value, bytes | bytearray | memoryview), _joined
    ),
    "put_blob(media_type)": Entrance(
        lambda engine, value, _: engine.put_blob(BODY, media_type=value).media_type, _or_none(_is_text)
    ),
    "read_blob(ref)": Entrance(_asked(lambda engine, value: engine.read_blob(value)), _never),
    "read_blob(digest)": Entrance(_asked(lambda engine, value: engine.read_blob(_ref(digest=value))), _never),
    "read_blob(size)": Entrance(
        _asked(lambda engine, value: engine.read_blob(_real_ref(engine, size=value))), _is_int, also=(StorageCorrupt,)
    ),
    "collect_blobs(grace_s)": Entrance(_asked(lambda engine, value: engine.collect_blobs(grace_s=value)), _is_number),
}

ENTRANCES: dict[str, Entrance] = {**MESSAGE_ENTRANCES, **SESSION_ENTRANCES, **ENGINE_ENTRANCES}
