"""The contract of the saver beside what the conformance suite asks: order of writes, types, serializer, deletion."""

from __future__ import annotations

import copy
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_KW_ARGS, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

import holdfast
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.graphs import answer, chat, ids, say, texts, thread, transcript

T1 = thread("t1", checkpoint_ns="")


class Address(BaseModel):
    street: str


class Trap:
    """A class that must not be built from stored bytes."""

    built = 0

    def __init__(self, **fields: Any) -> None:
        Trap.built += 1


def checkpoint(
    values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None, **fields: Any
) -> Checkpoint:
    made: dict[str, Any] = {**empty_checkpoint(), "id": str(uuid6(clock_seq=1)), "channel_values": values or {}}
    made["channel_versions"] = dict.fromkeys(values or {}, 1) if versions is None else versions
    return made | fields  # type: ignore[return-value]


def put(
    saver: HoldfastSaver, config: RunnableConfig = T1, *, source: Any = "loop", run_id: str = "", **fields: Any
) -> Any:
    made = checkpoint(**fields)
    metadata: Any = {"source": source, "step": 1} | ({"run_id": run_id} if run_id else {})
    return saver.put(config, made, metadata, made["channel_versions"])


def get(saver: HoldfastSaver, config: RunnableConfig = T1) -> Any:
    found = saver.get_tuple(config)
    assert found is not None
    return found


# Writes


