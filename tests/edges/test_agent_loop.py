"""An agent loop from the question to the answer, against a server that refuses what providers refuse: what it is sent is
what the manifests tell, and can be made again from the log."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import apsw
import openai
import pytest

import holdfast
from holdfast.model.packs.pack import Brief
from holdfast.render.pack import Pack
from holdfast.storage.sqlite.store import SqliteStore
from tests.crash.agent_checks import check
from tests.crash.agent_loop import ANSWER, BRIEFS, CALLED, MODELS, SPOOLING, DeathPoint, provider, run_agent
from tests.crash.stores import KINDS, URLS
from tests.property.store_tools import session_events
from tests.protocols import PARSED, ProviderMemory, Reply, RequestRefused, Talk
from tests.provider import Provider, ProviderRequest, serve_provider
from tests.render.provider_checks import CHAT, INPUT, MESSAGES, SYSTEM, check_type, drop_cache_marks

RENDERED: dict[str, Callable[[Pack], dict[str, Any]]] = {
    "anthropic": lambda pack: pack.anthropic(),
    "chat": lambda pack: pack.openai(),
    "responses": lambda pack: pack.openai_responses(),
}


# The loop


@pytest.mark.parametrize("protocol", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_ends_and_can_be_explained(tmp_path: Path, kind: str, protocol: str) -> None:
    url, asked = URLS[kind](tmp_path), provider()
    with serve_provider(asked) as address:
        assert asyncio.run(run_agent(url, address, protocol, DeathPoint())) == ANSWER
    with holdfast.open(url, briefs=BRIEFS, spooling=SPOOLING) as engine:
        check(engine, asked)
        session = engine.session("order", actor="ada")
        types = [event.type for event in session_events(session)]
        assert types.count("context.redacted") == 1
        assert types.count("frame.compacted") > 0, "it all fits: this showed nothing"
        _check_made_again(session, asked)
    for each in asked.asked:
        _check_types(each)
    _check_prefixes(asked)


def _check_made_again(session: holdfast.Session, asked: Provider) -> None:
    """Each request is the pack that the log tells of, byte for byte."""
    packs = sorted(session.packs.list(limit=100), key=lambda record: record.reply)
    for record, request in zip(packs, asked.asked, strict=True):
        manifest = session.packs.manifest(record.id)
        assert record.used == manifest.tokens.used == sum(manifest.tokens.breakdown.values()) <= record.budget
        again = session.packs.reproduce(record.id)
        assert again.context_hash == record.context_hash == manifest.context_hash
        assert json.loads(json.dumps(RENDERED[request.protocol](again))) == request.body


def _check_types(asked: ProviderRequest) -> None:
    """What the clients' own types say."""
    body = asked.body
    if asked.protocol == "anthropic":
        check_type(SYSTEM, body["system"])
        check_type(MESSAGES, body["messages"])
    else:
        check_type(
            CHAT if asked.protocol == "chat" else INPUT, body["messages" if asked.protocol == "chat" else "input"]
        )


def _check_prefixes(asked: Provider) -> None:
    """What stands first is the same at every call; the history is longer each time, but for those at which the view has
    changed: here those where something was folded or redacted."""
    clerk = [each for each in asked.asked if "You are a clerk." in each.spelled]
    longer = 0
    for before, after in itertools.pairwise(clerk):
        first, second = drop_cache_marks(before.body), drop_cache_marks(after.body)
        name = "input" if before.protocol == "responses" else "messages"
        for field in first.keys() - {name}:
            assert first[field] == second[field]
        longer += first[name][:-1] == second[name][: len(first[name]) - 1]
    assert longer >= 2


@pytest.mark.parametrize("protocol", MODELS)
def test_a_provider_that_fails_now_and_then_delays_it(tmp_path: Path, protocol: str) -> None:
    """Whoever catches the error and starts again is where he was."""
    url, asked = URLS["sqlite"](tmp_path), provider()
    weather = itertools.cycle([529, 0, 500, 0])
    asked.weather = lambda body: next(weather) if "You are a clerk." in json.dumps(body) else 0
    failures, answer = 0, None
    with serve_provider(asked) as address:
        while answer is None:
            try:
                answer = asyncio.run(run_agent(url, address, protocol, DeathPoint()))
            except (anthropic.APIStatusError, openai.APIStatusError):
                failures += 1
    assert (answer, failures) == (ANSWER, len(CALLED))
    with holdfast.open(url) as engine:
        check(engine, asked)


