"""Promise 11: whatever is edited, deleted, reordered or cut off behind the engine's back, `verify` finds it and says where.

Out of reach of a chain without a key is only a forger who makes every hash, head and count anew.
"""

from __future__ import annotations

import glob
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import apsw
import pytest

import holdfast
from holdfast import Image
from holdfast.model.rows import ChunkRow, EntryRow, FrameRow, HandleRow, PageRow, TokenRow
from holdfast.storage.sqlite.migrate import shipped_migrations
from holdfast.types import Body
from tests.edges.engines import RepeatableIds
from tests.support import SteppingClock, figure

ROWS = ("session_rows", "blob_rows", "frame_rows", "handle_rows", "page_rows", "token_rows", "entry_rows", "chunk_rows")
"""The tables of rows that the history has something for."""

SNAPSHOTTED = 130
"""Messages of the one session that is long enough for a snapshot."""


class Pristine(NamedTuple):
    """A sound file, and the salt and payload that its erasure took from (tenant, seq)."""

    path: Path
    erased: dict[tuple[str, int], tuple[bytes | None, bytes | None]]


class Victim(NamedTuple):
    """A copy to be edited."""

    path: Path
    connection: apsw.Connection
    rng: random.Random
    erased: dict[tuple[str, int], tuple[bytes | None, bytes | None]]

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self.connection.execute(statement, values))

    def pick(self, query: str, *values: Any) -> tuple[Any, ...]:
        return self.rng.choice(self.run(query, *values))

    def streams(self, stream_no: int) -> list[str]:
        """The stream of this number as reports name it; none if it is not there or its names cannot be read."""
        found = self.run("SELECT tenant, kind, key FROM streams WHERE stream_no = ? AND json_valid(key)", stream_no)
        return [f"{kind} {tenant}/{'/'.join(json.loads(key))}" for tenant, kind, key in found]

    def stream(self, stream_no: int) -> str:
        (name,) = self.streams(stream_no)
        return name


Edit: TypeAlias = Callable[[Victim], Sequence[str]]
"""Does the damage, and gives the places of which verify must name one."""


def write_history(engine: holdfast.Engine) -> dict[tuple[str, int], tuple[bytes | None, bytes | None]]:
    """Two tenants, threads, keys, causes, blobs, a snapshot, frames, closings and erasures."""
    erased: dict[tuple[str, int], tuple[bytes | None, bytes | None]] = {}
    for tenant in ("acme", "bolt"):
        mine = engine.acting_as(tenant=tenant)
        for number in range(4):
            thread = f"t{number}" if number % 2 else None
            session = mine.create_session(f"s{number}", thread=thread, metadata={"n": number}, key=f"create {number}")
            for each in range(8):
                key = f"{number}/{each}" if each % 2 else None
                made = session.record("user", f"text {each} of {number}", key=key)
            session.record("user", Body(mine.blobs.put(random.Random(number).randbytes(1_000))), cause=made.id)
            image = session.record("user", Image(url="https://example.org/a.png"))
            if number == 0:
                work_in_frames(session)
                session.entries.append(
                    "checkpoint", "first", {"messages": [f"message {each}" * 40 for each in range(9)]}
                )
                session.entries.append("checkpoint", "k" * 300, b"bytes", parent="first")
            if number == 3:
                session.handles.page_out(f"h{image.seq}_0")
            if number == 1:
                erased |= {
                    (tenant, each.seq): (each.salt, each.payload) for each in session.events() if each.seq in (3, 4)
                }
                session.erase([3, 4], "asked to")
            if number == 2:
                session.end("done", key="close")
    long, short = (engine.acting_as(tenant="acme").create_session(name) for name in ("long", "short"))
    for each in range(SNAPSHOTTED):
        long.record("assistant", f"step {each}")
        if each % 10 == 0:
            short.record("user", f"aside {each}")
    return erased


def work_in_frames(session: holdfast.Session) -> None:
    root = session.frame("compare", budget=1_000, timeout_s=3_600)
    root.handles.add("document", "what is on the page", source="page")
    root.frame("read", budget=100).pop("completed", "read")
    root.suspend("a question")


