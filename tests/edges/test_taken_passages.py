"""What long-term memory has taken goes along with an export and a copy, also where its session is destroyed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import ImportRefused, StoreFeatureMissing
from holdfast.model.memory.passages import IndexMark, PassageBatch, PassageFilter, PassageQuery, StreamSpan
from holdfast.runtime.engine import Engine
from holdfast.runtime.store_features import find_index, find_queue, require_index, require_queue
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.testing.contract_passages import passage_of

VISIBLE = PassageFilter(tenant="default", user="ada")


def find(engine: Engine, *terms: str) -> list[tuple[str, int]]:
    store: Any = engine.store
    found = store.match_passages(PassageQuery(visible=VISIBLE, terms=terms, limit=9)).passages
    return sorted((each.scope.session, each.seq) for each in found)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Engine]:
    """One session that is destroyed, and one that is not: long-term memory has taken a part of both."""
    with holdfast.open(tmp_path / "source.db") as engine:
        for name in ("gone", "here"):
            session = engine.create_session(name)
            for _ in range(3):
                session.record("user", "The lion sleeps.")
            stream = session.scope.stream
            items = tuple(passage_of(stream, seq, "lion sleep") for seq in (2, 3, 4))
            store: Any = engine.store
            assert store.index_passages(
                PassageBatch(stream=stream, before=None, mark=IndexMark(version=4), passages=items)
            )
            store.take_passages(StreamSpan(stream, 2, 3))
            if name == "gone":
                session.destroy("over", offload=False)
        assert find(engine, "lion") == [("gone", 2), ("gone", 3), ("here", 2), ("here", 3)]
        yield engine


@pytest.mark.parametrize("target", ["memory:", "sqlite"])
def test_an_export_has_what_was_taken(source: Engine, tmp_path: Path, target: str) -> None:
    file = tmp_path / "all.jsonl"
    source.admin.export(file)
    with holdfast.open(tmp_path / "other.db" if target == "sqlite" else target) as engine:
        for _ in range(2):
            engine.admin.import_(file)
            assert find(engine, "lion") == find(source, "lion")
        assert engine.admin.verify().ok


def test_a_copy_has_what_was_taken(source: Engine, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "other.db") as engine:
        for _ in range(2):
            holdfast.copy(source, engine)
            assert find(engine, "lion") == find(source, "lion")
        assert engine.admin.verify().ok


FORGERIES = {
    b'"seq":2': (b'"seq":99', "event 99"),
    b'"part":0': (b'"part":4294967296', "out of range"),
    b'"user":"ada"': (b'"user":"a\\nb"', "user_id"),
    b'"requires":[]': (b'"requires":[' + b",".join([b'"p%d"' % each for each in range(5_000)]) + b"]", "permissions"),
}


@pytest.mark.parametrize("right", FORGERIES)
def test_a_passage_that_no_export_has_is_refused(source: Engine, tmp_path: Path, right: bytes) -> None:
    wrong, reason = FORGERIES[right]
    file = tmp_path / "all.jsonl"
    source.admin.export(file)
    *lines, end = file.read_bytes().splitlines(keepends=True)
    before = hashlib.sha256(b"".join(lines)).hexdigest().encode()
    passage = next(line for line in lines if b'"passage"' in line)
    assert right in passage
    lines.append(passage.replace(right, wrong))
    after = hashlib.sha256(b"".join(lines)).hexdigest().encode()
    assert before in end
    file.write_bytes(b"".join(lines) + end.replace(before, after))
    with holdfast.open("memory:") as engine, pytest.raises(ImportRefused, match=reason):
        engine.admin.import_(file)


def test_a_store_without_an_index_opens_and_says_what_is_missing() -> None:
    class Plain:
        """An event store of one's own, which knows nothing of passages."""

        def __init__(self) -> None:
            self._inner = MemoryStore()

        def __getattr__(self, name: str) -> Any:
            if "passage" in name or "offload" in name or name in ("deliveries", "index_marks", "put_vectors"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    store: Any = Plain()
    with holdfast.open(store, blobs=MemoryBlobs()) as engine:
        engine.create_session("talk").record("user", "Hello.")
        assert (find_index(engine.store), find_queue(engine.store)) == (None, None)
        with pytest.raises(StoreFeatureMissing, match="Plain has no PassageIndex"):
            require_index(engine.store)
        with pytest.raises(StoreFeatureMissing, match="claim_offloads"):
            require_queue(engine.store)