def test_without_an_event_loop(tmp_path: Path) -> None:
    """The same in blocking calls, with tasks that nobody said: each is shown until there is a reply, and is no message."""

    def script(talk: Talk) -> Reply:
        (task,) = re.findall(r"Task for this call: (.*)", talk.turns[-1].text)
        if talk.last and talk.turns[-1].results:
            return Reply(f"It is {talk.last[0][1]}.")
        return Reply("", (("weather", {"of": task}),))

    weather = holdfast.Tool(
        name="weather", description="The weather.", parameters={"type": "object", "properties": {"of": {}}}
    )
    brief = Brief(prompt="You know the weather.", tools=(weather,))
    asked = Provider(script)
    with serve_provider(asked) as address, holdfast.open(tmp_path / "agent.db", briefs={"": brief}) as engine:
        with anthropic.Anthropic(api_key="none", base_url=address, max_retries=0) as client:
            session = engine.create_session("s")
            for town in ("Lisbon", "Porto"):
                pack = session.pack(f"And {town}?", model=MODELS["anthropic"])
                reply = session.record(client.messages.create(**pack.anthropic()))
                while reply.tool_calls:
                    for call in reply.tool_calls:
                        session.run(call, lambda of: f"sunny: {of}")
                    pack = session.pack(f"And {town}?", model=MODELS["anthropic"])
                    reply = session.record(client.messages.create(**pack.anthropic()))
                assert reply.text == f"It is sunny: And {town}?."
        told = [(each.role, each.text) for each in session.messages() if each.role != "tool" and each.text]
        assert [role for role, _ in told] == ["assistant"] * 2
        assert engine.admin.verify().problems == ()
    assert asked.refused == []


def test_what_is_being_written_is_there_before_a_task_is_cancelled(tmp_path: Path) -> None:
    """Whoever goes on in the same process finds the reply, and does not ask for another."""

    async def run() -> list[str | None]:
        async with await holdfast.open_async(tmp_path / "agent.db") as engine:
            session = await engine.session("s", create=True)
            await session.record("user", "hello")
            with closing(apsw.Connection(str(tmp_path / "agent.db"))) as other:
                other.execute("BEGIN IMMEDIATE")
                task = asyncio.create_task(session.record("assistant", "the reply"))
                store = engine.store.blocking
                assert isinstance(store, SqliteStore)
                while not store._writer._group._queue:  # noqa: ASYNC110 - a queue tells nobody that it is filled
                    await asyncio.sleep(0)
                task.cancel()
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not task.done()
                other.execute("ROLLBACK")
                with pytest.raises(asyncio.CancelledError):
                    await task
            return [each.role for each in (await session.context.view()).messages]

    assert asyncio.run(run()) == ["user", "assistant"]


# The server


def good(protocol: str) -> dict[str, Any]:
    """A request with everything in it, as the server takes it after it has made the call and the thought."""
    tool = holdfast.Tool(name="find", description="Find.", parameters={"type": "object", "properties": {}})
    args = json.dumps({"of": "x"})
    match protocol:
        case "anthropic":
            mark = {"cache_control": {"type": "ephemeral"}}
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": "sealed"}
            call = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"of": "x"}}
            result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}
            messages = [
                {"role": "user", "content": [{"type": "text", "text": "Find x."}]},
                {"role": "assistant", "content": [thinking, call]},
                {"role": "user", "content": [result, {"type": "text", "text": "Now.", **mark}]},
            ]
            system = [{"type": "text", "text": "You find.", **mark}]
            more = {"max_tokens": 100, "system": system, "tools": [tool.anthropic()]}
            return {"model": "claude", "messages": messages, **more}
        case "chat":
            function = {"name": "find", "arguments": args}
            messages = [
                {"role": "system", "content": "You find."},
                {"role": "user", "content": "Find x."},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "toolu_1", "type": "function"}]},
                {"role": "tool", "tool_call_id": "toolu_1", "content": "found"},
                {"role": "user", "content": "Now."},
            ]
            messages[2]["tool_calls"][0]["function"] = function  # type: ignore[index]
            return {"model": "gpt", "messages": messages, "tools": [tool.openai()]}
    items = [
        {"role": "user", "content": "Find x."},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {"type": "function_call", "id": "fc_1", "call_id": "toolu_1", "name": "find", "arguments": args},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "found"},
        {"role": "user", "content": "Now."},
    ]
    return {"model": "gpt", "input": items, "instructions": "You find.", "tools": [tool.openai_responses()]}


