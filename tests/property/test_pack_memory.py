"""What an engine remembers of its last packs changes no pack: one that has packed before builds the same bytes and the same
manifest as one that was just opened, whatever happened to the facts, here or in another engine."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import codec
from holdfast.core.history.guard import GuardMemory
from holdfast.flows.history.guard import load_candidates
from holdfast.flows.packs.memory import FactMaterial, LastPack, PackMemory
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.model.sessions.layers import Identity
from holdfast.text.guard.finder import lookup_terms
from tests.edges.engines import ManualClock

NOUNS = ("garden", "invoice", "harbour", "ticket")
CITIES = ("Kiel", "Emden", "Lyon", "Porto", "Turin", "Malaga", "Riga", "Bergen")
READERS = {"all": Identity(user_id="ada", permissions=("payroll",)), "some": Identity(user_id="bob")}
DAY_S = 86_400
STEPS = 14


class World:
    """One file, two engines that stay open, and a session of a reader with a permission and of one without."""

    def __init__(self, path: Path, seed: int) -> None:
        self._random, self._path, self._clock = Random(seed), path, ManualClock()
        self.engines = [self.open(), self.open()]
        organization = self.engines[0].ledger(organization="acme")
        for name, identity in READERS.items():
            self.engines[0].create_session(name, identity=identity, ledgers=[organization.id])

    def open(self) -> holdfast.Engine:
        return holdfast.open(self._path, clock=self._clock)

    def change(self) -> None:
        """Change a fact, or only the time or the conversation, by any of the engines."""
        random, engine = self._random, self._random.choice(self.engines)
        ledger = engine.ledger(organization="acme")
        session = engine.session(random.choice([*READERS]))
        key, value = f"{random.choice(NOUNS)} {random.randrange(4)}", f"Gate {random.randrange(90) + 100}"
        match random.randrange(9):
            case 0 | 1:
                ledger.set(key, value)
            case 2:
                ledger.set(key, value, requires=["payroll"])
            case 3:
                ledger.set(key, value, ttl_s=random.choice([60, DAY_S]), is_constraint=random.random() < 0.3)
            case 4:
                ledger.set(key, value, valid_from_us=self._clock.now_us() + DAY_S * 1_000_000)
            case 5:
                session.facts.set(key, value)
            case 6:
                facts = ledger.items()
                if facts:
                    ledger.erase(random.choice(facts).id, "asked to")
            case 7:
                self._clock.now_s += random.choice([30, DAY_S])
            case _:
                session.record("user", f"The {key} was at {value}. What was {random.choice(NOUNS)} 1 before?")

    def pack(self, engine: holdfast.Engine, name: str, query: str | None) -> tuple[str, bytes]:
        pack: Any = engine.session(name).pack(query, budget=2_000, audit=name == "some")
        return str(pack), codec.encode(pack.manifest)

    def check(self) -> None:
        query = self._random.choice([None, None, "Where is invoice 2?"])
        for name in READERS:
            self.pack(self.engines[0], name, query)  # what there is to redact is redacted before the comparison
            with self.open() as fresh:
                expected = self.pack(fresh, name, query)
            for engine in self.engines:
                assert self.pack(engine, name, query) == expected
                assert self.pack(engine, name, query) == expected

    def close(self) -> None:
        for engine in self.engines:
            engine.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_pack_is_the_same_with_and_without_a_memory(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "a.db", seed)
    try:
        for _ in range(STEPS):
            world.change()
            world.check()
    finally:
        world.close()


@pytest.mark.parametrize("most", [limits.READ_EVENTS, 4])
def test_the_guard_reads_the_same_facts_with_and_without_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    random, memory, read = Random(most), GuardMemory(), list[int]()
    with holdfast.open(tmp_path / "a.db") as engine:
        ledger = engine.ledger(organization="acme")
        common: list[Any] = [{"key": "notes", "value": "yes"}, {"key": "ports", "value": ["Pisa", "Genoa"]}]
        ledger.set_all([*({"key": f"place {at % 4}", "value": city} for at, city in enumerate(CITIES)), *common])
        monkeypatch.setattr(limits, "READ_EVENTS", most)
        words = sorted(lookup_terms(f"{' '.join(CITIES)} notes yes"))
        for step in range(90):
            version = step // 6
            if step % 6 == 0:
                ledger.set(f"place {random.randrange(4)}", random.choice(CITIES))
            terms = frozenset(random.sample(words, random.randint(0, len(words))))
            memory = GuardMemory(memory)
            known = engine._drive(load_candidates(ledger.id, version, terms, memory))
            assert known == engine._drive(load_candidates(ledger.id, version, terms, GuardMemory()))
            read.append(len(known))
        assert max(read) > 4


def test_an_erased_fact_leaves_the_memory(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine:
        session: Any = engine.create_session("s")
        fact = session.facts.set("code", "Gate 4711")
        session.record("user", "Which gate?")
        session.pack()
        memory = engine._context.cache.last_packs
        kept = memory.get(session.scope.stream, None)
        assert kept is not None
        assert "Gate 4711" in kept.material.candidates[0].text
        assert kept.weight > kept.material.weight
        session.ledger().erase(fact.id, "asked to")
        assert memory.get(session.scope.stream, None) is None


def test_a_fact_that_another_engine_erased_leaves_the_memory_with_the_next_pack(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine, holdfast.open(tmp_path / "a.db") as other:
        session: Any = engine.create_session("s")
        fact = session.facts.set("code", "Gate 4711")
        session.record("user", "Which gate? Is it Gate 4711?")
        session.pack()
        memory = engine._context.cache.last_packs

        def is_kept() -> tuple[bool, bool]:
            kept = memory.get(session.scope.stream, None)
            assert kept is not None
            facts = repr((kept.guard.facts, kept.guard.facts_before))
            return "Gate 4711" in repr(kept.material), "Gate 4711" in facts

        assert is_kept() == (True, True)
        other_session: Any = other.session("s")
        other_session.ledger().erase(fact.id, "asked to")
        session.pack("Which one?")
        assert is_kept() == (False, False)


def test_the_memory_is_bounded() -> None:
    memory = PackMemory(most=1_000)
    streams = [StreamId("t", "session", ("main", f"s{number}")) for number in range(5)]
    for stream in streams:
        memory.put(stream, None, LastPack(FactMaterial(weight=400), GuardMemory()))
    assert [memory.get(stream, None) is not None for stream in streams] == [False] * 3 + [True] * 2
    memory.put(streams[0], None, LastPack(FactMaterial(weight=2_000), GuardMemory()))
    assert memory.get(streams[0], None) is None
    memory.drop(streams[4])
    assert memory.get(streams[4], None) is None
    assert memory.get(streams[3], None) is not None
