"""Properties of how values are stored: whatever a serializer can write comes back, and lists share their blocks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from holdfast.langgraph.deflation import open_body, pack_bytes, unpack_bytes
from holdfast.langgraph.records import BlockedList, CheckpointName, count_shared, parse_id, split_blocks
from holdfast.langgraph.values import KnownList, ValueCodec, ValueMemory

SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
plain: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
fields = st.dictionaries(texts, plain, max_size=2)
messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, texts, id=st.none() | texts, additional_kwargs=fields, name=st.none() | texts),
    st.builds(AIMessage, texts, id=texts, response_metadata=fields),
    st.builds(SystemMessage, texts),
    st.builds(ToolMessage, texts, tool_call_id=texts, status=st.sampled_from(["success", "error"]), artifact=plain),
)
values = st.one_of(
    plain, st.lists(messages | texts, max_size=6), st.dictionaries(texts, st.lists(messages, max_size=3))
)


@given(st.text("abc+_", min_size=1, max_size=8), st.binary(max_size=400) | texts.map(str.encode))
def test_bytes_of_a_serializer_come_back(kind: str, data: bytes) -> None:
    assert unpack_bytes(pack_bytes(kind, data)) == (kind, data)


@given(values)
def test_a_value_comes_back_as_from_the_serializer(value: Any) -> None:
    expected = SERDE.loads_typed(SERDE.dumps_typed(value))
    codec = ValueCodec(SERDE, ValueMemory())
    for _ in range(2):
        assert codec.load(codec.dump(value)) == expected
        assert ValueCodec(SERDE, ValueMemory()).load(codec.dump(value)) == expected
    snapshot = codec.load(codec.dump(_DeltaSnapshot(value)))
    assert isinstance(snapshot, _DeltaSnapshot)
    assert snapshot.value == expected


@given(st.lists(messages, min_size=1, max_size=6), st.data())
def test_what_changed_in_a_list_has_another_text_and_nothing_else(
    listed: list[BaseMessage], data: st.DataObject
) -> None:
    codec = ValueCodec(SERDE, ValueMemory())
    known = codec.dump_list(listed, KnownList())
    assert codec.dump_list(listed, known).texts == known.texts
    at = data.draw(st.integers(0, len(listed) - 1))
    change = data.draw(st.sampled_from(["content", "additional_kwargs", "id", "unknown"]))
    if change == "additional_kwargs":
        listed[at].additional_kwargs["changed here"] = {"deep": [1]}
    elif change == "unknown":
        listed[at].unknown = "changed"  # type: ignore[attr-defined]
    else:
        setattr(listed[at], change, f"{getattr(listed[at], change)} changed")
    after = codec.dump_list([*listed, HumanMessage("new")], known)
    for number, (old, new) in enumerate(zip(known.texts, after.texts, strict=False)):
        assert (old != new) == (listed[number] is listed[at])
    loaded = codec.load_list(after.texts)
    assert loaded.elements == [SERDE.loads_typed(SERDE.dumps_typed(each)) for each in [*listed, HumanMessage("new")]]
    again = codec.load_list(after.texts)
    assert not any(one is other for one, other in zip(loaded.elements, again.elements, strict=True))


@given(messages)
def test_a_message_that_is_built_from_memory_is_a_message_of_its_own(message: BaseMessage) -> None:
    codec = ValueCodec(SERDE, ValueMemory())
    text = codec.dump_list([message], KnownList()).texts
    one: Any = codec.load_list(text).elements[0]
    other: Any = codec.load_list(text).elements[0]
    assert one == other
    assert type(one) is type(message)
    one.additional_kwargs["only here"] = 1
    one.content = "changed"
    assert codec.load_list(text).elements[0] == other
    assert other.model_copy(update={"id": "x"}).id == "x"
    assert SERDE.dumps_typed(other) == SERDE.dumps_typed(SERDE.loads_typed(SERDE.dumps_typed(message)))


def test_values_that_are_equal_and_of_other_types_have_other_texts() -> None:
    codec = ValueCodec(SERDE, ValueMemory())
    values: list[Any] = [1, True, 1.0, "1", b"1", {"a": 1}, {"a": True}, {"a": 1.0}, {1: "a"}, {"1": "a"}]
    assert len({codec.dump_text(value) for value in values}) == len(values)
    for value in values:
        assert repr(codec.load(codec.dump(value))) == repr(value)


short = st.lists(st.integers(0, 10_000).map(lambda number: f"text {number}"), max_size=300)


def join_blocks(stored: dict[str, Any], keys: list[str]) -> list[str]:
    forms = [stored[key] for key in keys]
    return [text for form in forms for text in form.get("list") or join_blocks(stored, form["blocks"])]


@given(short, short, st.integers(0, 300))
def test_blocks_do_not_depend_on_what_was_known(one: list[str], two: list[str], cut: int) -> None:
    last = split_blocks(one, BlockedList())
    for grown in (one + two, one[:cut] + two, two):
        found = split_blocks(grown, last)
        assert found == split_blocks(grown, BlockedList())
        stored = {block.key: block.form for block in (*found.blocks, *found.rows)}
        assert all(open_body(block.body) == block.form for block in (*found.blocks, *found.rows))
        assert join_blocks(stored, found.form.get("blocks", [])) + found.form["list"] == grown


@given(short, short)
def test_a_list_that_loses_its_front_has_the_other_blocks_in_common(front: list[str], rest: list[str]) -> None:
    whole, part = split_blocks(front + rest, BlockedList()), split_blocks(rest, BlockedList())
    assert {block.key for block in part.blocks[4:]} <= {block.key for block in whole.blocks}


@given(st.lists(texts), st.lists(texts))
def test_the_shared_beginning_is_counted(one: list[str], two: list[str]) -> None:
    count = count_shared(one, two)
    assert one[:count] == two[:count]
    assert count == min(len(one), len(two)) or one[count] != two[count]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), texts)
def test_a_key_has_the_id(name: str, namespace: str) -> None:
    assert parse_id(CheckpointName(name, namespace).key) == name