def write_forks(engine: holdfast.Engine) -> None:
    """A session with a fact, a fork of it, and a fork of the fork."""
    engine.create_session("other").record("user", Body(engine.blobs.put(b"body")))
    session = engine.create_session("s")
    for number in range(4):
        session.record("user", f"text {number}")
    session.facts.set("city", "Lisbon")
    for name in ("fork", "fork of the fork"):
        session = session.fork(as_=name)
        session.record("user", f"text of the {name}")


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    path = tmp_path_factory.mktemp("forked") / "log.db"
    with holdfast.open(path, clock=SteppingClock(), ids=RepeatableIds()) as engine:
        write_forks(engine)
    return Pristine(path, {})


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    path = tmp_path_factory.mktemp("pristine") / "log.db"
    with holdfast.open(path, clock=SteppingClock(), ids=RepeatableIds()) as engine:
        erased = write_history(engine)
    assert not Path(f"{path}-wal").exists(), "the whole history must be in the one file that is copied"
    return Pristine(path, erased)


def report_after(
    pristine: Pristine, folder: Path, seed: str, edit: Edit
) -> tuple[Sequence[str], holdfast.types.VerificationReport]:
    path = folder / "victim.db"
    shutil.copy(pristine.path, path)
    shutil.copytree(f"{pristine.path}.blobs", f"{path}.blobs", dirs_exist_ok=True)
    connection = apsw.Connection(str(path))
    try:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        places = edit(Victim(path, connection, random.Random(seed), pristine.erased))
    finally:
        connection.close()
    with holdfast.open(path) as engine:
        return places, engine.admin.verify()


# One column of one row


class Column(NamedTuple):
    table: str
    name: str
    kind: str
    nullable: bool
    key: tuple[str, ...]
    owned: bool
    """Whether the rows of its table belong to a stream."""

    def __str__(self) -> str:
        return f"edited {self.table}.{self.name}"


def columns() -> list[Column]:
    """Every column that a file has today."""
    connection = apsw.Connection(":memory:")
    for migration in shipped_migrations():
        connection.execute(migration.sql)
    found: list[Column] = []
    for table in ("events", "streams", "snapshots", "log_totals", *ROWS):
        info = list(connection.execute(f"PRAGMA table_info({table})"))
        names = [row[1] for row in info]
        key = tuple(row[1] for row in info if row[5])
        found += [Column(table, row[1], row[2], not row[3], key, "stream_no" in names) for row in info]
    connection.close()
    return found


def another(rng: random.Random, old: Any, column: Column) -> Any:
    """A value that the column can hold and that is not the old one: sometimes close to it, sometimes far off."""
    new: Any = old
    while new == old:
        if old is not None and column.nullable and column.name not in column.key and rng.random() < 0.2:
            return None
        if column.kind == "INTEGER":
            new = rng.choice(((old or 0) + rng.choice((-1, 1, 7)), rng.randint(-5, 500), rng.randint(0, 1 << 60)))
        elif column.kind == "TEXT":
            text, at = old or "x", rng.randrange(len(old or "x") + 1)
            new = rng.choice((text[:at] + rng.choice("az09/é") + text[at:], text[:at] + text[at + 1 :], text[::-1], ""))
        else:
            body = bytearray(old or b"\0")
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            new = rng.choice((bytes(body), bytes(body[:-1]), bytes(body) + b"\0", rng.randbytes(len(body))))
    return new


def column_edit(column: Column) -> Edit:
    where = " AND ".join(f"{each} = ?" for each in column.key)
    owner = "stream_no" if column.owned else "0"

    def edit(victim: Victim) -> Sequence[str]:
        while True:
            stream_no, old, *key = victim.pick(
                f"SELECT {owner}, {column.name}, {', '.join(column.key)} FROM {column.table}"
            )
            new = another(victim.rng, old, column)
            before = victim.streams(stream_no)
            if column.table == "events" and column.name not in ("position", "stream_no", "seq"):
                seq = victim.run("SELECT seq FROM events WHERE position = ?", *key)[0][0]
                places = [f"event {seq} of {name}" for name in before]
            else:
                places = [*before, column.table, "the store"]
            try:
                victim.run(f"UPDATE {column.table} SET {column.name} = ? WHERE {where}", new, *key)
            except apsw.ConstraintError:  # the place is taken: another value, another row
                continue
            if column.table == "streams" or column.name == "stream_no":
                places += victim.streams(new if column.name == "stream_no" else stream_no)
            return places

    return edit


