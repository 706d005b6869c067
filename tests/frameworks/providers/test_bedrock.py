"""Bedrock: what boto3 sends of a pack, and what is kept of its responses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber  # type: ignore[import-untyped]  # it has no types
from botocore.validate import ParamValidator  # type: ignore[import-untyped]  # the same
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.model.content import Source
from holdfast.providers import read
from holdfast.render import render_bedrock
from tests.frameworks.providers.loopback import Loopback, open_loopback
from tests.render import conversations as spoken
from tests.render.conversations import bodies_in, play, session_with
from tests.render.converse_checks import check_bedrock, drop_cache_points

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
REDACTED = b"\xfb\xff hidden"
CONTENT: list[dict[str, Any]] = [
    {"reasoningContent": {"reasoningText": {"text": "They want a lamp.", "signature": "c2ln"}}},
    {"reasoningContent": {"redactedContent": base64.b64encode(REDACTED).decode()}},
    {"text": "Let me look."},
    {"toolUse": {"toolUseId": "tooluse_1", "name": "stock", "input": {"of": "lamp"}}},
    {"toolUse": {"toolUseId": "tooluse_2", "name": "stock", "input": {"of": "desk", "n": 1.5}}},
]
"""As it is on the wire, where bytes are base64."""


def response(content: list[dict[str, Any]], stop: str = "tool_use") -> dict[str, Any]:
    usage = {"inputTokens": 20, "outputTokens": 10, "totalTokens": 102}
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": {**usage, "cacheReadInputTokens": 64, "cacheWriteInputTokens": 8},
        "metrics": {"latencyMs": 1},
    }


def open_order(engine: holdfast.Engine) -> holdfast.Session:
    session = engine.create_session("order", actor="ada")
    session.record("system", "You are the order desk.")
    session.record("user", "Are there lamps?")
    return session


def test_a_loop_with_the_real_client_sends_back_what_it_was_sent(engine: holdfast.Engine, loopback: Loopback) -> None:
    session = open_order(engine)
    client = loopback.bedrock()
    loopback.replies = [response(CONTENT), response([{"text": "Twelve."}], "end_turn")]
    pack = session.pack(budget=8_000, model=CLAUDE)
    message = session.record(client.converse(**pack.bedrock()), pack=pack)
    usage = message.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        92,
        10,
        64,
        8,
    )
    assert message.source is not None
    assert (message.source.provider, message.source.stop) == ("bedrock", "tool_use")
    lamp, desk = message.tool_calls
    session.result(desk, {"stock": 0})
    session.result(lamp, "no such thing", is_error=True)
    pack = session.pack(budget=8_000, model=CLAUDE)
    assert session.record(client.converse(**pack.bedrock()), pack=pack).text == "Twelve."
    sent = loopback.last
    assert loopback.requests[-1].path == f"/model/{CLAUDE.replace(':', '%3A')}/converse"
    assert sent["system"][0]["text"].startswith("You are the order desk.")
    assert sent["system"][-1] == {"cachePoint": {"type": "default"}}
    assert [each["role"] for each in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][1]["content"] == CONTENT
    desk_result = {"toolUseId": "tooluse_2", "content": [{"text": '{"stock":0}'}]}
    lamp_result = {"toolUseId": "tooluse_1", "content": [{"text": "no such thing"}], "status": "error"}
    results = sent["messages"][2]["content"]
    assert results[:3] == [
        {"toolResult": desk_result},
        {"toolResult": lamp_result},
        {"cachePoint": {"type": "default"}},
    ]
    assert len(results) == 4, "the tail is behind the cache point"
    assert engine.admin.verify().ok


def stream(content: list[dict[str, Any]], stop: str = "tool_use") -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(content):
        at = {"contentBlockIndex": index}
        (kind, value), *_ = block.items()
        deltas: list[dict[str, Any]] = []
        if kind == "text":
            deltas = [{"text": value[:3]}, {"text": value[3:]}]
        elif kind == "toolUse":
            start = {key: value[key] for key in ("toolUseId", "name")}
            events.append({"contentBlockStart": {"start": {"toolUse": start}, **at}})
            text = json.dumps(value["input"])
            deltas = [{"toolUse": {"input": text[:4]}}, {"toolUse": {"input": text[4:]}}]
        elif "reasoningText" in value:
            reasoned = value["reasoningText"]
            deltas = [
                {"reasoningContent": {"text": reasoned["text"][:4]}},
                {"reasoningContent": {"text": reasoned["text"][4:]}},
            ]
            deltas.append({"reasoningContent": {"signature": reasoned["signature"]}})
        else:
            deltas = [{"reasoningContent": value}]
        events += [{"contentBlockDelta": {"delta": delta, **at}} for delta in deltas]
        events.append({"contentBlockStop": at})
    whole = response(content)
    return [
        *events,
        {"messageStop": {"stopReason": stop}},
        {"metadata": {"usage": whole["usage"], "metrics": {"latencyMs": 1}}},
    ]


def test_a_stream_reads_as_the_response_in_one_piece(file_engine: holdfast.Engine, loopback: Loopback) -> None:
    session = open_order(file_engine)
    loopback.replies = [stream(CONTENT)]
    client = loopback.bedrock()
    deltas = holdfast.types.Deltas()
    for event in client.converse_stream(**session.pack(budget=8_000, model=CLAUDE).bedrock())["stream"]:
        deltas.add(event)
    assert deltas.text == "Let me look."
    assert read(deltas) == read(response(CONTENT))


def test_a_stream_that_breaks_keeps_what_is_usable() -> None:
    events = stream(CONTENT)
    for count in range(1, len(events) - 2):
        deltas = holdfast.types.Deltas()
        for event in events[:count]:
            deltas.add(event)
        (draft,) = read(deltas.partial())
        assert draft.source == Source("bedrock", None, None, "partial")
        assert len(draft.tool_calls) == sum("contentBlockStop" in each for each in events[:count][12:]) or count < 14
    with pytest.raises(InvalidArgument, match="Too many"):
        deltas.add({"throttlingException": {"message": "Too many"}})


def test_tools_limits_and_names_pass_the_clients_own_checks(folder: Path) -> None:
    stock = holdfast.Tool(name="stock", description="", parameters={"type": "object"})
    briefs = {"desk": holdfast.Brief(prompt="Be brief.", tools=(stock,)), "bare": holdfast.Brief(read_handle=False)}
    with holdfast.open(folder / "agent.db", briefs=briefs) as engine, open_loopback() as loopback:
        session = open_order(engine)
        session.record(response(CONTENT))
        for call in session.open_calls():
            session.result(call, "")
        request = session.pack(budget=8_000, model=CLAUDE, role="desk", max_output=500).bedrock()
        bare = session.pack(budget=8_000, role="bare").bedrock()
        client = loopback.bedrock()
    assert request["inferenceConfig"] == {"maxTokens": 500}
    assert {each["toolSpec"]["name"] for each in request["toolConfig"]["tools"]} == {"read_handle", "stock"}
    assert [each["toolSpec"]["name"] for each in bare["toolConfig"]["tools"]] == ["stock"], "one that was called"
    assert "cachePoint" not in str(bare), "the model is not known to cache"
    with Stubber(client) as stubber:
        for each in (request, {"modelId": "m", **bare}):
            stubber.add_response("converse", response([{"text": "So."}], "end_turn"), each)
            client.converse(**each)


@pytest.mark.parametrize(
    ("model", "points", "status"),
    [
        (CLAUDE, True, True),
        ("anthropic.claude-opus-5-v1:0", True, True),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.anthropic.claude-3-7-sonnet-20250219-v1:0",
            True,
            True,
        ),
        ("amazon.nova-pro-v1:0", True, True),
        ("anthropic.claude-3-sonnet-20240229-v1:0", False, True),
        ("anthropic.claude-instant-v1", False, True),
        ("meta.llama4-maverick-17b-instruct-v1:0", False, False),
        ("mistral.mistral-large-2407-v1:0", False, False),
    ],
)
def test_what_a_model_refuses_is_not_sent_to_it(
    file_engine: holdfast.Engine, model: str, points: bool, status: bool
) -> None:
    session = open_order(file_engine)
    call = session.record("assistant", tool_calls=[{"name": "stock", "args": {}}]).tool_calls[0]
    session.result(call, "no such thing", is_error=True)
    shown = session.pack(budget=8_000, model=model).bedrock()
    assert ("cachePoint" in str(shown)) is points
    result = shown["messages"][-1]["content"][0]["toolResult"]
    assert result.get("status") == ("error" if status else None)
    assert result["content"][0]["text"] == ("no such thing" if status else "Error: no such thing")


@pytest.mark.parametrize(
    ("stop", "skipped"),
    [
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("malformed_tool_use", "incomplete"),
        ("end_turn", None),
    ],
)
def test_a_reply_without_an_answer_is_not_shown(file_engine: holdfast.Engine, stop: str, skipped: str | None) -> None:
    session = open_order(file_engine)
    assert session.record(response([{"text": "Sorry."}], stop)).skipped == skipped
    shown = session.context.render("bedrock")["messages"]
    assert [each["role"] for each in shown] == (["user"] if skipped else ["user", "assistant"])


def test_messages_of_an_application_become_messages(file_engine: holdfast.Engine) -> None:
    session = file_engine.create_session("s")
    image = {"image": {"format": "png", "source": {"bytes": spoken.PNG}}}
    document = {"document": {"format": "pdf", "name": "terms", "source": {"bytes": b"%PDF-1"}}}
    session.record(
        {"role": "user", "content": [{"text": "Look:"}, image, document, {"cachePoint": {"type": "default"}}]}
    )
    session.record({"role": "assistant", "content": CONTENT})
    results = [
        {"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"a": 1}}]}},
        {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "no"}], "status": "error"}},
    ]
    session.record({"role": "user", "content": [*results, {"text": "And?"}]})
    assert session.open_calls() == ()
    shown = session.context.render("bedrock")["messages"]
    assert drop_cache_points(shown[0]["content"]) == [{"text": "Look:"}, image, {"text": 'File "terms":'}, document]
    assert [list(block) for block in drop_cache_points(shown[2]["content"])] == [
        ["toolResult"],
        ["toolResult"],
        ["text"],
    ]


SHAPES: dict[str, Any] = {}


def check_shape(request: dict[str, Any]) -> None:
    """What botocore says before it sends anything."""
    if not SHAPES:
        with open_loopback() as loopback:
            SHAPES["converse"] = loopback.bedrock().meta.service_model.operation_model("Converse").input_shape
    report = ParamValidator().validate({"modelId": "m", **request}, SHAPES["converse"])
    assert not report.has_errors(), report.generate_report()


def test_the_check_of_the_client_refuses_what_is_wrong() -> None:
    wrong: list[dict[str, Any]] = [{"text": 1}, {"toolUse": {"name": "x"}}, {"text": "a", "image": {}}, {"other": {}}]
    for block in wrong:
        with pytest.raises(AssertionError):
            check_shape({"messages": [{"role": "user", "content": [block]}]})


@settings(max_examples=60, deadline=None)
@given(spoken.talks(), st.lists(spoken.part, max_size=2), st.integers(0, 6), st.integers(0, 4), st.booleans())
def test_the_client_accepts_any_history(
    steps: list[spoken.Step], system: list[Any], frozen: int, breakpoints: int, at_hand: bool
) -> None:
    with session_with(system) as (engine, session):
        list(play(engine, session, steps))
        history = spoken.history_of(session, frozen, ("The tail.",))
        made = render_bedrock(history, bodies_in(engine, history, "bedrock") if at_hand else {}, breakpoints)
    check_bedrock(made)
    check_shape(made)
    blocks = [block for message in (*made["messages"], {"content": made["system"]}) for block in message["content"]]
    assert sum("cachePoint" in block for block in blocks) <= breakpoints
    assert "The tail." in made["messages"][-1]["content"][-1]["text"]


@settings(max_examples=60, deadline=None)
@given(st.lists(spoken.bedrock_replies(), min_size=1, max_size=3))
def test_what_bedrock_said_goes_back_as_it_was(replies: list[spoken.Step]) -> None:
    with session_with() as (engine, session):
        *_, history = play(engine, session, [("user", ["Hi."]), *(("reply", each, []) for each in replies)])
        made = render_bedrock(history, bodies_in(engine, history, "bedrock"), 0)
    shown = [_nameless(each["content"]) for each in made["messages"] if each["role"] == "assistant"]
    assert shown == [kept for _, content in replies if (kept := _nameless(_kept(content)))]


def _kept(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blank text is refused, and so is reasoning that led to nothing."""
    kept = [block for block in content if block.get("text", "x").strip()]
    while kept and "reasoningContent" in kept[-1]:
        kept.pop()
    return kept


def _nameless(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the id of a call, which is ours if another call had it before."""
    return [
        {"toolUse": {key: value for key, value in block["toolUse"].items() if key != "toolUseId"}}
        if "toolUse" in block
        else block
        for block in content
    ]
