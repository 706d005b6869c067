"""Suspension: a frame waits until its token is presented, in any process and at any time.

Laws: the store has only the SHA-256 of a token. A token is bound to its tenant and frame, and works once. No error, event
or row contains a token.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import datetime

from holdfast import codec
from holdfast.errors import InvalidArgument, TokenInvalid, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, execute_command
from holdfast.flows.effects import Flow
from holdfast.flows.frames.frames import check_frame_id, check_short_text, require_frame
from holdfast.flows.frames.lookup import find_token_row
from holdfast.flows.sessions.ingest import to_time_us
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.frames.commands import ReissueToken, ResumeFrame, RevokeToken, SuspendFrame
from holdfast.model.frames.frames import SuspendedFrame, Suspension, SuspensionToken, frame_id, frame_seq
from holdfast.model.names import Scope, check_flag, check_name, check_size, check_whole
from holdfast.model.rows import TokenRow, scope_of

_TOKEN_PATTERN = re.compile(r"hfs_[A-Za-z0-9_-]{43}")
_SHORT_ADVICE = "Pass a shorter text."


def suspend(
    context: SessionContext,
    reason: str,
    *,
    expires_at: datetime | None = None,
    resumable_by: str | Sequence[str] = (),
    cascade: bool = False,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[SuspensionToken]:
    """Suspend the frame; returns the token that resumes it."""
    command = SuspendFrame(
        scope=context.scope,
        frame=require_frame(context),
        reason=check_short_text("the reason", reason, _SHORT_ADVICE),
        expires_us=to_time_us("expires_at", expires_at),
        resumable_by=_check_principals(resumable_by),
        cascade=check_flag("cascade", cascade),
    )
    return (yield from _issue_token(context, command, expect, cause))


def reissue(
    context: SessionContext,
    *,
    expires_at: datetime | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[SuspensionToken]:
    """Issue a new token for a suspended frame; the old one becomes void."""
    command = ReissueToken(
        scope=context.scope, frame=require_frame(context), expires_us=to_time_us("expires_at", expires_at)
    )
    return (yield from _issue_token(context, command, expect, cause))


def _issue_token(
    context: SessionContext, command: SessionCommand, expect: int | None, cause: str | None
) -> Flow[SuspensionToken]:
    secret = context.engine.ids.secret()
    token = SuspensionToken("hfs_" + base64.urlsafe_b64encode(secret).rstrip(b"=").decode())
    yield from execute_command(context, command, digest=_token_digest(token), expect=expect, cause=cause)
    return token


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _check_principals(names: object) -> tuple[str, ...]:
    listed = (names,) if type(names) is str else names
    if type(listed) not in (list, tuple):
        raise InvalidArgument(
            argument="resumable_by",
            reason=f"{describe_value(names)} is not the name of a principal, or a list of names",
        )
    check_size("resumable_by", len(listed), "principals", "RESUMERS", "Name fewer.")  # type: ignore[arg-type]
    return tuple(check_name("principal", name) for name in listed)  # type: ignore[attr-defined]


def revoke(
    context: SessionContext,
    reason: str = "revoked",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Revoke the token of a suspended frame. The frame stays suspended."""
    command = RevokeToken(
        scope=context.scope, frame=require_frame(context), reason=check_short_text("the reason", reason, _SHORT_ADVICE)
    )
    yield from execute_command(context, command, key=key, expect=expect, cause=cause)


def resume(engine: EngineContext, token: SuspensionToken | str, *, cause: str | None = None) -> Flow[SessionContext]:
    """Resume the frame of this token. It works once, also if several processes try at the same time."""
    row = yield from find_token_row(engine.tenant, _token_digest(_check_token(engine, token)))
    if row is None:
        raise TokenInvalid(tenant=engine.tenant)
    context = SessionContext(engine, scope_of(row), frame_id(row.frame))
    command = ResumeFrame(scope=context.scope, frame=require_frame(context), digest=row.digest)
    yield from execute_command(context, command, cause=cause)
    return context


def _check_token(engine: EngineContext, token: object) -> str:
    if (
        isinstance(token, str) and issubclass(type(token), str) and _TOKEN_PATTERN.fullmatch(token)
    ):  # not an object that pretends to be a str
        return str.__str__(token)
    raise TokenInvalid(tenant=engine.tenant)


def list_suspended(
    engine: EngineContext,
    *,
    actor: str | None = None,
    session: str | None = None,
    after: SuspendedFrame | None = None,
    limit: int = 100,
) -> Flow[list[SuspendedFrame]]:
    """The suspended frames of the tenant, by session, without their tokens."""
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    where: dict[str, str | int] = {"tenant": engine.tenant, "suspended": 1}
    if actor is not None:
        where["actor"] = check_name("actor", actor)
    if session is not None:
        where["session"] = check_name("session", session)
    last = None if after is None else _page_key(engine, after)
    rows = yield from effects.rows(TokenRow, where, last, limit)
    now = engine.clock.now_us()
    return [_build_suspended_frame(row, now) for row in rows]


def _page_key(engine: EngineContext, after: object) -> TokenRow:
    """The row that the next page starts after: only its key counts, and every digest sorts before a tilde."""
    if type(after) is not SuspendedFrame or type(after.scope) is not Scope:
        raise InvalidArgument(argument="after", reason="pass the last entry of the page before")
    scope = Scope.check(engine.tenant, after.scope.actor, after.scope.session, after.scope.thread)
    return TokenRow(
        **scope.columns,
        frame=frame_seq(check_frame_id(after.frame)),
        digest="~",
        status="live",
        suspended=1,
        state="",
    )


def _build_suspended_frame(row: TokenRow, now_us: int) -> SuspendedFrame:
    suspension = codec.decode(row.state.encode(), Suspension)
    expired = suspension.expires_us is not None and now_us >= suspension.expires_us
    return SuspendedFrame(
        scope=scope_of(row),
        frame=frame_id(row.frame),
        reason=suspension.reason,
        by=suspension.by,
        at_us=suspension.at_us,
        expires_us=suspension.expires_us,
        resumable_by=suspension.resumable_by,
        status="revoked" if row.status == "revoked" else "expired" if expired else "live",
    )