# Whole rows


def deleted_row(table: str, *key: str) -> Edit:
    def edit(victim: Victim) -> Sequence[str]:
        row = victim.pick(f"SELECT {', '.join(key)} FROM {table}")
        victim.run(f"DELETE FROM {table} WHERE {' AND '.join(f'{each} = ?' for each in key)}", *row)
        return [table, "the store"]

    return edit


def swapped(columns: Sequence[str], pairs: str) -> Edit:
    """Two events, chosen by a condition on the earlier one `a` and the later one `b`, exchange the values of columns."""

    def edit(victim: Victim) -> Sequence[str]:
        one, other, stream_no = victim.pick(
            "SELECT a.position, b.position, a.stream_no FROM events a JOIN events b ON a.position < b.position "
            f"WHERE {pairs}"
        )
        places = [victim.stream(stream_no), "the store"]
        names = [row[1] for row in victim.run("PRAGMA table_info(events)")]
        taken = victim.run("DELETE FROM events WHERE position IN (?, ?) RETURNING *", one, other)
        mine, theirs = (dict(zip(names, row, strict=True)) for row in taken)
        for row, values in (({**mine}, theirs), ({**theirs}, mine)):
            row |= {name: values[name] for name in columns}
            victim.run(f"INSERT INTO events VALUES ({', '.join('?' * len(names))})", *row.values())
        return places

    return edit


SAME_STREAM = "a.stream_no = b.stream_no AND a.payload IS NOT NULL AND b.payload IS NOT NULL"
OTHER_STREAM = "a.stream_no <> b.stream_no AND a.payload IS NOT NULL AND b.payload IS NOT NULL"
NEIGHBOURS = "b.position = a.position + 1 AND a.stream_no <> b.stream_no"
"""Side by side in the feed, of different streams: an exchange keeps the order within both."""


def cut_tail(*, with_head: bool) -> Edit:
    def edit(victim: Victim) -> Sequence[str]:
        stream_no, last = victim.pick(
            "SELECT stream_no, seq FROM events JOIN streams USING (stream_no) WHERE seq < streams.version"
        )
        cut_after(victim, stream_no, last, with_head=with_head)
        return ["the store"] if with_head else [victim.stream(stream_no)]

    return edit


def cut_after(victim: Victim, stream_no: int, last: int, *, with_head: bool) -> None:
    victim.run("DELETE FROM events WHERE stream_no = ? AND seq > ?", stream_no, last)
    if with_head:
        victim.run(
            "UPDATE streams SET (version, hash) = (SELECT seq, hash FROM events WHERE stream_no = ?1 AND seq = ?2) "
            "WHERE stream_no = ?1",
            stream_no,
            last,
        )


def removed_stream(victim: Victim) -> Sequence[str]:
    (stream_no,) = victim.pick("SELECT stream_no FROM streams")
    remove_stream(victim, stream_no)
    return ["the store"]


def remove_stream(victim: Victim, stream_no: int) -> None:
    """With its head and everything else that speaks of it."""
    for table in ("events", "snapshots", *ROWS, "streams"):
        victim.run(f"DELETE FROM {table} WHERE stream_no = ?", stream_no)


EVENT = (
    "stream_no, seq, command, ordinal, type, version, time_us, principal, cause, key, command_digest, payload_digest, "
    "hash, salt, payload"
)


def doubled_event(stream: str) -> Edit:
    """A copy of an event at the end of a stream: of its own or of another."""

    def edit(victim: Victim) -> Sequence[str]:
        (position,) = victim.pick("SELECT position FROM events")
        own = victim.run("SELECT stream_no FROM events WHERE position = ?", position)[0][0]
        (target,) = victim.pick(f"SELECT stream_no FROM streams WHERE stream_no {stream} ?", own)
        victim.run(
            f"INSERT INTO events (position, {EVENT}) SELECT (SELECT max(position) + 1 FROM events), "
            f"{EVENT.replace('stream_no, seq', '?2, (SELECT version + 1 FROM streams WHERE stream_no = ?2)')} "
            "FROM events WHERE position = ?1",
            position,
            target,
        )
        return [victim.stream(target)]

    return edit


