"""Where the gateway stores its sessions, and how a few characters name one of them.

Laws: a part of a name never opens a session that a caller did not mean: if several sessions fit, all are refused. The short
name of a session depends on its name alone, so that a text that names it is the same for ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import AmbiguousSession, SessionNotFound

if TYPE_CHECKING:
    import holdfast
    from holdfast.types import SessionRow

SHORT_CHARS = 8
"""The length of a short name, and the least length of a part of a name that is searched for."""
_PAGE = 1_000
_MAX_SUGGESTIONS = 10
_RANDOM_END = re.compile(rf"(?:^|[^0-9A-Za-z])[0-9A-Fa-f]*([0-9A-Fa-f]{{{SHORT_CHARS}}}(?:\.[0-9]{{1,4}})?)$")
"""Ids and digests end at random. They may begin with the time, and then all sessions of a minute begin alike. A fork has a
number behind that."""


def default_store() -> str:
    """The file of the gateway, unless the user names another: `holdfast/gateway.db` in the folder for data of programs."""
    folder = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(folder):  # the specification says to ignore any other
        folder = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(folder, "holdfast", "gateway.db")


def shorten_session(name: str) -> str:
    """The short name of a session: the last characters of its id, or its whole name, if that does not end in an id."""
    match = _RANDOM_END.search(name)
    return name if match is None else match[1]


def find_session(engine: holdfast.Engine, name: str, *, actor: str | None = None) -> holdfast.Session:
    """Find a session by its name, or by a part of it that no other session has; first by the end of the name."""
    try:
        return engine.session(name) if actor is None else engine.session(name, actor=actor)
    except SessionNotFound as error:
        if len(name) < SHORT_CHARS:
            raise
        not_found = error
    rows = [row for row in _list_rows(engine, actor) if name in row.session]
    matches = (
        [row for row in rows if row.session == name] or [row for row in rows if row.session.endswith(name)] or rows
    )
    if not matches:
        raise not_found
    if len(matches) > 1:
        reason = f"{len(matches)} sessions have it, {describe_rows(matches)}"
        raise AmbiguousSession(part=name, reason=reason)
    [row] = matches
    return engine.session(row.session, actor=row.actor, thread=row.thread or None)


def find_only_session(engine: holdfast.Engine, *, actor: str | None = None) -> holdfast.Session | None:
    """The session of a store that has one; None for any other store."""
    rows = engine.sessions(actor=actor, limit=2)
    if len(rows) != 1:
        return None
    return engine.session(rows[0].session, actor=rows[0].actor, thread=rows[0].thread or None)


def _list_rows(engine: holdfast.Engine, actor: str | None) -> list[SessionRow]:
    rows: list[SessionRow] = []
    while page := engine.sessions(actor=actor, order="name", after=rows[-1] if rows else None, limit=_PAGE):
        rows += page
    return rows


def describe_rows(rows: Sequence[SessionRow]) -> str:
    """The names of sessions, with what distinguishes those of the same name."""
    names = [
        repr(row.session)
        + (f" of actor {row.actor!r}" if row.actor != rows[0].actor else "")
        + (f", thread {row.thread!r}" if row.thread else "")
        for row in rows
    ]
    return "; ".join(names[:_MAX_SUGGESTIONS]) + ("; …" if len(names) > _MAX_SUGGESTIONS else "")
