"""The layers of a session beside its facts: identity, working set and environment."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import msgspec

from holdfast.model.content import Json


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user of a session, as the authenticated channel says. Only the program sets and refreshes it: no message does."""

    user_name: str = ""
    user_id: str = ""
    authority: str = "peer"
    """An authority of the policy, or one of its other names. An unknown one is the lowest."""
    department: str = ""
    organization: str = ""
    permissions: tuple[str, ...] = ()


class WorkingItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item of the working set, which ends with the conversation."""

    value: Json
    at_us: int
    expires_us: int | None = None
    seq: int = 0
    """The seq of the event that set it."""


class EnvironmentItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An observation from outside of the conversation."""

    value: Json
    observed_us: int
    expires_us: int | None = None
    seq: int = 0
    """The seq of the event that set it."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment at one time, without expired observations."""

    time_us: int
    timezone: str = "UTC"
    location: Json = None
    external_data: dict[str, EnvironmentItem] = msgspec.field(default_factory=dict)

    @property
    def current_time(self) -> datetime:
        now = datetime.fromtimestamp(self.time_us / 1e6, UTC)
        return now if self.timezone == "UTC" else now.astimezone(ZoneInfo(self.timezone))

    @property
    def current_date(self) -> date:
        return self.current_time.date()
