"""Requests that are sent again, versions, and pages."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.server.native.serving import ApiClient, serving


def send_and_leave(api: ApiClient, path: str, body: Mapping[str, object], key: str) -> None:
    """Send a request, and close the connection without reading its answer."""
    address = urlsplit(api.url)
    content = msgspec.json.encode(body)
    head = (
        f"POST /api{path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {api.key}\r\n"
        f"Content-Type: application/json\r\nIdempotency-Key: {key}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode() + content)
        connection.recv(1)  # the answer has begun: it is stored, and the rest of it is lost


@pytest.mark.parametrize("key", ["k1", "%E2%82%AC%2F50%25"])
def test_a_request_whose_answer_was_lost_is_sent_again(tmp_path: Path, key: str) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        body = {"message": "user", "content": "Ship the lamp."}
        send_and_leave(api, "/sessions/s/messages", body, key)
        again = api.ok("POST", "/sessions/s/messages", body, headers={"Idempotency-Key": key})
        assert [each["id"] for each in api.items("/sessions/s/messages")] == [again["id"]]
        other = {"message": "user", "content": "Ship the table."}
        refused = api.problem("POST", "/sessions/s/messages", other, headers={"Idempotency-Key": key})
        assert refused[:2] == (409, "KeyConflict")


def test_the_key_of_a_header_is_that_of_the_engine(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"}, headers={"Idempotency-Key": "made%2F1", "Holdfast-Cause": "c-1"})
        [created] = api.items("/sessions/s/events")
        assert (created["key"], created["cause"]) == ("made/1", "c-1")


def test_a_write_that_expects_another_version_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        etag = api.send("GET", "/sessions/s").headers["etag"]
        body = {"message": "user", "content": "Hello"}
        api.ok("POST", "/sessions/s/messages", body, headers={"If-Match": etag})
        status, kind, document = api.problem("POST", "/sessions/s/messages", body, headers={"If-Match": etag})
        assert (status, kind, document["attributes"]["actual"]) == (412, "VersionConflict", 2)
        fact = api.send("PUT", "/ledgers/user/ada/facts/keys/plan", {"value": "pro"}, headers={"If-Match": '"0"'})
        assert fact.status_code == 200
        ledger = api.send("GET", "/ledgers/user/ada/facts").headers["etag"]
        assert ledger == '"1"'
        other = api.problem("PUT", "/ledgers/user/ada/facts/keys/plan", {"value": "x"}, headers={"If-Match": '"0"'})
        assert other[:2] == (412, "VersionConflict")
        unused = api.problem("POST", "/sessions/s/erase", {"seqs": [2], "reason": "x"}, headers={"If-Match": '"9"'})
        assert unused[:2] == (422, "InvalidArgument")


def test_what_did_not_change_is_not_sent_again(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        frame = api.ok("POST", "/sessions/s/frames", {"goal": "work", "budget": 1_000})["frame"]
        paths = ("/sessions/s", f"/sessions/s/frames/{frame}", "/sessions/s/messages", "/sessions/s/events")
        for path in paths:
            etag = api.send("GET", path).headers["etag"]
            same = api.send("GET", path, headers={"If-None-Match": f'"999", {etag}'})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
        api.ok("POST", "/sessions/s/messages", {"message": "user", "content": "Hello"})
        for path in paths:
            assert api.send("GET", path, headers={"If-None-Match": etag}).status_code == 200


def read_pages(api: ApiClient, path: str, **params: str) -> list[list[object]]:
    pages: list[list[object]] = []
    page: dict[str, str] = {}
    while True:
        answer = api.ok("GET", path, params={"limit": "2", **params, **page})
        pages.append(answer["items"])
        if "next" not in answer:
            return pages
        page = {"page": answer["next"]}


def test_every_list_can_be_read_page_by_page(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        for number in range(5):
            api.ok("POST", "/sessions", {"session": f"s{number}"})
            api.ok("POST", "/sessions/s0/messages", {"message": "user", "content": f"message {number}"})
            api.ok("PUT", f"/sessions/s0/facts/keys/fact{number}", {"value": number})
            api.ok("POST", "/sessions/s0/entries", {"kind": "note", "key": f"e{number}", "body": number})
            frame = api.ok("POST", "/sessions/s0/frames", {"goal": f"goal {number}", "budget": 100})["frame"]
            api.ok("POST", f"/sessions/s0/frames/{frame}/suspend", {"reason": "waits"})
            api.ok("PUT", f"/ledgers/user/u{number}/facts/keys/plan", {"value": number})
        lists = {
            "/sessions": ({}, "session"),
            "/ledgers": ({"kind": "user"}, "ledger"),
            "/suspended": ({}, "frame"),
            "/sessions/s0/messages": ({}, "seq"),
            "/sessions/s0/facts": ({}, "key"),
            "/sessions/s0/entries": ({}, "key"),
            "/sessions/s0/frames": ({}, "id"),
        }
        for path, (params, name) in lists.items():
            pages = read_pages(api, path, **params)
            found = [item[name] for page in pages for item in page]  # type: ignore[index]
            assert len(found) == len(set(found)) == 5, path
            assert sorted(found) == sorted(each[name] for each in api.items(path, params={"limit": "50", **params}))
        events = [item["seq"] for page in read_pages(api, "/sessions/s0/events") for item in page]  # type: ignore[index]
        assert events == list(range(1, len(events) + 1))
