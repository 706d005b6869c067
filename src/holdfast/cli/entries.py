"""`holdfast entries`: the entries of other frameworks in a session."""

from __future__ import annotations

import base64
from typing import Any

import click

import holdfast
from holdfast.cli.options import limit_option, session_argument, thread_option
from holdfast.cli.output import (
    StyledText,
    TableColumn,
    escape,
    escape_lines,
    format_timestamp,
    json_text,
    print_block,
    print_json,
    print_line,
    print_table,
    shorten,
)
from holdfast.cli.settings import Settings, common_options
from holdfast.errors import InvalidArgument

NAME_CHARS = 60
PAGE = 1_000
"""The number of entries that are read at a time."""

_ENTRY_COLUMNS = (
    TableColumn("EVENT", right=True, whole=True),
    TableColumn("TIME", whole=True),
    TableColumn("KIND"),
    TableColumn("KEY"),
    TableColumn("PARENT"),
    TableColumn("BYTES", right=True, whole=True),
)


@click.command()
@session_argument
@click.argument("key", required=False)
@thread_option
@click.option("--kind", metavar="NAME", help="Only entries of this kind.")
@click.option("--parent", metavar="KEY", help="Only entries that follow this one.")
@limit_option(20)
@common_options
@click.pass_obj
def entries(
    settings: Settings,
    session: str,
    key: str | None,
    thread: str | None,
    kind: str | None,
    parent: str | None,
    limit: int,
) -> None:
    """List the entries of a session, or show one of them.

    Entries are records of other frameworks, such as checkpoints. The newest come first.
    """
    with settings.open() as engine:
        facet: Any = settings.find_session(engine, session, thread).entries
        if key is not None:
            _show_entry(settings, session, key, facet.get(key))
            return
        found = _read_entries(facet, kind, parent, limit)
    if settings.json:
        for entry in found:
            print_json(_to_document(entry, with_body=False))
    elif not found:
        print_line(escape(f"There are no such entries in the session {session!r}."))
    else:
        print_table(_ENTRY_COLUMNS, map(_entry_cells, found))


def _read_entries(facet: Any, kind: str | None, parent: str | None, limit: int) -> list[holdfast.types.Entry]:
    """Read the newest entries without their bodies; 0 for all."""
    found: list[holdfast.types.Entry] = []
    while not limit or len(found) < limit:
        size = min(PAGE, limit - len(found)) if limit else PAGE
        before = found[-1].seq if found else None
        page = facet.list(kind=kind, parent=parent, before=before, limit=size, bodies=False)
        found += page
        if len(page) < size:
            break
    return found


def _entry_cells(entry: holdfast.types.Entry) -> list[str | StyledText]:
    return [
        f"{entry.seq:,}",
        format_timestamp(entry.at_us),
        shorten(entry.kind, NAME_CHARS),
        StyledText(shorten(entry.key, NAME_CHARS), "bold"),
        shorten(entry.parent or "", NAME_CHARS),
        f"{entry.size:,}",
    ]


def _show_entry(settings: Settings, session: str, key: str, entry: holdfast.types.Entry | None) -> None:
    if entry is None:
        raise InvalidArgument(argument="key", reason=f"there is no entry {key!r} in the session {session!r}")
    if settings.json:
        print_json(_to_document(entry, with_body=True))
        return
    print_table(_ENTRY_COLUMNS, [_entry_cells(entry)])
    print_line("")
    if isinstance(entry.body, bytes):
        print_block(escape_lines(base64.b64encode(entry.body).decode()), 0)
    else:
        print_block(escape_lines(json_text(entry.body)), 0)


def _to_document(entry: holdfast.types.Entry, *, with_body: bool) -> dict[str, Any]:
    """An entry as JSON. Bytes are in base64, under another name."""
    document: dict[str, Any] = {
        "kind": entry.kind,
        "key": entry.key,
        "parent": entry.parent,
        "seq": entry.seq,
        "at_us": entry.at_us,
        "size": entry.size,
    }
    if with_body and isinstance(entry.body, bytes):
        document["base64"] = base64.b64encode(entry.body).decode()
    elif with_body:
        document["body"] = entry.body
    return document
