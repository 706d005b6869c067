"""Suspension: a frame rests until its token comes, here or in another process, now or in a year.

Laws: the store never has a token, only its SHA-256; a token is bound to its tenant and its frame and works once; no error,
no event and no row tells it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast import codec
from holdfast.errors import InvalidContent, TokenInvalid, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.frames import checked_brief, checked_frame, own
from holdfast.flows.inform_frames import token_row
from holdfast.flows.place import Context, Place, order
from holdfast.model import limits
from holdfast.model.commands import Command, ReissueToken, ResumeFrame, RevokeToken, SuspendFrame
from holdfast.model.frames import Suspended, Suspension, SuspensionToken, frame_id, frame_seq
from holdfast.model.names import Scope, check_size, checked_flag, checked_name, checked_whole
from holdfast.model.rows import TokenRow, scope_of

_TOKEN = re.compile(r"hfs_[A-Za-z0-9_-]{43}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT = "Say it shorter."


def suspend(
    place: Place,
    reason: str,
    *,
    expires_at: datetime | None = None,
    resumable_by: str | Sequence[str] = (),
    cascade: bool = False,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[SuspensionToken]:
    """Let the frame rest; the token that comes back is told once, and is what resumes it.

    It works for the principal who suspends the frame, and for those whom `resumable_by` names. The budget stays granted,
    the timeout pauses. What lives below the frame goes on, unless `cascade` lets it rest too, under the same token."""
    command = SuspendFrame(
        scope=place.scope,
        frame=own(place),
        reason=checked_brief("the reason", reason, _SHORT),
        expires_us=_checked_time(expires_at),
        resumable_by=_checked_names(resumable_by),
        cascade=checked_flag("cascade", cascade),
    )
    return (yield from _with_token(place, command, expect, cause))


def reissue(
    place: Place,
    *,
    expires_at: datetime | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[SuspensionToken]:
    """Another token for a suspended frame, in place of one that was lost, revoked or has expired."""
    command = ReissueToken(scope=place.scope, frame=own(place), expires_us=_checked_time(expires_at))
    return (yield from _with_token(place, command, expect, cause))


def _with_token(place: Place, command: Command, expect: int | None, cause: str | None) -> Flow[SuspensionToken]:
    secret = place.context.ids.secret()
    token = SuspensionToken("hfs_" + base64.urlsafe_b64encode(secret).rstrip(b"=").decode())
    yield from order(place, command, digest=_digest(token), expect=expect, cause=cause)
    return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _checked_time(at: object) -> int | None:
    if at is None:
        return None
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidContent(reason=f"expires_at is {shown(at)}, not a datetime with a time zone")
    return checked_whole("expires_at", (at - _EPOCH) // timedelta(microseconds=1))


def _checked_names(names: object) -> tuple[str, ...]:
    given = (names,) if type(names) is str else names
    if type(given) not in (list, tuple):
        raise InvalidContent(reason=f"resumable_by is {shown(names)}, not the name of a principal, or a list of them")
    check_size("resumable_by", len(given), "principals", "RESUMERS", "Name fewer.")  # type: ignore[arg-type]
    return tuple(checked_name("principal", name) for name in given)  # type: ignore[attr-defined]


def revoke(
    place: Place,
    reason: str = "revoked",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Make the token of a suspended frame void. The frame rests on: reissue() gives it another, pop() ends it."""
    command = RevokeToken(scope=place.scope, frame=own(place), reason=checked_brief("the reason", reason, _SHORT))
    yield from order(place, command, key=key, expect=expect, cause=cause)


def resume(context: Context, token: SuspensionToken | str, *, cause: str | None = None) -> Flow[Place]:
    """Wake the frame that this token was handed out for. Works once, also if several try at the same time."""
    row = yield from token_row(context.tenant, _digest(_checked_token(context, token)))
    if row is None:
        raise TokenInvalid(tenant=context.tenant)
    place = Place(context, scope_of(row), frame_id(row.frame))
    command = ResumeFrame(scope=place.scope, frame=own(place), digest=row.digest)
    yield from order(place, command, cause=cause)
    return place


def _checked_token(context: Context, token: object) -> str:
    if isinstance(token, str) and issubclass(type(token), str) and _TOKEN.fullmatch(token):  # no disguise
        return str.__str__(token)
    raise TokenInvalid(tenant=context.tenant)


def suspended(
    context: Context,
    *,
    actor: str | None = None,
    session: str | None = None,
    after: Suspended | None = None,
    limit: int = 100,
) -> Flow[list[Suspended]]:
    """The tenant's suspended frames in order of their sessions; `after` is the last of the page before. Never with their
    tokens."""
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    where: dict[str, str | int] = {"tenant": context.tenant, "suspended": 1}
    if actor is not None:
        where["actor"] = checked_name("actor", actor)
    if session is not None:
        where["session"] = checked_name("session", session)
    last = None if after is None else _key_of(context, after)
    rows = yield from effects.rows(TokenRow, where, last, limit)
    now = context.clock.now_us()
    return [_shown(row, now) for row in rows]


def _key_of(context: Context, after: object) -> TokenRow:
    """What a page goes on after: only its key is looked at. All digests come before a tilde."""
    if type(after) is not Suspended or type(after.scope) is not Scope:
        raise InvalidContent(reason="a page goes on after the last entry of the one before")
    scope = Scope.checked(context.tenant, after.scope.actor, after.scope.session, after.scope.thread)
    return TokenRow(
        **scope.columns,
        frame=frame_seq(checked_frame(after.frame)),
        digest="~",
        status="live",
        suspended=1,
        state="",
    )


def _shown(row: TokenRow, now_us: int) -> Suspended:
    rest = codec.decode(row.state.encode(), Suspension)
    expired = rest.expires_us is not None and now_us >= rest.expires_us
    return Suspended(
        scope=scope_of(row),
        frame=frame_id(row.frame),
        reason=rest.reason,
        by=rest.by,
        at_us=rest.at_us,
        expires_us=rest.expires_us,
        resumable_by=rest.resumable_by,
        status="revoked" if row.status == "revoked" else "expired" if expired else "live",
    )
