"""Who and where: scopes and streams. A tuple of names, never a joined string."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.errors import InvalidContent, InvalidName, InvalidNumber, TooLarge, shown
from holdfast.model import limits

StreamKind = Literal["session", "ledger"]

_CONTROL = frozenset(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029]))


def checked_name(what: str, value: object) -> str:
    """The value, if it can serve as a name in every store and every file system."""
    if type(value) is not str:
        reason = f"it is a {type(value).__name__}, not a str"
    elif not value:
        reason = "it is empty"
    elif value.isascii() and value.isprintable() and len(value) <= limits.NAME_BYTES:
        return value
    elif not _CONTROL.isdisjoint(value):
        reason = "it has a control character"
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            reason = "it has a lone surrogate"
        else:
            if size <= limits.NAME_BYTES:
                return value
            reason = f"it has {size} bytes"
    raise InvalidName(what=what, value=value, reason=reason, limit=limits.NAME_BYTES)


def checked_whole(what: str, value: object, low: int = 0, high: int = limits.WHOLE_NUMBER) -> int:
    """The value, if it is a whole number in this range, which every store can hold."""
    if type(value) is int and low <= value <= high:
        return value
    raise InvalidNumber(what=what, value=shown(value), low=low, high=high)


def checked_flag(what: str, value: object) -> bool:
    """The value, if it is true or false: what looks like a yes may have been meant as a no."""
    if value is True or value is False:
        return value
    raise InvalidContent(reason=f"{what} is {shown(value)}, not true or false")


def number_in(letter: str, name: str | None) -> int:
    """The number of an id that is a letter and a number, as we write it; 0 for any other text."""
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
    """Raises if this is over one of the named bounds."""
    limit: int = getattr(limits, limit_name)
    if size > limit:
        raise TooLarge(what=what, size=size, unit=unit, limit_name=limit_name, limit=limit, advice=advice)


class StreamId(msgspec.Struct, frozen=True, order=True):
    """The unit of ordering: a session's stream, or a ledger's."""

    tenant: str
    kind: StreamKind
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.tenant}/{'/'.join(self.key)}"


class Scope(msgspec.Struct, frozen=True, order=True):
    """Whose work this is."""

    tenant: str
    actor: str
    session: str
    thread: str | None = None

    @classmethod
    def checked(cls, tenant: object, actor: object, session: object, thread: object = None) -> Scope:
        return cls(
            checked_name("tenant", tenant),
            checked_name("actor", actor),
            checked_name("session", session),
            None if thread is None else checked_name("thread", thread),
        )

    @property
    def stream(self) -> StreamId:
        names = (self.actor, self.session)
        return StreamId(self.tenant, "session", names if self.thread is None else (*names, self.thread))

    @property
    def columns(self) -> dict[str, str]:
        """As rows have it: a name is never empty, so no thread is."""
        return {"tenant": self.tenant, "actor": self.actor, "session": self.session, "thread": self.thread or ""}

    @classmethod
    def of(cls, stream: StreamId) -> Scope:
        actor, session, *thread = stream.key
        return cls(stream.tenant, actor, session, thread[0] if thread else None)


LedgerKind = Literal["user", "project", "organization", "session"]


class LedgerId(msgspec.Struct, frozen=True, order=True):
    """Whose knowledge this is: a user's, a project's, an organisation's, or one session's own."""

    tenant: str
    kind: LedgerKind
    names: tuple[str, ...]

    @property
    def stream(self) -> StreamId:
        return StreamId(self.tenant, "ledger", (self.kind, *self.names))

    @classmethod
    def of(cls, stream: StreamId) -> LedgerId:
        kind, *names = stream.key
        return cls(stream.tenant, kind, tuple(names))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(self.names)}"
