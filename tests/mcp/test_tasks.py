"""Tasks on frames: what `tasks/get`, `tasks/update` and `tasks/cancel` answer, in one process and in several."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, TextContent

import holdfast
from holdfast.mcp.task_client import TasksClient
from holdfast.mcp.task_frames import (
    TASKS_ACTOR,
    TaskCall,
    TaskOwner,
    create_task_session,
    load_task,
    push_task_frame,
)
from holdfast.mcp.tasks import Tasks
from mcp import Client
from tests.mcp.endpoints import LEASE_S, TASKS, Replica, Wire, connected, serving, wait_until
from tests.postgres import empty_url
from tests.support import PATIENCE_S, figure

ACCEPTED = {"action": "accept", "content": {"ok": True}}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "agent.db", lease_s=LEASE_S, poll_s=0.05) as address:
        yield address


class Survivor(NamedTuple):
    """A replica that goes on while others are killed, and their store."""

    store: str
    wire: Wire


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    store = str(tmp_path_factory.mktemp("tasks") / "agent.db")
    with Replica(store) as replica:
        yield Survivor(store, Wire(replica.url))


def test_a_task_is_worked_on_and_completes_with_the_result_of_the_tool(url: str) -> None:
    wire = Wire(url)
    task = wire.call("wait", seconds=0.2)
    assert task["resultType"] == "task"
    assert task["status"] == "working"
    assert task["ttlMs"] == 3_600_000
    done = wire.wait_for(task, "completed", "failed")
    assert done["resultType"] == "complete"
    assert done["result"]["content"] == [{"type": "text", "text": "waited 0.2 s"}]
    assert done["createdAt"] == task["createdAt"]


def test_a_client_without_the_extension_gets_the_result_itself(url: str) -> None:
    plain = Wire(url, extensions=())
    assert plain.call("wait", seconds=0)["content"][0]["text"] == "waited 0.0 s"
    assert plain.error("tasks/get", taskId="any")["code"] == -32021


def test_an_error_of_the_protocol_fails_the_task_and_one_of_the_tool_completes_it(url: str) -> None:
    wire = Wire(url)
    failed = wire.wait_for(wire.call("break_off"), "failed", "completed")
    assert (failed["status"], failed["error"]["message"]) == ("failed", "broken")
    completed = wire.wait_for(wire.call("wait", seconds="soon"), "failed", "completed")
    assert completed["status"] == "completed"
    assert completed["result"]["isError"] is True


def test_a_task_that_asks_waits_as_a_suspended_frame_and_each_request_has_a_key_of_its_own(
    url: str, tmp_path: Path
) -> None:
    wire = Wire(url)
    task = wire.call("approve")
    first = wire.wait_for(task, "input_required")
    (key,) = first["inputRequests"]
    assert first["inputRequests"][key]["method"] == "elicitation/create"
    with holdfast.open(tmp_path / "agent.db") as engine:
        (suspended,) = engine.suspended(actor=TASKS_ACTOR)
        assert suspended.scope.session == task["taskId"]
    assert wire.result("tasks/update", taskId=task["taskId"], inputResponses={"unknown": {"a": 1}})["resultType"]
    assert wire.get(task)["status"] == "input_required"
    wire.result("tasks/update", taskId=task["taskId"], inputResponses={key: ACCEPTED})
    wait_until(lambda: key not in wire.get(task).get("inputRequests", {key}))
    second = wire.wait_for(task, "input_required")
    (other,) = second["inputRequests"]
    assert other != key
    wire.result("tasks/update", taskId=task["taskId"], inputResponses={key: ACCEPTED, other: ACCEPTED})
    assert wire.wait_for(task, "completed")["result"]["content"][0]["text"] == "second: {'ok': True}"


def test_answers_that_come_at_the_same_time_start_the_tool_once(survivor: Survivor, tmp_path: Path) -> None:
    with Replica(survivor.store) as first, ThreadPoolExecutor(8) as pool:
        wires = (survivor.wire, Wire(first.url))
        for number in range(figure(4, 100)):
            task = wires[number % 2].call("gather", path=str(tmp_path / f"lines-{number}"))
            keys = wires[0].wait_for(task, "input_required")["inputRequests"]
            sent = [
                pool.submit(wire.result, "tasks/update", taskId=task["taskId"], inputResponses={key: ACCEPTED})
                for wire in wires
                for key in keys
            ]
            assert all(each.result()["resultType"] == "complete" for each in sent)
            done = wires[1].wait_for(task, "completed", "failed")
            assert done["result"]["content"][0]["text"] == "1 lines"


def test_a_task_that_is_read_while_its_worker_puts_it_down_has_not_been_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = TaskCall(tool="approve", arguments={}, owner="", ttl_ms=60_000, version="", capabilities={})

    async def main() -> None:
        async with await holdfast.open_async("memory:") as engine:
            owner = TaskOwner(engine, "")
            turn = (await create_task_session(owner, "task", call)).turn()
            frame = await push_task_frame(await turn.__aenter__(), call)
            read = holdfast.AsyncFrame.state

            async def read_slowly(self: holdfast.AsyncFrame) -> Any:
                record = await read(self)
                if record.status == "active":
                    await frame.suspend("waits for answers")
                    await turn.__aexit__(None, None, None)
                return record

            monkeypatch.setattr(holdfast.AsyncFrame, "state", read_slowly)
            task = await load_task(owner, "task")
            assert task is not None
            assert (task.record.status, task.has_worker) == ("active", True)
            task = await load_task(owner, "task")
            assert task is not None
            assert (task.record.status, task.has_worker) == ("suspended", False)

    asyncio.run(main())


def test_an_answer_of_another_kind_is_refused_and_the_task_still_waits(url: str) -> None:
    wire = Wire(url)
    task = wire.call("approve")
    (key,) = wire.wait_for(task, "input_required")["inputRequests"]
    assert wire.error("tasks/update", taskId=task["taskId"], inputResponses={key: {"what": 1}})["code"] == -32602
    assert wire.get(task)["status"] == "input_required"


def test_a_cancelled_task_stays_cancelled(url: str) -> None:
    wire = Wire(url)
    task = wire.call("wait", seconds=60)
    acknowledged = wire.result("tasks/cancel", taskId=task["taskId"])
    assert set(acknowledged) == {"resultType", "_meta"}
    assert wire.get(task)["status"] == "cancelled"
    assert wire.result("tasks/cancel", taskId=task["taskId"])["resultType"] == "complete"
    assert wire.get(task)["status"] == "cancelled"


@pytest.mark.parametrize("key", ["bob", "ada-elsewhere", "ada-apart", "program"])
def test_a_task_of_another_caller_does_not_exist(url: str, key: str) -> None:
    task = Wire(url).call("wait", seconds=0)
    other = Wire(url, key)
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        error = other.error(method, taskId=task["taskId"])
        unknown = other.error(method, taskId="x" * 32)
        assert (error["code"], error["message"]) == (-32602, unknown["message"])
    assert Wire(url).wait_for(task, "completed", "cancelled")["status"] == "completed"


@pytest.mark.parametrize("task_id", ["", "no\x00name", "ü" * 200, "../x", "mcp"])
def test_an_id_that_is_none_is_not_found(url: str, task_id: str) -> None:
    answer = Wire(url).send("tasks/get", {"taskId": task_id}, **{"Mcp-Name": "=?base64?eA==?="})
    assert answer["error"]["code"] in (-32602, -32020)


def test_the_header_of_another_task_is_refused(url: str) -> None:
    task = Wire(url).call("wait", seconds=0)
    for named in ("another", ""):
        answer = Wire(url).send("tasks/get", {"taskId": task["taskId"]}, **{"Mcp-Name": named})
        assert answer["error"]["code"] == -32020


def test_a_caller_who_may_only_read_sees_a_task_and_cannot_end_it(url: str) -> None:
    task = Wire(url).call("wait", seconds=60)
    reader = Wire(url, "ada-reads")
    assert reader.get(task)["status"] == "working"
    assert "right 'write'" in reader.error("tasks/cancel", taskId=task["taskId"])["message"]
    Wire(url).result("tasks/cancel", taskId=task["taskId"])


def test_after_its_time_a_task_is_gone_and_its_content_too(tmp_path: Path) -> None:
    with serving(tmp_path / "agent.db", ttl_s=0.5, poll_s=0.05, lease_s=LEASE_S) as url:
        wire = Wire(url)
        task = wire.call("wait", seconds=0)
        assert task["ttlMs"] == 500
        running = wire.call("wait", seconds=60)
        wait_until(lambda: "error" in wire.send("tasks/get", {"taskId": task["taskId"]}))
        wait_until(lambda: "error" in wire.send("tasks/get", {"taskId": running["taskId"]}))
        assert wire.error("tasks/get", taskId=task["taskId"])["code"] == -32602
    with holdfast.open(tmp_path / "agent.db") as engine:
        assert engine.sessions(actor=TASKS_ACTOR) == ()
        (row,) = [
            each for each in engine.sessions(actor=TASKS_ACTOR, status="destroyed") if each.session == task["taskId"]
        ]
        assert row.residue == 0


def test_a_question_to_a_person_is_a_task_for_a_client_that_knows_tasks(url: str) -> None:
    wire = Wire(url)
    task = wire.call("ask", question="Ship it?", choices=["yes", "no"])
    asked = wire.wait_for(task, "input_required")
    (key,) = asked["inputRequests"]
    assert asked["inputRequests"][key]["params"]["message"] == "Ship it?"
    answer = {"action": "accept", "content": {"answer": "yes"}}
    wire.result("tasks/update", taskId=task["taskId"], inputResponses={key: answer})
    done = wire.wait_for(task, "completed")
    assert done["result"]["structuredContent"]["answer"] == "yes"


# Several processes


def test_what_a_killed_process_leaves_is_told_and_finished_by_another_one(survivor: Survivor, tmp_path: Path) -> None:
    lines, other = tmp_path / "lines", survivor.wire
    with Replica(survivor.store) as first:
        wire = Wire(first.url)
        working, asking = wire.call("wait", seconds=60), wire.call("approve")
        repeatable = wire.call("append_line", path=str(lines), seconds=60)
        wire.wait_for(asking, "input_required")
        wait_until(lines.exists)
        assert other.get(working)["status"] == "working"
        first.kill()
    for _ in range(2):
        (key,) = other.wait_for(asking, "input_required")["inputRequests"]
        other.result("tasks/update", taskId=asking["taskId"], inputResponses={key: ACCEPTED})
        wait_until(lambda key=key: key not in other.get(asking).get("inputRequests", {}))  # type: ignore[misc]
    assert other.wait_for(asking, "completed", "failed")["status"] == "completed"
    failed = other.wait_for(working, "failed")
    assert failed["error"]["data"] == {"reason": "outcome_unknown"}
    assert "unknown" in failed["statusMessage"]
    assert other.get(working) == failed
    done = other.wait_for(repeatable, "completed", "failed")
    assert done["result"]["content"][0]["text"] == "2 lines"


def test_a_task_is_cancelled_from_another_process_and_a_stopped_server_ends_its_tasks_at_once(
    survivor: Survivor,
) -> None:
    with Replica(survivor.store) as first:
        cancelled, stopped = (Wire(first.url).call("wait", seconds=60) for _ in range(2))
        survivor.wire.result("tasks/cancel", taskId=cancelled["taskId"])
        assert Wire(first.url).get(cancelled)["status"] == "cancelled"
        first.process.terminate()
        first.process.wait(PATIENCE_S)
        assert survivor.wire.get(stopped)["error"]["data"] == {"reason": "outcome_unknown"}
        assert survivor.wire.get(cancelled)["status"] == "cancelled"


# Notifications


def test_a_subscriber_hears_how_a_task_goes(url: str) -> None:
    heard: list[dict[str, Any]] = []
    task = Wire(url).call("wait", seconds=0.5)
    _collect(url, task["taskId"], heard)
    methods = [each["method"] for each in heard]
    assert methods[0] == "notifications/subscriptions/acknowledged"
    assert heard[0]["params"]["notifications"]["taskIds"] == [task["taskId"]]
    statuses = [each["params"]["status"] for each in heard if each["method"] == "notifications/tasks"]
    assert statuses[-1] == "completed"
    assert Wire(url, extensions=()).error("subscriptions/listen", notifications={"taskIds": ["x"]})["code"] == -32021


def _collect(url: str, task_id: str, heard: list[dict[str, Any]]) -> None:
    """Read the stream of a subscription until the task has ended."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
    }
    params = {"notifications": {"taskIds": [task_id, "x" * 32]}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}
    headers = {
        "Authorization": "Bearer ada",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    with httpx2.stream("POST", url, json=body, headers=headers, timeout=PATIENCE_S) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                heard.append(json.loads(line.removeprefix("data: ")))
                if heard[-1].get("params", {}).get("status") == "completed":
                    return


# Other servers


def test_a_server_of_ones_own_has_durable_tasks(tmp_path: Path) -> None:
    async def work() -> None:
        async with await holdfast.open_async(tmp_path / "jobs.db") as engine:
            tasks = Tasks(engine, poll_s=0.02)

            @tasks.tool(title="Report")
            async def report(year: int) -> str:
                return f"report of {year}"

            server: MCPServer[Any] = MCPServer("reports", extensions=[tasks])
            async with tasks.running(), Client(server, mode="2026-07-28", extensions=[TasksClient()]) as client:
                result = await client.call_tool("report", {"year": 2026})
                assert result.structured_content == {"result": "report of 2026"}
                assert [each.session for each in await engine.sessions(actor=TASKS_ACTOR)] != []

    asyncio.run(work())


def test_the_client_of_a_task_shows_its_questions_and_waits_for_its_result(url: str) -> None:
    async def answer(_context: Any, _params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"ok": True})

    async def work() -> None:
        extensions = [TasksClient(elicit=answer)]
        async with connected(url, "ada", extensions=extensions, elicitation_callback=answer) as client:
            result = await client.call_tool("approve", {})
            assert result.content == [TextContent(type="text", text="second: {'ok': True}")]
            with pytest.raises(MCPError, match="broken"):
                await client.call_tool("break_off", {})

    asyncio.run(work())


def test_tasks_are_on_postgresql_too() -> None:
    with empty_url() as store, Replica(store) as first, Replica(store) as second:
        asked, working = Wire(first.url).call("approve"), Wire(first.url).call("wait", seconds=60)
        Wire(first.url).wait_for(asked, "input_required")
        first.kill()
        other = Wire(second.url)
        (key,) = other.get(asked)["inputRequests"]
        other.result("tasks/update", taskId=asked["taskId"], inputResponses={key: ACCEPTED})
        wait_until(lambda: key not in other.get(asked).get("inputRequests", {key}))
        assert other.wait_for(working, "failed")["error"]["data"] == {"reason": "outcome_unknown"}
