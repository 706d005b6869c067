"""Turns, tools, bodies, frames and forks over HTTP."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.access.records import KeyGrant
from tests.server.native.serving import ApiClient, make_keys, serving


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        first = api.send("POST", "/sessions/s/turns", {"owner": "one"})
        assert first.status_code == 201
        turn = first.json()
        waiting = api.send("POST", "/sessions/s/turns", {"owner": "two", "wait_s": 30})
        assert waiting.status_code == 202
        assert api.problem("POST", "/sessions/s/turns", {"owner": "three", "wait_s": 0})[:2] == (409, "TurnBusy")
        bound = {"Holdfast-Turn": turn["header"]}
        body = {"message": "user", "content": "Hello"}
        api.ok("POST", "/sessions/s/messages", body, headers=bound)
        api.ok("PUT", "/sessions/s/facts/keys/plan", {"value": "pro"}, headers=bound)
        api.ok("PUT", f"/sessions/s/turns/{turn['number']}", {"lease_s": 30})
        api.ok("DELETE", f"/sessions/s/turns/{turn['number']}")
        for verb, path, late in (
            ("POST", "/sessions/s/messages", body),
            ("PUT", "/sessions/s/facts/keys/plan", {"value": "basic"}),
            ("POST", "/sessions/s/frames", {"goal": "g", "budget": 10}),
        ):
            assert api.problem(verb, path, late, headers=bound)[:2] == (409, "LeaseLost")
        assert api.problem("PUT", f"/sessions/s/turns/{turn['number']}", {})[:2] == (409, "LeaseLost")
        second = api.send("POST", "/sessions/s/turns", {"owner": "two", "ticket": waiting.json()["ticket"]})
        assert second.status_code == 201
        assert second.json()["number"] > turn["number"]
        assert api.ok("GET", "/sessions/s/facts/keys/plan")["value"] == "pro"


def test_a_turn_on_a_frame(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        frame = api.ok("POST", "/sessions/s/frames", {"goal": "g", "budget": 1_000})["frame"]
        turn = api.ok("POST", "/sessions/s/frames/top/turns", {"owner": "one"})
        assert (turn["frame"], f"frame={frame}" in turn["header"]) == (frame, True)
        bound = {"Holdfast-Turn": turn["header"]}
        api.ok("POST", f"/sessions/s/frames/{frame}/messages", {"message": "user", "content": "Hi"}, headers=bound)
        api.ok("DELETE", f"/sessions/s/frames/{frame}/turns/{turn['number']}")
        late = api.problem("POST", f"/sessions/s/frames/{frame}/messages", {"message": "user"}, headers=bound)
        assert late[0] in (409, 422)


def test_a_merge_into_a_session_under_its_turn(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        api.ok("POST", "/sessions/s/forks", {"as_": "branch"})
        api.ok("PUT", "/sessions/branch/facts/keys/plan", {"value": "pro"})
        turn = api.ok("POST", "/sessions/s/turns", {"owner": "one"})
        scope = {"tenant": "default", "actor": "main", "session": "s"}
        api.ok("DELETE", f"/sessions/s/turns/{turn['number']}")
        into = {"into": {"scope": scope, "turn": turn["header"]}}
        assert api.problem("POST", "/sessions/branch/facts/merge", into)[:2] == (409, "LeaseLost")
        assert api.ok("POST", "/sessions/branch/facts/merge", {"into": {"scope": scope}})["items"]


def call_tool(api: ApiClient, name: str, **args: object) -> str:
    calls = [{"name": name, "args": args}]
    message = api.ok("POST", "/sessions/s/messages", {"message": "assistant", "tool_calls": calls})
    call: str = message["tool_calls"][0]["id"]
    return call


def test_the_tools_of_the_engine(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        api.ok("POST", "/sessions/s/messages", {"message": "user", "content": "The code is 4711."})
        assert "4711" in api.ok("POST", "/sessions/s/tools/read_handle", {"handle": "h2_0"})["text"]
        assert api.ok("POST", "/sessions/s/tools/read_handle", {"wrong": 1})["text"].startswith("Error")
        found = api.ok("POST", "/sessions/s/tools/recall_memory", {"query": "code"})["text"]
        assert found.startswith("Nothing was found")  # that is left out of the view
        assert api.ok("POST", "/sessions/s/tools/update_situation", {"goal": "Go on"})["text"] == "Updated: goal."
        assert api.problem("POST", "/sessions/s/tools/rm", {})[:2] == (422, "InvalidArgument")
        result = api.ok("POST", f"/sessions/s/calls/{call_tool(api, 'read_handle', handle='h2_0')}/run", {})
        assert "4711" in result["tool_results"][0]["content"][0]["text"]
        own = call_tool(api, "ship")
        assert api.problem("POST", f"/sessions/s/calls/{own}/run", {})[:2] == (422, "InvalidArgument")
        assert api.problem("POST", "/sessions/s/calls/c99_0/run", {})[:2] == (404, "CallNotFound")
        assert [each["id"] for each in api.items("/sessions/s/calls")] == [own]


def test_bodies_as_bytes(tmp_path: Path) -> None:
    body = bytes(range(256)) * 4_000
    with serving(tmp_path) as api:
        ref = api.ok("POST", "/blobs", content=body, params={"media_type": "image/png"})
        assert ref == {"digest": hashlib.sha256(body).hexdigest(), "size": len(body), "media_type": "image/png"}
        path = f"/blobs/{ref['digest']}?size={ref['size']}"
        assert api.send("GET", path).content == body
        for header, start, stop in (("0-9", 0, 10), ("70000-", 70_000, len(body)), ("-5", len(body) - 5, len(body))):
            part = api.send("GET", path, headers={"Range": f"bytes={header}"})
            assert (part.status_code, part.content) == (206, body[start:stop])
            assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(body)}"
        assert api.send("GET", path, headers={"Range": "bytes=9999999-"}).status_code == 416
        assert api.send("GET", path, headers={"Range": "bytes=5-2"}).content == body
        assert api.problem("GET", f"/blobs/{'0' * 64}")[:2] == (404, "BlobNotFound")
        assert api.problem("GET", f"/blobs/{'0' * 64}?size=1")[:2] == (404, "BlobNotFound")
        assert api.problem("GET", "/blobs/xyz")[:2] == (422, "InvalidArgument")
        small = api.ok("POST", "/blobs", content=b"small")
        unknown = api.problem("GET", f"/blobs/{small['digest']}")
        assert unknown[:2] == (422, "InvalidArgument")
        assert "?size=" in unknown[2]["detail"]
        empty = api.ok("POST", "/blobs", content=b"")
        assert api.send("GET", f"/blobs/{empty['digest']}").content == b""
        assert api.problem("GET", f"/blobs/{small['digest']}?size=99")[:2] == (422, "InvalidArgument")
        api.ok("POST", "/sessions", {"session": "s"})
        wrong = {"message": "user", "content": [{"type": "file", "ref": {**small, "size": 99}}]}
        assert api.problem("POST", "/sessions/s/messages", wrong)[:2] == (422, "InvalidArgument")


@pytest.mark.parametrize("path", ["/blobs", "/sessions/s/calls/c2_0/result", "/sessions/s/messages"])
def test_a_body_that_ends_too_early_stores_nothing(tmp_path: Path, path: str) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        assert call_tool(api, "cat") == "c2_0"
        address = urlsplit(api.url)
        head = (
            f"POST /api{path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {api.key}\r\n"
            "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n"
        )
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(head.encode() + b"x" * 500_000)
        assert api.ok("GET", "/sessions/s")["version"] == 2
        assert [each["id"] for each in api.items("/sessions/s/calls")] == ["c2_0"]
    with holdfast.open(tmp_path / "agent.db") as engine:
        assert list(engine._blob_store.stored()) == []


def test_results_and_attachments_as_bytes(tmp_path: Path) -> None:
    text = "The lamp is at the depot. " * 20_000
    stream = {"Content-Type": "application/octet-stream"}
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        path = f"/sessions/s/calls/{call_tool(api, 'cat')}/result"
        message = api.ok("POST", path, content=text.encode(), params={"metadata": '{"exit": 0}'}, headers=stream)
        [part] = message["tool_results"][0]["content"]
        assert (part["type"], part["ref"]["size"], message["metadata"]) == ("body", len(text), {"exit": 0})
        content = f"/sessions/s/handles/h{message['seq']}_0/content"
        assert api.send("GET", content).text == text
        ranged = api.send("GET", content, headers={"Range": "bytes=4-7"})
        assert (ranged.text, ranged.headers["content-type"]) == ("lamp", "text/plain; charset=utf-8")
        short = f"/sessions/s/calls/{call_tool(api, 'cat')}/result"
        message = api.ok("POST", short, content=b"all good", headers={**stream, "Idempotency-Key": "k"})
        assert message["tool_results"][0]["content"] == [{"type": "text", "text": "all good"}]
        again = api.ok("POST", short, content=b"all good", headers={**stream, "Idempotency-Key": "k"})
        assert again["id"] == message["id"]
        api.ok("POST", "/sessions/s/frames", {"goal": "g", "budget": 1_000})
        attached = {"kind": "document", "title": "Report"}
        handle = api.ok(
            "POST", "/sessions/s/frames/top/handles", content=text.encode(), params=attached, headers=stream
        )
        assert (handle["title"], handle["size"]) == ("Report", len(text))
        api.ok("PATCH", f"/sessions/s/frames/top/handles/{handle['id']}", content=b"short", headers=stream)
        assert api.send("GET", f"/sessions/s/frames/top/handles/{handle['id']}/content").text == "short"


def test_a_frame_that_another_principal_resumes(tmp_path: Path) -> None:
    keys = make_keys(
        tmp_path,
        *(KeyGrant(name=name, rights=("read", "write")) for name in ("desk", "manager", "other")),
    )
    with serving(tmp_path) as api:
        desk, manager, other = map(api.with_key, keys)
        desk.ok("POST", "/sessions", {"session": "s"})
        frame = desk.ok("POST", "/sessions/s/frames", {"goal": "refund", "budget": 1_000})["frame"]
        token = desk.ok("POST", "/sessions/s/frames/top/suspend", {"reason": "approval", "resumable_by": "manager"})
        assert other.problem("POST", "/resume", {"token": token})[:2] == (403, "TokenForbidden")
        assert manager.ok("POST", "/resume", {"token": token})["frame"] == frame
        assert manager.problem("POST", "/resume", {"token": token})[:2] == (409, "TokenConsumed")
        resumed = [each for each in desk.items("/sessions/s/events") if each["type"] == "frame.resumed"]
        assert [each["principal"] for each in resumed] == ["manager"]


@pytest.mark.parametrize("at", [None, 3, "m2_0"])
def test_a_fork_of_a_session(tmp_path: Path, at: int | str | None) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s/1", "thread": "t"})
        path = "/sessions/s%2F1/{}?thread=t"
        for text in ("one", "two", "three"):
            api.ok("POST", path.format("messages"), {"message": "user", "content": text})
        made = api.send("POST", path.format("forks"), {"as_": "branch", **({} if at is None else {"at": at})})
        assert made.status_code == 201
        place = made.headers["location"].removeprefix("/api")
        messages = api.items(place.replace("?", "/messages?"))
        shared = {None: 3, 3: 2, "m2_0": 1}[at]
        assert [each["content"][0]["text"] for each in messages] == ["one", "two", "three"][:shared]
        refused = api.problem("POST", path.format("forks"), {"ephemeral": True})
        assert refused[:2] == (422, "LocalOnly")
