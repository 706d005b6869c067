"""One file, many processes: nothing is lost or doubled, a new file is made once, and a fork is found out."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import apsw

from holdfast.storage.sqlite.migrate import shipped_migrations
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import (
    all_events,
    append_of,
    assert_sound,
    outbox_row,
    positions_in_feed_order,
    session_stream,
    stream_events,
    write_to,
)
from tests.conformance.sqlite_workers import (
    SHARED,
    append_shared_and_own,
    claim_entries,
    open_and_append,
    retry_one_key,
    run_in_processes,
)


def test_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    of_each = run_in_processes(4, append_shared_and_own, path)
    acknowledged = [each for ids in of_each for each in ids]
    store = SqliteStore(path)
    stored = [event.id for event in all_events(store)]
    positions = dict(zip(stored, positions_in_feed_order(store), strict=True))
    for ids in of_each:  # in the order in which a process was told of them
        assert ids == sorted(ids, key=positions.__getitem__)
    assert sorted(stored) == sorted(acknowledged)
    assert len(stored) == len(set(stored)) == 200
    told: dict[bytes, list[int]] = defaultdict(list)
    for event in stream_events(store, SHARED):
        number, at = (event.payload or b"").split()
        told[number].append(int(at))
    assert list(told.values()) == [list(range(25))] * 4
    assert_sound(store)
    store.close()


def test_ten_processes_make_a_new_file_once(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    ids = run_in_processes(10, open_and_append, path)
    store = SqliteStore(path)
    assert sorted(event.id for event in all_events(store)) == sorted(ids)
    assert_sound(store)
    store.close()
    raw = apsw.Connection(path)
    applied = raw.execute("SELECT number, checksum FROM migrations ORDER BY number").fetchall()
    raw.close()
    assert applied == [(migration.number, migration.checksum) for migration in shipped_migrations()]


def test_one_key_from_many_processes_is_used_once(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    SqliteStore(path).close()
    answers = run_in_processes(4, retry_one_key, path)
    assert len({event for event, _ in answers}) == 1
    assert sorted(repeated for _, repeated in answers) == [False, True, True, True]


FORKING = """
import os, sys
from holdfast.errors import ForkedHandle
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import ONE, append_of, assert_sound, fill_stream, write_to

store = SqliteStore(sys.argv[1])
fill_stream(store, ONE, 1)
uses = (
    lambda: store.append(append_of(write_to(ONE, 1))),
    lambda: store.read(ONE, limit=1),
    lambda: store.head(ONE),
    lambda: store.totals(),
    lambda: store.backup(sys.argv[1] + ".copy"),
    lambda: store.close(),
)
child = os.fork()
if child == 0:
    found_out = 0
    for use in uses:
        try:
            use()
        except ForkedHandle as error:
            found_out += (error.opener, error.user) == (os.getppid(), os.getpid())
    own = SqliteStore(sys.argv[1])
    fill_stream(own, ONE, 1)
    own.close()
    os._exit(len(uses) - found_out)
_, status = os.waitpid(child, 0)
assert status == 0, status
fill_stream(store, ONE, 1)
assert [event.seq for event in store.read(ONE, limit=9)] == [1, 2, 3]
assert_sound(store)
store.close()
"""


def test_a_handle_carried_over_a_fork_is_found_out_and_the_parent_goes_on(tmp_path: Path) -> None:
    """In a process of its own: forking one with threads is not for the faint-hearted."""
    path = tmp_path / "agent.db"
    subprocess.run([sys.executable, "-c", FORKING, str(path)], check=True, timeout=60)
    assert not path.with_name("agent.db.copy").exists()


def test_processes_share_the_entries_of_the_outbox(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    store = SqliteStore(path)
    for number in range(10):
        stream = session_stream(str(number))
        store.append(append_of(write_to(stream, 0, rows=[outbox_row(stream, entry) for entry in range(1, 6)])))
    keys = [key for keys in run_in_processes(3, claim_entries, path) for key in keys]
    assert len(keys) == len({*keys}) == 50
    assert len(store.claim_offloads("acme", owner="w", now_us=1_100, lease_us=1, limit=99)) == 50
    store.close()
