"""What a store keeps of its last tasks changes no answer: it costs less, and nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    ROLE_AGENT,
    ROLE_USER,
    TASK_STATE_COMPLETED,
    TASK_STATE_WORKING,
    Artifact,
    Message,
    Part,
    Task,
)
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.a2a import HoldfastTaskStore, messages
from holdfast.a2a.saved_tasks import SavedTasks
from tests.frameworks.a2a.test_task_store import ADA, message, run, task


def part_of_data(fields: dict[str, Any]) -> Part:
    struct = Struct()
    struct.update(fields)
    return Part(data=Value(struct_value=struct))


PARTS = st.one_of(
    st.sampled_from(["", "one", "two", "long " * 300]).map(lambda text: Part(text=text)),
    st.sampled_from([True, 1, 0.5, "x", None, float("nan")]).map(
        lambda value: part_of_data({"a": value, "b": [value]})
    ),
    st.just(Part(raw=b"\x00\xff", filename="a.bin")),
)
MESSAGES = st.builds(
    lambda name, role, parts: Message(message_id=name, role=role, parts=parts),
    st.sampled_from(["", "m1", "m2", "m3", "m4", "m5", "m6"]),
    st.sampled_from([ROLE_USER, ROLE_AGENT]),
    st.lists(PARTS, max_size=2),
)
ARTIFACTS = st.builds(
    lambda name, parts: Artifact(artifact_id=name, parts=parts),
    st.sampled_from(["", "a1", "a2"]),
    st.lists(PARTS, max_size=2),
)
STEPS = st.one_of(
    st.tuples(st.just("append"), MESSAGES),
    st.tuples(st.just("append"), MESSAGES),
    st.tuples(st.just("edit"), st.tuples(st.integers(0, 9), MESSAGES)),
    st.tuples(st.just("cut"), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    st.tuples(st.just("status"), MESSAGES),
    st.tuples(st.just("settle"), st.none()),
    st.tuples(st.just("artifact"), ARTIFACTS),
    st.tuples(st.just("flag"), st.sampled_from([True, 1, False, 0, float("nan")])),
    st.tuples(st.just("state"), st.sampled_from([TASK_STATE_WORKING, TASK_STATE_COMPLETED])),
    st.tuples(st.just("forget"), st.none()),
)
SAVERS = st.integers(0, 1)


def change(changed: Task, step: str, value: Any) -> None:
    match step:
        case "append":
            changed.history.append(value)
        case "edit" if value[0] < len(changed.history):
            changed.history[value[0]].CopyFrom(value[1])
        case "cut":
            del changed.history[value[0] : value[0] + value[1]]
        case "status":
            changed.status.message.CopyFrom(value)
        case "settle" if changed.status.HasField("message"):
            changed.history.append(changed.status.message)
            changed.status.ClearField("message")
        case "artifact":
            changed.artifacts.append(value)
        case "flag":
            changed.metadata.update({"flag": value})
        case "state":
            changed.status.state = value


async def replay(steps: list[tuple[int, tuple[str, Any]]], *, keeps: bool) -> list[Any]:
    """Two processes save a task in turns, after each step; returns all that the stores and the session say then."""
    with holdfast.open("memory:") as engine:
        stores = [HoldfastTaskStore(engine), HoldfastTaskStore(engine)]
        session = engine.session("c1", actor="ada", thread="t1", create=True)
        saved, answers = task("t1"), list[Any]()
        for saver, (step, value) in steps:
            store = stores[saver] if keeps else HoldfastTaskStore(engine)
            if step == "forget":  # somebody deletes the newest state
                session.entries.delete([each.key for each in session.entries.list(limit=1)])
                found = await store.get("t1", ADA)
            else:
                change(saved, step, value)
                await store.save(saved, ADA)
                found = await store.get("t1", ADA)
                assert found is not None
                assert found.SerializeToString(deterministic=True) == saved.SerializeToString(deterministic=True)
            answers.append(None if found is None else found.SerializeToString(deterministic=True))
        said = [(each.role, each.text, bool(each.withdrawn)) for each in session.messages(limit=1_000)]
        bodies = [(each.key, each.parent, repr(each.body)) for each in session.entries.list(limit=1_000)]
        return [answers, said, bodies]


@settings(max_examples=60)
@given(st.lists(st.tuples(SAVERS, STEPS), max_size=14))
def test_a_store_answers_as_one_that_keeps_nothing(steps: list[tuple[int, tuple[str, Any]]]) -> None:
    assert asyncio.run(replay(steps, keeps=True)) == asyncio.run(replay(steps, keeps=False))


def test_a_save_reads_and_encodes_only_what_is_new(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: the messages that become JSON, and the messages and bodies that are read back."""
    counts: Counter[str] = Counter()
    encode, decode = messages._encode, messages.decode_task

    def encode_value(value: Any) -> Any:
        counts["encoded"] += 1
        return encode(value)

    def decode_body(body: Any) -> Task:
        counts["bodies"] += 1
        return decode(body)

    monkeypatch.setattr(messages, "_encode", encode_value)
    monkeypatch.setattr("holdfast.a2a.task_store.decode_task", decode_body)
    read = holdfast.Session.messages

    def read_messages(self: holdfast.Session, **arguments: Any) -> Any:
        found = read(self, **arguments)
        counts["messages"] += len(found)
        return found

    monkeypatch.setattr(holdfast.Session, "messages", read_messages)

    async def scenario() -> None:
        store, saved = HoldfastTaskStore(file_engine), task("t1")
        for number in range(40):
            if saved.status.HasField("message"):
                saved.history.append(saved.status.message)
            saved.status.message.CopyFrom(message(f"reply {number}", ROLE_AGENT))
            await store.save(saved, ADA)
            assert await store.get("t1", ADA) == saved

    run(scenario())
    assert counts["encoded"] <= 2 * 40  # the message that moved into the history, and the rest of the task
    assert counts["bodies"] == 0
    assert counts["messages"] <= 40