def test_writes_come_in_the_order_in_which_langgraph_applies_them(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    config = put(saver)
    saver.put_writes(config, [("a", 1), ("a", 2)], "task-z", "path-1")
    saver.put_writes(config, [("b", 3)], "task-a", "path-2")
    saver.put_writes(config, [("c", 4)], "task-b", "")
    assert get(saver, config).pending_writes == [
        ("task-b", "c", 4),
        ("task-z", "a", 1),
        ("task-z", "a", 2),
        ("task-a", "b", 3),
    ]


def test_the_first_write_counts_and_a_special_one_replaces_each_for_itself(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    config = put(saver)
    saver.put_writes(config, [("a", "first"), ("__resume__", ["one"])], "task")
    saver.put_writes(config, [("a", "second"), ("__resume__", ["one", "two"]), ("b", "third")], "task")
    saver.put_writes(config, [("__error__", "failed")], "task")
    assert get(saver, config).pending_writes == [
        ("task", "__resume__", ["one", "two"]),
        ("task", "__error__", "failed"),
        ("task", "a", "first"),
        ("task", "b", "third"),
    ]


def test_a_special_write_that_comes_back_counts_again(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    config = put(saver)
    for value in ("a", "b", "a"):
        saver.put_writes(config, [("__interrupt__", value)], "task")
    assert get(saver, config).pending_writes == [("task", "__interrupt__", "a")]


def test_writes_may_come_before_their_checkpoint(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    made = checkpoint({"a": 1})
    config = thread("t1", checkpoint_ns="", checkpoint_id=made["id"])
    saver.put_writes(config, [("a", 2)], "task")
    saver.put_writes(config, [], "task")
    assert saver.get_tuple(config) is None
    assert saver.get_tuple(T1) is None
    saver.put(T1, made, {"source": "loop", "step": 0}, {"a": 1})
    assert get(saver).pending_writes == [("task", "a", 2)]


# Checkpoints


def test_values_versions_and_metadata_come_back_as_they_were_given(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    values = {
        "text": "a\0b \N{GRINNING FACE} é",
        "none": None,
        "bytes": b"\x00\xff",
        "numbers": [1, 2.5, True, None],
        "messages": [
            HumanMessage("hi", id="u"),
            AIMessage("", id="a", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        ],
        "set": {1, 2},
        "nested": {"z": [HumanMessage("in a dict", id="n")], "a": {"b": {"c": frozenset({1})}}},
        "large": {f"file-{number}": "text " * 500 for number in range(4)},
        "empty": [],
    }
    versions: dict[str, Any] = dict.fromkeys(values, 1) | {"gone": 2, "1": "00000000000000000000000000000003.5"}
    seen: Any = {"node": {"text": 1, "1": "1"}, "__input__": {}}
    config: RunnableConfig = thread("t1", checkpoint_ns="", user="ada\0", count=3, __hidden="x")
    config["metadata"] = {"tag": "test"}
    metadata: Any = {
        "source": "input",
        "step": -1,
        "parents": {"": "x"},
        "counters_since_delta_snapshot": {"d": [1, 2]},
    }
    made = checkpoint({**values, "not versioned": 1}, versions, versions_seen=seen, updated_channels=["text"])
    stored = saver.put(config, made, metadata, versions)
    assert stored == thread("t1", checkpoint_ns="", checkpoint_id=made["id"])
    for reader in (saver, HoldfastSaver(engine)):
        found = get(reader, stored)
        assert found.config == stored
        assert found.checkpoint == {**made, "channel_values": values}
        assert list(found.checkpoint["channel_values"]["nested"]) == ["z", "a"]
        assert found.metadata == {**metadata, "tag": "test", "user": "ada", "count": 3}
        assert found.parent_config is None
        assert found.pending_writes == []


def test_a_channel_that_did_not_change_is_taken_from_the_parent(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, observe=False)
    many = [HumanMessage(f"message {number}", id=str(number)) for number in range(200)]
    first = put(saver, values={"messages": many, "a": 1})
    made = checkpoint({"messages": many, "a": 2}, {"messages": 1, "a": 2})
    second = saver.put(first, made, {"source": "loop", "step": 2}, {"a": 2})
    for reader in (saver, HoldfastSaver(engine, observe=False)):
        assert get(reader, second).checkpoint["channel_values"] == {"messages": many, "a": 2}
        assert get(reader, second).parent_config == first
        assert get(reader, first).checkpoint["channel_values"] == {"messages": many, "a": 1}


def test_a_checkpoint_that_is_put_again_is_replaced(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    made = checkpoint({"a": 1})
    saver.put(T1, made, {"source": "loop", "step": 0}, {"a": 1})
    saver.put(T1, made, {"source": "loop", "step": 0}, {"a": 1})
    saver.put(T1, {**made, "channel_values": {"a": 2}}, {"source": "loop", "step": 0}, {"a": 1})
    assert get(saver).checkpoint["channel_values"] == {"a": 2}
    assert len(ids(saver.list(T1))) == 1


def test_numbers_are_names_of_threads_and_reads_need_no_namespace(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    stored = put(saver, thread(7))
    assert stored["configurable"]["thread_id"] == 7
    assert get(saver, thread(7)).checkpoint["id"] == get(saver, thread("7")).checkpoint["id"]
    assert engine.session("7").state().status == "open"
    assert get(HoldfastSaver(engine), thread(7, checkpoint_id=stored["configurable"]["checkpoint_id"]))
    assert saver.get_tuple(thread("none")) is None


def test_a_long_name_of_a_thread_is_found_again(engine: holdfast.Engine) -> None:
    name = "thread/" * 100
    put(HoldfastSaver(engine), thread(name), values={"a": 1})
    saver = HoldfastSaver(engine)
    assert get(saver, thread(name)).checkpoint["channel_values"] == {"a": 1}
    assert [each.config["configurable"]["thread_id"] for each in saver.list(None)] == [name]
    assert saver.usage(name).checkpoints == 1


def test_the_list_is_ordered_by_id_over_namespaces_and_threads(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    made = [f"1f000000-0000-6000-8000-{number:012}" for number in range(6)]
    put(saver, thread("t1", checkpoint_ns=""), id=made[1])
    put(saver, thread("t1", checkpoint_ns="sub:1"), id=made[2])
    put(saver, thread("t2", checkpoint_ns=""), id=made[3], source="input")
    put(saver, thread("t1", checkpoint_ns=""), id=made[5])
    put(saver, thread("t1", checkpoint_ns=""), id=made[4])
    put(saver, thread("t1", checkpoint_ns=""), id=made[0])
    engine.create_session("not-of-langgraph").record("user", "hello")
    assert ids(saver.list(None)) == made[::-1]
    assert ids(saver.list(thread("t1"))) == [made[5], made[4], made[2], made[1], made[0]]
    assert ids(saver.list(thread("t1", checkpoint_ns=""))) == [made[5], made[4], made[1], made[0]]
    assert ids(saver.list(thread("t1"), before=thread("t1", checkpoint_id=made[4]))) == [made[2], made[1], made[0]]
    assert ids(saver.list(None, filter={"source": "input"})) == [made[3]]
    assert ids(saver.list(None, filter={"source": "loop"}, limit=2)) == [made[5], made[4]]
    assert ids(saver.list(thread("t1", checkpoint_id=made[2]))) == [made[2]]
    assert ids(saver.list(thread("none"))) == ids(saver.list(None, limit=0)) == []
    assert get(saver, thread("t1")).checkpoint["id"] == made[5]
    assert get(HoldfastSaver(engine), thread("t1")).checkpoint["id"] == made[5]


def test_versions_go_on_as_they_began() -> None:
    saver = HoldfastSaver(holdfast.open("memory:"))
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(1, None) == 2
    text = saver.get_next_version("00000000000000000000000000000003.5", None)
    assert text.startswith("00000000000000000000000000000004.")
    assert text > "00000000000000000000000000000003.5"


# Serializer


def test_a_class_that_is_not_allowed_is_not_built(file_engine: holdfast.Engine) -> None:
    bad = ormsgpack.packb(
        ormsgpack.Ext(EXT_CONSTRUCTOR_KW_ARGS, ormsgpack.packb((Trap.__module__, "Trap", {"a": 1}))),
    )

    class Forger(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return ("msgpack", bad) if obj == "forged" else super().dumps_typed(obj)

    put(HoldfastSaver(file_engine, serde=Forger()), values={"a": "forged"})
    assert get(HoldfastSaver(file_engine)).checkpoint["channel_values"] != {"a": "forged"}
    assert Trap.built == 0
    permissive = HoldfastSaver(file_engine, serde=JsonPlusSerializer(allowed_msgpack_modules=True))
    get(permissive)
    assert Trap.built == 1


def test_a_pickle_is_not_read(file_engine: holdfast.Engine) -> None:
    permissive = JsonPlusSerializer(pickle_fallback=True)
    put(HoldfastSaver(file_engine, serde=permissive), values={"a": Trap})
    with pytest.raises(Exception, match="Unknown serialization type: pickle"):
        get(HoldfastSaver(file_engine))


def test_classes_of_the_program_are_built_if_they_are_allowed(engine: holdfast.Engine) -> None:
    put(HoldfastSaver(engine), values={"home": Address(street="Oak")})
    assert get(HoldfastSaver(engine)).checkpoint["channel_values"] == {"home": {"street": "Oak"}}
    home = {"home": Address(street="Oak")}
    assert get(HoldfastSaver(engine, allow=[Address])).checkpoint["channel_values"] == home
    saver = HoldfastSaver(engine)
    clone = saver.with_allowlist([(Address.__module__, "Address")])
    assert get(clone).checkpoint["channel_values"] == home  # type: ignore[arg-type]
    assert get(saver).checkpoint["channel_values"] == {"home": {"street": "Oak"}}
    put(clone, values={"home": Address(street="Elm")})  # type: ignore[arg-type]
    assert get(saver).checkpoint["channel_values"] == {"home": {"street": "Elm"}}
    assert get(copy.copy(saver)).checkpoint["channel_values"] == {"home": {"street": "Elm"}}
    with pytest.raises(InvalidArgument, match="allow the classes in `serde`"):
        HoldfastSaver(engine, serde=JsonPlusSerializer(), allow=[Address])


class XorCipher:
    """A cipher that gives other bytes for the same text each time."""

    def __init__(self) -> None:
        self.count = 0

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        self.count += 1
        return "xor", self.count.to_bytes(4) + bytes(each ^ 0x5A for each in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "xor"
        return bytes(each ^ 0x5A for each in ciphertext[4:])


def test_values_that_are_encrypted_are_shared_too(file_engine: holdfast.Engine) -> None:
    cipher = XorCipher()
    serde = EncryptedSerializer(cipher, JsonPlusSerializer(allowed_msgpack_modules=None))
    graph = chat(HoldfastSaver(file_engine, serde=serde, transcript=None), lambda messages: "y" * 400)
    for number in range(30):
        graph.invoke(say(f"{number} " + "x" * 400), T1)
    graph = chat(HoldfastSaver(file_engine, serde=serde, transcript=None), lambda messages: "y" * 400)
    graph.invoke(say("last"), T1)
    assert len(texts(graph.get_state(T1).values)) == 62
    stored = b"".join(event.payload or b"" for event in file_engine.session("t1").events(limit=1_000))
    assert b"xxxx" not in stored
    assert len(stored) < 400_000  # all states together have 1.6 MB
    assert HoldfastSaver(file_engine).usage("t1").messages == 0


# Growth


def test_a_turn_costs_what_is_new_in_it(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine, observe=False)
    graph = chat(saver, lambda messages: f"{len(messages)} " + "answer " * 70)
    sizes = []
    for _ in range(2):
        for number in range(25):
            graph.invoke(say(f"{number} " + "question " * 55), T1)
        sizes.append(saver.usage("t1").stored_bytes)
    assert sizes[1] < 2.2 * sizes[0]
    usage = saver.usage("t1")
    assert (usage.checkpoints, usage.writes, usage.messages) == (150, 100, 100)
    assert file_engine.admin.verify().ok
    with pytest.raises(SessionNotFound):
        saver.usage("none")


def test_a_list_that_loses_its_oldest_elements_shares_the_others(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine, transcript=None)
    every = [HumanMessage(f"{number} " + "text " * 100, id=str(number)) for number in range(400)]
    config = put(saver, values={"messages": every[:200]})
    given = 0
    for start in range(1, 40):
        made = checkpoint({"messages": every[start : start + 200]}, {"messages": start + 1})
        config = saver.put(config, made, {"source": "loop", "step": start}, {"messages": start + 1})
        given += sum(len(str(message.content)) for message in every[start : start + 200])
    assert get(HoldfastSaver(file_engine)).checkpoint["channel_values"]["messages"] == every[39:239]
    assert saver.usage("t1").stored_bytes < given / 15


# Delete and copy


def graph_of(saver: HoldfastSaver, name: str, turns: int, *, before: int = 0) -> list[str]:
    """Run some turns, after a conversation that came from elsewhere."""
    graph = chat(saver)
    earlier = [HumanMessage(f"earlier {number}", id=f"e{number}") for number in range(before)]
    for number in range(turns):
        state = graph.invoke({"messages": [*earlier, HumanMessage(f"turn {number} of {name}")]}, thread(name))
    return texts(state)


def test_a_deleted_thread_leaves_nothing_and_can_be_used_again(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    graph = chat(saver)
    graph.invoke(say("My address is 456 Oak Ave."), T1)
    session = engine.session("t1")
    session.facts.set("address", "456 Oak Ave")
    for _ in range(2):
        saver.delete_thread("t1")
        assert saver.get_tuple(T1) is None
        assert ids(saver.list(T1)) == []
        assert transcript(session) == []
        assert session.facts.items() == ()
        assert session.pack().history.messages == ()
        stored = b"".join(event.payload or b"" for event in session.events(limit=1_000))
        assert b"Oak" not in stored
        assert texts(graph.invoke(say("new"), T1)) == ["new", "answer to: new"]
        assert transcript(session) == ["new", "answer to: new"]
    saver.delete_thread("none")
    assert engine.admin.verify().ok


def test_a_destroyed_session_takes_its_checkpoints_with_it(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    graph_of(saver, "t1", 2)
    engine.session("t1").destroy(offload=False)
    assert saver.get_tuple(T1) is None
    assert HoldfastSaver(engine).get_tuple(T1) is None
    assert ids(HoldfastSaver(engine).list(None)) == []
    with pytest.raises(SessionNotFound):
        put(saver)


def test_a_copy_is_independent(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, observe=False)
    said = graph_of(saver, "t1", 4, before=90)
    saver.copy_thread("t1", "t2")
    saver.copy_thread("t1", "t2")
    saver.copy_thread("none", "t3")
    assert ids(saver.list(thread("t2"))) == ids(saver.list(thread("t1")))
    assert transcript(engine.session("t2")) == said
    saver.delete_thread("t1")
    for reader in (saver, HoldfastSaver(engine, observe=False)):
        assert texts(chat(reader).get_state(thread("t2")).values) == said
    assert graph_of(saver, "t2", 1)[-1] == "answer to: turn 0 of t2"
    assert HoldfastSaver(engine, observe=False).get_tuple(thread("t3")) is None


def test_prune_keeps_the_latest_and_what_it_shares(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, observe=False)
    said = graph_of(saver, "t1", 4, before=90)
    other = HoldfastSaver(engine, observe=False)
    get(other)
    before = saver.usage("t1")
    saver.prune(["t1", "none"])
    after = saver.usage("t1")
    assert after.checkpoints == 1
    assert after.stored_bytes < before.stored_bytes
    assert transcript(engine.session("t1")) == said
    for reader in (saver, other, HoldfastSaver(engine, observe=False)):
        assert texts(chat(reader).get_state(T1).values) == said
    assert texts(chat(other).invoke(say("more"), T1)) == [*said, "more", "answer to: more"]
    assert texts(chat(HoldfastSaver(engine, observe=False)).get_state(T1).values) == [*said, "more", "answer to: more"]
    saver.prune(["t1"], strategy="delete")
    assert saver.usage("t1").checkpoints == 0
    assert texts(chat(other).invoke(say("again"), T1)) == ["again", "answer to: again"]
    with pytest.raises(InvalidArgument, match="'half' is neither"):
        saver.prune(["t1"], strategy="half")
    assert engine.admin.verify().ok


def test_a_writer_does_not_rely_on_blocks_that_another_deleted(engine: holdfast.Engine) -> None:
    one, two = HoldfastSaver(engine, observe=False), HoldfastSaver(engine, observe=False)
    many = [HumanMessage(f"message {number}", id=str(number)) for number in range(300)]
    config = put(one, values={"messages": many})
    two.delete_thread("t1")
    made = checkpoint({"messages": many}, {"messages": 1})
    one.put(config, made, {"source": "loop", "step": 2}, {})
    assert get(HoldfastSaver(engine, observe=False)).checkpoint["channel_values"]["messages"] == many


def test_checkpoints_of_runs_are_deleted_in_all_threads(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, observe=False)
    many = [HumanMessage(f"message {number}", id=str(number)) for number in range(100)]
    for name in ("t1", "t2"):
        first = put(saver, thread(name), values={"messages": many[:60]}, run_id="r1")
        saver.put_writes(first, [("a", 1)], "task")
        put(saver, first, values={"messages": many}, run_id="r2")
    saver.delete_for_runs(["r1", "none"])
    saver.delete_for_runs([])
    for name in ("t1", "t2"):
        assert [each.metadata["run_id"] for each in saver.list(thread(name))] == ["r2"]
        assert get(HoldfastSaver(engine, observe=False), thread(name)).checkpoint["channel_values"]["messages"] == many
        assert saver.usage(name).writes == 0


def test_what_no_checkpoint_has_any_more_is_erased(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, transcript=None)
    for word in ("old", "new"):
        put(
            saver,
            values={"messages": [HumanMessage(f"{word} {number}", id=f"{word}{number}") for number in range(120)]},
        )
    session = engine.session("t1")
    blocks = session.entries.list(kind="block")
    saver.prune(["t1"])
    kept = session.entries.list(kind="block")
    assert 0 < len(kept) < len(blocks)
    assert len(get(HoldfastSaver(engine)).checkpoint["channel_values"]["messages"]) == 120
    saver.prune(["t1"], strategy="delete")
    assert session.entries.list() == []


# Delta channels


def extend(state: Any, writes: Any) -> Any:
    return [*(state or []), *(each for write in writes for each in write)]


class Notes(TypedDict):
    notes: Annotated[list[str], DeltaChannel(extend)]


class OftenNotes(TypedDict):
    notes: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=3)]


def delta_graph(saver: HoldfastSaver, frequency: int = 1_000) -> Any:
    schema = Notes if frequency == 1_000 else OftenNotes

    def note(state: Any) -> dict[str, Any]:
        return {"notes": [f"note {len(state['notes'])}"]}

    builder: Any = StateGraph(schema)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("frequency", [1_000, 3])
def test_delta_channels_are_rebuilt_also_after_prune_and_copy(engine: holdfast.Engine, frequency: int) -> None:
    saver = HoldfastSaver(engine)
    graph = delta_graph(saver, frequency)
    for number in range(5):
        state = graph.invoke({"notes": [f"input {number}"]}, T1)
    assert len(state["notes"]) == 10
    count = saver.usage("t1").checkpoints
    saver.copy_thread("t1", "t2")
    for name in ("t1", "t2"):
        saver.prune([name])
        assert delta_graph(HoldfastSaver(engine), frequency).get_state(thread(name)).values == state
    kept = saver.usage("t1").checkpoints
    assert kept == count if frequency == 1_000 else 1 <= kept < count
    assert delta_graph(saver, frequency).invoke({"notes": ["more"]}, T1)["notes"] == [
        *state["notes"],
        "more",
        "note 11",
    ]


def test_the_history_of_a_delta_channel_is_that_of_the_base_class(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    config = put(saver, values={"d": _DeltaSnapshot([1, 2]), "e": 0})
    saver.put_writes(config, [("d", 3), ("x", 0)], "task-b", "2")
    saver.put_writes(config, [("d", 4)], "task-a", "3")
    config = put(saver, config, values={"e": 1}, versions={"d": 2, "e": 2})
    saver.put_writes(config, [("d", 5)], "task-c")
    config = put(saver, config, values={"e": 2}, versions={"d": 3, "e": 3})
    saver.put_writes(config, [("d", "pending")], "task-d")
    found = saver.get_delta_channel_history(config=config, channels=["d", "none"])
    base = super(HoldfastSaver, saver).get_delta_channel_history(config=config, channels=["d", "none"])
    assert found == base
    assert [value for _, _, value in found["d"]["writes"]] == [3, 4, 5]
    assert found["d"]["seed"].value == [1, 2]
    assert saver.get_delta_channel_history(config=T1, channels=["d"])["d"] == found["d"]
    assert saver.get_delta_channel_history(config=thread("none"), channels=["d"]) == {"d": {"writes": []}}
    assert saver.get_delta_channel_history(config=config, channels=[]) == {}


# Transcript


def test_without_a_transcript_no_conversation_is_recorded(file_engine: holdfast.Engine) -> None:
    graph_of(HoldfastSaver(file_engine, transcript=None), "t1", 2)
    assert file_engine.session("t1").state().messages == 0


def test_a_transcript_that_is_no_list_of_messages_is_left_alone(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine)
    for value in ("text", ["a", "b"], [], {"a": 1}, [HumanMessage("no id"), HumanMessage("no id"), "x"]):
        put(saver, values={"messages": value})
        assert get(saver).checkpoint["channel_values"]["messages"] == value
    assert transcript(file_engine.session("t1")) == ["no id", "no id"]


def test_a_transcript_of_a_session_that_ended_does_not_hide_the_error(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine)
    graph_of(saver, "t1", 1)
    file_engine.session("t1").end()
    with pytest.raises(holdfast.errors.SessionClosedError):
        chat(saver, answer).invoke(say("more"), T1)


def test_an_engine_that_is_awaited_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="blocking"):
        HoldfastSaver("agent.db")  # type: ignore[arg-type]
