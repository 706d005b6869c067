"""Names of tenants, sessions, ledgers and streams, and the checks of arguments. Keys are tuples, never joined strings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeVar, get_args

import msgspec

from holdfast.errors import InvalidArgument, InvalidName, InvalidNumber, TooLarge, describe_value
from holdfast.model import limits

Choice = TypeVar("Choice", bound=str)
StreamKind = Literal["session", "ledger"]
DEFAULT_ACTOR = "main"
"""The agent that a session belongs to if none is named."""
_HASHED_NAME = re.compile(r".*~[0-9a-f]{64}", re.DOTALL)
_HASH_CHARS = len("~") + 64
_CONTROL_CHARS = frozenset(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029]))


def check_name(what: str, value: object, limit: int = limits.NAME_BYTES) -> str:
    """The value, if it is a valid name in every store and file system."""
    if type(value) is not str:
        reason = f"it is a {type(value).__name__}, not a str"
    elif not value:
        reason = "it is empty"
    elif value.isascii() and value.isprintable() and len(value) <= limit:
        return value
    elif not _CONTROL_CHARS.isdisjoint(value):
        reason = "it has a control character"
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            reason = "it has a lone surrogate"
        else:
            if size <= limit:
                return value
            reason = f"it has {size} bytes"
    raise InvalidName(what=what, value=value, reason=reason, limit=limit)


def shorten_name(name: str, limit: int = limits.NAME_BYTES) -> str:
    """Return a name of at most `limit` bytes for a name of any length: the beginning of the name and its SHA-256.

        shorten_name("checkpoint-1")    # 'checkpoint-1'
        shorten_name("node:" * 100)     # 'node:node:node:…~3c2a…'

    The same name always gives the same answer, and two names never give the same one. A name that fits is not
    changed, unless it looks like a shortened name itself: then it is shortened too, so that it stays distinct from
    the name it looks like. Names of other systems can be longer than NAME_BYTES; adapters pass them through this
    function. `limit` is 80 or more."""
    check_whole("limit", limit, 80)
    try:
        return hash_long_name(check_name("name", name, limits.WHOLE_NUMBER), limit)
    except InvalidName as error:  # a name that fits is never wrong for its length
        raise InvalidName(what="name", value=name, reason=error.reason, limit=limit) from None


def hash_long_name(name: str, limit: int = limits.NAME_BYTES) -> str:
    """The same for any text: a stored event may have any, and still has its rows."""
    encoded = name.encode(errors="surrogatepass")
    if len(encoded) <= limit and not _HASHED_NAME.fullmatch(name):
        return name
    head = encoded[: limit - _HASH_CHARS].decode(errors="ignore")
    return f"{head}~{hashlib.sha256(encoded).hexdigest()}"


def check_whole(what: str, value: object, low: int = 0, high: int = limits.WHOLE_NUMBER) -> int:
    """The value, if it is a whole number in this range, which every store can hold."""
    if type(value) is int and low <= value <= high:
        return value
    raise InvalidNumber(what=what, value=describe_value(value), low=low, high=high)


def check_flag(what: str, value: object) -> bool:
    """The value, if it is true or false. Other values are not converted."""
    if value is True or value is False:
        return value
    raise InvalidArgument(argument=what, reason=f"{describe_value(value)} is not true or false")


def check_instance(what: str, value: object, kind: type) -> None:
    """Refuse a value that is not of this class."""
    if not isinstance(value, kind):
        raise InvalidArgument(argument=what, reason=f"{describe_value(value)} is no {kind.__name__}")


def parse_id_number(letter: str, name: str | None) -> int:
    """The number of an id of this letter and a number; 0 for any other text."""
    if name is None or name[:1] != letter:
        return 0
    digits = name[1:]
    if (
        not digits.isdecimal()
        or not digits.isascii()
        or digits[0] == "0"
        or len(digits) > len(str(limits.WHOLE_NUMBER))
    ):
        return 0
    number = int(digits)
    return number if number <= limits.WHOLE_NUMBER else 0


def check_size(what: str, size: int, unit: str, limit_name: str, advice: str) -> None:
    """Raise TooLarge if the size is over the named limit."""
    limit: int = getattr(limits, limit_name)
    if size > limit:
        raise TooLarge(what=what, size=size, unit=unit, limit_name=limit_name, limit=limit, advice=advice)


class StreamId(msgspec.Struct, frozen=True, order=True):
    """The stream of a session or of a ledger. Events are ordered within a stream."""

    tenant: str
    kind: StreamKind
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.tenant}/{'/'.join(self.key)}"

    def beside(self, key: tuple[str, ...]) -> StreamId:
        """The stream with this key, of the same tenant and kind."""
        return StreamId(self.tenant, self.kind, key)


class Scope(msgspec.Struct, frozen=True, order=True):
    """A session, or a thread of it, of an actor in a tenant."""

    tenant: str
    actor: str
    session: str
    thread: str | None = None

    @classmethod
    def check(cls, tenant: object, actor: object, session: object, thread: object = None) -> Scope:
        return cls(
            check_name("tenant", tenant),
            check_name("actor", actor),
            check_name("session", session),
            None if thread is None else check_name("thread", thread),
        )

    @property
    def stream(self) -> StreamId:
        names = (self.actor, self.session)
        return StreamId(self.tenant, "session", names if self.thread is None else (*names, self.thread))

    @property
    def columns(self) -> dict[str, str]:
        """The columns of rows. No thread is an empty text, which is never a name."""
        return {"tenant": self.tenant, "actor": self.actor, "session": self.session, "thread": self.thread or ""}

    @classmethod
    def from_stream(cls, stream: StreamId) -> Scope:
        actor, session, *thread = stream.key
        return cls(stream.tenant, actor, session, thread[0] if thread else None)


LedgerKind = Literal["user", "project", "organization", "session"]


class LedgerId(msgspec.Struct, frozen=True, order=True):
    """The ledger of a user, a project, an organisation or a session."""

    tenant: str
    kind: LedgerKind
    names: tuple[str, ...]

    @property
    def stream(self) -> StreamId:
        return StreamId(self.tenant, "ledger", (self.kind, *self.names))

    @classmethod
    def from_stream(cls, stream: StreamId) -> LedgerId:
        kind, *names = stream.key
        return cls(stream.tenant, kind, tuple(names))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(self.names)}"


_LEDGER_KINDS: tuple[LedgerKind, ...] = get_args(LedgerKind)


def check_ledger(ledger: object, tenant: str) -> LedgerId:
    """The ledger, if it is valid and of this tenant."""
    if type(ledger) is not LedgerId:
        raise InvalidArgument(argument="ledger", reason=f"{describe_value(ledger)} is not a holdfast.types.LedgerId")
    if type(ledger.names) is not tuple:
        raise InvalidArgument(argument="ledger.names", reason=f"{describe_value(ledger.names)} is not a tuple")
    check_ledger_key((ledger.kind, *ledger.names))
    if check_name("tenant", ledger.tenant) != tenant:
        raise InvalidArgument(argument="ledger", reason=f"{ledger} belongs to another tenant")
    return ledger


def check_ledger_key(key: tuple[object, ...]) -> None:
    """Check the key of a ledger: a kind and one name, or the two or three names of a session."""
    kind, *names = key or ("",)
    if type(kind) is not str or kind not in _LEDGER_KINDS:
        raise InvalidArgument(
            argument="ledger.kind", reason=f"{describe_value(kind)} is not one of {', '.join(_LEDGER_KINDS)}"
        )
    for name in names:
        check_name("name of a ledger", name)
    if len(names) not in ((2, 3) if kind == "session" else (1,)):
        wanted = "an actor, a session and perhaps a thread" if kind == "session" else "one name"
        raise InvalidArgument(
            argument="ledger.names", reason=f"a ledger of the kind {kind} needs {wanted}, not {len(names)} names"
        )


def check_ledgers(ledgers: object, session_key: tuple[str, ...], tenant: str) -> tuple[tuple[str, ...], ...]:
    """The keys of the ledgers that a session reads after its own, each once, in order of precedence."""
    if type(ledgers) not in (list, tuple):
        raise InvalidArgument(argument="ledgers", reason=f"{describe_value(ledgers)} is not a list of ledgers")
    listed: Any = ledgers
    check_size("the session", len(listed), "ledgers", "SESSION_LEDGERS", "Name fewer.")
    keys = tuple(check_ledger(each, tenant).stream.key for each in listed)
    if len({*keys}) != len(keys):
        raise InvalidArgument(
            argument="ledgers", reason="a ledger is named twice; name each once, the one that takes precedence first"
        )
    if ("session", *session_key) in keys:
        raise InvalidArgument(argument="ledgers", reason="a session always reads its own ledger; leave it out")
    return keys


def check_choice(what: str, value: object, choices: Collection[Choice]) -> Choice:
    """The choice that a value is equal to: the same object, since encoding leaves out only what is the very default."""
    if type(value) is str:
        for choice in choices:
            if choice == value:
                return choice
    raise InvalidArgument(argument=what, reason=f"{describe_value(value)} is not one of {', '.join(choices)}")


def check_options(function: str, kind: type, options: Mapping[str, object]) -> None:
    """Refuse a keyword that is no option of a call, as Python refuses it for parameters that are written out."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
