"""Facts are listed by what kind of memory they are."""

from __future__ import annotations

import random

import pytest

from holdfast import Engine, Fact, Ledger, errors
from holdfast.model.facts.fact import MEMORY_TYPES, MemoryType
from holdfast.types import FactSource
from tests.edges.engines import expect_refusal
from tests.edges.fact_engines import CLERK, GUEST, open_ledger

EVERYWHERE = [("draft", "d")]


def _filled(ledger: Ledger, count: int) -> list[Fact]:
    chance = random.Random(7)
    for number in range(count):
        draft = chance.random() < 0.2
        ledger.set(
            f"key {number % (count // 2)}",
            f"value {number}",
            memory_type=chance.choice(MEMORY_TYPES),
            requires=("hr",) if chance.random() < 0.3 else (),
            scope="draft" if draft else "global",
            scope_id="d" if draft else "",
        )
    return [*ledger.items(within="any", limit=1_000), *ledger.items(within="any", status="dead", limit=1_000)]


def _paged(ledger: Ledger, memory_type: MemoryType, **asked: object) -> list[str]:
    found: list[Fact] = []
    while page := ledger.items(memory_type=memory_type, after=found[-1] if found else None, limit=3, **asked):  # type: ignore[arg-type]
        found += page
    return [each.id for each in found]


def test_each_kind_of_memory_is_listed_page_by_page(engine: Engine) -> None:
    program = open_ledger(engine, organization="acme")
    facts = _filled(program, 40)
    readers = {(): GUEST, ("hr",): CLERK}
    for kind in MEMORY_TYPES:
        for status in ("live", "dead"):
            wanted = [each for each in facts if each.memory_type == kind and each.status == "live"]
            if status == "dead":
                wanted = [each for each in facts if each.memory_type == kind and each.status != "live"]
            wanted.sort(key=lambda each: int(each.id[1:]))
            assert _paged(program, kind, status=status, within="any") == [each.id for each in wanted]
            for permissions, identity in readers.items():
                ledger = open_ledger(engine, organization="acme", identity=identity)
                known = [each.id for each in wanted if {*each.requires} <= {*permissions} and each.scope == "global"]
                assert _paged(ledger, kind, status=status) == known
    kinds = [each.memory_type for each in program.items(within="any", limit=1_000)]
    assert {*kinds} == {*MEMORY_TYPES}
    with expect_refusal(engine, errors.InvalidArgument):
        program.items(memory_type="episodic")  # type: ignore[arg-type]


def test_a_kind_that_was_inferred_is_listed_too(engine: Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    ledger.set("city", "Lisbon")
    ledger.set("travel class", "economy only", source=FactSource(type="policy", name="travel policy"))
    assert [each.key for each in ledger.items(memory_type="organizational")] == ["travel class"]
    assert [each.key for each in ledger.items(memory_type="user")] == ["city"]
    assert ledger.items(memory_type="capability") == ()


@pytest.mark.parametrize("kind", MEMORY_TYPES)
def test_what_was_written_before_is_listed_after_a_rebuild(engine: Engine, kind: MemoryType) -> None:
    ledger = open_ledger(engine, user="ada")
    fact = ledger.set("a", "b", memory_type=kind)
    engine.admin.rebuild()
    assert ledger.items(memory_type=kind) == (fact,)