def changed(table: str, change: str, where: str) -> Edit:
    """A change to one of these rows, chosen for what it spares."""

    def edit(victim: Victim) -> Sequence[str]:
        row_id = "position" if table == "events" else "stream_no"
        chosen, stream_no = victim.pick(f"SELECT {row_id}, stream_no FROM {table} WHERE {where}")
        before = victim.streams(stream_no)
        victim.run(f"UPDATE {table} SET {change} WHERE {row_id} = ?", chosen)
        return [*before, *victim.streams(stream_no), table, "the store"]

    return edit


def seemingly_erased(where: str) -> Edit:
    """A payload taken away with its salt, as an erasure does, but no erasure says so."""
    return changed("events", "payload = NULL, salt = NULL", f"payload IS NOT NULL AND {where}")


def given_away(table: str) -> Edit:
    """All rows of a stream laid at another's door."""

    def edit(victim: Victim) -> Sequence[str]:
        (stream_no,) = victim.pick(f"SELECT DISTINCT stream_no FROM {table}")
        (other,) = victim.pick("SELECT stream_no FROM streams WHERE stream_no <> ?", stream_no)
        victim.run(f"UPDATE {table} SET stream_no = ? WHERE stream_no = ?", other, stream_no)
        return [victim.stream(stream_no), table, "the store"]

    return edit


def put_back(victim: Victim) -> Sequence[str]:
    """What was erased is there again, as it was."""
    (tenant, seq), (salt, payload) = victim.rng.choice(list(victim.erased.items()))
    (stream_no,) = victim.pick(
        "SELECT stream_no FROM events JOIN streams USING (stream_no) WHERE type = 'payloads.erased' AND tenant = ?",
        tenant,
    )
    victim.run("UPDATE events SET salt = ?, payload = ? WHERE stream_no = ? AND seq = ?", salt, payload, stream_no, seq)
    return [victim.stream(stream_no)]


def added_row(table: str, **changed: str) -> Edit:
    """A copy of a row under another name."""

    def edit(victim: Victim) -> Sequence[str]:
        names = [row[1] for row in victim.run(f"PRAGMA table_info({table})")]
        chosen = ", ".join(changed.get(name, name) for name in names)
        victim.run(f"INSERT INTO {table} SELECT {chosen} FROM {table} ORDER BY random() LIMIT 1")
        return [table, "the store"]

    return edit


# Forks


BEGINNING = "type IN ('session.forked', 'ledger.forked')"


class Beginning(NamedTuple):
    """The first event of a fork."""

    stream_no: int
    seq: int
    position: int
    content: dict[str, Any]
    parent_no: int

    @classmethod
    def pick(cls, victim: Victim, where: str = BEGINNING) -> Beginning:
        stream_no, seq, position, payload, tenant, kind = victim.pick(
            "SELECT stream_no, seq, position, payload, tenant, kind FROM events JOIN streams USING (stream_no) "
            f"WHERE {where}"
        )
        content = json.loads(payload)
        ((parent_no,),) = victim.run(
            "SELECT stream_no FROM streams WHERE (tenant, kind, key) = (?, ?, ?)",
            tenant,
            kind,
            json.dumps(content["parent"], separators=(",", ":")),
        )
        return cls(stream_no, seq, position, content, parent_no)


def changed_beginning(change: Callable[[dict[str, Any]], object]) -> Edit:
    """A fork that says something else of the events that it shares."""

    def edit(victim: Victim) -> Sequence[str]:
        first = Beginning.pick(victim)
        change(first.content)
        payload = json.dumps(first.content, separators=(",", ":")).encode()
        victim.run("UPDATE events SET payload = ? WHERE position = ?", payload, first.position)
        return [f"event {first.seq} of {victim.stream(first.stream_no)}"]

    return edit


