"""Checkpoints of workflows are entries: saved, loaded, listed, replaced, deleted; and a workflow goes on from them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_framework import (
    CheckpointStorage,
    Executor,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    handler,
)

import holdfast
from holdfast.agent_framework import HoldfastCheckpointStorage
from tests.frameworks.agent_framework.scripted import wait


class Unregistered:
    """A type that no checkpoint may contain."""


def checkpoint(name: str, workflow: str = "w", **fields: Any) -> WorkflowCheckpoint:
    return WorkflowCheckpoint(workflow, "hash", checkpoint_id=name, **fields)


def test_checkpoints_come_back_as_they_were(engine: holdfast.Engine) -> None:
    storage: CheckpointStorage = HoldfastCheckpointStorage(engine)
    first = checkpoint("c1", state={"seen": {1, 2}, "pair": (1, "two"), "text": "\x00"}, iteration_count=1)
    second = checkpoint("c2", previous_checkpoint_id="c1", metadata={"step": 2})
    assert wait(storage.save(first)) == "c1"
    assert wait(storage.save(second)) == "c2"
    again = HoldfastCheckpointStorage(engine)
    assert wait(again.load("c1")) == first
    assert wait(again.list_checkpoints(workflow_name="w")) == [first, second]
    assert wait(again.list_checkpoint_ids(workflow_name="w")) == ["c1", "c2"]
    assert wait(again.get_latest(workflow_name="w")) == second
    assert engine.admin.verify().ok


def test_the_latest_is_the_end_of_the_chain_and_not_the_largest_count(engine: holdfast.Engine) -> None:
    storage = HoldfastCheckpointStorage(engine)
    for each in (
        checkpoint("a", iteration_count=9, timestamp="2026-01-01T00:00:03+00:00"),
        checkpoint("b", previous_checkpoint_id="a", iteration_count=2, timestamp="2026-01-01T00:00:01+00:00"),
        checkpoint("other", "another workflow", timestamp="2026-01-01T00:00:09+00:00"),
    ):
        wait(storage.save(each))
    latest = wait(storage.get_latest(workflow_name="w"))
    assert latest is not None
    assert latest.checkpoint_id == "b"


def test_what_does_not_exist(engine: holdfast.Engine) -> None:
    storage = HoldfastCheckpointStorage(engine)
    with pytest.raises(WorkflowCheckpointException, match="No checkpoint found with ID c9"):
        wait(storage.load("c9"))
    assert wait(storage.get_latest(workflow_name="w")) is None
    assert wait(storage.list_checkpoints(workflow_name="w")) == []
    assert wait(storage.delete("c9")) is False


@pytest.mark.parametrize("value", [10**40, "\ud800", [float("inf")], {"wei": [10**30, None]}])
def test_a_state_that_no_entry_takes_comes_back(file_engine: holdfast.Engine, value: object) -> None:
    storage = HoldfastCheckpointStorage(file_engine)
    asyncio.run(storage.save(WorkflowCheckpoint("w", "g", checkpoint_id="c1", state={"a": value})))
    assert asyncio.run(storage.load("c1")).state == {"a": value}
    assert [each.state for each in asyncio.run(storage.list_checkpoints(workflow_name="w"))] == [{"a": value}]
    assert file_engine.admin.verify().ok


@pytest.mark.parametrize("name", ["", "\ud800", "a\nb", "x" * 5_000])
def test_an_id_that_no_checkpoint_has_is_not_found(file_engine: holdfast.Engine, name: str) -> None:
    storage = HoldfastCheckpointStorage(file_engine)
    with pytest.raises(WorkflowCheckpointException, match="No checkpoint"):
        asyncio.run(storage.load(name))
    assert asyncio.run(storage.delete(name)) is False


def test_a_checkpoint_is_replaced_and_deleted(engine: holdfast.Engine) -> None:
    storage = HoldfastCheckpointStorage(engine)
    wait(storage.save(checkpoint("c1", state={"step": 1})))
    wait(storage.save(checkpoint("c1", state={"step": 2})))
    assert wait(storage.load("c1")).state == {"step": 2}
    assert wait(storage.delete("c1")) is True
    assert wait(storage.list_checkpoint_ids(workflow_name="w")) == []
    assert engine.admin.verify().ok


def test_types_that_could_not_be_loaded_are_refused(file_engine: holdfast.Engine) -> None:
    with pytest.raises(WorkflowCheckpointException):
        wait(HoldfastCheckpointStorage(file_engine).save(checkpoint("c1", state={"x": Unregistered()})))
    name = f"{Unregistered.__module__}:{Unregistered.__qualname__}"
    allowed = HoldfastCheckpointStorage(file_engine, allowed_checkpoint_types=[name])
    wait(allowed.save(checkpoint("c1", state={"x": Unregistered()})))
    assert isinstance(wait(allowed.load("c1")).state["x"], Unregistered)


class Upper(Executor):
    @handler
    async def run(self, text: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(text.upper())


class Last(Executor):
    @handler
    async def run(self, text: str, ctx: WorkflowContext[Any, str]) -> None:
        await ctx.yield_output(f"{text}!")


def test_a_workflow_goes_on_from_a_checkpoint(engine: holdfast.Engine) -> None:
    storage = HoldfastCheckpointStorage(engine)

    def build() -> Any:
        upper, last = Upper(id="upper"), Last(id="last")
        return WorkflowBuilder(name="shout", start_executor=upper).add_edge(upper, last).build()

    async def run() -> tuple[list[Any], list[Any]]:
        first = (await build().run("hello", checkpoint_storage=storage)).get_outputs()
        ids = await storage.list_checkpoint_ids(workflow_name="shout")
        again = await build().run(checkpoint_id=ids[1], checkpoint_storage=storage)
        return first, again.get_outputs()

    assert asyncio.run(run()) == (["HELLO!"], ["HELLO!"])
