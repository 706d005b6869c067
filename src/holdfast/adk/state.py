"""The state of a session, a user or an app: a chain of changes in entries.

Each change is an entry with the keys that it sets. Every WHOLE_EVERY changes, one entry has all values, so that reading
needs at most that many entries, and a change costs what it sets.

Law: the number of an entry is its key, so two writers never write the same one.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import holdfast
from holdfast.adk.events import clean_json, to_json
from holdfast.errors import EntryConflict, InvalidInput
from holdfast.types import NewEntry

KIND = "state"
WHOLE_EVERY = 32
_TRIES = 50


class StateChange(NamedTuple):
    """What an event changes, by the scope of the keys and without their prefixes. Keys with `temp:` are not stored."""

    session: dict[str, Any]
    user: dict[str, Any]
    app: dict[str, Any]

    @property
    def is_empty(self) -> bool:
        return not (self.session or self.user or self.app)


def split_state(state: dict[str, Any] | None) -> StateChange:
    """Split keys by their prefixes."""
    change = StateChange({}, {}, {})
    for key, value in (state or {}).items():
        name = clean_json(key)
        if key.startswith("app:"):
            change.app[name.removeprefix("app:")] = value
        elif key.startswith("user:"):
            change.user[name.removeprefix("user:")] = value
        elif not key.startswith("temp:"):
            change.session[name] = value
    return StateChange(*(clean_json(to_json(values)) for values in change))


def merge_state(session: dict[str, Any], user: dict[str, Any], app: dict[str, Any]) -> dict[str, Any]:
    """What an agent sees: the keys of the user and of the app have their prefixes again."""
    return {
        **session,
        **{f"app:{key}": value for key, value in app.items()},
        **{f"user:{key}": value for key, value in user.items()},
    }


class _Link(NamedTuple):
    """The newest entry of a chain."""

    number: int
    since_whole: int


def read_state(session: holdfast.Session | None) -> dict[str, Any]:
    """The current values of a chain."""
    if session is None:
        return {}
    return _fold(_read_links(session))


def build_entry(
    session: holdfast.Session, values: dict[str, Any], parent: str, more: dict[str, Any] | None = None
) -> NewEntry:
    """The next entry of a chain. `more` is stored beside the values."""
    newest = session.entries.list(kind=KIND, limit=1)
    link = _Link(0, 0)
    if newest:
        body = decode_body(newest[0].body)
        link = _Link(int(body["number"]), int(body["since_whole"]))
    number, since_whole = link.number + 1, link.since_whole + 1
    if not newest or since_whole >= WHOLE_EVERY:
        values, since_whole = {**_fold(_read_links(session)), **values}, 0
    body = {"number": number, "since_whole": since_whole, "values": values, **(more or {})}
    return NewEntry(KIND, f"{KIND}/{number}", body, parent)


def change_state(session: holdfast.Session, values: dict[str, Any], parent: str) -> None:
    """Append a change to the chain of a user or of an app. Of several writers, the last one wins, key by key."""
    for attempt in range(_TRIES):
        entry = build_entry(session, values, parent)
        try:
            append_entries(session, [entry])
        except EntryConflict:
            if attempt == _TRIES - 1:
                raise
        else:
            return


def append_entries(session: holdfast.Session, entries: list[NewEntry], *, expect: int | None = None) -> int:
    """Append entries, all or none; values that are no JSON of Holdfast (NaN, large integers) are stored as bytes. Returns
    the seq of the first."""
    try:
        return session.entries.append_all(entries, expect=expect)[0].seq
    except InvalidInput:
        encoded = [NewEntry(each.kind, each.key, encode_body(each.body), each.parent) for each in entries]
        return session.entries.append_all(encoded, expect=expect)[0].seq


def encode_body(body: object) -> bytes:
    """A body as bytes of JSON, for values that Holdfast's JSON does not have."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def decode_body(body: object) -> dict[str, Any]:
    """The body of an entry, however it was stored."""
    decoded = json.loads(body) if isinstance(body, bytes) else body
    assert isinstance(decoded, dict), "bodies of these entries are objects"
    return decoded


def _read_links(session: holdfast.Session) -> list[dict[str, Any]]:
    """The entries since the last one with all values, newest first."""
    links: list[dict[str, Any]] = []
    before: int | None = None
    while page := session.entries.list(kind=KIND, before=before, limit=WHOLE_EVERY + 1):
        for entry in page:
            links.append(decode_body(entry.body))
            if not links[-1]["since_whole"]:
                return links
        before = page[-1].seq
    return links


def _fold(links: list[dict[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for link in reversed(links):
        values.update(link["values"])
    return values
