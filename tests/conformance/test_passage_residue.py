"""Erased and forgotten passages leave no byte in the files of a store: neither text, nor terms, nor vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.model.memory.passages import IndexMark, MemorySubject, PassageBatch, PassageKey, StreamSpan
from holdfast.model.names import Scope
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.storage.vectors import pack_vector
from holdfast.testing.appends import ONE, TWO, append_of, write_to
from holdfast.testing.contract_passages import ada, passage_of, put_passages, seqs_of

SECRET, USER, SPEAKER = "xylophonist", "winnifred", "Bartholomew"
VECTOR = (0.25, 0.5, 0.75, 0.125)
NEEDLES = (b"ylophoni", b"innifre", b"artholome", pack_vector(VECTOR)[:12])
"""Parts of them: an index shares the beginnings of its terms, and may cut them anywhere."""


def find_residue(store: SqliteStore) -> list[bytes]:
    files = [Path(store.path + ending) for ending in ("", "-wal")]
    found = b"".join(file.read_bytes() for file in files if file.exists())
    return [needle for needle in NEEDLES if needle in found]


def erase(store: SqliteStore) -> None:
    store.append(append_of(write_to(ONE, 40, erase=(7,))))


def destroy(store: SqliteStore) -> None:
    write = msgspec.structs.replace(write_to(ONE, 40, erase=(7,)), keeps_taken=True)
    store.append(append_of(write))


WAYS: dict[str, Callable[[SqliteStore], object]] = {
    "erased": erase,
    "adopted": lambda store: store.adopt((), {ONE: []}, {ONE: [7]}),
    "user forgotten": lambda store: store.forget_passages(MemorySubject(tenant="acme", user=USER)),
    "session forgotten": lambda store: store.forget_passages(
        MemorySubject(tenant="acme", scope=Scope.from_stream(ONE))
    ),
    "message forgotten": lambda store: store.forget_passages(
        MemorySubject(tenant="acme", scope=Scope.from_stream(ONE), seqs=(7,))
    ),
}


def fill(store: SqliteStore, *, is_taken: bool) -> None:
    """A secret among other passages, in a session whose user and speaker are secret too."""
    others = [passage_of(ONE, seq, f"lion word{seq} zebra{seq % 3}", user="bo") for seq in range(1, 41) if seq != 7]
    secret = passage_of(ONE, 7, f"the {SECRET} plays", user=USER, speaker=SPEAKER)
    put_passages(store, *others, secret, is_taken=is_taken)
    put_passages(store, *(passage_of(TWO, seq, f"lion more{seq}") for seq in range(1, 30)))
    before = store.index_marks([ONE])[ONE]
    mark = IndexMark(version=40, places=40, user=USER, speaker=SPEAKER)
    assert store.index_passages(PassageBatch(stream=ONE, before=before, mark=mark, passages=()))
    if is_taken:
        store.take_passages(StreamSpan(ONE, 1, 40))
    store.put_vectors("e", [(PassageKey(ONE, 7, 0), VECTOR), (PassageKey(ONE, 8, 0), (1.0, 0.0, 0.0, 0.0))])


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_no_byte_of_a_removed_passage_stays_in_the_files(tmp_path: Path, way: str, is_taken: bool) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    fill(store, is_taken=is_taken)
    assert len(find_residue(store)) == len(NEEDLES)
    WAYS[way](store)
    assert find_residue(store) == []
    assert store.check() == ()
    store.close()
    assert find_residue(store) == []


def test_a_destroyed_session_leaves_only_what_was_taken(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    fill(store, is_taken=False)
    destroy(store)
    assert find_residue(store) == []
    store.close()


def test_a_backup_has_the_passages(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    put_passages(store, passage_of(ONE, 1, "lion"))
    store.backup(str(tmp_path / "copy.db"))
    store.close()
    copy = SqliteStore(tmp_path / "copy.db")
    assert seqs_of(copy, ada(), "lion") == [1]
    assert copy.check() == ()
    copy.close()


def test_a_check_notices_what_does_not_belong_together(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    put_passages(store, passage_of(ONE, 1, "lion"), passage_of(ONE, 2, "zebra"))
    store._write(
        lambda log: log.connection.execute("DELETE FROM passage_words WHERE rowid = (SELECT max(row_no) FROM passages)")
    )
    store._write(lambda log: log.connection.execute("INSERT INTO passage_words (rowid, terms) VALUES (99, 'lion')"))
    store._write(lambda log: log.connection.execute("UPDATE passage_shelves SET size = 7 WHERE size = 2"))
    faults = "; ".join(store.check())
    for part in ("has no words in the index", "words of passage 99", "does not have as many passages"):
        assert part in faults
    store.close()
