"""Entries against a model: a dict. Appended, deleted, erased and repeated in any order, with messages between them."""

from __future__ import annotations

import random
from typing import Any

import pytest

import holdfast
from holdfast import codec, errors
from holdfast.model.rows import ChunkRow, EntryRow
from holdfast.types import Entry, NewEntry
from tests.property.store_tools import Kind, all_rows, rows_dump, store_of_kind
from tests.support import figure

HISTORIES = figure(12, 2_000)
STEPS = 40


class Player:
    """Random steps on a session, and what must be in it."""

    def __init__(self, engine: holdfast.Engine, seed: int) -> None:
        self.rng = random.Random(seed)
        self.engine = engine
        self.session = engine.create_session("s")
        self.model: dict[str, Entry] = {}
        self.messages: list[Any] = []

    def step(self) -> None:
        self.rng.choices(
            [
                self.append,
                self.append_all,
                self.repeat,
                self.contradict,
                self.delete,
                self.erase,
                self.talk,
                self.rebuild,
            ],
            [8, 3, 2, 2, 2, 1, 2, 1],
        )[0]()

    def body(self) -> Any:
        if self.rng.random() < 0.2:
            return self.rng.randbytes(self.rng.choice([0, 10, 60_000]))
        change = self.rng.random()
        if change < 0.6 or not self.messages:
            self.messages.append({"id": self.rng.getrandbits(32), "text": "word " * self.rng.choice([1, 50, 700])})
        elif change < 0.7:
            self.messages.pop(self.rng.randrange(len(self.messages)))
        elif change < 0.75:
            self.messages.append("large " * 12_000)
        return {"messages": [*self.messages], "step": self.rng.randrange(3), "nested": [[*self.messages[-9:]], None]}

    def new(self) -> NewEntry:
        key = f"{self.rng.randrange(10**9)}" * self.rng.choice([1, 1, 40])
        parent = self.rng.choice([None, *self.model])
        return NewEntry(self.rng.choice(["checkpoint", "write"]), key, self.body(), parent)

    def note(self, new: NewEntry, entry: Entry) -> None:
        assert (entry.kind, entry.key, entry.parent) == (new.kind, new.key, new.parent)
        assert same(entry.body, new.body)
        assert all(entry.seq > other.seq for other in self.model.values())
        self.model[entry.key] = entry

    def append(self) -> None:
        new = self.new()
        self.note(new, self.session.entries.append(new.kind, new.key, new.body, parent=new.parent))

    def append_all(self) -> None:
        new = [self.new() for _ in range(3)]
        version = self.session.state().version
        with pytest.raises(errors.VersionConflict):
            self.session.entries.append_all(new, expect=version + 1)
        for each, entry in zip(new, self.session.entries.append_all(new, expect=version), strict=True):
            self.note(each, entry)

    def repeat(self) -> None:
        """What is there already comes back as it is, also beside a new one."""
        if self.model:
            entry = self.rng.choice([*self.model.values()])
            new = self.new()
            old = NewEntry(entry.kind, entry.key, entry.body, entry.parent)
            again, added = self.session.entries.append_all([old, new])
            assert (again.seq, again.at_us) == (entry.seq, entry.at_us)
            self.note(new, added)

    def contradict(self) -> None:
        if self.model:
            entry = self.rng.choice([*self.model.values()])
            version = self.session.state().version
            with pytest.raises(errors.EntryConflict):
                self.session.entries.append_all([self.new(), NewEntry(entry.kind, entry.key, "other", entry.parent)])
            assert self.session.state().version == version

    def delete(self) -> None:
        keys = self.rng.sample([*self.model], min(len(self.model), self.rng.randrange(4)))
        self.session.entries.delete([*keys, "unknown"])
        for key in keys:
            del self.model[key]

    def erase(self) -> None:
        if self.model:
            entry = self.rng.choice([*self.model.values()])
            self.session.erase([entry.seq], "asked to")
            del self.model[entry.key]

    def talk(self) -> None:
        self.session.record("user", "Meanwhile.")

    def rebuild(self) -> None:
        before = rows_dump(self.engine)
        self.engine.admin.rebuild()
        assert rows_dump(self.engine) == before

    def check(self) -> None:
        entries = self.session.entries
        expected = sorted(self.model.values(), key=lambda entry: -entry.seq)
        assert entries.list(limit=1_000) == expected
        bare = [holdfast.types.Entry(**{**as_dict(entry), "body": None}) for entry in expected]
        assert entries.list(bodies=False, limit=1_000) == bare
        for kind in ("checkpoint", "write"):
            assert entries.list(kind=kind, limit=1_000) == [entry for entry in expected if entry.kind == kind]
        for key in self.rng.sample([*self.model], min(3, len(self.model))):
            assert entries.get(key) == self.model[key]
            children = [entry for entry in expected if entry.parent == key]
            assert entries.list(parent=key) == children
            older = [entry for entry in children if entry.seq < self.model[key].seq + 9]
            assert entries.list(parent=key, before=self.model[key].seq + 9) == older
        assert entries.get("unknown") is None
        report = self.engine.admin.verify()
        assert report.ok, report.problems
        rows = [*all_rows(self.engine)]
        assert len([row for row in rows if isinstance(row, EntryRow)]) == len(self.model)
        if not self.model:
            assert not any(isinstance(row, ChunkRow) for row in rows)


def same(one: Any, other: Any) -> bool:
    return one == other if isinstance(other, bytes) else codec.encode(one) == codec.encode(other)


def as_dict(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


HISTORIES_OF = {
    "memory": range(HISTORIES),
    "sqlite": range(max(2, HISTORIES // 8)),
    "postgres": range(max(2, HISTORIES // 8)),
}


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in HISTORIES_OF.items() for seed in seeds])
def test_entries_are_what_the_model_says(kind: Kind, seed: int) -> None:
    with store_of_kind(kind) as url, holdfast.open(url) as engine:
        player = Player(engine, seed)
        for _ in range(STEPS):
            player.step()
        player.check()
        player.session.entries.delete([*player.model])
        player.model.clear()
        player.check()