def parsed(protocol: str, body: dict[str, Any]) -> Talk:
    made = ProviderMemory()
    made.calls["toolu_1"] = ("find", json.dumps({"of": "x"}))
    made.thoughts["sealed"] = "Hm."
    made.reasoned.add("1")
    return PARSED[protocol](body, made)


def put(body: dict[str, Any], path: str, value: object) -> None:
    """Change what stands at a place, or behind the last one; None takes it out."""
    *way, last = [int(each) if each.isdecimal() else each for each in path.split(".")]
    at: Any = body
    for each in way:
        at = at[each]
    if value is None:
        del at[last]
    elif isinstance(at, list) and last == len(at):
        at.append(value)
    else:
        at[last] = value


BLANK = [{"type": "text", "text": " "}]
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "R0lGODlh"}}
FAILED = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True}
IMAGE_URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,R0lGODlh"}}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}
MARK = {"type": "ephemeral"}
REFUSED: list[tuple[str, str, object, str | None]] = [
    ("anthropic", "max_tokens", None, "max_tokens"),
    ("anthropic", "max_tokens", 0, "max_tokens"),
    ("anthropic", "window", 5, "extra inputs"),
    ("anthropic", "messages", [], "at least one"),
    ("anthropic", "messages.0", None, "first message"),
    ("anthropic", "messages.0.role", "system", "unexpected role"),
    ("anthropic", "messages.0.content", BLANK, "non-empty"),
    ("anthropic", "messages.0.content.0.cache_control", {"type": "lasting"}, "another mark"),
    ("anthropic", "messages.1", None, "must alternate"),
    ("anthropic", "messages.1.content.1", None, "cannot be thinking"),
    ("anthropic", "messages.1.content.0.thinking", "Hm!", "cannot be modified"),
    ("anthropic", "messages.1.content.0.signature", "forged", "invalid signature"),
    ("anthropic", "messages.1.content.0.cache_control", MARK, "extra inputs"),
    ("anthropic", "messages.1.content.1.input", {"of": "y"}, "not as it was made"),
    ("anthropic", "messages.1.content.1.id", "toolu_2", "is nobody's"),
    ("anthropic", "messages.1.content.1.id", "toolu 1", "should match"),
    ("anthropic", "messages.2", None, "end with a user message"),
    ("anthropic", "messages.2.content.0.tool_use_id", "toolu_2", "has no result"),
    ("anthropic", "messages.2.content", BLANK, "non-empty"),
    ("anthropic", "messages.2.content.0", None, "has no result"),
    ("anthropic", "messages.2.content.0.is_error", True, None),
    ("anthropic", "messages.2.content.0", {**FAILED, "content": [PICTURE]}, "must be text"),
    ("anthropic", "messages.2.content.0", {**FAILED, "content": ""}, "cannot be empty"),
    ("anthropic", "messages.2.content.1", {"type": "text", "text": ""}, "non-empty|cannot be set"),
    ("anthropic", "messages.2.content.1", {**PICTURE, "source": {"type": "url", "url": "http://x"}}, "HTTPS"),
    ("anthropic", "messages.2.content.1", PICTURE, "does not match"),
    ("anthropic", "messages.2", {"role": "assistant", "content": "So. "}, "must alternate"),
    ("anthropic", "messages.3", {"role": "assistant", "content": "So. "}, "trailing whitespace"),
    ("anthropic", "system", BLANK, "non-empty"),
    ("anthropic", "system.0.type", "image", "text block"),
    ("anthropic", "tools", None, "must define tools"),
    ("anthropic", "tools", [], "must define tools"),
    ("anthropic", "tools.0.name", "find it", "should be a name"),
    ("anthropic", "tools.0.input_schema", {}, "schema"),
    ("chat", "messages", [], "at least one"),
    ("chat", "max_tokens_", 5, "extra inputs"),
    ("chat", "max_completion_tokens", 0, "max_completion_tokens"),
    ("chat", "messages.1.role", "human", "unexpected role"),
    ("chat", "messages.2", None, "must follow"),
    ("chat", "messages.2.tool_calls", [], "at least one"),
    ("chat", "messages.2.tool_calls", None, "got null"),
    ("chat", "messages.2.tool_calls.0.id", "x" * 41, "too long"),
    ("chat", "messages.2.tool_calls.0.id", "other", "is nobody's"),
    ("chat", "messages.2.tool_calls.0.function.arguments", {"of": "x"}, "string"),
    ("chat", "messages.2.tool_calls.0.function.arguments", "{of", "not JSON"),
    ("chat", "messages.2.tool_calls.0.function.arguments", "{}", "not as it was made"),
    ("chat", "messages.3", None, "has no result"),
    ("chat", "messages.3.tool_call_id", "other", "has no result"),
    ("chat", "tools", [], "should not be empty"),
    ("chat", "tools.0.type", "tool", "unknown type"),
    ("chat", "tools.0.function.parameters", {"type": "object"}, "missing properties"),
    ("chat", "messages.1.name", "Ada Lovelace", "does not match the pattern"),
    ("chat", "messages.1.content", [IMAGE_URL], "does not match its media type"),
    ("chat", "messages.3.content", [IMAGE_URL], "only allowed in messages of the user"),
    ("responses", "input", [], "at least one"),
    ("responses", "messages", [], "extra inputs"),
    ("responses", "max_output_tokens", 5, "max_output_tokens"),
    ("responses", "input.0.content", [{"type": "output_text", "text": "x"}], "expected input_text"),
    ("responses", "input.1.id", "msg_1", "another prefix"),
    ("responses", "input.1.encrypted_content", "forged", "invalid signature"),
    ("responses", "input.2", None, "required following item"),
    ("responses", "input.2.id", "call_1", "another prefix"),
    ("responses", "input.2.arguments", "{}", "not as it was made"),
    ("responses", "input.3", None, "has no result"),
    ("responses", "input.3.call_id", "other", "has no result"),
    ("responses", "tools.0.strict", None, "strict"),
    ("responses", "tools.0.parameters", {"type": "object"}, "missing properties"),
    ("responses", "input.1", None, "without its required reasoning item"),
    ("responses", "input.4", {"type": "message", "id": "fc_1", "role": "user", "content": "x"}, "another prefix"),
    ("responses", "input.4", {**REASONING, "id": "rs_1"}, "duplicate item"),
]


