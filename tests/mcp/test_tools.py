"""The tools and resources through the official client: over HTTP and on standard input and output, in both eras."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

import holdfast
from holdfast import errors
from holdfast.mcp import mistakes
from mcp import Client
from tests.mcp.endpoints import MODES, Wire, connected, serving
from tests.support import PATIENCE_S

WRITERS = {"remember", "record", "begin", "finish", "ask"}
READERS = {"recall", "situation", "read_handle", "pack"}
Elicit = Callable[[Any, Any], Awaitable[mcp_types.ElicitResult]]


@asynccontextmanager
async def started(store: Path, mode: str, *options: str, **callbacks: Any) -> AsyncIterator[Client]:
    """The official client of `holdfast mcp`, in a process of its own."""
    command = ["-m", "holdfast", "mcp", str(store), *options]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(stdio_client(server), mode=mode, **callbacks) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The data that a tool returns."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, read(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def fail(client: Client, tool: str, **arguments: Any) -> str:
    """The text of the error that a tool returns."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, read(result)
    return read(result)


def read(result: mcp_types.CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, mcp_types.TextContent))


async def read_resource(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, mcp_types.TextResourceContents)
    return content.text


async def use(client: Client) -> None:
    """What an agent does on a day."""
    await call(client, "remember", key="shipping_address", value="123 Main St")
    changed = await call(client, "remember", key="shipping_address", value="456 Oak Ave", reason="moved")
    assert (changed["status"], changed["has_replaced"]) == ("current", True)
    again = await call(client, "remember", key="shipping_address", value="456 Oak Ave")
    assert again["status"] == "unchanged"
    for arguments in ({"query": "shipping address"}, {"key": "shipping_address"}, {}):
        found = await client.call_tool("recall", arguments)
        assert found.structured_content is not None
        assert [fact["value"] for fact in found.structured_content["facts"]] == ["456 Oak Ave"]
        assert "123 Main St" not in json.dumps(found.structured_content) + read(found)
    await call(client, "record", role="user", text="Please ship the lamp to my address.")
    assert "ship the lamp" in (await call(client, "recall", query="lamp"))["quotations"]
    await call(client, "situation", goal="Ship the lamp", progress="Address known")
    stored = await call(client, "situation", progress="Packed")
    assert (stored["goal"], stored["progress"], stored["changed"]) == ("Ship the lamp", "Packed", ["progress"])
    frame = (await call(client, "begin", goal="Compare carriers", budget=9_000))["frame"]
    await call(client, "record", role="assistant", text="DHL is cheapest.", frame=frame)
    ended = await call(client, "finish", frame=frame, summary="DHL", result={"carrier": "DHL"})
    assert ended["status"] == "completed"
    packed = await call(client, "pack", budget=3_000)
    for words in ("456 Oak Ave", "ship the lamp", "goal: Ship the lamp", "Compare carriers"):
        assert words in packed["text"]
    assert "123 Main St" not in packed["text"]
    manifest = json.loads(await read_resource(client, packed["uri"]))
    assert any(entry["fate"] == "included" for entry in manifest["entries"])
    assert packed["text"] in await read_resource(client, packed["text_uri"])
    session = json.loads(await read_resource(client, f"holdfast://sessions/{packed['session']}"))
    assert session["situation"]["progress"] == "Packed"
    fact = json.loads(await read_resource(client, changed["fact"]["uri"]))
    assert fact["value"] == "456 Oak Ave"


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_works_on_standard_input_and_output(tmp_path: Path, mode: str) -> None:
    async def work() -> None:
        async with started(tmp_path / "agent.db", mode, "--user", "ada") as client:
            assert client.protocol_version == ("2026-07-28" if mode != "legacy" else "2025-11-25")
            await use(client)

    asyncio.run(work())
    with holdfast.open(tmp_path / "agent.db") as engine:
        assert engine.admin.verify().ok
        (current,) = engine.ledger(user="ada").items()
        assert (current.value, current.source.name) == ("456 Oak Ave", "mcp")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "agent.db") as address:
        yield address


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_works_over_http(url: str, mode: str) -> None:
    async def work() -> None:
        async with connected(url, "ada", mode) as client:
            await use(client)

    asyncio.run(work())


