"""What callers who share a server, a tenant, a principal or a name must not learn of each other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

import holdfast
from holdfast.access import keys
from holdfast.access.access import Right
from holdfast.access.records import KeyGrant, read_key_id
from holdfast.model.sessions.layers import Identity
from holdfast.server import shares, stream_guard
from tests.server.native.serving import ApiClient, make_keys, serving
from tests.server.processes import wait_for

WRITER: tuple[Right, ...] = ("read", "write", "model")
SECRET = "zanzibar"
GRANTS = {
    "program": KeyGrant(name="program", tenant="acme", rights=WRITER),
    "keeper": KeyGrant(name="keeper", tenant="acme", rights=(*WRITER, "admin")),
    "x": KeyGrant(name="x", tenant="acme", rights=WRITER, actor="x", principal="service"),
    "y": KeyGrant(name="y", tenant="acme", rights=WRITER, actor="y", principal="service"),
    "ada": KeyGrant(name="ada", tenant="acme", rights=WRITER, identity=Identity(user_id="ada", organization="desk")),
    "bob": KeyGrant(name="bob", tenant="acme", rights=WRITER, identity=Identity(user_id="bob", organization="desk")),
    "main": KeyGrant(name="main", tenant="acme", rights=WRITER, identity=Identity(user_id="main")),
    "stranger": KeyGrant(name="stranger", tenant="globex", rights=WRITER),
}


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ApiClient]]:
    folder: Path = tmp_path_factory.mktemp("isolation")
    made = make_keys(folder, *GRANTS.values())
    with serving(folder) as api:
        yield {name: api.with_key(key) for name, key in zip(GRANTS, made, strict=True)}


def test_a_user_with_the_name_of_the_default_namespace_has_no_session_of_programs(
    callers: dict[str, ApiClient],
) -> None:
    program, user = callers["program"], callers["main"]
    program.ok("POST", "/sessions", {"session": "of-a-program"})
    program.ok("POST", "/sessions/of-a-program/messages", {"message": "user", "content": SECRET})
    user.ok("POST", "/sessions", {"session": "my-own"})
    assert [each["session"] for each in user.items("/sessions")] == ["my-own"]
    for path in ("", "/messages", "/events", "/feed"):
        assert user.problem("GET", f"/sessions/of-a-program{path}")[:2] == (404, "SessionNotFound")
    assert user.problem("DELETE", "/sessions/of-a-program")[:2] == (404, "SessionNotFound")
    assert SECRET not in user.send("GET", "/feed", params={"timeout_s": "0"}).text


def test_a_program_with_one_namespace_makes_no_session_with_the_memory_of_a_user(
    callers: dict[str, ApiClient],
) -> None:
    for verb, path, body in (("POST", "/sessions", {"session": "q"}), ("PUT", "/sessions/q", {"create": True})):
        status, kind, _ = callers["x"].problem(verb, path, {**body, "user": "ada", "memory": True})
        assert (status, kind) == (403, "AccessRefused")
    callers["program"].ok("POST", "/sessions", {"session": "q", "user": "ada", "memory": True})


def test_keys_with_one_principal_have_jobs_of_their_own(callers: dict[str, ApiClient]) -> None:
    x, y = callers["x"], callers["y"]
    for each, text in ((x, SECRET), (y, "nothing")):
        each.ok("POST", "/sessions", {"session": "talk"})
        each.ok("POST", "/sessions/talk/messages", {"message": "user", "content": text})
    demand, again = {"what": "export_transcript", "session": "talk"}, {"Idempotency-Key": "the-same"}
    job = x.ok("POST", "/jobs", demand, headers=again)["id"]
    wait_for(lambda: x.ok("GET", f"/jobs/{job}")["status"] == "done", "the job does not end")
    assert SECRET in x.send("GET", f"/jobs/{job}/file").text
    other = y.ok("POST", "/jobs", demand, headers=again)["id"]
    assert other != job
    assert [each["id"] for each in y.items("/jobs")] == [other]
    for verb, path in (("GET", ""), ("GET", "/file"), ("DELETE", "")):
        assert y.problem(verb, f"/jobs/{job}{path}")[:2] == (404, "JobNotFound")


def test_an_idempotency_key_of_one_user_is_not_that_of_another(callers: dict[str, ApiClient]) -> None:
    ada, bob = callers["ada"], callers["bob"]
    for number, each in enumerate((ada, bob)):
        key = {"Idempotency-Key": "the-same"}
        each.ok("POST", "/sessions", {"session": "keyed"}, headers=key)
        first = each.ok(
            "POST",
            "/sessions/keyed/messages",
            {"message": "user", "content": f"{number}"},
            headers={"Idempotency-Key": "m"},
        )
        again = each.ok(
            "POST",
            "/sessions/keyed/messages",
            {"message": "user", "content": f"{number}"},
            headers={"Idempotency-Key": "m"},
        )
        assert first["id"] == again["id"]
        path = f"/ledgers/organization/desk/facts/keys/of-{number}"
        each.ok("PUT", path, {"value": number}, headers={"Idempotency-Key": "fact"})
        status, kind, problem = each.problem(
            "POST", "/sessions/keyed/messages", {"message": "user", "content": "else"}, headers={"Idempotency-Key": "m"}
        )
        assert (status, kind, problem["attributes"]["key"]) == (409, "KeyConflict", "m")
    program = callers["program"]
    program.ok("POST", "/sessions", {"session": "keyed"}, headers={"Idempotency-Key": "the-same"})
    assert program.problem("POST", "/sessions", {"session": "more"}, headers={"Idempotency-Key": "the-same"})[0] == 409


def read_cursors(api: ApiClient, **params: str) -> tuple[str, list[tuple[str, str]]]:
    """The cursor of the tenant's feed now, and of each of its events with its id."""
    with api.http.stream("GET", "/feed", params={"timeout_s": "0", **params}) as answer:
        assert answer.status_code == 200
        events = [each.removeprefix("data: ") for each in answer.iter_lines() if each.startswith("data: ")]
        decoded = [msgspec.json.decode(each) for each in events]
        return answer.headers["holdfast-cursor"], [
            (each["cursor"], f"{each['command']}.{each['ordinal']}") for each in decoded
        ]


