"""The chat store answers as LlamaIndex's own does, on every store, and its chats are conversations of sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import holdfast
from holdfast.llama_index import HoldfastChatStore

LONG_KEY = "chat-" + "ä" * 300


def said(text: str, role: MessageRole = MessageRole.USER) -> ChatMessage:
    return ChatMessage(role=role, content=text)


EXAMPLES = [
    said("Hello"),
    said("", MessageRole.ASSISTANT),
    said("nul \0 and a smile 🙂", MessageRole.ASSISTANT),
    ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text="look"), ImageBlock(image=b"\x89PNG\r\n\x1a\n12345678")]),
    ChatMessage(role=MessageRole.USER, blocks=[ImageBlock(url="https://example.org/a.png")]),
    ChatMessage(
        role=MessageRole.ASSISTANT,
        blocks=[
            ThinkingBlock(content="hm", additional_information={"signature": "abc"}),
            TextBlock(text="I look."),
            ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"at": {"a": [1, 2]}}),
        ],
    ),
    ChatMessage(role=MessageRole.TOOL, content="found", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role=MessageRole.SYSTEM, content="Be brief."),
    ChatMessage(role=MessageRole.ASSISTANT, content="x" * 100_000),
]


def test_messages_come_back_as_they_were_given(engine: holdfast.Engine) -> None:
    async def scenario() -> list[ChatMessage]:
        store = HoldfastChatStore(engine)
        await store.add_messages(LONG_KEY, EXAMPLES)
        assert await store.get_keys() == [LONG_KEY]
        return await HoldfastChatStore(engine).get_messages(LONG_KEY)

    assert asyncio.run(scenario()) == EXAMPLES
    assert engine.admin.verify().ok


def test_a_chat_is_a_conversation_of_a_session(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(engine)
        await store.add_message("chat", said("Where is order 7?"))
        await store.add_messages("chat", EXAMPLES[5:7])
        await store.add_message("chat", said("At the depot.", MessageRole.ASSISTANT))
        await store.archive_oldest_messages("chat", 1)

    asyncio.run(scenario())
    session = engine.session("chat")
    assert [message.role for message in session.messages()] == ["user", "assistant", "tool", "assistant"]
    text = session.pack().text
    assert "Where is order 7?" in text
    assert "At the depot." in text


def test_deleted_messages_leave_the_conversation(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(engine)
        await store.add_messages("chat", [said("one"), said("two", MessageRole.ASSISTANT), said("three")])
        await store.delete_oldest_messages("chat", 1)
        assert [each.content for each in await store.get_messages("chat")] == ["two", "three"]

    asyncio.run(scenario())
    text = engine.session("chat").pack().text
    assert "three" in text
    assert "one" not in text.replace("someone", "")


def test_two_stores_of_one_chat_agree(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        first, second = HoldfastChatStore(engine), HoldfastChatStore(engine)
        chats = [(store, f"{number} {at}") for at, store in enumerate((first, second)) for number in range(8)]
        await asyncio.gather(*(store.add_message("chat", said(text)) for store, text in chats))
        assert await first.get_messages("chat") == await second.get_messages("chat")
        assert await first.count_messages("chat") == 16

    asyncio.run(scenario())
    assert engine.session("chat").state().live == 16


def test_reading_creates_nothing(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(file_engine)
        assert await store.get_messages("none") == []
        assert await store.count_messages("none") == 0
        assert await store.delete_message("none", 1) is None
        await store.delete_messages("none")
        assert await store.archive_oldest_messages("none", 3) == []

    asyncio.run(scenario())
    assert file_engine.sessions() == ()


def test_an_awaited_engine_is_refused() -> None:
    with pytest.raises(holdfast.errors.InvalidArgument, match="blocking"):
        HoldfastChatStore(object())  # type: ignore[arg-type]


def test_a_memory_of_llama_index_flushes_its_queue(file_engine: holdfast.Engine) -> None:
    """What is flushed is archived: LlamaIndex shows it no more, and the session has it still."""

    async def scenario() -> list[ChatMessage]:
        memory = Memory.from_defaults(
            session_id="chat", token_limit=200, token_flush_size=50, chat_store=HoldfastChatStore(file_engine)
        )
        for number in range(12):
            await memory.aput(said(f"question {number} " + "word " * 10))
            await memory.aput(said(f"answer {number} " + "word " * 10, MessageRole.ASSISTANT))
        return await memory.aget()

    shown = asyncio.run(scenario())
    assert len(shown) < 24
    assert file_engine.session("chat").state().live == 24


def call(name: str | None, tool: str = "look", **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=name, tool_name=tool, tool_kwargs=arguments)


def result(text: str, name: str | None) -> ChatMessage:
    return ChatMessage(
        role=MessageRole.TOOL, content=text, additional_kwargs={} if name is None else {"tool_call_id": name}
    )


@pytest.mark.parametrize("name", [None, "look"])
def test_results_answer_calls_without_ids_of_their_own(file_engine: holdfast.Engine, name: str | None) -> None:
    """Some models give their calls no id, or the name of the tool."""

    async def scenario() -> None:
        store = HoldfastChatStore(file_engine)
        await store.add_message("chat", said("Look twice."))
        await store.add_message("chat", ChatMessage(role="assistant", blocks=[call(name, at=1), call(name, at=2)]))
        await store.add_messages(
            "chat", [result("one", name), result("two", name), said("Done.", MessageRole.ASSISTANT)]
        )
        await HoldfastChatStore(file_engine).add_message("chat", said("Thanks."))

    asyncio.run(scenario())
    session = file_engine.session("chat")
    messages = session.messages()
    assert [each.role for each in messages] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert [each.tool_results[0].tool_call_id for each in messages[2:4]] == [each.id for each in messages[1].tool_calls]
    assert "No result" not in session.pack().text


ODD = [
    ChatMessage(role="assistant", blocks=[call("c1", ""), call("i" * 5_000, "n" * 500), call("a\0b", "tab\there")]),
    ChatMessage(
        role="assistant", additional_kwargs={"tool_calls": [{"function": {"name": "f"}}, {"id": 7, "function": {}}]}
    ),
    ChatMessage(
        role="user",
        blocks=[ImageBlock(url="data:image/png;base64,aaa"), CachePoint(cache_control=CacheControl(type="ephemeral"))],
    ),
    ChatMessage(role="user", blocks=[TextBlock(text="x")] * 1_001),
    ChatMessage(role="assistant", blocks=[call(f"c{number}") for number in range(300)]),
    ChatMessage(
        role="tool", blocks=[ImageBlock(image=b"\x89PNG\r\n\x1a\n12345678")], additional_kwargs={"tool_call_id": "c0"}
    ),
    ChatMessage(role="user", blocks=[]),
]


def test_no_message_stops_a_chat(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(engine)
        for number, message in enumerate(ODD):
            await store.add_message("chat", message)
            await store.add_message("chat", said(f"question {number}"))
        assert (await HoldfastChatStore(engine).get_messages("chat"))[::2] == ODD

    asyncio.run(scenario())
    session = engine.session("chat")
    session.close_calls()
    text = session.pack().text
    assert all(f"question {number}" in text for number in range(len(ODD)))
    assert engine.admin.verify().ok


def test_an_invalid_message_stores_none_of_a_long_list(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(file_engine)
        many = [said(f"question {number}") for number in range(450)]
        with pytest.raises(holdfast.errors.InvalidText):
            await store.add_messages("chat", [*many, said("\ud800")])
        with pytest.raises(holdfast.errors.InvalidArgument, match="JSON"):
            await store.add_message("chat", ChatMessage(content="x", additional_kwargs={"object": object()}))
        assert await store.get_messages("chat") == []
        await store.add_messages("chat", many)
        assert await store.get_messages("chat") == many

    asyncio.run(scenario())


def test_a_long_chat_reads_only_what_is_new(file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(file_engine)
        await store.add_messages("chat", [said(f"question {number}") for number in range(600)])
        log = store.log("chat")
        shadows = [*log._shadows]
        limits: list[int] = []
        listed = holdfast.runtime.facets.EntriesFacet.list

        def count(self: Any, **options: Any) -> Any:
            limits.append(options["limit"])
            return listed(self, **options)

        monkeypatch.setattr(holdfast.runtime.facets.EntriesFacet, "list", count)
        for number in range(5):
            await store.add_message("chat", said(f"more {number}"))
        assert sum(limits) < 100
        assert all(one is other for one, other in zip(shadows, log._shadows, strict=False))

    asyncio.run(scenario())


def test_deleted_messages_can_be_erased(engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store, other = HoldfastChatStore(engine), HoldfastChatStore(engine)
        await store.add_messages("chat", [said("one"), said("the secret", MessageRole.ASSISTANT), said("three")])
        assert len(await other.get_messages("chat")) == 3
        await store.set_messages("chat", [said("one"), said("two", MessageRole.ASSISTANT)])
        assert await store.erase_deleted("chat") == 2
        assert await store.erase_deleted("chat") == 0
        assert await other.erase_deleted("none") == 0
        await other.add_message("chat", said("four"))
        for each in (store, other, HoldfastChatStore(engine)):
            assert [message.content for message in await each.get_messages("chat")] == ["one", "two", "four"]

    asyncio.run(scenario())
    payloads = b"".join(event.payload or b"" for event in engine.session("chat").events(limit=1_000))
    assert b"the secret" not in payloads
    assert b"four" in payloads
    assert engine.admin.verify().ok


def test_a_destroyed_chat_is_empty(file_engine: holdfast.Engine) -> None:
    async def scenario() -> None:
        store = HoldfastChatStore(file_engine)
        await store.add_message("chat", said("hello"))
        file_engine.session("chat").destroy(offload=False)
        assert await store.get_messages("chat") == []
        assert await store.get_keys() == []
        with pytest.raises(holdfast.errors.SessionNotFound):
            await store.add_message("chat", said("again"))

    asyncio.run(scenario())


OPERATIONS = st.one_of(
    st.tuples(st.just("add_message"), st.sampled_from(EXAMPLES[:6])),
    st.tuples(st.just("add_messages"), st.lists(st.sampled_from(EXAMPLES[:6]), min_size=1, max_size=3)),
    st.tuples(st.just("set_messages"), st.lists(st.sampled_from(EXAMPLES[:4]), max_size=3)),
    st.tuples(st.sampled_from(["delete_oldest_messages", "archive_oldest_messages"]), st.integers(0, 3)),
    st.tuples(st.just("delete_messages"), st.sampled_from([None, *MessageStatus])),
)


@settings(max_examples=25)
@given(st.lists(OPERATIONS, max_size=10))
def test_it_answers_as_their_own_store_does(operations: list[tuple[str, Any]]) -> None:
    async def scenario() -> None:
        with holdfast.open("memory:") as engine:
            theirs, ours = SQLAlchemyChatStore(table_name="chats"), HoldfastChatStore(engine)
            for name, argument in operations:
                answers = [await getattr(store, name)("chat", argument) for store in (theirs, ours)]
                assert answers[0] == answers[1], name
                for status in (None, *MessageStatus):
                    one, other = [await store.get_messages("chat", status) for store in (theirs, ours)]
                    assert one == other
                    assert await theirs.count_messages("chat", status) == await ours.count_messages("chat", status)
                    page = [await store.get_messages("chat", status, limit=2, offset=1) for store in (theirs, ours)]
                    assert page[0] == page[1]
            assert await theirs.get_keys() == await ours.get_keys()
            log = ours.log("chat")
            assert log.shadow.known_ids() == [row.id for row in log.rows(None)]

    asyncio.run(scenario())