def test_every_tool_has_a_schema_of_its_result_hints_and_words(url: str) -> None:
    async def look() -> None:
        async with connected(url, "ada") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) >= WRITERS | READERS
            for name in WRITERS | READERS:
                tool = tools[name]
                assert tool.output_schema is not None
                assert tool.annotations is not None
                assert tool.title
                assert len(tool.description or "") > 100
                assert "\n" not in (tool.description or "")
                undescribed = [each for each in tool.input_schema["properties"].values() if "description" not in each]
                assert undescribed == []

    asyncio.run(look())


# Questions to a person


def answering(*answers: mcp_types.ElicitResult) -> Elicit:
    left = list(answers)

    async def answer(_context: Any, _params: Any) -> mcp_types.ElicitResult:
        return left.pop(0)

    return answer


YES = mcp_types.ElicitResult(action="accept", content={"answer": "yes"})


@pytest.mark.parametrize("mode", MODES)
def test_a_person_is_asked_by_a_client_that_can_show_the_question(tmp_path: Path, mode: str) -> None:
    callback = answering(YES, mcp_types.ElicitResult(action="decline"), YES)

    async def work() -> None:
        async with started(tmp_path / "agent.db", mode, elicitation_callback=callback) as client:
            own = await call(client, "ask", question="Ship it?")
            assert (own["status"], own["answer"], own["token"]) == ("answered", "yes", "")
            declined = await call(client, "ask", question="Sure?", choices=["yes", "no"])
            assert (declined["status"], declined["answer"]) == ("declined", "")
            frame = (await call(client, "begin", goal="Ship"))["frame"]
            asked = await call(client, "ask", question="By air?", frame=frame)
            assert (asked["status"], asked["frame"]) == ("answered", frame)

    asyncio.run(work())
    with holdfast.open(tmp_path / "agent.db") as engine:
        session = engine.session("mcp")
        assert [each.status for each in session.frames.list()] == ["completed", "cancelled", "active"]
        talk = session.frames.get("top").context.render("text")
        assert talk.index("By air?") < talk.index("yes")
        assert engine.suspended() == []