def moved_beginning(victim: Victim) -> Sequence[str]:
    """A fork that begins earlier, in place of events that it shares."""
    first = Beginning.pick(victim)
    victim.run("UPDATE events SET seq = ? WHERE position = ?", victim.rng.randint(1, first.seq - 1), first.position)
    return [victim.stream(first.stream_no)]


def deleted_beginning(victim: Victim) -> Sequence[str]:
    first = Beginning.pick(victim)
    victim.run("DELETE FROM events WHERE position = ?", first.position)
    return [victim.stream(first.stream_no)]


def changed_shared(statement: str) -> Edit:
    """A change to an event that a fork shares, in the stream that stores it."""

    def edit(victim: Victim) -> Sequence[str]:
        first = Beginning.pick(victim)
        (seq,) = victim.pick("SELECT seq FROM events WHERE stream_no = ? AND seq < ?", first.parent_no, first.seq)
        victim.run(statement, first.parent_no, seq)
        return [victim.stream(first.parent_no)]

    return edit


def changed_base(victim: Victim) -> Sequence[str]:
    """Another hash of the event that a fork continues."""
    first = Beginning.pick(victim)
    victim.run(
        "UPDATE events SET hash = randomblob(32) WHERE stream_no = ? AND seq = ?", first.parent_no, first.seq - 1
    )
    return [f"event {first.seq} of {victim.stream(first.stream_no)}"]


def cut_parent(victim: Victim) -> Sequence[str]:
    """The tail of the parent is cut off with some shared events, and its head is moved."""
    first = Beginning.pick(victim, "type = 'session.forked'")
    (last,) = victim.pick("SELECT seq FROM events WHERE stream_no = ? AND seq < ?", first.parent_no, first.seq - 1)
    cut_after(victim, first.parent_no, last, with_head=True)
    return [victim.stream(first.stream_no)]


def removed_parent(victim: Victim) -> Sequence[str]:
    first = Beginning.pick(victim)
    remove_stream(victim, first.parent_no)
    return [victim.stream(first.stream_no)]


# Bodies


def blob_files(victim: Victim) -> list[str]:
    return sorted(glob.glob(f"{victim.path}.blobs/*/*/*.zst"))


def edited_blob(change: Callable[[random.Random, bytes], bytes]) -> Edit:
    def edit(victim: Victim) -> Sequence[str]:
        path = victim.rng.choice(blob_files(victim))
        body = Path(path).read_bytes()
        Path(path).write_bytes(change(victim.rng, body))
        return [os.path.basename(path).removesuffix(".zst")]

    return edit


