"""`holdfast stats`: how much there is, of what, and where."""

from __future__ import annotations

import heapq
import itertools
import os
from collections import Counter
from typing import Any, NamedTuple

import click

import holdfast
from holdfast import errors
from holdfast.cli import shapes
from holdfast.cli.ledgers import ALL_KINDS, of_actor
from holdfast.cli.ledgers import rows as ledger_rows
from holdfast.cli.screen import Column, Styled, bar, emit, say, table
from holdfast.cli.settings import Settings, common, resting, rows
from holdfast.cli.words import clean, size
from holdfast.ports import EventStore
from holdfast.runtime.care import BLOB_FOLDER

_SUMS = ("messages", "tokens", "open_calls", "input_tokens", "cache_read_tokens", "output_tokens")

_SERVER_BLOBS = """
SELECT (SELECT count(*) FROM blobs), (pg_total_relation_size('blobs') + pg_total_relation_size('bodies')
                                      + pg_total_relation_size('pieces'))::bigint
"""

_FIGURES = (Column("", whole=True), Column("", right=True, whole=True), Column("", whole=True))


class Sums(NamedTuple):
    """A tenant's sessions, added up."""

    statuses: Counter[str]
    sums: dict[str, int]
    largest: list[holdfast.SessionRow]


class Ledgers(NamedTuple):
    """A tenant's ledgers, by their kinds, and what was ever asserted in them."""

    kinds: Counter[str]
    facts: int


@click.command()
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="How many of the largest sessions.")
@common
@click.pass_obj
def stats(settings: Settings, top: int) -> None:
    """Count what there is, and what it used."""
    with settings.open() as engine:
        whole = _whole(settings, engine)
        sums = _added_up(engine, settings.actor, top)
        suspended = sum(1 for _ in resting(engine, settings.actor))
        ledgers = _ledgers(engine, settings.actor)
    if settings.json:
        emit(
            {
                "file": shapes.plain(whole),
                "tenant": settings.tenant,
                "actor": settings.actor,
                "sessions": {status: sums.statuses[status] for status in ("open", "closed", "destroyed")},
                **sums.sums,
                "suspended": suspended,
                "ledgers": {kind: ledgers.kinds[kind] for kind in ALL_KINDS},
                "facts": ledgers.facts,
                "largest": [shapes.row(row) for row in sums.largest],
            }
        )
        return
    say(Styled(clean(settings.shown), "bold"))
    if whole is None:
        say("How much there is in all is told to the role that owns the tables.")
    else:
        total, blobs = size(whole["bytes_on_disk"] + whole["blob_bytes"]), f"{whole['blobs']:,}"
        lines = [
            ("on disk", total, f"blobs {size(whole['blob_bytes'])} in {blobs}"),
            ("events", f"{whole['events']:,}", f"in {whole['streams']:,} streams, {whole['keys']:,} with a key"),
        ]
        table(_FIGURES, lines)
    _show_tenant(settings, sums, suspended, ledgers)


def _ledgers(engine: holdfast.Engine, actor: str | None) -> Ledgers:
    kinds: Counter[str] = Counter()
    facts = 0
    for row in ledger_rows(engine):
        if of_actor(row, actor):
            kinds[row.kind] += 1
            facts += row.facts
    return Ledgers(kinds, facts)


def _whole(settings: Settings, engine: holdfast.Engine) -> dict[str, int] | None:
    """All tenants' together; None for a role that sees one of them at a time."""
    try:
        totals: dict[str, int] = shapes.plain(engine.totals())
    except errors.RoleTooNarrow:
        return None
    if not settings.on_server:
        blobs, blob_bytes = folder_size(settings.path + BLOB_FOLDER)
        return {**totals, "blobs": blobs, "blob_bytes": blob_bytes}
    blobs, blob_bytes = _server_blobs(engine.store)
    return {**totals, "bytes_on_disk": totals["bytes_on_disk"] - blob_bytes, "blobs": blobs, "blob_bytes": blob_bytes}


def _server_blobs(store: EventStore) -> tuple[int, int]:
    """The same of a server, which counts them among its tables."""
    from holdfast.storage.postgres.log import Ask, Operation  # noqa: PLC0415 - an extra
    from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415 - the same

    def ask(_: bool) -> Operation[list[tuple[Any, ...]]]:
        return (yield Ask(None, _SERVER_BLOBS, long=True))

    assert isinstance(store, PostgresStore), "an address of a server opens nothing else"
    ((blobs, blob_bytes),) = store.run(ask)
    return blobs, blob_bytes


def _show_tenant(settings: Settings, sums: Sums, suspended: int, ledgers: Ledgers) -> None:
    found = sums.sums
    whose = f", actor {settings.actor}" if settings.actor else ""
    say("")
    say(Styled(clean(f"tenant {settings.tenant}{whose}"), "bold"))
    parts = _parts(sums.statuses)
    cached = found["cache_read_tokens"]
    lines: list[tuple[str, str, str]] = [
        ("sessions", f"{sums.statuses.total():,}", parts),
        ("messages", f"{found['messages']:,}", ""),
        ("tokens", f"{found['tokens']:,}", "in messages"),
        ("models read", f"{found['input_tokens']:,}", f"tokens, {_share(cached, found['input_tokens'])} from a cache"),
        ("models wrote", f"{found['output_tokens']:,}", "tokens"),
    ]
    if found["open_calls"]:
        lines.append(("open calls", f"{found['open_calls']:,}", "without a result so far"))
    if suspended:
        lines.append(("suspended", f"{suspended:,}", "frames that wait for their tokens"))
    if ledgers.kinds:
        lines.append(("ledgers", f"{ledgers.kinds.total():,}", _parts(ledgers.kinds)))
        lines.append(("facts", f"{ledgers.facts:,}", "asserted in all"))
    table(_FIGURES, lines)
    if sums.largest and sums.largest[0].tokens:
        say("")
        most = sums.largest[0].tokens
        columns = (Column("LARGEST"), Column("ACTOR"), Column("TOKENS", True, True), Column("MESSAGES", True, True))
        table(
            (*columns, Column("", whole=True)),
            [
                (clean(row.session), clean(row.actor), f"{row.tokens:,}", f"{row.messages:,}", bar(row.tokens / most))
                for row in sums.largest
            ],
        )


def _added_up(engine: holdfast.Engine, actor: str | None, top: int) -> Sums:
    statuses: Counter[str] = Counter()
    sums = dict.fromkeys(_SUMS, 0)
    largest: list[tuple[int, int, Any]] = []
    everything = itertools.chain(rows(engine, actor=actor), rows(engine, actor=actor, status="destroyed"))
    for number, row in enumerate(everything):
        statuses[row.status] += 1
        for name in _SUMS:
            sums[name] += getattr(row, name)
        heapq.heappush(largest, (row.tokens, -number, row))
        if len(largest) > top:
            heapq.heappop(largest)
    return Sums(statuses, sums, [row for _, _, row in sorted(largest, reverse=True)])


def _parts(counted: Counter[str]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in sorted(counted.items()))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def folder_size(folder: str) -> tuple[int, int]:
    """Bodies in a blob folder, and the bytes that they take up."""
    bodies = total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".zst"):
                bodies += 1
                total += _size_of(os.path.join(place, name))
    return bodies, total


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:  # collected while we counted
        return 0
