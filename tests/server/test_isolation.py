"""What callers who share a server, a tenant, a principal or a name must not learn of each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.access.records import KeyGrant
from holdfast.model.sessions.layers import Identity
from tests.server.native.serving import ApiClient, make_keys, serving
from tests.server.processes import wait_for

WRITER = ("read", "write", "model")
SECRET = "zanzibar"
GRANTS = {
    "program": KeyGrant(name="program", tenant="acme", rights=WRITER),
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
    keys = make_keys(folder, *GRANTS.values())
    with serving(folder) as api:
        yield {name: api.with_key(key) for name, key in zip(GRANTS, keys, strict=True)}


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
