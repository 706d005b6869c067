"""Feeds: every event once, whoever writes and however often the reader reconnects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast.access.access import SYSTEM_TENANT
from holdfast.access.records import KeyGrant
from holdfast.model.sessions.layers import Identity
from holdfast.server.native import feed
from tests.server.native.serving import STORES, ApiClient, make_keys, serving, serving_on
from tests.support import figure

WRITERS = 3
MESSAGES = figure(12, 60)


class Event(NamedTuple):
    cursor: str
    kind: str
    data: dict[str, Any]


def read_events(api: ApiClient, path: str, **options: Any) -> Iterator[Event]:
    """The events of a feed, as a client of server-sent events reads them."""
    with api.http.stream("GET", path, **options) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                yield Event(fields["id"], fields["event"], msgspec.json.decode(fields["data"]))
                fields = {}


def stored(api: ApiClient, path: str, **params: str) -> list[Event]:
    """What a feed has now."""
    return list(read_events(api, path, params={"timeout_s": "0", **params}))


def write_at_once(api: ApiClient) -> list[threading.Thread]:
    def write(number: int) -> None:
        for message in range(MESSAGES):
            body = {"message": "user", "content": f"{number}/{message}"}
            api.ok("POST", f"/sessions/s{message % 2}/messages", body)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("how", ["header", "query"])
def test_a_reader_that_reconnects_at_every_event_misses_and_repeats_nothing(
    tmp_path: Path, how: str, store: str
) -> None:
    with serving_on(store, tmp_path) as api:
        for name in ("s0", "s1"):
            api.ok("POST", "/sessions", {"session": name})
        threads = write_at_once(api)
        seen: list[Event] = []
        for _ in range(2 + WRITERS * MESSAGES):
            options: dict[str, Any] = {}
            if seen and how == "header":
                options["headers"] = {"Last-Event-ID": seen[-1].cursor}
            elif seen:
                options["params"] = {"after": seen[-1].cursor}
            events = read_events(api, "/feed", **options)
            seen.append(next(events))
            events.close()  # type: ignore[attr-defined]
        for thread in threads:
            thread.join()
        texts = [each.data["data"]["content"][0]["text"] for each in seen if each.kind == "message.recorded"]
        assert sorted(texts) == sorted(f"{n}/{m}" for n in range(WRITERS) for m in range(MESSAGES))
        assert [each[:2] for each in seen] == [each[:2] for each in stored(api, "/feed")]
        for number in range(WRITERS):
            own = [int(text.partition("/")[2]) for text in texts if text.startswith(f"{number}/")]
            assert own == sorted(own)


def test_a_feed_of_a_session_waits_for_the_next_event(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s", "user": "ada"})
        version = api.ok("GET", "/sessions/s")["version"]
        events = read_events(api, "/sessions/s/feed", params={"after": "now"})
        writer = threading.Timer(0.05, api.ok, ("POST", "/sessions/s/messages", {"message": "user", "content": "Hi"}))
        writer.start()
        event = next(events)
        events.close()  # type: ignore[attr-defined]
        writer.join()
        assert (event.cursor, event.kind) == (str(version + 1), "message.recorded")
        assert [each.cursor for each in stored(api, "/sessions/s/feed", after="1")] == [str(version + 1)]


def test_a_feed_of_a_ledger(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("PUT", "/ledgers/user/ada/facts/keys/plan", {"value": "pro"})
        [event] = stored(api, "/ledgers/user/ada/feed")
        assert (event.cursor, event.kind, event.data["data"]["value"]) == ("1", "fact.asserted", "pro")
        assert stored(api, "/ledgers/user/nobody/feed") == []


def test_a_wrong_cursor_is_refused_before_the_answer_begins(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        api.ok("POST", "/sessions", {"session": "s"})
        for path in ("/feed?after=zzz", "/sessions/s/feed?after=99", "/sessions/s/feed?after=x"):
            assert api.problem("GET", path)[:2] == (422, "InvalidCursor")
        assert api.problem("GET", "/feed?timeout_s=soon")[:2] == (422, "InvalidArgument")
        assert api.problem("GET", "/sessions/nobody/feed")[:2] == (404, "SessionNotFound")


def test_a_comment_is_sent_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "HEARTBEAT_S", 0.01)
    with serving(tmp_path) as api, api.http.stream("GET", "/feed") as answer:
        comments = [line for line, _ in zip(answer.iter_lines(), range(6), strict=False) if line]
        assert comments == [": holdfast", ": nothing new", ": nothing new"]


def test_who_sees_what(tmp_path: Path) -> None:
    grants = [
        KeyGrant(name=name, rights=("read", "write"), identity=Identity(user_id=name, user_name=name))
        for name in ("ada", "bob")
    ]
    keys = make_keys(tmp_path, *grants, KeyGrant(name="desk", rights=("read", "write")))
    with serving(tmp_path) as api:
        ada, bob, desk = map(api.with_key, keys)
        for client in (ada, bob):
            client.ok("PUT", "/sessions/s", {"create": True})
            client.ok("POST", "/sessions/s/messages", {"message": "user", "content": "Hello"})
            pack = client.ok("POST", "/sessions/s/packs", {"budget": 2_000})
            reply = {"message": "assistant", "content": "Yes?", "pack": {"manifest": pack["manifest"]}}
            client.ok("POST", "/sessions/s/messages", reply)
        api.ok("PUT", "/ledgers/user/ada/facts/keys/secret", {"value": "hidden", "requires": ["staff"]})
        own = stored(ada, "/feed")
        assert {tuple(each.data["stream"]["key"]) for each in own} == {("ada", "s"), ("user", "ada")}
        assert [each.data["data"] for each in own if each.kind in ("pack.recorded", "fact.asserted")] == [None, None]
        assert "hidden" not in "".join(map(str, own))
        assert stored(ada, "/ledgers/user/ada/feed")[0].data["payload"] is None
        assert ada.problem("GET", "/ledgers/user/bob/feed")[:2] == (404, "LedgerNotFound")
        assert ada.problem("GET", "/sessions/s/feed?actor=bob")[:2] == (404, "SessionNotFound")
        everything = stored(desk, "/feed")
        assert len({tuple(each.data["stream"]["key"]) for each in everything}) == 3
        assert desk.problem("GET", "/admin/events")[:2] == (403, "RightMissing")
        tenants = {each.data["stream"]["tenant"] for each in stored(api, "/admin/events")}
        assert tenants == {"default"}
        pages: list[Any] = []
        page = api.ok("GET", "/admin/feed", params={"limit": 1})
        while page["events"]:  # no page is empty before the end, whatever is hidden
            pages += page["events"]
            page = api.ok("GET", "/admin/feed", params={"limit": 1, "cursor": page["cursor"]})
        assert all(each["stream"]["tenant"] != SYSTEM_TENANT for each in pages)
        assert len(pages) == len(everything)
