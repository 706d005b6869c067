"""The conformance suite of LangGraph's checkpointers, for both halves of the saver, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_config, generate_metadata

import holdfast
from holdfast.errors import WriterStale
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.graphs import AwaitedSaver

CAPABILITIES = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


@pytest.mark.parametrize("half", [HoldfastSaver, lambda engine: AwaitedSaver(HoldfastSaver(engine))])
def test_the_suite_passes_in_full(
    engine: holdfast.Engine, half: Callable[[holdfast.Engine], BaseCheckpointSaver[Any]]
) -> None:
    @checkpointer_test(name="HoldfastSaver")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        yield half(engine)

    report = asyncio.run(validate(saver))
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    assert {name: result.tests_passed for name, result in report.results.items()} == CAPABILITIES
    assert sum(CAPABILITIES.values()) == 81
    assert engine.admin.verify().ok


# A writer that another one has replaced: clauses of the suite that are not released yet


def put(writer: HoldfastSaver, name: str, parent: str | None = None) -> str:
    config = generate_config(name, **({"checkpoint_id": parent} if parent else {}))
    stored = writer.put(config, generate_checkpoint(), generate_metadata(step=0), {})
    return str(stored["configurable"]["checkpoint_id"])


def stored_ids(saver: HoldfastSaver, name: str) -> list[str]:
    return [each.checkpoint["id"] for each in saver.list(generate_config(name))]


def test_the_owner_writes_and_a_replaced_one_is_refused_and_stays_so(engine: holdfast.Engine) -> None:
    saver, name = HoldfastSaver(engine), str(uuid4())
    old = saver.claim_write_ownership(name)
    first = put(old, name)
    new = saver.claim_write_ownership(name)
    second = put(new, name, first)
    for _ in range(2):
        with pytest.raises(WriterStale, match="has gone on without this writer: another writer claimed it") as refusal:
            put(old, name, first)
        assert refusal.value.is_stale_write_owner_error is True
    with pytest.raises(WriterStale):
        old.check_write_ownership()
    new.check_write_ownership()
    assert stored_ids(saver, name) == [second, first]


@pytest.mark.parametrize("channel", ["ch", "__resume__"])
def test_a_replaced_owner_displaces_no_write(engine: holdfast.Engine, channel: str) -> None:
    saver, name, task = HoldfastSaver(engine), str(uuid4()), str(uuid4())
    old = saver.claim_write_ownership(name)
    config = generate_config(name, checkpoint_id=put(old, name))
    new = saver.claim_write_ownership(name)
    new.put_writes(config, [(channel, "current")], task)
    new.put_writes(config, [(channel, "current")], task)  # a retry is no refusal
    with pytest.raises(WriterStale):
        old.put_writes(config, [(channel, "stale")], task)
    with pytest.raises(WriterStale):
        old.put_writes(config, [(channel, "stale")], str(uuid4()))
    found = saver.get_tuple(config)
    assert found is not None
    assert found.pending_writes == [(task, channel, "current")]


def test_owners_of_other_threads_and_readers_are_not_concerned(engine: holdfast.Engine) -> None:
    async def check() -> None:
        saver, one, two = HoldfastSaver(engine), str(uuid4()), str(uuid4())
        owner = await saver.aclaim_write_ownership(one)
        await saver.aclaim_write_ownership(two)
        stored = await owner.aput(generate_config(one), generate_checkpoint(), generate_metadata(step=0), {})
        await owner.acheck_write_ownership()
        found = await HoldfastSaver(engine).aget_tuple(generate_config(one))
        assert found is not None
        assert found.config == stored

    asyncio.run(check())
