"""The layers of a session's state beside its facts: who speaks, what is at hand, what is around."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import ClassVar
from zoneinfo import ZoneInfo

import msgspec

from holdfast.model.content import Json


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who speaks in a session, as the channel that opened it knows. Only the program sets and refreshes it; nothing that is
    said changes it."""

    user_name: str = ""
    user_id: str = ""
    authority: str = "peer"
    """A rung of the ladder, or one of its aliases. What the ladder does not know stands at its foot."""
    department: str = ""
    organization: str = ""
    permissions: tuple[str, ...] = ()


class IdentityRefreshed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The program replaced the identity of a session: authority and permissions are these from now on."""

    name: ClassVar[str] = "identity.refreshed"
    version: ClassVar[int] = 1
    identity: Identity = Identity()


class WorkingItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something at hand, gone with the session."""

    value: Json
    at_us: int
    expires_us: int | None = None
    seq: int = 0
    """Of the event that it came with."""


class Surrounding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was observed outside of the conversation."""

    value: Json
    observed_us: int
    expires_us: int | None = None
    seq: int = 0
    """Of the event that it came with."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What is around at one moment; what has run out by then is not in it."""

    time_us: int
    timezone: str = "UTC"
    location: Json = None
    external_data: dict[str, Surrounding] = msgspec.field(default_factory=dict)

    @property
    def current_time(self) -> datetime:
        now = datetime.fromtimestamp(self.time_us / 1e6, UTC)
        return now if self.timezone == "UTC" else now.astimezone(ZoneInfo(self.timezone))

    @property
    def current_date(self) -> date:
        return self.current_time.date()
