"""Responses, asked with the official client, in front of an upstream of each language."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseFunctionToolCall

import holdfast
from holdfast.server.v1.runs import ENGINE_ROUNDS
from tests.protocols import Reply, Talk
from tests.server.v1.conftest import TOOL, Desk, first_text, say

PIXEL_DATA = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
PIXEL = f"data:image/png;base64,{PIXEL_DATA}"


def ask(desk: Desk, asked: Any, **options: Any) -> Response:
    response: Response = desk.client.responses.create(model="m1", input=asked, **options)
    return response


def call_of(response: Response) -> ResponseFunctionToolCall:
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert isinstance(call, ResponseFunctionToolCall)
    return call


def plain(response: Response) -> list[Any]:
    """The output, without what the stream helpers of the client add."""
    return json.loads(json.dumps([item.to_dict() for item in response.output]), object_hook=without_parsed)  # type: ignore[no-any-return]


def without_parsed(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if not key.startswith("parsed")}


def same(first: Response, second: Response) -> bool:
    return first.to_dict() == second.to_dict()


def test_a_question_gets_an_answer_which_can_be_retrieved(desk: Desk) -> None:
    response = ask(desk, "hello", instructions="Be brief.", metadata={"a": "b"}, temperature=0.5, user="ada")
    assert response.output_text == "You said: hello"
    assert (response.status, response.model, response.metadata and response.metadata["a"]) == ("completed", "m1", "b")
    assert response.usage is not None
    assert response.usage.total_tokens > response.usage.output_tokens > 0
    assert "Be brief." in json.dumps(desk.sent)
    again = desk.client.responses.retrieve(response.id)
    assert same(again, response)
    items = list(desk.client.responses.input_items.list(response.id))
    assert [first_text(item) for item in items] == ["hello"]
    assert desk.model.refused == []


def test_the_pack_of_a_response_explains_it(chat_desk: Desk) -> None:
    response = ask(chat_desk, "hello")
    assert response.metadata is not None
    with holdfast.open(chat_desk.store) as engine:
        session = engine.session(response.metadata["holdfast_session"])
        pack = response.metadata["holdfast_pack"]
        assert session.packs.manifest(pack).request.model == "m1"
        shown = session.packs.reproduce(pack).openai()["messages"]
    assert shown[-1] == chat_desk.sent["messages"][-1] == {"role": "user", "content": "hello"}


def test_a_stream_spells_the_response(desk: Desk) -> None:
    with desk.client.responses.stream(model="m1", input="hello") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "You said: hello"
    assert final.output_text == "You said: hello"
    assert desk.client.responses.retrieve(final.id).output_text == "You said: hello"
    stored = desk.client.responses.retrieve(final.id)
    assert plain(stored) == plain(final)
    assert stored.usage == final.usage


def test_a_tool_turn_and_its_follow_up(desk: Desk) -> None:
    first = ask(desk, "call lamp", tools=[TOOL])
    call = call_of(first)
    assert (call.name, json.loads(call.arguments)) == ("look_up", {"word": "lamp"})
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "a light"}
    second = ask(desk, [result], previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "The tool said: a light"
    assert second.previous_response_id == first.id
    third = ask(desk, "thanks", previous_response_id=second.id, tools=[TOOL])
    assert third.output_text == "You said: thanks"
    assert desk.model.refused == []


def test_a_streamed_tool_call(desk: Desk) -> None:
    with desk.client.responses.stream(model="m1", input="call lamp", tools=[TOOL]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert "response.function_call_arguments.delta" in kinds
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call_of(final).arguments
    done = [event for event in events if event.type == "response.output_item.done"]
    assert done[-1].item.type == "function_call"
    stored = desk.client.responses.retrieve(final.id)
    assert call_of(stored).arguments == call_of(final).arguments == '{"word": "lamp"}'


def test_reasoning_goes_back_to_the_upstream_that_made_it(desk: Desk) -> None:
    if desk.kind == "openai":
        pytest.skip("the chat of OpenAI shows no reasoning")
    desk.script(
        lambda talk: (
            Reply("done") if talk.turns[-1].results else say("", ("look_up", {"word": "x"}), thought="hm")(talk)
        )
    )
    first = ask(desk, "think", tools=[TOOL], reasoning={"effort": "low"})
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    result = {"type": "function_call_output", "call_id": call_of(first).call_id, "output": "y"}
    second = ask(desk, [result], previous_response_id=first.id, tools=[TOOL], reasoning={"effort": "low"})
    assert second.output_text == "done"
    sent = json.dumps(desk.sent)
    assert "sealed-" in sent, "the sealed thought is sent back"
    assert desk.model.refused == []
    sealed = ask(desk, "think", tools=[TOOL], reasoning={"effort": "low"}, include=["reasoning.encrypted_content"])
    assert sealed.output[0].encrypted_content  # type: ignore[union-attr]
    assert getattr(first.output[0], "encrypted_content", None) is None


def test_images_and_files_reach_the_model(desk: Desk) -> None:
    text = base64.b64encode(b"The lamp is blue.").decode()
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
        {"type": "input_file", "filename": "note.txt", "file_data": f"data:text/plain;base64,{text}"},
    ]
    response = ask(desk, [{"role": "user", "content": content}])
    assert response.output_text.startswith("You said: What is this?")
    sent = json.dumps(desk.sent)
    assert PIXEL.partition(",")[2] in sent
    assert "The lamp is blue." in sent
    (item,) = desk.client.responses.input_items.list(response.id).data
    parts = [part.to_dict() for part in item.content]  # type: ignore[union-attr]
    assert parts[1]["image_url"] == PIXEL
    assert parts[2]["file_data"] == content[2]["file_data"]


def test_an_older_response_forks_the_conversation(desk: Desk) -> None:
    first = ask(desk, "one")
    second = ask(desk, "two", previous_response_id=first.id)
    other = ask(desk, "three", previous_response_id=first.id)
    assert "two" not in json.dumps(desk.sent)
    assert "one" in json.dumps(desk.sent)
    ask(desk, "four", previous_response_id=other.id)
    assert "two" not in json.dumps(desk.sent)
    assert "three" in json.dumps(desk.sent)
    ask(desk, "five", previous_response_id=second.id)
    assert "two" in json.dumps(desk.sent)
    assert "three" not in json.dumps(desk.sent)
    assert desk.model.refused == []


def test_a_call_can_be_answered_in_two_branches(desk: Desk) -> None:
    first = ask(desk, "call lamp", tools=[TOOL])
    for output in ("a light", "a sheep", "a dog"):
        result = {"type": "function_call_output", "call_id": call_of(first).call_id, "output": output}
        branch = ask(desk, [result], previous_response_id=first.id, tools=[TOOL])
        assert branch.output_text == f"The tool said: {output}"
    assert desk.model.refused == []


def test_a_conversation_goes_on(desk: Desk) -> None:
    conversation = desk.client.conversations.create()
    for word in ("one", "two", "three"):
        response = ask(desk, word, conversation=conversation.id)
        assert response.conversation is not None
        assert response.conversation.id == conversation.id
    sent = json.dumps(desk.sent)
    assert all(f"You said: {word}" in sent for word in ("one", "two"))
    items = list(desk.client.conversations.items.list(conversation.id, order="asc"))
    assert len(items) == 6
    assert desk.model.refused == []


def test_what_is_not_stored_cannot_be_found(desk: Desk) -> None:
    response = ask(desk, "a secret", store=False)
    assert response.output_text == "You said: a secret"
    assert response.store is False  # type: ignore[attr-defined]
    with pytest.raises(openai.NotFoundError):
        desk.client.responses.retrieve(response.id)
    conversation = desk.client.conversations.create(items=[{"type": "message", "role": "user", "content": "hello"}])
    ask(desk, "a whisper", conversation=conversation.id, store=False)
    assert "hello" in json.dumps(desk.sent)
    assert len(list(desk.client.conversations.items.list(conversation.id))) == 1
    with holdfast.open(desk.store) as engine:
        for row in engine.sessions(limit=100):
            for message in engine.session(row.session, actor=row.actor).messages():
                assert "whisper" not in message.text
                assert "secret" not in message.text


def test_a_call_can_be_answered_without_storing_it(desk: Desk) -> None:
    conversation = desk.client.conversations.create()
    first = ask(desk, "call lamp", tools=[TOOL], conversation=conversation.id)
    result = {"type": "function_call_output", "call_id": call_of(first).call_id, "output": "a light"}
    for where in ({"conversation": conversation.id}, {"previous_response_id": first.id}):
        answer = ask(desk, [result], tools=[TOOL], store=False, **where)
        assert answer.output_text == "The tool said: a light"
    assert ask(desk, [result], tools=[TOOL], conversation=conversation.id).output_text == "The tool said: a light"
    assert len(list(desk.client.conversations.items.list(conversation.id))) == 4
    assert desk.model.refused == []


def test_the_stateless_style_works(desk: Desk) -> None:
    history: list[Any] = [{"role": "user", "content": "call lamp"}]
    response = ask(desk, history, tools=[TOOL], store=False)
    history += [item.to_dict() for item in response.output]
    history.append({"type": "function_call_output", "call_id": call_of(response).call_id, "output": "a light"})
    response = ask(desk, history, tools=[TOOL], store=False)
    assert response.output_text == "The tool said: a light"
    history += [item.to_dict() for item in response.output]
    history.append({"role": "user", "content": "thanks"})
    assert ask(desk, history, tools=[TOOL]).output_text == "You said: thanks"
    assert desk.model.refused == []


def test_items_can_be_referred_to(desk: Desk) -> None:
    first = ask(desk, "call lamp", tools=[TOOL])
    call = call_of(first)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "a light"}
    reference: Any = {"type": "item_reference", "id": call.id}
    second = ask(desk, [{"role": "user", "content": "call lamp"}, reference, result], tools=[TOOL])
    assert second.output_text == "The tool said: a light"
    third = ask(desk, [reference, result], tools=[TOOL], previous_response_id=first.id)
    assert third.output_text == "The tool said: a light"
    (answer,) = third.output
    assert ask(desk, [{"id": answer.id}, {"role": "user", "content": "thanks"}]).output_text == "You said: thanks"
    assert "a light" in json.dumps(desk.sent)
    for name in ("msg_1", "msg_" + "A" * 100, str(call.id)[:-1] + "f", str(call.id)[:-1]):
        with pytest.raises(openai.NotFoundError):
            ask(desk, [{"type": "item_reference", "id": name}])
    assert desk.model.refused == []


def test_options_reach_the_upstream(desk: Desk) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    ask(
        desk,
        "hello",
        top_p=0.5,
        max_output_tokens=100,
        safety_identifier="s1",
        text={"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}},
        tools=[TOOL],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    sent = {**desk.sent, **desk.model.options[-1]}
    assert json.dumps(schema) in json.dumps(sent)
    expected: dict[str, dict[str, Any]] = {
        "openai": {"top_p": 0.5, "max_tokens": 100, "safety_identifier": "s1", "tool_choice": "required"},
        "openai-responses": {"top_p": 0.5, "max_output_tokens": 100, "safety_identifier": "s1", "store": False},
        "anthropic": {
            "top_p": 0.5,
            "max_tokens": 100,
            "metadata": {"user_id": "s1"},
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        },
    }
    assert {key: sent.get(key) for key in expected[desk.kind]} == expected[desk.kind]
    assert "include" not in sent, "a model that does not reason refuses to be asked for sealed reasoning"
    if desk.kind == "openai-responses":
        desk.client.responses.create(model="gpt-5.6", input="hello")
        assert desk.sent["include"] == ["reasoning.encrypted_content"]
    assert desk.model.refused == []


def test_an_answer_that_is_too_long_is_incomplete(desk: Desk) -> None:
    desk.script(lambda talk: Reply("The lamp is", stop="length"))
    response = ask(desk, "hello")
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text == "The lamp is"
    assert same(desk.client.responses.retrieve(response.id), response)
    with desk.client.responses.stream(model="m1", input="hello") as stream:
        assert [event.type for event in stream][-1] == "response.incomplete"


def test_a_refusal_is_shown(desk: Desk) -> None:
    if desk.kind == "anthropic":
        pytest.skip("Anthropic says why it stopped, and has no part for it")
    desk.script(lambda talk: Reply("I cannot do that.", stop="refusal"))
    response = ask(desk, "hello")
    assert plain(response)[0]["content"][0] == {"type": "refusal", "refusal": "I cannot do that."}
    assert same(desk.client.responses.retrieve(response.id), response)


# Tools of the engine


HANDLE = re.compile(r'read_handle\(\\*"(h\w+)')


def reads(talk: Talk) -> Reply:
    """A model that reads the handle that it is shown, and then answers."""
    last = talk.turns[-1]
    if last.text.startswith("search"):
        (name,) = HANDLE.findall(talk.shown)[:1]
        return Reply("Let me look.", (("read_handle", {"handle": name, "search": "needle"}),))
    if last.results and last.results[-1][1].count("hay") < 100:
        return Reply(f"It says: {'needle' in last.results[-1][1]}")
    return Reply("ok")


def begin_long(desk: Desk) -> str:
    """A conversation with a result that is shown in part."""
    hay = [f"hay {number}" for number in range(5_000)]
    output = "\n".join([*hay, "the needle", *hay])
    conversation = desk.client.conversations.create().id
    call = call_of(ask(desk, "call it", conversation=conversation, tools=[TOOL]))
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": output}
    desk.client.conversations.items.create(conversation, items=[result])
    return conversation


@pytest.mark.parametrize("streams", [False, True])
def test_the_server_runs_the_tools_of_the_engine_itself(desk: Desk, *, streams: bool) -> None:
    conversation = desk.client.conversations.retrieve(begin_long(desk))
    desk.script(reads)
    assert ask(desk, "hello").output_text == "ok"
    assert "tools" not in desk.sent, "there is nothing to read"
    calls = len(desk.model.asked)
    options: Any = {"model": "m1", "input": "search", "conversation": conversation.id, "truncation": "auto"}
    if streams:
        with desk.client.responses.stream(**options) as stream:
            events = list(stream)
            final: Response = stream.get_final_response()
        assert not any("function_call" in event.type for event in events)
    else:
        final = desk.client.responses.create(**options)
    assert len(desk.model.asked) == calls + 2
    assert [item.type for item in final.output] == ["message", "message"]
    assert final.output_text == "Let me look.It says: True"
    shown = list(desk.client.conversations.items.list(conversation.id, order="asc"))
    assert [item.type for item in shown[3:]] == ["message", "message", "message"]
    stored = desk.client.responses.retrieve(final.id)
    assert plain(stored) == plain(final)
    assert ask(desk, "go on", conversation=conversation.id).output_text == "ok"
    assert desk.model.refused == []


def test_a_model_that_reads_without_end_has_to_answer(chat_desk: Desk) -> None:
    def script(talk: Talk) -> Reply:
        if "read_handle" in talk.tools:
            return Reply("", (("read_handle", {"handle": "h1_0"}),))
        return Reply("enough")

    conversation = begin_long(chat_desk)
    chat_desk.script(script)
    assert ask(chat_desk, "hello", conversation=conversation).output_text == "enough"
    assert len(chat_desk.model.asked) == 1 + ENGINE_ROUNDS + 1
    assert chat_desk.model.refused == []


def test_a_tool_of_the_client_may_have_the_name_of_one_of_the_engine(chat_desk: Desk) -> None:
    chat_desk.script(say("", ("read_handle", {"word": "x"})))
    response = ask(chat_desk, "hello", tools=[{**TOOL, "name": "read_handle"}])
    assert call_of(response).name == "read_handle"


def test_what_an_upstream_cannot_do_is_refused_or_told(desk: Desk) -> None:
    for option, value in (
        ("tools", [{"type": "web_search"}]),
        ("tools", [{"type": "custom", "name": "shout"}]),
        ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look_up"}]}),
    ):
        body = {"model": "m1", "input": "hello", "tools": [TOOL], option: value}
        reply = desk.http.post("/responses", json=body)
        if desk.kind != "openai-responses":
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, option)
            assert str(value[0]["type"] if isinstance(value, list) else value["type"]) in reply.text
    if desk.kind != "openai-responses":
        assert desk.model.asked == []
    ask(desk, "hello", text={"format": {"type": "json_object"}})
    assert ("one JSON object" in json.dumps(desk.sent)) is (desk.kind == "anthropic")


# Length


def test_truncation(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create()
    for number in range(10):
        items: Any = [
            {"type": "message", "role": "user", "content": f"{number} " + "lamp shade bulb cable " * 4_000},
            {"type": "message", "role": "assistant", "content": "Noted."},
        ]
        chat_desk.client.conversations.items.create(conversation.id, items=items)
    with pytest.raises(openai.BadRequestError) as caught:
        chat_desk.client.responses.create(model="claude-sonnet-4-5", input="hello", conversation=conversation.id)
    assert caught.value.code == "context_length_exceeded"
    assert chat_desk.model.asked == []
    response = chat_desk.client.responses.create(
        model="claude-sonnet-4-5", input="hello", conversation=conversation.id, truncation="auto"
    )
    assert response.output_text.startswith("You said: hello")
    assert len(json.dumps(chat_desk.sent)) < 24_000 * 6
    counted = chat_desk.client.responses.input_tokens.count(
        model="claude-sonnet-4-5", input="hello", conversation=conversation.id, truncation="auto"
    )
    assert 0 < counted.input_tokens <= 24_000