@pytest.mark.parametrize("name", ["ada", "x"])
def test_the_cursors_of_a_feed_say_nothing_of_what_others_wrote(callers: dict[str, ApiClient], name: str) -> None:
    own, other = callers[name], callers["stranger"]
    own.ok("POST", "/sessions", {"session": "followed"})
    before, events = read_cursors(own, after="now")
    assert not events
    other.ok("PUT", f"/sessions/busy-{name}", {"create": True})
    for number in range(12):
        other.ok("PUT", f"/sessions/busy-{name}/working/item", {"value": number})
        own.ok("PUT", "/sessions/followed/working/item", {"value": number})
    _, events = read_cursors(own, after=unquote(before))
    assert len(events) == 12
    after, _ = read_cursors(own, after="now")
    cursors = [unquote(before), unquote(after), *(cursor for cursor, _ in events)]
    assert len({len(each) for each in cursors}) == 1
    assert not any(each.isdigit() for each in cursors)
    assert len(set(cursors)) == len(cursors)
    for number, (cursor, _) in enumerate(events):
        assert [event for _, event in read_cursors(own, after=cursor)[1]] == [
            event for _, event in events[number + 1 :]
        ]


def test_a_cursor_is_of_the_caller_who_got_it(callers: dict[str, ApiClient]) -> None:
    ada, bob, program = callers["ada"], callers["bob"], callers["program"]
    ada.ok("PUT", "/sessions/cursors", {"create": True})
    cursor = unquote(read_cursors(ada, after="now")[0])
    assert not unquote(read_cursors(program, after="now")[0]).isdigit()
    plain = unquote(read_cursors(callers["keeper"], after="now")[0])
    assert plain.isdigit()  # who maintains the whole store may know its volume
    damaged = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
    wrong = (plain, "1", damaged, "own-", "own-²", "own-" + "A" * 9_000)
    for caller, sent in ((bob, cursor), *((ada, each) for each in wrong)):
        status, kind, _ = caller.problem("GET", "/feed", params={"timeout_s": "0", "after": sent})
        assert (status, kind) == (422, "InvalidCursor")


def test_a_watch_of_a_user_goes_on_where_it_was(callers: dict[str, ApiClient]) -> None:
    ada = callers["ada"]
    key = ada.http.headers["authorization"].removeprefix("Bearer ")
    with holdfast.connect(ada.url, key=key) as engine:
        session = engine.session("watched", create=True)
        with engine.watch(after=None, timeout_s=5) as watch:
            session.working.set("a", 1)
            first = next(watch)
            cursor = watch.cursor
        session.working.set("a", 2)
        session.working.set("a", 3)
        with engine.watch(after=cursor, timeout_s=5) as watch:
            later = [next(watch), next(watch)]
        assert [each.seq for each in later] == [first.seq + 1, first.seq + 2]


