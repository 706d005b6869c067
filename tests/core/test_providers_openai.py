"""What OpenAI returns, as drafts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ParsedChatCompletion
from pydantic import BaseModel

from holdfast.errors import InvalidArgument
from holdfast.model.content import Source, Text, Usage
from holdfast.providers import CallDraft, MessageDraft, read, read_all
from tests.core import provider_examples as given
from tests.core.provider_examples import bodies

USAGE = Usage(100, 20, 64, 8, 12)


def function(call_id: str, name: str = "find", arguments: str = '{"to": "LIS"}', **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_a_completion_is_an_assistant_message_with_its_usage_and_source() -> None:
    body = given.chat_completion({"content": "Hello.", "refusal": None, "annotations": []})
    source = Source("openai", "gpt-x", "chatcmpl-1", "stop")
    expected = MessageDraft(role="assistant", content=[Text("Hello.")], usage=USAGE, source=source)
    assert read(body) == read(given.as_completion(body)) == (expected,)


def test_the_message_of_a_choice_may_be_passed_alone() -> None:
    body = given.chat_completion({"content": "Hello.", "tool_calls": [function("call_1")]}, "tool_calls")
    message = given.as_completion(body).choices[0].message
    (draft,) = read(message)
    assert draft == read(body["choices"][0]["message"])[0]
    assert draft.tool_calls == (CallDraft("find", {"to": "LIS"}, "call_1", '{"to": "LIS"}'),)


@pytest.mark.parametrize("choices", [[], [{}, {}]])
def test_a_completion_of_other_than_one_choice_is_refused(choices: list[Any]) -> None:
    with pytest.raises(InvalidArgument, match="pass the message of one of them"):
        read({"object": "chat.completion", "choices": choices})


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        " ",
        "{",
        '{"a": 1',
        '{"a": 1} x',
        '{"a": 1, "a": 2}',
        '{"b": {"a": 1, "a": 1}}',
        '{"a": 12345678901234567890123}',
        '{"a": 1e999}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": "\\ud800"}',
        "[1]",
        "null",
        '"text"',
        "{'a': 1}",
        "[" * 100_000,
        '{"a":' * 200 + "1" + "}" * 200,
        "\ufeff{}",
    ],
)
def test_arguments_that_spell_no_object_are_kept_as_they_came(arguments: str) -> None:
    (draft,) = read(given.chat_completion({"tool_calls": [function("call_1", arguments=arguments)]}))
    assert draft.tool_calls == (CallDraft("find", arguments, "call_1"),)
    assert draft.content == ()


def test_a_refusal_is_text_that_says_it_is_one() -> None:
    (draft,) = read(given.chat_completion({"refusal": "I cannot."}))
    assert bodies(draft) == [{"around": {"type": "refusal"}}, Text("I cannot.")]


def test_what_stands_beside_the_content_is_kept_for_openai() -> None:
    cited = [{"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}]
    body = given.chat_completion({"content": "Hi", "annotations": cited, "reasoning_content": "hm", "logprobs": [1]})
    (draft,) = read(body)
    beside = {"around": {"role": "assistant", "annotations": cited, "reasoning_content": "hm"}}
    assert bodies(draft) == [beside, Text("Hi")]
    assert draft.metadata is None


def test_a_call_that_says_more_than_its_name_and_arguments_leaves_its_shell_behind() -> None:
    extra = {"google": {"thought_signature": "s"}}
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    calls = [function("call_1"), custom, function("call_3", extra_content=extra)]
    (draft,) = read(given.chat_completion({"content": "", "tool_calls": calls}))
    assert [call.args for call in draft.tool_calls] == [{"to": "LIS"}, "select 1", {"to": "LIS"}]
    assert bodies(draft) == [
        {"around": {"type": "custom", "id": "call_2"}},
        {"around": {"type": "function", "id": "call_3", "extra_content": extra}},
    ]


def test_the_second_of_two_calls_under_one_id_has_none() -> None:
    (draft,) = read(given.chat_completion({"tool_calls": [function("x"), function("x"), function("")]}))
    assert [call.provider_id for call in draft.tool_calls] == ["x", None, None]


def test_a_call_of_the_old_kind_and_its_result_go_by_the_name_of_the_function() -> None:
    (call,) = read(given.chat_completion({"function_call": {"name": "find", "arguments": "{}"}}))
    (result,) = read({"role": "function", "name": "find", "content": "none"})
    assert call.tool_calls == (CallDraft("find", {}, "find"),)
    assert [each.call for each in result.tool_results] == ["find"]


class Answer(BaseModel):
    city: str


def test_a_parsed_completion_reads_as_the_plain_one() -> None:
    body = given.chat_completion({"content": '{"city": "Lisbon"}'})
    parsed = given.openai_client(body).chat.completions.parse(model="gpt-x", messages=[], response_format=Answer)
    assert isinstance(parsed, ParsedChatCompletion)
    assert parsed.choices[0].message.parsed == Answer(city="Lisbon")
    assert read(parsed) == read(body)


MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="}


def test_a_response_is_one_message_in_the_order_in_which_it_was_made() -> None:
    said = {**MESSAGE, "phase": "commentary", "content": [{"type": "output_text", "text": "Wait.", "annotations": []}]}
    first = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "find", "arguments": "{}"}
    second = {"type": "function_call", "call_id": "call_2", "name": "find", "arguments": "{"}
    body = given.response([REASONING, said, first, REASONING, second])
    (draft,) = read(body)
    assert (draft.usage, draft.source) == (USAGE, Source("openai", "gpt-x", "resp_1", "completed"))
    assert draft.tool_calls == (CallDraft("find", {}, "call_1"), CallDraft("find", "{", "call_2"))
    assert bodies(draft) == [
        REASONING,
        {"around": {"type": "message", "id": "msg_1", "status": "completed", "phase": "commentary"}},
        Text("Wait."),
        {"around": {"type": "function_call", "id": "fc_1", "call_id": "call_1"}},
        REASONING,
    ]
    assert draft.content[0].body == '{"encrypted_content":"gAAAA==","id":"rs_1","summary":[],"type":"reasoning"}'


def test_a_parsed_response_reads_as_the_plain_one() -> None:
    body = given.response(
        [{**MESSAGE, "content": [{"type": "output_text", "text": '{"city": "x"}', "annotations": []}]}]
    )
    parsed = given.openai_client(body).responses.parse(model="gpt-x", input="", text_format=Answer)
    assert parsed.output_parsed == Answer(city="x")
    assert read(parsed) == read(body)


def test_a_call_that_the_response_itself_answers_waits_for_nobody() -> None:
    call = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}}
    output = {"type": "shell_call_output", "id": "so_1", "call_id": "call_1", "output": []}
    (draft,) = read(given.response([call, output]))
    assert draft.tool_calls == ()
    assert bodies(draft) == [call, output]


def test_calls_of_local_tools_wait_for_their_caller() -> None:
    call = {"type": "computer_call", "call_id": "call_1", "pending_safety_checks": [{"id": "c"}], "action": {"x": 1}}
    (draft,) = read(given.response([call]))
    assert draft.tool_calls == (CallDraft("computer", {"action": {"x": 1}}, "call_1"),)
    output = {"type": "computer_call_output", "call_id": "call_1", "output": {"type": "computer_screenshot"}}
    (answer,) = read(output)
    assert [result.call for result in answer.tool_results] == ["call_1"]
    assert json.loads(answer.tool_results[0].content[0].body) == output


@pytest.mark.parametrize(
    ("status", "more", "stop"),
    [
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ("cancelled", {}, "cancelled"),
    ],
)
def test_the_source_says_why_the_model_stopped(status: str, more: dict[str, Any], stop: str) -> None:
    (draft,) = read(given.response([REASONING], status=status, **more))
    assert draft.source is not None
    assert draft.source.stop == stop


@pytest.mark.parametrize(
    ("status", "words"),
    [("queued", "when it is complete"), ("in_progress", "when it is complete"), ("failed", "too slow")],
)
def test_a_response_that_is_none_yet_or_failed_is_refused(status: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        read(given.response([], status=status, error={"code": "server_error", "message": "too slow"}))


def test_an_empty_reply_is_a_draft_without_content() -> None:
    silent = {**MESSAGE, "content": [{"type": "output_text", "text": "", "annotations": []}]}
    empty = [given.chat_completion({"content": ""}), given.response([]), given.response([silent, silent])]
    for (draft,) in map(read, empty):
        assert (draft.content, draft.tool_calls, draft.usage) == ((), (), USAGE)


def test_items_that_the_model_made_in_one_go_are_one_reply() -> None:
    calls = [{"type": "function_call", "call_id": name, "name": "find", "arguments": "{}"} for name in ("a", "b")]
    results = [{"type": "function_call_output", "call_id": name, "output": "none"} for name in ("a", "b")]
    said = {**MESSAGE, "content": [{"type": "output_text", "text": "None.", "annotations": []}]}
    listed = [{"role": "user", "content": "Find it."}, REASONING, *calls, *results, REASONING, said]
    drafts = read_all(listed)
    assert [draft.role for draft in drafts] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call.provider_id for call in drafts[1].tool_calls] == ["a", "b"]
    reply = given.as_response(given.response([REASONING, *calls]))
    assert read_all([listed[0], *reply.output, *listed[4:]]) == drafts


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 10_000, "\ud800", 7, None])
def test_a_reply_of_an_unusable_name_is_kept_without_it(name: Any) -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    replies = [
        {**given.chat_completion({"content": "x"}, name), "id": name, "model": name},
        given.response([item], id=name, model=name, status=name),
        {**given.anthropic_message([{"type": "text", "text": "x"}], name), "id": name, "model": name},
    ]
    for reply in replies:
        (draft,) = read(reply)
        assert draft.content
        assert draft.source is not None
        assert (draft.source.model, draft.source.id, draft.source.stop) == (None, None, None)


@pytest.mark.parametrize("figure", [-1, True, 1.5, "5", None, 1 << 60, [], {}])
def test_figures_that_make_no_sense_are_left_out(figure: Any) -> None:
    body = given.chat_completion({"content": "x"})
    body["usage"].update(prompt_tokens=figure, prompt_tokens_details=figure, completion_tokens_details={1: figure})
    (draft,) = read(body)
    assert draft.usage == Usage(0, 20)
    (without,) = read({**body, "usage": figure, "model": figure, "id": figure})
    assert without.usage is None
    assert without.source is not None
    assert (without.source.model, without.source.id) in ((None, None), ("5", "5"))
