"""A connection breaks in mid-reply: the client raises, what had arrived is recorded, and it goes back in a form that the
provider accepts."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

import holdfast
from tests.frameworks.providers import test_bedrock, test_gemini, test_litellm
from tests.frameworks.providers.loopback import CutStream, Loopback
from tests.protocols import PARSED
from tests.render.converse_checks import check_bedrock, check_gemini

TEXT = "Let me look."
GEMINI_MODEL = "gemini-3.8-flash"


def gemini_events() -> list[dict[str, Any]]:
    return [test_gemini.response([part], "") for part in test_gemini.PARTS] + [test_gemini.response([{"text": ""}])]


def open_stream(provider: str, loopback: Loopback, pack: holdfast.Pack) -> Any:
    """The events of a streamed reply, and the client, which must not be collected before them."""
    match provider:
        case "bedrock":
            client = loopback.bedrock()
            return client.converse_stream(**pack.bedrock())["stream"], client
        case "gemini":
            gemini = loopback.gemini()
            return gemini.models.generate_content_stream(**pack.gemini()), gemini
        case _:
            return test_litellm.complete(loopback, pack.litellm(), stream=True), None


def collect(events: Any, deltas: holdfast.types.Deltas) -> None:
    for event in events:
        deltas.add(event)


MODELS = {"bedrock": test_bedrock.CLAUDE, "gemini": GEMINI_MODEL, "litellm": test_litellm.CLAUDE}
EVENTS = {
    "bedrock": test_bedrock.stream(test_bedrock.CONTENT),
    "gemini": gemini_events(),
    "litellm": test_litellm.events(),
}


def check(provider: str, request: dict[str, Any], loopback: Loopback) -> None:
    """The request passes the checks of the client, and of the provider as far as they are known."""
    if provider == "bedrock":
        check_bedrock({"system": request["system"], "messages": request["messages"]})
        test_bedrock.check_shape({name: request[name] for name in ("messages", "system", "toolConfig")})
    elif provider == "gemini":
        contents = request["contents"]
        check_gemini({"contents": contents, "system_instruction": request["config"].get("system_instruction")})
        assert [types.Content.model_validate(content).role for content in contents]
    else:
        loopback.replies.append(test_litellm.message([{"type": "text", "text": "Twelve."}], "end_turn"))
        test_litellm.complete(loopback, request)
        PARSED["anthropic"](loopback.last, test_litellm.remembered())


@pytest.mark.parametrize(
    ("provider", "whole", "text", "calls"),
    [
        ("bedrock", 2, "", []),
        ("bedrock", 8, TEXT[:3], []),
        ("bedrock", 10, TEXT, []),
        ("bedrock", 13, TEXT, []),
        ("bedrock", 14, TEXT, [{"of": "lamp"}]),
        ("gemini", 1, "", []),
        ("gemini", 2, TEXT, []),
        ("gemini", 3, TEXT, [{"ofWhat": "lamp"}]),
        ("litellm", 3, "", []),
        ("litellm", 8, TEXT[:7], []),
        ("litellm", 12, TEXT, []),
        ("litellm", 14, TEXT, [{"of": "lamp"}]),
    ],
)
def test_what_had_arrived_is_recorded_and_accepted(
    file_engine: holdfast.Engine, loopback: Loopback, provider: str, whole: int, text: str, calls: list[dict[str, Any]]
) -> None:
    session = test_litellm.open_order(file_engine)
    loopback.replies = [CutStream(EVENTS[provider], whole)]
    deltas = holdfast.types.Deltas()
    pack = session.pack(budget=8_000, model=MODELS[provider], max_output=500)
    events, client = open_stream(provider, loopback, pack)
    with pytest.raises(Exception, match=r"(?i)closed|prematurely|incomplete"):
        collect(events, deltas)
    assert not deltas.complete
    reply = session.record(deltas.partial(), pack=pack)
    assert (reply.text, [call.args for call in reply.tool_calls]) == (text, calls)
    assert reply.skipped == (None if text else "empty")
    assert reply.source is not None
    assert reply.source.stop == "partial"
    for call in session.open_calls():
        session.result(call, "12")
    session.record("user", "Go on.")
    next_pack = session.pack(budget=8_000, model=MODELS[provider], max_output=500)
    check(provider, getattr(next_pack, provider)(), loopback)
    assert file_engine.admin.verify().ok
    del client