def test_an_answer_over_http_may_come_to_another_process(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"

    async def work(first: str, second: str) -> None:
        seen: list[mcp_types.InputRequiredResult] = []
        async with connected(first, "ada", elicitation_callback=answering()) as client:
            asked = await client.session.call_tool("ask", {"question": "Ship it?"}, allow_input_required=True)
            assert isinstance(asked, mcp_types.InputRequiredResult)
            assert "ask" not in (asked.request_state or "")  # it is sealed
            seen.append(asked)
        for key, is_refused in (("bob", True), ("ada", False)):
            async with connected(second, key, elicitation_callback=answering()) as client:
                answer = client.session.call_tool(
                    "ask",
                    {"question": "Ship it?"},
                    input_responses={"answer": YES},
                    request_state=seen[0].request_state,
                    allow_input_required=True,
                )
                if is_refused:
                    with pytest.raises(MCPError, match="requestState"):
                        await answer
                else:
                    result = await answer
                    assert isinstance(result, mcp_types.CallToolResult)
                    assert result.structured_content is not None
                    assert result.structured_content["answer"] == "yes"

    with serving(store) as first, serving(store) as second:
        asyncio.run(work(first, second))


def test_a_client_that_cannot_be_asked_gets_a_token_that_works_once(url: str) -> None:
    async def work() -> None:
        async with connected(url, "ada", "legacy", elicitation_callback=answering()) as client:
            waiting = await call(client, "ask", question="Ship it?")
            assert waiting["status"] == "waiting"
            assert "token" in waiting["next_step"]
            assert "answer is missing" in await fail(client, "ask", question="Ship it?", token=waiting["token"])
            async with connected(url, "bob", "legacy") as other:
                refused = await fail(other, "ask", question="?", token=waiting["token"], answer="yes")
                assert "TokenInvalid" in refused
            done = await call(client, "ask", question="Ship it?", token=waiting["token"], answer="yes")
            assert (done["status"], done["frame"]) == ("answered", waiting["frame"])
            again = await fail(client, "ask", question="Ship it?", token=waiting["token"], answer="no")
            assert "TokenConsumed" in again

    asyncio.run(work())


# Rights and other callers


@pytest.mark.parametrize("mode", MODES)
def test_a_caller_who_may_only_read_is_shown_no_other_tool_and_changes_nothing(url: str, mode: str) -> None:
    async def work() -> None:
        async with connected(url, "ada", mode) as writer:
            await call(writer, "remember", key="color", value="blue")
            await call(writer, "record", role="user", text="I like it.")
        async with connected(url, "ada-reads", mode) as reader:
            tools = (await reader.list_tools()).tools
            assert {tool.name for tool in tools} & (WRITERS | READERS) == READERS
            assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
            for tool, arguments in (("remember", {"key": "color", "value": "red"}), ("ask", {"question": "?"})):
                with pytest.raises(MCPError, match="right 'write'"):
                    await reader.call_tool(tool, arguments)
            assert "right 'write'" in await fail(reader, "situation", goal="change")
            assert (await call(reader, "recall", key="color"))["facts"][0]["value"] == "blue"
            packed = await call(reader, "pack")
            assert "color: blue" in packed["text"]
            assert packed["pack"] == ""

    asyncio.run(work())


def test_reading_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with holdfast.open(store) as engine:
        session = engine.create_session("mcp", actor="ada", user="ada", memory=True)
        session.record("user", "word " * 30_000)
        engine.ledger(user="ada").set("color", "blue")
        before = engine.admin.totals().events

    async def work() -> None:
        async with started(store, "2026-07-28", "--user", "ada", "--read-only") as client:
            for tool, arguments in (("recall", {"query": "word"}), ("pack", {"budget": 90_000}), ("situation", {})):
                await call(client, tool, **arguments)
            await client.list_resources()

    asyncio.run(work())
    with holdfast.open(store) as engine:
        assert engine.admin.totals().events == before
        assert engine.session("mcp", actor="ada").state().version == 2


@pytest.mark.parametrize(
    ("owner", "key"),
    [("ada", "bob"), ("ada", "ada-elsewhere"), ("ada", "ada-apart"), ("ada-shared", "bob-shared")],
)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_another_user_tenant_or_namespace_is_reachable(url: str, owner: str, key: str, mode: str) -> None:
    async def work() -> None:
        async with connected(url, owner, mode) as client:
            fact = (await call(client, "remember", key="secret_color", value="ultramarine"))["fact"]
            await call(client, "remember", key="plan", value="umbra", about="session", session="trip")
            await call(client, "record", role="user", text="My secret is ultramarine.", session="trip")
            packed = await call(client, "pack", session="trip")
        async with connected(url, key, mode) as other:
            shown = str(await other.list_resources())
            assert "trip" not in shown
            if key != "ada-apart":  # the same user, who has the same facts everywhere
                assert (await call(other, "recall", query="secret color"))["facts"] == []
                with pytest.raises(MCPError):
                    await other.read_resource(fact["uri"])
            for uri in (
                "holdfast://sessions/trip",
                packed["uri"],
                packed["text_uri"],
                "holdfast://facts/session/trip/plan",
            ):
                with pytest.raises(MCPError) as refused:
                    await other.read_resource(uri)
                assert "ultramarine" not in str(refused.value)
            assert "SessionNotFound" in await fail(other, "recall", key="plan", session="trip")
            reference = mcp_types.ResourceTemplateReference(uri="holdfast://sessions/{session}")
            completed = await other.complete(reference, {"name": "session", "value": "tr"})
            assert completed.completion.values == []

    asyncio.run(work())


def test_a_session_of_another_user_is_not_taken_over(url: str) -> None:
    async def work() -> None:
        async with connected(url, "ada-shared") as client:
            await call(client, "record", role="user", text="mine", session="shared-name")
        async with connected(url, "bob-shared") as other:
            assert "SessionNotFound" in await fail(other, "record", role="user", text="x", session="shared-name")
            assert "SessionNotFound" in await fail(other, "remember", key="a", value=1, session="shared-name")

    asyncio.run(work())


def test_a_key_without_the_right_to_read_reads_nothing(url: str) -> None:
    async def work() -> None:
        async with connected(url, "model-only") as client:
            for attempt in (client.list_tools, client.list_resources, lambda: client.call_tool("recall", {})):
                with pytest.raises(MCPError, match="right 'read'"):
                    await attempt()

    asyncio.run(work())


def test_what_the_user_says_changes_facts_and_the_model_is_told(url: str) -> None:
    async def work() -> None:
        async with connected(url, "ada") as client:
            await call(client, "remember", key="address", value="12 Rue Cler, Lyon")
            sent = {"role": "user", "text": "I moved: my address is 9 Quai Sud, Lyon now.", "message_id": "m-1"}
            (change,) = (await call(client, "record", **sent))["changes"]
            assert change.startswith("Fact changed by it: address")
            first = await call(client, "record", **sent)
            assert first["message"] == (await call(client, "record", **sent))["message"]
            found = await call(client, "recall", query="address")
            assert [fact["value"] for fact in found["facts"]] == ["9 Quai Sud, Lyon"]
            assert "Rue Cler" not in found["quotations"]
            assert "SessionNotFound" in await fail(client, "pack", session="unknown")

    asyncio.run(work())


def test_a_finished_conversation_is_recalled_in_a_later_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with started(tmp_path / "agent.db", "2026-07-28", "--user", "ada") as client:
            await call(client, "record", role="user", text="The lighthouse keeper is called Ines.", session="trip")
            frame = (await call(client, "begin", goal="Search", session="trip"))["frame"]
            assert "not finished" in await fail(client, "finish", summary="done", session="trip")
            await call(client, "finish", frame=frame, summary="done", session="trip")
            await call(client, "finish", summary="We found the lighthouse.", session="trip")
            assert "Ines" not in (await call(client, "pack", session="trip", query="weather"))["text"]
            await call(client, "record", role="user", text="hello", session="later")
            found = await call(client, "recall", query="lighthouse keeper", session="later")
            while "Ines" not in found["quotations"]:  # until it is delivered
                await asyncio.sleep(0.1)
                found = await call(client, "recall", query="lighthouse keeper", session="later")

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def test_a_fact_of_higher_authority_stays_and_the_model_is_told(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with holdfast.open(store) as engine:
        engine.ledger(user="ada").set("limit", 100, authority="policy")

    async def work() -> None:
        async with started(store, "2026-07-28", "--user", "ada") as client:
            claimed = await call(client, "remember", key="limit", value=999)
            assert claimed["status"] == "claim"
            assert (await call(client, "recall", key="limit"))["facts"][0]["value"] == 100

    asyncio.run(work())


# Large texts, lists, completions, subscriptions


@pytest.mark.parametrize("mode", MODES)
def test_a_long_text_is_a_link_and_is_read_in_parts(url: str, mode: str) -> None:
    text = "".join(f"line {number}: {'word ' * 20}\n" for number in range(2_000))

    async def work() -> None:
        async with connected(url, "ada", mode) as client:
            result = await client.call_tool("record", {"role": "user", "text": text})
            (link,) = [each for each in result.content if isinstance(each, mcp_types.ResourceLink)]
            assert link.size == len(text.encode())
            page = await read_resource(client, str(link.uri))
            assert page.startswith("line 0: word")
            assert len(page) < 20_000
            later = await read_resource(client, f"{link.uri}?start=100000&stop=100200")
            assert later.startswith(text[100_000:100_200])
            assert result.structured_content is not None
            handle = result.structured_content["handle"]
            found = await call(client, "read_handle", handle=handle, search="line 1234:")
            assert found["text"].splitlines()[2].startswith("1235: line 1234:")
            lines = await call(client, "read_handle", handle=handle, first_line=2, last_line=2)
            assert lines["text"].startswith("line 1: word")
            packed = await client.call_tool("pack", {"budget": 150_000})
            (packed_link,) = [each for each in packed.content if isinstance(each, mcp_types.ResourceLink)]
            assert packed.structured_content is not None
            assert packed.structured_content["text"] == ""
            end = await call(client, "read_handle", handle=packed.structured_content["pack"], first_line=-3)
            assert "</holdfast-context>" in end["text"]
            assert "line 0: word" in await read_resource(client, str(packed_link.uri))

    asyncio.run(work())


def test_a_large_fact_is_shown_in_part_with_a_link(url: str) -> None:
    async def work() -> None:
        async with connected(url, "ada") as client:
            value = "x" * 60_000
            result = await client.call_tool("remember", {"key": "blob", "value": value})
            assert len(str(result)) < 5_000
            found = await client.call_tool("recall", {"key": "blob"})
            (link,) = [each for each in found.content if isinstance(each, mcp_types.ResourceLink)]
            assert json.loads(await read_resource(client, str(link.uri)))["value"] == value

    asyncio.run(work())


def test_sessions_are_listed_in_pages_and_nothing_else_is_in_them(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with holdfast.open(store) as engine:
        for number in range(120):
            engine.create_session(f"s-{number:03}", actor="shared", user="ada" if number % 2 else "bob")

    async def work(url: str) -> None:
        async with connected(url, "program-shared") as client:
            names, cursor, pages = [], None, 0
            while pages == 0 or cursor is not None:
                page = await client.list_resources(cursor=cursor)
                names += [each.name for each in page.resources]
                cursor, pages = page.next_cursor, pages + 1
            assert names == [f"s-{number:03}" for number in range(120)]
            assert pages == 3
        async with connected(url, "ada-shared") as client:
            first = await client.list_resources()
            assert [each.name for each in first.resources] == [f"s-{number:03}" for number in range(1, 101, 2)]
            last = await client.list_resources(cursor=first.next_cursor)
            assert [each.name for each in last.resources] == [f"s-{number:03}" for number in range(101, 121, 2)]
            assert last.next_cursor is None
        async with connected(url, "bob-shared") as other:
            rest = await other.list_resources(cursor=first.next_cursor)
            assert [each.name for each in rest.resources] == [f"s-{number:03}" for number in range(100, 120, 2)]
            for cursor in ("nonsense", "W10="):
                with pytest.raises(MCPError, match="cursor"):
                    await other.list_resources(cursor=cursor)

    with serving(store) as url:
        asyncio.run(work(url))


@pytest.mark.parametrize(
    "uri",
    [
        "holdfast://sessions/",
        "holdfast://sessions/%00",
        f"holdfast://sessions/{'x' * 5_000}",
        "holdfast://sessions/mcp/packs/p99999999999999999999",
        "holdfast://sessions/mcp/packs/p1/text",
        "holdfast://sessions/mcp/handles/h2_0?start=soon",
        "holdfast://sessions/mcp/handles/h2_0?start=9999",
        "holdfast://facts/nokind/ada/color",
        "holdfast://facts/user/ada/..%2f..",
    ],
)
def test_an_address_that_leads_nowhere_is_an_error_of_the_caller(url: str, uri: str) -> None:
    wire = Wire(url)
    assert not wire.call("record", role="user", text="hello")["isError"]
    assert wire.error("resources/read", uri=uri)["code"] == -32602


def test_the_arguments_of_addresses_are_completed(url: str) -> None:
    async def work() -> None:
        async with connected(url, "ada") as client:
            await call(client, "remember", key="shipping_address", value="a")
            await call(client, "remember", key="shoe_size", value=42)
            await call(client, "record", role="user", text="hello", session="trip to Rome")
            sessions = mcp_types.ResourceTemplateReference(uri="holdfast://sessions/{session}")
            found = await client.complete(sessions, {"name": "session", "value": "tr"})
            assert found.completion.values == ["trip to Rome"]
            facts = mcp_types.ResourceTemplateReference(uri="holdfast://facts/{kind}/{name}/{key}")
            known = {"kind": "user", "name": "ada"}
            found = await client.complete(facts, {"name": "key", "value": "sh"}, context_arguments=known)
            assert found.completion.values == ["shipping_address", "shoe_size"]
            assert "trip to Rome" in await read_resource(client, "holdfast://sessions/trip%20to%20Rome")

    asyncio.run(work())


def test_a_subscriber_hears_of_changes_by_any_process(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"

    async def work(url: str) -> None:
        async with connected(url, "ada") as client:
            await call(client, "record", role="user", text="hello", session="trip")
            uri = "holdfast://sessions/trip"
            async with client.listen(resource_subscriptions=[uri]) as stream:
                await asyncio.to_thread(record_elsewhere, store, "trip", "ada")
                async for event in stream:
                    assert getattr(event, "uri", "") == uri
                    break

    with serving(store) as url:
        asyncio.run(asyncio.wait_for(work(url), 30))


def record_elsewhere(store: Path, session: str, actor: str) -> None:
    with holdfast.open(store) as engine:
        engine.session(session, actor=actor).record("user", "hello again")


@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
def test_an_earlier_client_hears_of_changes_on_its_connection(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def handle(message: Any) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            await heard.put(str(message.params.uri))

    async def work() -> None:
        async with started(store, "legacy", message_handler=handle) as client:
            await call(client, "record", role="user", text="hello", session="trip")
            await client.session.subscribe_resource("holdfast://sessions/trip")
            await asyncio.to_thread(record_elsewhere, store, "trip", "main")
            assert await asyncio.wait_for(heard.get(), 30) == "holdfast://sessions/trip"
            await client.session.unsubscribe_resource("holdfast://sessions/trip")

    asyncio.run(work())


def test_ids_of_messages_are_of_their_session(tmp_path: Path) -> None:
    """Every model numbers its messages from one: the same id in another session is another message."""

    async def main() -> None:
        with serving(tmp_path / "agent.db") as url:
            for user in ("ada", "bob"):
                async with connected(url, user) as client:
                    for name in ("first", "second"):
                        sent = {"role": "user", "text": f"{user} says {name}.", "message_id": "1", "session": name}
                        recorded = await call(client, "record", **sent)
                        assert await call(client, "record", **sent) == recorded

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_wrong_arguments_are_explained_in_our_words(url: str, mode: str) -> None:
    async def body() -> None:
        async with connected(url, "ada", mode) as client:
            missing = await fail(client, "record", role="user", content="hello")
            assert "Invalid argument `text` of `record`: it is missing." in missing
            assert "no argument 'content'" in missing
            assert "role, text, message_id, session, frame" in missing
            wrong = await fail(client, "record", role="system", text="x")
            assert "`role`" in wrong
            assert "'user' or 'assistant'" in wrong
            asked = await fail(client, "ask", text="Ship it?")
            assert "`question` of `ask`" in asked
            for text in (missing, wrong, asked, await fail(client, "pack", budget="many")):
                assert "pydantic" not in text
                assert "://" not in text
                assert "\n" not in text

    asyncio.run(body())


def test_errors_name_tools_and_no_methods(url: str) -> None:
    async def body() -> None:
        async with connected(url, "ada") as client:
            await call(client, "record", role="user", text="hello")
            for text in (
                await fail(client, "pack", frame="f999"),
                await fail(client, "begin", goal="x", parent="f999"),
                await fail(client, "read_handle", handle="h999_0"),
                await fail(client, "read_handle", handle="p999"),
                await fail(client, "ask", question="?", token="nonsense", answer="yes"),
            ):
                assert "()" not in text, text

    asyncio.run(body())


def test_the_advice_of_errors_has_words_for_models() -> None:
    templates = [" ".join((each.__doc__ or "").split()) for each in vars(errors).values() if isinstance(each, type)]
    for advice, _ in mistakes._TOOL_WORDS:
        assert any(advice in template for template in templates), advice