@pytest.mark.parametrize("path", ["/feed", "/sessions/leaving/feed"])
def test_a_stream_ends_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(stream_guard, "RECHECK_S", 0.0)
    monkeypatch.setattr(keys, "KEY_CACHE_S", 0.0)
    key, other = make_keys(tmp_path, GRANTS["ada"], GRANTS["program"])
    with serving(tmp_path) as api:
        ada, program = api.with_key(key), api.with_key(other)
        ada.ok("PUT", "/sessions/leaving", {"create": True})
        with ada.http.stream("GET", path, params={"after": "now"}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": holdfast"
            ada.ok("PUT", "/sessions/leaving/working/item", {"value": "before"})
            read = next(each for each in lines if each.startswith("data: "))
            assert "working" in read
            revoke(tmp_path, key)
            program.ok("PUT", "/sessions/leaving/working/item", {"value": SECRET}, params={"actor": "ada"})
            assert next((each for each in lines if each.startswith("data: ")), None) is None
        assert ada.send("GET", path).status_code == 401


def revoke(folder: Path, key: str) -> None:
    async def work() -> None:
        async with await holdfast.open_async(folder / "agent.db", principal="tests") as engine:
            await keys.revoke_key(engine, read_key_id(key), by="tests")

    asyncio.run(work())


def test_a_user_who_sends_slowly_leaves_room_for_others(
    callers: dict[str, ApiClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "KEY_REQUESTS", 3)
    monkeypatch.setattr(shares, "KEY_STREAMS", 2)
    ada, bob = callers["ada"], callers["bob"]
    for each in (ada, bob):
        each.ok("PUT", "/sessions/slow", {"create": True})
    place, path = urlsplit(ada.url), "/sessions/slow/messages"
    head = (
        f"POST /api{path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: {ada.http.headers['authorization']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with contextlib.ExitStack() as stack:

        def is_busy() -> bool:
            slow = stack.enter_context(socket.create_connection((str(place.hostname), int(place.port or 0))))
            slow.sendall(head.encode())
            return ada.send("GET", path).status_code == 503

        wait_for(is_busy, "the key may occupy the whole server")
        assert ada.problem("GET", path)[1] == "ServerBusy"
        bob.ok("GET", path)
    wait_for(lambda: ada.send("GET", path).status_code == 200, "the places are not free again")
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            assert stack.enter_context(ada.http.stream("GET", "/sessions/slow/feed")).status_code == 200
        assert ada.problem("GET", "/sessions/slow/feed")[:2] == (503, "ServerBusy")
        ada.ok("GET", path)
        assert bob.send("GET", "/sessions/slow/feed", params={"timeout_s": "0"}).status_code == 200


def test_a_program_with_one_namespace_does_not_have_the_memory_of_others(callers: dict[str, ApiClient]) -> None:
    ada, x, program = callers["ada"], callers["x"], callers["program"]
    ada.ok("POST", "/sessions", {"session": "remembered", "memory": True})
    ada.ok("POST", "/sessions/remembered/messages", {"message": "user", "content": f"I live on {SECRET}."})
    ada.ok("POST", "/sessions/remembered/end", {"reason": "done"})
    program.ok("POST", "/memory/deliver", {"limit": 10})
    recall = {"query": SECRET, "user": "ada"}
    for verb, path, body in (
        ("POST", "/memory/recall", recall),
        ("GET", "/memory/known?user=ada", None),
        ("GET", "/memory/totals?user=ada", None),
        ("POST", "/memory/forget", {"user": "ada"}),
    ):
        assert x.problem(verb, path, body)[:2] == (403, "AccessRefused")
    for each in (ada, program):
        assert each.ok("POST", "/memory/recall", recall)["passages"]


def test_a_session_that_is_given_to_another_user_leaves_the_feed_of_the_first(callers: dict[str, ApiClient]) -> None:
    ada, program = callers["ada"], callers["program"]
    ada.ok("PUT", "/sessions/given", {"create": True})
    key = ada.http.headers["authorization"].removeprefix("Bearer ")
    with holdfast.connect(ada.url, key=key) as engine, engine.watch("given", after=None, timeout_s=10) as watch:
        ada.ok("PUT", "/sessions/given/working/item", {"value": 1})
        assert next(watch).type.startswith("working")
        place = {"actor": "ada"}
        program.ok("PUT", "/sessions/given/identity", {"identity": {"user_id": "bob"}}, params=place)
        program.ok("POST", "/sessions/given/messages", {"message": "user", "content": SECRET}, params=place)
        program.ok("DELETE", "/sessions/given", params={**place, "offload": "false"})
        assert [next(watch).type, next(watch).type] == ["session.destroyed", "payloads.erased"]
