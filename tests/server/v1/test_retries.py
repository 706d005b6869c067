"""Failures and retries: nothing is lost, nothing is doubled, and the same request gets the same answer."""

from __future__ import annotations

import threading
from typing import Any

import openai
import pytest

import holdfast
from tests.server.v1.conftest import TOOL, Desk, say
from tests.support import PATIENCE_S

POLL_S = 0.05


def texts(desk: Desk, conversation: str) -> list[str]:
    """What the conversation has, oldest first."""
    shown: list[str] = []
    for item in desk.client.conversations.items.list(conversation, order="asc"):
        fields: dict[str, Any] = item.to_dict()
        content: Any = fields.get("content") or []
        shown.append("".join(part["text"] for part in content) or fields["type"])
    return shown


def test_the_same_key_gets_the_same_answer(desk: Desk) -> None:
    conversation = desk.client.conversations.create()
    options: Any = {"model": "m1", "input": "hello", "conversation": conversation.id}
    options["extra_headers"] = {"Idempotency-Key": f"k-{conversation.id}"}
    first = desk.client.responses.create(**options)
    desk.script(say("something else"))
    again = desk.client.responses.create(**options)
    assert again.to_dict() == first.to_dict()
    assert len(desk.model.asked) == 1
    with desk.client.responses.stream(**options) as stream:
        assert stream.get_final_response().output_text == first.output_text
    assert texts(desk, conversation.id) == ["hello", "You said: hello"]
    with pytest.raises(openai.ConflictError) as caught:
        desk.client.responses.create(**{**options, "input": "another"})
    assert caught.value.code == "idempotency_key_reused"
    assert texts(desk, conversation.id) == ["hello", "You said: hello"]


def test_a_key_without_a_conversation(chat_desk: Desk) -> None:
    options: Any = {"model": "m1", "input": "hello", "extra_headers": {"Idempotency-Key": "alone"}}
    first = chat_desk.client.responses.create(**options)
    assert chat_desk.client.responses.create(**options).to_dict() == first.to_dict()
    assert len(chat_desk.model.asked) == 1
    follow: Any = {"model": "m1", "input": "go on", "previous_response_id": first.id}
    follow["extra_headers"] = {"Idempotency-Key": "follow"}
    second = chat_desk.client.responses.create(**follow)
    assert chat_desk.client.responses.create(**follow).to_dict() == second.to_dict()
    branch = {**follow, "input": "elsewhere", "extra_headers": {"Idempotency-Key": "branch"}}
    third = chat_desk.client.responses.create(**branch)
    assert chat_desk.client.responses.create(**branch).to_dict() == third.to_dict()
    assert len(chat_desk.model.asked) == 3


def test_keys_of_two_callers_are_two_keys(chat_desk: Desk) -> None:
    options: Any = {"model": "m1", "extra_headers": {"Idempotency-Key": "shared"}}
    with openai.OpenAI(base_url=chat_desk.url, api_key=chat_desk.key("bob")) as bob:
        mine = chat_desk.client.responses.create(input="mine", **options)
        his = bob.responses.create(input="his", **options)
    assert (mine.output_text, his.output_text) == ("You said: mine", "You said: his")


@pytest.mark.parametrize("status", [500, 429])
def test_a_request_that_the_upstream_refuses_leaves_nothing(desk: Desk, status: int) -> None:
    conversation = desk.client.conversations.create()
    desk.model.weather = lambda body: status
    for _ in range(2):
        with pytest.raises(openai.APIStatusError) as caught:
            desk.client.responses.create(model="m1", input="hello", conversation=conversation.id)
        assert caught.value.status_code == (status if status < 500 else 502)
        assert "secret-of-the-upstream" not in str(caught.value.body)
        with pytest.raises(openai.APIStatusError):
            desk.client.responses.create(model="m1", input="hello", conversation=conversation.id, stream=True)
    assert texts(desk, conversation.id) == []
    desk.model.weather = lambda body: 0
    response = desk.client.responses.create(model="m1", input="hello", conversation=conversation.id)
    assert response.output_text == "You said: hello"
    assert texts(desk, conversation.id) == ["hello", "You said: hello"]


