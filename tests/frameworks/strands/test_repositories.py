"""The repository keeps Strands' records as they are, whatever is in them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strands.types.content import Message
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import holdfast
from holdfast.strands import StrandsRepository

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
IDS = st.text("abc123", min_size=1, max_size=4)
TEXTS = st.text(max_size=20)
BLOCKS = st.one_of(
    st.builds(lambda text: {"text": text}, TEXTS),
    st.builds(
        lambda call, value: {"toolUse": {"toolUseId": call, "name": "look", "input": {"value": value}}}, IDS, JSON
    ),
    st.builds(
        lambda call, text, value, status: {
            "toolResult": {"toolUseId": call, "status": status, "content": [{"text": text}, {"json": value}]}
        },
        IDS,
        TEXTS,
        JSON,
        st.sampled_from(["success", "error"]),
    ),
    st.builds(lambda data: {"image": {"format": "png", "source": {"bytes": data}}}, st.binary(max_size=20)),
    st.builds(
        lambda data: {"document": {"format": "txt", "name": "notes", "source": {"bytes": data}}}, st.binary(max_size=20)
    ),
    st.builds(lambda text: {"reasoningContent": {"reasoningText": {"text": text, "signature": "s"}}}, TEXTS),
    st.just({"cachePoint": {"type": "default"}}),
    st.just({"video": {"format": "mp4", "source": {"location": {"type": "s3", "uri": "s3://videos/1"}}}}),
    st.just({"guardContent": {"text": {"text": "guarded"}}}),
)
MESSAGES = st.builds(
    lambda role, content, name: {"role": role, "content": content} | ({"tracking_id": name} if name else {}),
    st.sampled_from(["user", "assistant"]),
    st.lists(BLOCKS, max_size=4),
    st.none() | IDS,
)


def create(engine: holdfast.Engine, name: str = "s1") -> StrandsRepository:
    repository = StrandsRepository(engine)
    repository.create_session(Session(session_id=name, session_type=SessionType.AGENT))
    repository.create_agent(name, SessionAgent("default", {"paid": 3}, {"window": 7}, {"interrupt_state": {}}))
    return repository


def message(text: str, number: int) -> SessionMessage:
    return SessionMessage.from_message({"role": "user", "content": [{"text": text}]}, number)


TWO_RESULTS = [{"toolResult": {"toolUseId": "1", "status": "success", "content": [{"text": text}]}} for text in "ab"]
"""Two results of one call, in one message."""


@settings(max_examples=60, deadline=None)
@given(messages=st.lists(MESSAGES, max_size=6))
@example(messages=[{"role": "user", "content": TWO_RESULTS}])
def test_every_message_comes_back_as_it_was(messages: list[dict[str, Any]]) -> None:
    """Also orphaned results, two messages with one id, and empty ones. Reading them again changes nothing."""
    with holdfast.open("memory:") as engine:
        repository = create(engine)
        records = [SessionMessage.from_message(cast("Message", each), number) for number, each in enumerate(messages)]
        for record in records:
            repository.create_message("s1", "default", record)
        version = engine.session("s1").state().version
        assert repository.list_messages("s1", "default") == records
        assert StrandsRepository(engine).list_messages("s1", "default") == records
        assert engine.session("s1").state().version == version
        engine.session("s1").close_calls()
        engine.session("s1").pack(budget=100_000)
        assert engine.admin.verify().ok


def test_texts_that_no_store_takes_are_kept(engine: holdfast.Engine) -> None:
    repository = create(engine)
    for number, text in enumerate(["\x00", "a lone \ud800 surrogate", "🦊" * 1_000, ""]):
        repository.create_message("s1", "default", message(text, number))
    listed = StrandsRepository(engine).list_messages("s1", "default")
    assert [each.message["content"][0]["text"] for each in listed] == [
        "\x00",
        "a lone \ud800 surrogate",
        "🦊" * 1_000,
        "",
    ]
    assert "a lone ? surrogate" in engine.session("s1").pack().text


def test_pages_of_messages(engine: holdfast.Engine) -> None:
    repository = create(engine)
    for number in range(7):
        repository.create_message("s1", "default", message(f"text {number}", number))
    page = repository.list_messages("s1", "default", limit=2, offset=3)
    assert [each.message_id for each in page] == [3, 4]
    assert [each.message_id for each in repository.list_messages("s1", "default", offset=5)] == [5, 6]
    assert repository.list_messages("s1", "default", offset=9) == []
    read = repository.read_message("s1", "default", 6)
    assert read is not None
    assert read.message["content"] == [{"text": "text 6"}]
    assert repository.read_message("s1", "default", 7) is None


def test_the_newest_state_of_an_agent_is_read(engine: holdfast.Engine) -> None:
    repository = create(engine)
    first = repository.read_agent("s1", "default")
    assert first is not None
    repository.update_agent("s1", SessionAgent("default", {"paid": 4}, {"window": 8}, {"interrupt_state": {"a": 1}}))
    newest = StrandsRepository(engine).read_agent("s1", "default")
    assert newest is not None
    assert (newest.state, newest.conversation_manager_state) == ({"paid": 4}, {"window": 8})
    assert newest._internal_state == {"interrupt_state": {"a": 1}}
    assert newest.created_at == first.created_at


def test_what_does_not_exist(engine: holdfast.Engine) -> None:
    repository = StrandsRepository(engine)
    assert repository.read_session("s1") is None
    assert repository.read_agent("s1", "default") is None
    assert repository.read_multi_agent("s1", "g1") is None
    agent = SessionAgent("default", {}, {})
    for attempt in (
        lambda: repository.create_agent("s1", agent),
        lambda: repository.update_agent("s1", agent),
        lambda: repository.create_message("s1", "default", message("x", 0)),
        lambda: repository.list_messages("s1", "default"),
    ):
        with pytest.raises(SessionException, match="does not exist"):
            attempt()
    repository = create(engine)
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_message("s1", "default", message("x", 0))
    read = repository.read_session("s1")
    assert read is not None
    assert read.session_type is SessionType.AGENT


def test_an_index_is_given_once(engine: holdfast.Engine) -> None:
    repository = create(engine)
    first = message("mine", 0)
    repository.create_message("s1", "default", first)
    repository.create_message("s1", "default", first)
    with pytest.raises(SessionException, match="another process"):
        repository.create_message("s1", "default", message("yours", 0))
    assert [each.text for each in engine.session("s1").messages()] == ["mine"]


def test_long_names_are_shortened(engine: holdfast.Engine) -> None:
    name = "conversation/" * 60
    repository = create(engine, name)
    repository.create_agent(name, SessionAgent("agent " * 100, {}, {}))
    repository.create_message(name, "agent " * 100, message("hello", 0))
    assert len(StrandsRepository(engine).list_messages(name, "agent " * 100)) == 1


def test_a_crash_between_the_record_and_the_session_is_healed(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.frameworks.shadows import Shadow

    repository = create(file_engine)
    repository.create_message("s1", "default", message("first", 0))
    with monkeypatch.context() as patched:
        patched.setattr(Shadow, "follow", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            repository.create_message("s1", "default", message("second", 1))
    other = StrandsRepository(file_engine)
    other.create_message("s1", "default", message("third", 2))
    assert [each.text for each in file_engine.session("s1").messages()] == ["first", "second", "third"]