def flipped(rng: random.Random, body: bytes) -> bytes:
    """One bit, past the frame's header: that says how to read the body, and has bits that say nothing."""
    at = rng.randrange(len(body) // 2, len(body))
    return body[:at] + bytes([body[at] ^ 1 << rng.randrange(8)]) + body[at + 1 :]


def removed_blob(victim: Victim) -> Sequence[str]:
    path = victim.rng.choice(blob_files(victim))
    os.unlink(path)
    return [os.path.basename(path).removesuffix(".zst")]


def exchanged_blobs(victim: Victim) -> Sequence[str]:
    one, other = victim.rng.sample(sorted(glob.glob(f"{blob_files(victim)[0].rsplit('/', 2)[0]}/*/*.zst")), 2)
    mine, theirs = Path(one).read_bytes(), Path(other).read_bytes()
    Path(one).write_bytes(theirs)
    Path(other).write_bytes(mine)
    return [os.path.basename(one).removesuffix(".zst")]


EDITS: dict[str, Edit] = {
    **{str(column): column_edit(column) for column in columns()},
    "deleted event": deleted_row("events", "position"),
    "deleted head": deleted_row("streams", "stream_no"),
    "deleted totals": deleted_row("log_totals", "one"),
    "deleted session row": deleted_row("session_rows", "tenant", "actor", "session", "thread"),
    "deleted blob row": deleted_row("blob_rows", "tenant", "digest", "actor", "session", "thread", "seq"),
    **{
        f"deleted row of {table.table}": deleted_row(table.table, *table.key)
        for table in (FrameRow, HandleRow, PageRow, TokenRow, EntryRow, ChunkRow)
    },
    "added head": added_row("streams", stream_no="stream_no + 1000", key="""'["main","new"]'"""),
    "added session row": added_row("session_rows", session="'new'"),
    "added blob row": added_row("blob_rows", seq="seq + 1"),
    "added frame row": added_row("frame_rows", frame="frame + 1000"),
    "added handle row": added_row("handle_rows", handle="handle + 1000"),
    "added page row": added_row("page_rows", piece="piece + 1"),
    "added entry row": added_row("entry_rows", entry="'new'"),
    "added chunk row": added_row("chunk_rows", digest="'new'"),
    "added token row": added_row("token_rows", digest="'new'"),
    "swapped payloads in a stream": swapped(("salt", "payload"), SAME_STREAM),
    "swapped payloads of two streams": swapped(("salt", "payload"), OTHER_STREAM),
    "swapped payloads with their digests": swapped(("salt", "payload", "payload_digest"), SAME_STREAM),
    "swapped seqs": swapped(("seq",), "a.stream_no = b.stream_no"),
    "swapped streams": swapped(("stream_no",), "a.stream_no <> b.stream_no AND a.seq = b.seq"),
    "swapped positions in a stream": swapped(("position",), "a.stream_no = b.stream_no"),
    "swapped positions of two streams": swapped(("position",), NEIGHBOURS),
    "event hidden from the feed": changed("events", "position = -position", "seq = 1"),
    "snapshot of no version": changed("snapshots", "version = 0", "true"),
    "snapshot of another format": changed("snapshots", "format = format + 1", "true"),
    "session row of another stream": given_away("session_rows"),
    "blob rows of another stream": given_away("blob_rows"),
    "frame rows of another stream": given_away("frame_rows"),
    "handle rows of another stream": given_away("handle_rows"),
    "page rows of another stream": given_away("page_rows"),
    "entry rows of another stream": given_away("entry_rows"),
    "chunk rows of another stream": given_away("chunk_rows"),
    "token rows of another stream": given_away("token_rows"),
    "unreadable stream names": changed("streams", "key = substr(key, 2)", "true"),
    "too few stream names": changed("streams", """key = '["main"]'""", "true"),
    "unknown kind of stream": changed("streams", "kind = 'sessions'", "true"),
    "cut-off tail": cut_tail(with_head=False),
    "cut-off tail with the head moved": cut_tail(with_head=True),
    "removed stream": removed_stream,
    "doubled event in its stream": doubled_event("="),
    "doubled event in another stream": doubled_event("<>"),
    "seemingly erased text": seemingly_erased("instr(payload, CAST('\"text\"' AS BLOB))"),
    "seemingly erased image": seemingly_erased("instr(payload, CAST('\"image\"' AS BLOB))"),
    "seemingly erased creation": seemingly_erased("type = 'session.created'"),
    "seemingly erased closing": seemingly_erased("type = 'session.closed'"),
    "seemingly erased erasure": seemingly_erased("type = 'payloads.erased'"),
    "erased payload put back": put_back,
    "flipped bit in a blob": edited_blob(flipped),
    "cut-off blob": edited_blob(lambda rng, body: body[: rng.randrange(len(body))]),
    "removed blob": removed_blob,
    "exchanged blobs": exchanged_blobs,
}
FORK_EDITS: dict[str, Edit] = {
    "fork of another parent": changed_beginning(lambda content: content["parent"].append("x")),
    "fork with another cut": changed_beginning(lambda content: content.update(cut=content["cut"] - 1)),
    "fork with a lineage that ends early": changed_beginning(lambda content: content["lineage"].pop()),
    "fork with another lineage": changed_beginning(lambda content: content["lineage"][0]["key"].append("x")),
    "fork without a lineage": changed_beginning(lambda content: content.pop("lineage")),
    "fork that begins earlier": moved_beginning,
    "deleted beginning of a fork": deleted_beginning,
    "seemingly erased beginning of a fork": seemingly_erased(BEGINNING),
    "another hash where a fork begins": changed("events", "hash = randomblob(32)", BEGINNING),
    "another hash before a fork begins": changed_base,
    "session row of a fork with another parent": changed(
        "session_rows", 'parent = \'["main","other"]\'', "parent <> ''"
    ),
    "session row of a fork without a parent": changed("session_rows", "parent = '', cut = 0", "parent <> ''"),
    "session row of a fork with another cut": changed("session_rows", "cut = cut - 1", "parent <> ''"),
    "session row of a session as a fork": changed(
        "session_rows", 'parent = \'["main","other"]\', cut = 2', "parent = ''"
    ),
    "edited shared event": changed_shared(
        "UPDATE events SET payload = CAST(payload || ' ' AS BLOB) WHERE stream_no = ? AND seq = ?"
    ),
    "deleted shared event": changed_shared("DELETE FROM events WHERE stream_no = ? AND seq = ?"),
    "deleted shared events": changed_shared("DELETE FROM events WHERE stream_no = ? AND seq >= ?"),
    "shared events cut off with the head moved": cut_parent,
    "removed parent": removed_parent,
}
EACH = figure(2, 25)

pytestmark = pytest.mark.promise(
    11, f"rows edited, deleted, reordered or truncated: {EACH * len(EDITS | FORK_EDITS):,}"
)
assert EACH * len(EDITS) > figure(200, 1_000)


@pytest.mark.parametrize("kind", EDITS)
def test_verify_finds_and_locates(pristine: Pristine, tmp_path: Path, kind: str) -> None:
    check_edits(pristine, tmp_path, kind, EDITS[kind])


@pytest.mark.parametrize("kind", FORK_EDITS)
def test_verify_finds_and_locates_in_forks(forked: Pristine, tmp_path: Path, kind: str) -> None:
    check_edits(forked, tmp_path, kind, FORK_EDITS[kind])


def check_edits(pristine: Pristine, folder: Path, kind: str, edit: Edit) -> None:
    for number in range(EACH):
        places, report = report_after(pristine, folder, f"{kind} {number}", edit)
        found = [str(problem) for problem in report.problems]
        assert found, f"edit {number} was not noticed (it was made to {places[0]})"
        assert any(place in problem for place in places for problem in found), (
            f"edit {number}: none of {places} in {found}"
        )


def test_verify_finds_nothing_in_a_file_that_nobody_touched(
    pristine: Pristine, forked: Pristine, tmp_path: Path
) -> None:
    assert report_after(forked, tmp_path, "", lambda _: [])[1].ok
    _, report = report_after(pristine, tmp_path, "", lambda _: [])
    assert report.problems == ()
    assert (report.streams, report.events) == (10, 261)


def test_a_lost_snapshot_changes_nothing(pristine: Pristine, tmp_path: Path) -> None:
    """A snapshot is a short cut and no part of the log: without it, the same state is replayed."""
    with holdfast.open(pristine.path, tenant="acme") as engine:
        before = engine.session("long").state()

    def forget(victim: Victim) -> Sequence[str]:
        assert victim.run("DELETE FROM snapshots RETURNING version") == [(100,)]
        return []

    _, report = report_after(pristine, tmp_path, "", forget)
    assert report.ok
    with holdfast.open(tmp_path / "victim.db", tenant="acme") as engine:
        assert engine.session("long").state() == before


def test_a_file_that_cannot_be_counted_on_refuses_writes_and_lets_go_of_its_lock(
    pristine: Pristine, tmp_path: Path
) -> None:
    """Whatever a write meets on its way in, it leaves no transaction behind: the repaired file takes writes again."""
    report_after(pristine, tmp_path, "", lambda _: [])
    connection = apsw.Connection(str(tmp_path / "victim.db"))
    with holdfast.open(tmp_path / "victim.db", tenant="acme") as engine:
        session = engine.session("long")
        totals = list(connection.execute("DELETE FROM log_totals RETURNING *"))
        for _ in range(2):
            with pytest.raises(holdfast.HoldfastError):
                session.record("user", "refused")
        connection.execute(f"INSERT INTO log_totals VALUES ({', '.join('?' * len(totals[0]))})", totals[0])
        assert session.record("user", "taken").text == "taken"
        assert engine.admin.verify().ok
    connection.close()