def test_the_retries_of_the_client_double_nothing(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create()
    statuses = [500, 503]
    chat_desk.model.weather = lambda body: statuses.pop() if statuses else 0
    patient = chat_desk.client.with_options(max_retries=3)
    first = patient.responses.create(model="m1", input="call lamp", conversation=conversation.id, tools=[TOOL])
    (call,) = first.output
    statuses = [500]
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "a light"}]  # type: ignore[union-attr]
    second = patient.responses.create(model="m1", input=output, conversation=conversation.id, tools=[TOOL])
    assert second.output_text == "The tool said: a light"
    assert texts(chat_desk, conversation.id) == [
        "call lamp",
        "function_call",
        "function_call_output",
        "The tool said: a light",
    ]


def test_a_failed_request_with_a_key_is_asked_anew(desk: Desk) -> None:
    conversation = desk.client.conversations.create()
    options: Any = {"model": "m1", "input": "hello", "conversation": conversation.id}
    options["extra_headers"] = {"Idempotency-Key": f"f-{conversation.id}"}
    desk.model.weather = lambda body: 500
    for _ in range(2):
        with pytest.raises(openai.InternalServerError):
            desk.client.responses.create(**options)
    desk.model.weather = lambda body: 0
    assert desk.client.responses.create(**options).output_text == "You said: hello"
    assert desk.client.responses.create(**options).output_text == "You said: hello"
    assert texts(desk, conversation.id) == ["hello", "You said: hello"]


def test_a_stream_that_breaks_is_recorded_as_far_as_it_came(desk: Desk) -> None:
    conversation = desk.client.conversations.create()
    options: Any = {"model": "m1", "input": "hello", "conversation": conversation.id}
    options["extra_headers"] = {"Idempotency-Key": f"b-{conversation.id}"}
    events = {"openai": 3, "openai-responses": 4, "anthropic": 4}
    desk.model.patience = lambda: events[desk.kind]
    shown = list(desk.client.responses.create(**options, stream=True))
    assert shown[-1].type == "response.failed"
    failed = shown[-1].response
    assert failed.status == "failed"
    assert failed.error is not None
    stored = desk.client.responses.retrieve(failed.id)
    assert stored.status == "failed"
    assert "You said: hello".startswith(stored.output_text)
    assert stored.output_text
    assert stored.output[0].status == "incomplete"  # type: ignore[union-attr]
    desk.model.patience = lambda: None
    response = desk.client.responses.create(**options)
    assert response.output_text == "You said: hello"
    assert response.id == failed.id
    assert texts(desk, conversation.id) == ["hello", "You said: hello"]
    follow = desk.client.responses.create(model="m1", input="more", conversation=conversation.id)
    assert follow.output_text == "You said: more"
    assert desk.model.refused == []


def test_a_client_who_goes_away_stops_the_work(desk: Desk) -> None:
    conversation = desk.client.conversations.create()
    desk.model.gate.hold(3)
    options: Any = {"model": "m1", "input": "hello", "conversation": conversation.id}
    options["extra_headers"] = {"Idempotency-Key": f"g-{conversation.id}"}
    stream = desk.client.responses.create(**options, stream=True)
    name = ""
    for event in stream:
        name = name or event.response.id
        if event.type == "response.in_progress":
            break
    assert desk.model.gate.reached.wait(PATIENCE_S)
    stream.close()
    stored = desk.client.responses.retrieve(name)
    for _ in range(int(PATIENCE_S / POLL_S)):
        stored = desk.client.responses.retrieve(name)
        if stored.status != "in_progress":
            break
        threading.Event().wait(POLL_S)
    assert stored.status == "cancelled"
    desk.model.gate.release()
    again = desk.client.responses.create(**options)
    assert (again.status, again.output_text, again.id) == ("completed", "You said: hello", name)
    follow = desk.client.responses.create(model="m1", input="more", conversation=conversation.id)
    assert follow.status == "completed"
    assert texts(desk, conversation.id) == ["hello", "You said: hello", "more", "You said: more"]
    assert desk.model.refused == []


def test_two_requests_on_one_conversation_wait_for_each_other(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create()
    chat_desk.model.gate.hold(2)
    answers: list[str] = []

    def stream() -> None:
        with chat_desk.client.responses.stream(model="m1", input="one", conversation=conversation.id) as events:
            answers.append(events.get_final_response().output_text)

    first = threading.Thread(target=stream)
    first.start()
    assert chat_desk.model.gate.reached.wait(PATIENCE_S)
    second = threading.Thread(
        target=lambda: answers.append(
            chat_desk.client.responses.create(model="m1", input="two", conversation=conversation.id).output_text
        )
    )
    second.start()
    chat_desk.model.gate.release()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)
    assert sorted(answers) == ["You said: one", "You said: two"]
    assert texts(chat_desk, conversation.id) == ["one", "You said: one", "two", "You said: two"]