def test_true_is_not_one(engine: holdfast.Engine) -> None:
    """To Python, the JSON of both is equal."""

    async def scenario() -> None:
        store, saved = HoldfastTaskStore(engine), task("t1", "hello")
        for flag in (True, 1, False, 0):
            saved.metadata.update({"flag": flag})
            for each in (store, HoldfastTaskStore(engine)):
                await each.save(saved, ADA)
                assert await each.get("t1", ADA) == saved

    run(scenario())
    assert len(engine.session("c1", actor="ada", thread="t1").entries.list()) == 4


def test_the_order_of_fields_in_data_is_no_change(file_engine: holdfast.Engine) -> None:
    """A protobuf has the fields of a struct in an order that differs from copy to copy."""
    names = [f"field {number}" for number in range(30)]

    async def scenario() -> None:
        for order in (names, names[::-1], sorted(names)):
            parts = [part_of_data(dict.fromkeys(order, 1))]
            saved = task("t1", "hello")
            saved.history.append(Message(message_id="m2", role=ROLE_AGENT, parts=parts))
            await HoldfastTaskStore(file_engine).save(saved, ADA)

    run(scenario())
    session = file_engine.session("c1", actor="ada", thread="t1")
    assert [bool(each.withdrawn) for each in session.messages()] == [False, False]


def test_tasks_are_kept_up_to_a_number_and_a_size(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastTaskStore(engine)
        store._saved = SavedTasks(tasks=2, size=6_000)
        for name in ("t1", "t2", "t3"):
            await store.save(task(name, "hello"), ADA)
        assert [place[2] for place in store._saved._kept] == ["t2", "t3"]
        await store.save(task("t2", "word " * 400), ADA)
        await store.save(task("t3", "word " * 400), ADA)
        assert [place[2] for place in store._saved._kept] == ["t3"]
        await store.save(task("t1", "word " * 4_000), ADA)
        assert (len(store._saved._kept), store._saved._bytes) == (0, 0)
        assert await store.get("t1", ADA) == task("t1", "word " * 4_000)
        await store.save(task("t2", "short"), ADA)
        await store.delete("t2", ADA)
        assert not store._saved._kept

    run(scenario())
