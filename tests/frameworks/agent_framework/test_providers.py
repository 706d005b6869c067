"""The history provider keeps messages as they are, whatever is in them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from agent_framework import Content, HistoryProvider, Message
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.agent_framework import HistoryProviderOptions, HoldfastHistoryProvider, providers
from holdfast.errors import InvalidArgument
from holdfast.model import limits

TEXTS = st.text(max_size=20)
IDS = st.text("abc123", min_size=1, max_size=4)
ARGUMENTS = st.one_of(st.just("{}"), st.just("not json"), st.none(), st.builds(lambda text: {"text": text}, TEXTS))
CONTENTS = st.one_of(
    st.builds(Content.from_text, TEXTS),
    st.builds(lambda text: Content.from_text_reasoning(text=text, protected_data="signed"), TEXTS),
    st.builds(lambda data: Content.from_data(data, "image/png"), st.binary(min_size=1, max_size=20)),
    st.builds(lambda data: Content.from_data(data, "application/pdf"), st.binary(min_size=1, max_size=20)),
    st.just(Content.from_uri("s3://pictures/cat.png", media_type="image/png")),
    st.builds(lambda call, arguments: Content.from_function_call(call, "look", arguments=arguments), IDS, ARGUMENTS),
    st.builds(lambda call: Content.from_function_call(call, "look", informational_only=True), IDS),
    st.builds(lambda call, text: Content.from_function_result(call, result=text), IDS, TEXTS),
    st.builds(lambda text: Content.from_error(message=text, error_code="e1"), TEXTS),
    st.just(Content.from_hosted_file("file-1")),
    st.just(Content.from_usage({"input_token_count": 3})),
    st.just(Content.from_mcp_server_tool_call("m1", "search", server_name="docs", arguments={"q": "x"})),
)
MESSAGES = st.builds(
    lambda role, contents, name: Message(role, contents, message_id=name, additional_properties={"mine": [1, "two"]}),
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(CONTENTS, max_size=4),
    st.none() | IDS,
)


def save(provider: HistoryProvider, *messages: Message, name: str | None = "s1") -> None:
    asyncio.run(provider.save_messages(name, messages))


def load(provider: HistoryProvider, name: str | None = "s1") -> list[Message]:
    return asyncio.run(provider.get_messages(name))


def dump(messages: list[Message]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in messages]


@settings(max_examples=60, deadline=None)
@given(messages=st.lists(MESSAGES, max_size=6))
def test_every_message_comes_back_as_it_was(messages: list[Message]) -> None:
    """Also without ids, empty, with two equal calls, or with results of no call. Only missing results are added."""
    with holdfast.open("memory:") as engine:
        save(HoldfastHistoryProvider(engine), *messages)
        version = engine.session("s1").state().version
        provider = HoldfastHistoryProvider(engine)
        loaded = load(provider)
        added = [each for each in loaded if "mine" not in each.additional_properties]
        assert all(each.role == "tool" and not each.additional_properties for each in added)
        assert dump([each for each in loaded if each not in added]) == dump(messages)
        assert engine.session("s1").state().version == version
        engine.session("s1").close_calls()
        engine.session("s1").pack(budget=100_000)
        assert engine.admin.verify().ok


def test_the_same_messages_saved_again_are_new(engine: holdfast.Engine) -> None:
    """A program that saves by itself says twice what it says twice."""
    provider = HoldfastHistoryProvider(engine)
    message = Message("user", ["Yes."])
    save(provider, message)
    save(provider, message)
    assert [each.text for each in load(provider)] == ["Yes.", "Yes."]
    assert [each.text for each in engine.session("s1").messages()] == ["Yes.", "Yes."]


def test_loaded_messages_are_copies(engine: holdfast.Engine) -> None:
    provider = HoldfastHistoryProvider(engine)
    save(provider, Message("user", ["Yes."]))
    load(provider)[0].contents[0].text = "No."
    assert load(provider)[0].text == "Yes."


def test_texts_that_no_store_takes_are_kept(engine: holdfast.Engine) -> None:
    listed = ["\x00", "a lone \ud800 surrogate", "🦊" * 1_000, ""]
    save(HoldfastHistoryProvider(engine), *(Message("user", [Content.from_text(text)]) for text in listed))
    assert [each.contents[0].text for each in load(HoldfastHistoryProvider(engine))] == listed
    assert "a lone ? surrogate" in engine.session("s1").pack().text


def test_sessions_and_sources_are_apart(engine: holdfast.Engine) -> None:
    first, second = HoldfastHistoryProvider(engine), HoldfastHistoryProvider(engine, "other " * 60)
    save(first, Message("user", ["One."]), name="session " * 60)
    save(second, Message("user", ["Two."]), name="session " * 60)
    save(first, Message("user", ["Three."]), name=None)
    assert [each.text for each in load(first, "session " * 60)] == ["One."]
    assert [each.text for each in load(second, "session " * 60)] == ["Two."]
    assert [each.text for each in load(first, None)] == ["Three."]
    assert load(first, "unknown") == []
    save(first)


def _calls(arguments: Any = "{}", *, name: str = "look", call: str = "c1") -> list[Message]:
    """A call, and its result."""
    made = Content.from_function_call(call, name, arguments=arguments)
    return [Message("assistant", [made]), Message("tool", [Content.from_function_result(call, result="Seen.")])]


ODD: dict[str, list[Message]] = {
    "a list of many levels": _calls("[" * 100_000),
    "an object of many levels": _calls('{"a":' * 300 + "1" + "}" * 300),
    "no number": _calls('{"a": NaN}'),
    "a large number": _calls('{"wei": 100000000000000000000000000000}'),
    "a very large number": _calls('{"a": ' + "9" * 4_000 + "}"),
    "half a character": _calls('{"a": "\\ud800"}'),
    "a long name": _calls(name="f" * 2_000),
    "no name": _calls(name=""),
    "a name of two lines": _calls(name="f\nx\0"),
    "a long id": _calls(call="c" * 5_000),
    "an odd id": _calls(call="c\ud800\n"),
    "the same id twice": [Message("assistant", [*_calls()[0].contents, *_calls()[0].contents]), _calls()[1]],
    "many calls": [Message("assistant", [_calls(call=f"c{number}")[0].contents[0] for number in range(300)])],
    "many parts": [Message("user", [Content.from_text("x") for _ in range(1_200)])],
    "an odd type": [Message("user", [Content.from_data(b"x", "a" * 500 + "/x\n"), Content.from_data(b"x", "a,b/c")])],
    "an odd image": [Message("user", [Content.from_data(b"x", "image/png,\n")])],
}


@pytest.mark.parametrize("messages", ODD.values(), ids=ODD)
def test_no_message_ends_a_conversation(file_engine: holdfast.Engine, messages: list[Message]) -> None:
    """What a model or a user wrote is stored; what a session cannot have is shown in another form."""
    save(HoldfastHistoryProvider(file_engine), Message("user", ["Hello."]), *messages, Message("assistant", ["Done."]))
    provider = HoldfastHistoryProvider(file_engine, budget=8_000)
    save(provider, Message("user", ["And now?"]))
    known = dump(load(provider))
    assert all(each in known for each in dump(messages))
    packed = provider.build_pack(provider.transcript("s1"), [], {})
    assert packed is not None
    assert packed.messages[0].text.endswith("Hello.")
    assert any("And now?" in each.text for each in packed.messages[-2:])
    assert file_engine.admin.verify().ok


def test_a_file_that_is_too_large_for_a_message_is_named(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INLINE_BYTES", 100)
    provider = HoldfastHistoryProvider(file_engine)
    messages = [Message("user", [Content.from_data(b"x" * 200, "application/pdf")]), Message("user", ["Hello."])]
    save(provider, *messages)
    assert dump(load(provider)) == dump(messages)
    assert file_engine.session("s1").messages()[0].text == "[application/pdf, 200 bytes]"


def test_few_conversations_are_kept_in_memory(file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "KEPT_TRANSCRIPTS", 2)
    provider = HoldfastHistoryProvider(file_engine)
    names = ["s1", "s2", "s3", "s1", "s2", "s3"]
    for number, name in enumerate(names):
        save(provider, Message("user", [f"{number}"]), name=name)
    assert len(provider._transcripts) == 2
    assert [[each.text for each in load(provider, name)] for name in ("s1", "s2", "s3")] == [
        ["0", "3"],
        ["1", "4"],
        ["2", "5"],
    ]


def test_only_options_are_accepted(file_engine: holdfast.Engine) -> None:
    options: HistoryProviderOptions = {"user": "ada", "store_context_messages": True, "store_context_from": {"weather"}}
    provider = HoldfastHistoryProvider(file_engine, **options)
    assert (provider.store_context_messages, provider.store_context_from) == (True, {"weather"})
    assert provider.conversation("s1").state().ledgers == (("user", "ada"),)
    with pytest.raises(TypeError, match="unexpected keyword argument 'budgets'"):
        HoldfastHistoryProvider(file_engine, budgets=4)  # type: ignore[call-arg] # it is the test


def test_only_engines_are_accepted() -> None:
    with pytest.raises(InvalidArgument, match="engine"):
        HoldfastHistoryProvider("agent.db")  # type: ignore[arg-type] # it is the test


def test_a_failure_between_the_record_and_the_session_is_healed(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, and in another one after a crash."""
    crashed, other = HoldfastHistoryProvider(file_engine), HoldfastHistoryProvider(file_engine)
    for number, healer in enumerate([crashed, other]):
        with monkeypatch.context() as patched:
            patched.setattr(holdfast.Session, "record_all", lambda *_, **__: (_ for _ in ()).throw(OSError("no disk")))
            with pytest.raises(OSError, match="no disk"):
                save(crashed, Message("user", [f"First {number}."]))
        save(healer, Message("user", [f"Second {number}."]))
    said = ["First 0.", "Second 0.", "First 1.", "Second 1."]
    assert [each.text for each in file_engine.session("s1").messages()] == said
    assert [each.text for each in load(crashed)] == said


def test_the_cost_of_a_turn_does_not_grow(file_engine: holdfast.Engine) -> None:
    provider = HoldfastHistoryProvider(file_engine)
    sizes: list[int] = []
    for number in range(60):
        save(provider, Message("user", [f"Question {number}."]), Message("assistant", [f"Answer {number}."]))
        sizes.append(sum(len(event.payload or b"") for event in file_engine.session("s1").events(limit=1_000)))
    steps = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(steps[-10:]) < 1.2 * max(steps[:10])
