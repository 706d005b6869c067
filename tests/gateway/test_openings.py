"""What a user wants of an agent stays before the model: the task with what the client says of it, and the question of the
turn that goes on, also if reminders of the client follow. What was done for the question is no answer to something else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.gateway.lines import OPENING_BYTES
from tests.gateway.clients import ChatClient, ItemsClient, MessagesClient, ModelClient
from tests.gateway.harness import Harness

REMINDER = "<system-reminder>\nThe task tools have not been used. {}\n</system-reminder>"
RULES = "<system-reminder>\nUse decimal, never float, for money.\n{}</system-reminder>"
TASK = "Fix the rounding. Do not touch the tests."
QUESTION = "Please use port 8081 instead of 8080, everywhere."
NOT_NEW = "Some of this was done after the first message of the user below, which is not a new request."


def open_client(kind: type[ModelClient], *texts: str) -> Harness:
    """A client whose first message has these texts; it goes on by itself."""
    harness = Harness(5, kind=kind)
    harness.client.messages[-1] = {**harness.client.messages[-1], "content": spell(harness, *texts)}
    return harness


def spell(harness: Harness, *texts: str) -> list[dict[str, str]]:
    kind = "input_text" if isinstance(harness.client, ItemsClient) else "text"
    return [{"type": kind, "text": text} for text in texts]


def go_on(harness: Harness, calls: int, reminders: int = 0) -> None:
    """Replies with calls, and their results; with a reminder of the client behind every so manieth."""
    client = harness.client
    for number in range(calls):
        prepared = harness.send()
        reply = client.build_reply(1)
        harness.settle(prepared, reply)
        echoed = client.echo(reply, edit=False)
        client.messages += echoed
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "happens", lambda chance: False)  # the user says nothing beside results
            client.messages += client.build_results(client.read_calls(echoed))
        if reminders and number % reminders == 0:
            client.messages[-1]["content"].append({"type": "text", "text": REMINDER.format(client.word())})


def finish_turn(harness: Harness, question: str) -> None:
    client = harness.client
    prepared = harness.send()
    reply = client.build_reply(0)
    harness.settle(prepared, reply)
    client.messages += [*client.echo(reply, edit=False), {"role": "user", "content": spell(harness, question)}]


def read_sent(harness: Harness) -> tuple[list[Any], str]:
    """The messages as they leave, and the summary among them."""
    prepared = harness.send()
    sent = json.loads(prepared.body)
    step: Any = prepared.step
    return sent.get("messages") or sent["input"], json.loads(step.view.summary or b'""')


@pytest.mark.parametrize("kind", [MessagesClient, ChatClient, ItemsClient])
def test_the_task_stays_with_what_the_client_says_of_it(kind: type[ModelClient]) -> None:
    harness = open_client(kind, RULES.format("A list of skills. " * 150), TASK)
    for turn in range(4):
        go_on(harness, 12)
        finish_turn(harness, f"What else, number {turn}?")
    messages, summary = read_sent(harness)
    assert harness.boundaries >= 2
    first = next(each for each in messages if each.get("role") == "user")
    assert first == next(each for each in harness.client.messages if each.get("role") == "user")
    assert summary
    assert TASK not in summary
    assert "never float" not in summary, "what stays is not told twice"


def test_what_is_too_long_may_be_folded() -> None:
    harness = open_client(MessagesClient, TASK, "A pasted log. " * (OPENING_BYTES // 10))
    go_on(harness, 4)
    finish_turn(harness, QUESTION)
    go_on(harness, 4)
    messages, summary = read_sent(harness)
    assert f"User: {TASK}" in summary
    assert len(json.dumps(messages)) < OPENING_BYTES


def test_a_reminder_of_the_client_is_not_the_question() -> None:
    harness = open_client(MessagesClient, TASK)
    go_on(harness, 3)
    finish_turn(harness, QUESTION)
    go_on(harness, 40, reminders=5)
    messages, summary = read_sent(harness)
    assert {"role": "user", "content": spell(harness, QUESTION)} in messages
    assert "User: <system-reminder>" not in summary
    assert "User: The task tools" not in summary


def test_what_was_done_for_a_question_is_no_answer_to_something_else() -> None:
    harness = open_client(MessagesClient, TASK)
    go_on(harness, 3)
    finish_turn(harness, QUESTION)
    go_on(harness, 40)
    messages, summary = read_sent(harness)
    assert [each["content"] for each in messages if each["role"] == "user"][2] == spell(harness, QUESTION)
    assert summary.endswith(NOT_NEW)


def test_without_such_a_question_nothing_is_said_of_it() -> None:
    harness = open_client(MessagesClient, TASK)
    go_on(harness, 40)
    _, summary = read_sent(harness)
    assert summary
    assert "not a new request" not in summary