@pytest.mark.parametrize("protocol", MODELS)
def test_a_good_request_is_read_the_same_in_every_protocol(protocol: str) -> None:
    talk = parsed(protocol, good(protocol))
    assert talk.system == "You find."
    assert talk.tools == ("find",)
    assert [(turn.role, turn.text) for turn in talk.turns] == [("user", "Find x."), ("assistant", ""), ("user", "Now.")]
    ((call, result),) = talk.last
    assert (call.id, call.name, call.args, result) == ("toolu_1", "find", {"of": "x"}, "found")


@pytest.mark.parametrize(("protocol", "path", "value", "reason"), REFUSED)
def test_the_server_refuses_what_a_provider_refuses(
    protocol: str, path: str, value: object, reason: str | None
) -> None:
    body = good(protocol)
    put(body, path, value)
    if reason is None:
        parsed(protocol, body)
        return
    with pytest.raises(RequestRefused, match=reason):
        parsed(protocol, body)


def test_the_server_counts_marks_and_says_why_it_refuses() -> None:
    body = good("anthropic")
    body["system"] *= 4
    asked = Provider(lambda talk: Reply("yes"))
    with serve_provider(asked) as address:
        with anthropic.Anthropic(api_key="none", base_url=address, max_retries=0) as client:
            body["messages"] = body["messages"][:1]
            assert client.messages.create(**body).content[0].text == "yes"
            body["system"] += body["system"][:1]
            with pytest.raises(anthropic.BadRequestError, match="a maximum of 4 blocks"):
                client.messages.create(**body)
        with openai.OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0) as gpt:
            with pytest.raises(openai.BadRequestError, match="at least one"):
                gpt.chat.completions.create(model="gpt", messages=[])
            with pytest.raises(openai.BadRequestError, match="field required"):
                gpt.responses.create(model="gpt")
    assert len(asked.refused) == 3