def test_many_clients_of_one_conversation_take_turns(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create()
    failures: list[Exception] = []

    def work(name: str) -> None:
        for number in range(4):
            try:
                said = f"{name}{number}"
                response = chat_desk.client.responses.create(model="m1", input=said, conversation=conversation.id)
                assert response.output_text == f"You said: {said}"
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert failures == []
    said = texts(chat_desk, conversation.id)
    assert len(said) == 32
    assert said[1::2] == [f"You said: {text}" for text in said[::2]]


def test_a_request_is_not_taken_for_an_older_one_that_failed(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create()
    options: Any = {"model": "m1", "input": "hello", "conversation": conversation.id}
    chat_desk.model.weather = lambda body: 500
    with pytest.raises(openai.InternalServerError):
        chat_desk.client.responses.create(**options)
    chat_desk.model.weather = lambda body: 0
    later: Any = {"type": "message", "role": "user", "content": "later"}
    chat_desk.client.conversations.items.create(conversation.id, items=[later])
    chat_desk.client.responses.create(**options)
    assert texts(chat_desk, conversation.id)[:2] == ["later", "hello"]
    chat_desk.client.responses.create(**options)
    assert texts(chat_desk, conversation.id).count("hello") == 2


# In the background


def wait_for(desk: Desk, name: str) -> Any:
    for _ in range(int(PATIENCE_S / POLL_S)):
        response = desk.client.responses.retrieve(name)
        if response.status not in ("queued", "in_progress"):
            return response
        threading.Event().wait(POLL_S)
    raise AssertionError(f"it is still {response.status}")


def test_a_response_in_the_background(desk: Desk) -> None:
    desk.model.gate.hold(2)
    response = desk.client.responses.create(model="m1", input="hello", background=True)
    assert (response.status, response.output) == ("queued", [])
    assert desk.model.gate.reached.wait(PATIENCE_S)
    assert desk.client.responses.retrieve(response.id).status == "in_progress"
    desk.model.gate.release()
    done = wait_for(desk, response.id)
    assert (done.status, done.output_text, done.background) == ("completed", "You said: hello", True)
    replay = list(desk.client.responses.retrieve(response.id, stream=True, starting_after=1))
    assert replay[0].sequence_number == 2
    assert replay[-1].type == "response.completed"


def test_a_response_in_the_background_can_be_cancelled(desk: Desk) -> None:
    desk.model.gate.hold(2)
    response = desk.client.responses.create(model="m1", input="hello", background=True)
    assert desk.model.gate.reached.wait(PATIENCE_S)
    assert desk.client.responses.cancel(response.id).status == "cancelled"
    desk.model.gate.release()
    assert desk.client.responses.retrieve(response.id).status == "cancelled"
    assert desk.client.responses.cancel(response.id).status == "cancelled"


def test_a_failed_response_in_the_background_says_so(chat_desk: Desk) -> None:
    chat_desk.model.weather = lambda body: 500
    response = chat_desk.client.responses.create(model="m1", input="hello", background=True)
    failed = wait_for(chat_desk, response.id)
    assert failed.status == "failed"
    assert failed.error.code == "server_error"


def test_only_a_response_in_the_background_can_be_cancelled(chat_desk: Desk) -> None:
    response = chat_desk.client.responses.create(model="m1", input="hello")
    with pytest.raises(openai.BadRequestError):
        chat_desk.client.responses.cancel(response.id)


def test_a_deleted_response_is_gone(chat_desk: Desk) -> None:
    response = chat_desk.client.responses.create(model="m1", input="forget me")
    chat_desk.client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        chat_desk.client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        chat_desk.client.responses.create(model="m1", input="go on", previous_response_id=response.id)
    with holdfast.open(chat_desk.store) as engine:
        assert response.metadata is not None
        messages = engine.session(response.metadata["holdfast_session"]).messages()
        assert len(messages) == 2
        assert all("forget me" not in message.text for message in messages)
