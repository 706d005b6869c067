"""Completions: values of a schema from servers that speak the real protocols, asked by the official clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec
import pytest

from holdfast import Usage, errors
from holdfast.models import Completion, Model, PromptMessage
from holdfast.models.server_model import ServerModel
from tests.models.servers import DIALECTS, SCHEMA, Dialect, ModelServer
from tests.protocols import Reply

QUESTION = [PromptMessage("system", "Answer."), PromptMessage("user", "The capital of France?")]
PARIS = {"city": "Paris"}
Ask: TypeAlias = Callable[..., Completion]


async def ask_and_close(model: Model, args: tuple[Any, ...], options: dict[str, Any]) -> Completion:
    assert isinstance(model, ServerModel)
    try:
        return await model.complete_async(*args, **options)
    finally:
        await model.close_async()


@pytest.fixture(params=["blocking", "awaited"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask a model, both ways."""
    if request.param == "blocking":
        return lambda model, *args, **options: model.complete(*args, **options)
    return lambda model, *args, **options: asyncio.run(ask_and_close(model, args, options))


class City(msgspec.Struct):
    city: str
    people: int = 0


both = pytest.mark.parametrize("dialect", DIALECTS)


@both
def test_a_value_fits_its_schema(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.answer(PARIS, dialect)
    answer = ask(server.model(dialect), QUESTION, SCHEMA)
    assert (answer.value, answer.attempts) == (PARIS, 1)
    assert answer.usage.input_tokens > 0 < answer.usage.output_tokens
    assert answer.model == server.bodies[0]["model"]
    assert server.provider.refused == []


@both
def test_a_type_of_msgspec_is_a_schema(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.answer({"city": "Paris", "people": 2_000_000}, dialect)
    assert ask(server.model(dialect), QUESTION, City).value == City("Paris", 2_000_000)
    assert server.provider.refused == []


@both
def test_without_a_schema_the_answer_is_text(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.answer("Paris.")
    assert ask(server.model(dialect), [("user", "The capital of France?")]).value == "Paris."


@both
@pytest.mark.parametrize(
    "bad", ["Paris, of course.", "{", '{"town": "Paris"}', '{"city": 5}', "[]", '{"city": "Paris", "x": 1}', "null"]
)
def test_an_invalid_answer_is_repaired_once(server: ModelServer, ask: Ask, dialect: Dialect, bad: str) -> None:
    server.answer(bad)
    server.answer(PARIS, dialect)
    answer = ask(server.model(dialect), QUESTION, SCHEMA)
    assert (answer.value, answer.attempts) == (PARIS, 2)
    first, second = (json.dumps(body["messages"]) for body in server.bodies)
    assert "cannot be used" not in first
    assert "cannot be used" in second
    assert json.dumps(bad)[1:-1] in second
    assert answer.usage.input_tokens > len(json.dumps(server.bodies[0])) // 4
    assert server.provider.refused == []


@both
def test_a_second_invalid_answer_is_an_error_with_its_usage(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.answer("Paris")
    server.answer("I said Paris")
    with pytest.raises(errors.AnswerInvalid, match="not JSON") as caught:
        ask(server.model(dialect), QUESTION, SCHEMA)
    assert isinstance(caught.value.usage, Usage)
    assert caught.value.usage.input_tokens > 0


@both
@pytest.mark.parametrize(
    "text", ["```json\n{}\n```", "Sure! Here it is:\n{}", "{}\nAnything else?", "```\n{}\n``` Bye."]
)
def test_text_around_the_json_does_not_matter(server: ModelServer, ask: Ask, dialect: Dialect, text: str) -> None:
    server.answer(text.replace("{}", json.dumps(PARIS)))
    assert ask(server.model(dialect), QUESTION, SCHEMA).value == PARIS


@both
@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize(
    ("stop", "kind"),
    [("refusal", errors.ModelRefused), ("content_filter", errors.ModelRefused), ("length", errors.AnswerCut)],
)
def test_a_reply_that_stops_early_is_an_error_of_its_own(
    server: ModelServer,
    ask: Ask,
    dialect: Dialect,
    schema: Any,
    stop: Literal["refusal", "content_filter", "length"],
    kind: type[errors.ModelFailed],
) -> None:
    server.answer(Reply("I can't help with that.", stop=stop))
    with pytest.raises(kind) as caught:
        ask(server.model(dialect), QUESTION, schema)
    assert isinstance(caught.value.usage, Usage)
    assert caught.value.usage.output_tokens > 0


@both
def test_an_empty_answer_is_an_error(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    for _ in range(4):
        server.answer("")
    with pytest.raises(errors.AnswerInvalid, match="empty"):
        ask(server.model(dialect), QUESTION, SCHEMA)
    with pytest.raises(errors.AnswerInvalid, match="empty"):
        ask(server.model(dialect), QUESTION)


@both
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_busy_server_is_asked_again(server: ModelServer, ask: Ask, dialect: Dialect, status: int) -> None:
    statuses = [status, status]
    server.provider.weather = lambda body: statuses.pop() if statuses else 0
    server.answer(PARIS, dialect)
    assert ask(server.model(dialect), QUESTION, SCHEMA).value == PARIS


@both
@pytest.mark.parametrize("status", [429, 500])
def test_a_server_that_stays_busy_is_unavailable(server: ModelServer, ask: Ask, dialect: Dialect, status: int) -> None:
    server.provider.weather = lambda body: status
    with pytest.raises(errors.ModelUnavailable, match=str(status)):
        ask(server.model(dialect), QUESTION, SCHEMA)


@both
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_request_that_is_not_accepted_is_sent_once(
    server: ModelServer, ask: Ask, dialect: Dialect, status: int
) -> None:
    asked: list[int] = []

    def refuse(body: dict[str, Any]) -> int:
        asked.append(1)
        return status

    server.provider.weather = refuse
    with pytest.raises(errors.ModelRejected, match=str(status)):
        ask(server.model(dialect), QUESTION, SCHEMA)
    assert len(asked) == 1


@both
def test_a_server_that_is_not_there_is_unavailable(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.address = "http://127.0.0.1:9"
    with pytest.raises(errors.ModelUnavailable, match="reached"):
        ask(server.model(dialect), QUESTION, SCHEMA)


@both
@pytest.mark.usefixtures("quick")
def test_a_server_that_hangs_times_out(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.provider.delay = lambda body: 30
    server.answer(PARIS, dialect)
    with pytest.raises(errors.ModelTimeout):
        ask(server.model(dialect, timeout_s=0.3), QUESTION, SCHEMA)


@both
@pytest.mark.usefixtures("quick")
def test_a_server_that_sends_a_byte_now_and_then_times_out(server: ModelServer, ask: Ask, dialect: Dialect) -> None:
    server.provider.drips = 0.1
    server.answer(PARIS, dialect)
    with pytest.raises(errors.ModelTimeout):
        ask(server.model(dialect, timeout_s=0.5), QUESTION, SCHEMA)


@both
@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_server_that_sends_no_reply_is_unavailable(
    server: ModelServer, ask: Ask, dialect: Dialect, data: bytes
) -> None:
    server.provider.spelling = lambda _: data
    server.answer(PARIS, dialect)
    with pytest.raises(errors.ModelUnavailable, match="JSON of a reply"):
        ask(server.model(dialect), QUESTION, SCHEMA)


@both
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": None, "content": None},
        {"choices": [], "content": []},
        {"choices": [{"message": 5}], "content": [5]},
        {"choices": [{"message": {"content": ["x"], "tool_calls": {}}}], "content": {"type": "text"}, "usage": "many"},
    ],
)
def test_a_reply_of_another_shape_is_invalid(
    server: ModelServer, ask: Ask, dialect: Dialect, body: dict[str, Any]
) -> None:
    server.provider.spelling = lambda _: json.dumps(body).encode()
    for _ in range(2):
        server.answer(PARIS, dialect)
    with pytest.raises(errors.AnswerInvalid):
        ask(server.model(dialect), QUESTION, SCHEMA)


@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_server_without_schemas_is_asked_with_a_tool_and_without_tools_for_json(
    server: ModelServer, ask: Ask, status: int
) -> None:
    model = server.model("openai")
    server.provider.weather = lambda body: status if "response_format" in body else 0
    server.answer(PARIS, "anthropic")
    assert ask(model, QUESTION, SCHEMA).value == PARIS
    server.answer(PARIS, "anthropic")
    assert ask(model, QUESTION, SCHEMA).value == PARIS  # it is not asked with a schema again
    assert [sorted({*body} & {"tools", "response_format"}) for body in server.bodies] == [["tools"]] * 2
    other = server.model("openai")
    server.provider.weather = lambda body: status if {"response_format", "tools"} & {*body} else 0
    server.answer(PARIS)
    assert ask(other, QUESTION, SCHEMA).value == PARIS
    assert "fits this schema" in json.dumps(server.bodies[-1])


@pytest.mark.parametrize(
    ("messages", "schema", "options"),
    [
        ([], None, {}),
        ("Hello", None, {}),
        ([("robot", "Hello")], None, {}),
        ([("user", 5)], None, {}),
        (QUESTION, {"type": "array"}, {}),
        (QUESTION, 5, {}),
        (QUESTION, None, {"max_tokens": 0}),
        (QUESTION, None, {"timeout_s": 0}),
        (QUESTION, None, {"timeout_s": "soon"}),
    ],
)
def test_what_cannot_be_asked_is_refused(
    server: ModelServer, ask: Ask, messages: Any, schema: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidInput):
        ask(server.model("openai"), messages, schema, **options)
    assert server.bodies == []


def test_a_client_of_the_caller_is_used_and_left_open(server: ModelServer) -> None:
    import openai

    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="mine", max_retries=9) as client:
        model = server.model("openai", client=client)
        server.answer("Paris.")
        assert model.complete(QUESTION).value == "Paris."
        assert isinstance(model, ServerModel)
        model.close()
        assert not client.is_closed()
