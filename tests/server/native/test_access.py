"""Who may do what through the native API: keys of users, of programs and of other tenants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from holdfast.access.access import Right
from holdfast.access.records import KeyGrant
from holdfast.api.requests import write_token
from holdfast.model.sessions.layers import Identity
from tests.server.native.serving import ApiClient, make_keys, serving


class Callers(NamedTuple):
    admin: ApiClient
    ada: ApiClient
    bob: ApiClient
    reader: ApiClient
    desk: ApiClient
    stranger: ApiClient
    """A program of another tenant."""


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    folder = tmp_path_factory.mktemp("access")
    both: tuple[Right, ...] = ("read", "write")
    identity = Identity(user_id="ada", user_name="Ada", authority="employee", organization="acme")
    keys = make_keys(
        folder,
        KeyGrant(name="ada", rights=both, identity=identity),
        KeyGrant(name="bob", rights=both, identity=Identity(user_id="bob", user_name="Bob")),
        KeyGrant(name="reader", rights=("read",)),
        KeyGrant(name="desk", rights=both),
        KeyGrant(name="stranger", rights=("read", "write", "admin"), tenant="elsewhere"),
    )
    with serving(folder) as api:
        yield Callers(api, *map(api.with_key, keys))


def test_a_user_makes_sessions_for_themselves_alone(callers: Callers) -> None:
    made = callers.ada.ok("POST", "/sessions", {"session": "mine"})
    assert made["scope"]["actor"] == "ada"
    state = callers.ada.ok("GET", "/sessions/mine")
    assert state["identity"]["user_id"] == "ada"
    assert ["user", "ada"] in state["ledgers"]
    wrong = (
        {"session": "x", "user": "bob"},
        {"session": "x", "actor": "bob"},
        {"session": "x", "identity": {"user_id": "ada", "authority": "admin"}},
        {"session": "x", "ledgers": [{"tenant": "default", "kind": "user", "names": ["bob"]}]},
        {"session": "x", "ledgers": [{"tenant": "elsewhere", "kind": "user", "names": ["ada"]}]},
    )
    for body in wrong:
        assert callers.ada.problem("POST", "/sessions", body)[0] in (403, 404), body
        assert callers.ada.problem("PUT", "/sessions/x", {**body, "session": None, "create": True})[0] in (
            403,
            404,
            422,
        )
    assert callers.ada.problem("GET", "/sessions/x")[:2] == (404, "SessionNotFound")
    assert callers.desk.ok("POST", "/sessions", {"session": "for-bob", "user": "bob", "actor": "bob"})


def test_nobody_else_finds_the_session_of_a_user(callers: Callers) -> None:
    callers.ada.ok("PUT", "/sessions/private", {"create": True})
    for other in (callers.bob, callers.stranger):
        for query in ("", "?actor=ada"):
            assert other.problem("GET", f"/sessions/private{query}")[:2] == (404, "SessionNotFound")
            assert (
                other.problem("POST", f"/sessions/private/messages{query}", {"message": "user", "content": "x"})[0]
                == 404
            )
        assert all(row["actor"] != "ada" for row in other.items("/sessions"))
    assert callers.desk.ok("GET", "/sessions/private?actor=ada")["identity"]["user_id"] == "ada"


def test_a_name_inside_an_argument_is_checked_too(callers: Callers) -> None:
    callers.ada.ok("PUT", "/sessions/a1", {"create": True})
    callers.bob.ok("PUT", "/sessions/b1", {"create": True})
    callers.bob.ok("PUT", "/ledgers/user/bob/facts/keys/pin", {"value": "4711"})
    theirs = {"scope": {"tenant": "default", "actor": "bob", "session": "b1"}}
    assert callers.ada.problem("GET", "/sessions/a1/diff", params={"other": write_token(theirs)})[0] == 404
    assert callers.ada.problem("POST", "/sessions/a1/facts/merge", {"into": theirs})[0] == 404
    assert callers.ada.problem("POST", "/memory/forget", {"session": theirs["scope"]})[0] == 404
    forged = {
        "id": "k1",
        "key": "pin",
        "value": "?",
        "ledger": {"tenant": "default", "kind": "user", "names": ["bob"]},
    }
    for path in ("why", "history"):
        query = {"name.json": write_token(forged)}
        assert callers.ada.problem("GET", f"/sessions/a1/facts/{path}", params=query)[:2] == (404, "LedgerNotFound")
    assert callers.ada.problem("POST", "/sessions/a1/facts/retract", {"fact": forged})[0] == 404
    forged["ledger"] = {"tenant": "elsewhere", "kind": "user", "names": ["eve"]}
    for caller in (callers.ada, callers.desk):
        query = {"name.json": write_token(forged), "actor": "ada"}
        assert caller.problem("GET", "/sessions/a1/facts/why", params=query)[:2] == (404, "LedgerNotFound")
    scope = {"tenant": "elsewhere", "actor": "main", "session": "x"}
    assert callers.desk.problem("POST", "/memory/forget", {"session": scope})[0] == 404


def test_a_user_sees_their_own_ledger_and_memory(callers: Callers) -> None:
    callers.ada.ok("PUT", "/ledgers/user/ada/facts/keys/plan", {"value": "pro"})
    assert callers.ada.ok("GET", "/ledgers/user/ada/facts/keys/plan")["source"]["identity"] == "ada"
    for ledger in ("user/bob", "project/x", "organization/other", "session/b1?actor=bob"):
        path, _, query = ledger.partition("?")
        assert callers.ada.problem("GET", f"/ledgers/{path}/facts?{query}")[:2] == (404, "LedgerNotFound")
    assert callers.ada.items("/ledgers/organization/acme/facts") == []
    assert len(callers.ada.items("/ledgers", params={"kind": "user"})) == 1
    assert callers.ada.ok("POST", "/memory/recall", {"query": "plan", "user": "ada"})["passages"] == []
    assert callers.ada.problem("POST", "/memory/recall", {"query": "plan", "user": "bob"})[:2] == (403, "AccessRefused")
    assert callers.ada.ok("POST", "/memory/recall", {"query": "plan"})["passages"] == [], "the key says who it is"
    assert callers.ada.ok("GET", "/memory/known") == callers.ada.ok("GET", "/memory/known?user=ada")
    assert callers.ada.ok("GET", "/memory/totals") == callers.ada.ok("GET", "/memory/totals?user=ada")
    assert callers.ada.ok("POST", "/memory/forget", {})["passages"] == 0
    missing = callers.desk.problem("POST", "/memory/recall", {"query": "plan"})
    assert missing[:2] == (422, "InvalidArgument"), "a program says whom it means"
    claim = {"query": "plan", "user": "ada", "identity": {"user_id": "ada", "authority": "admin"}}
    assert callers.ada.problem("POST", "/memory/recall", claim)[:2] == (403, "AccessRefused")
    assert callers.ada.problem("POST", "/memory/deliver", {})[:2] == (403, "AccessRefused")


def test_a_program_acts_with_an_identity(callers: Callers) -> None:
    secret = {"value": "hidden", "requires": ["staff"]}
    callers.desk.ok("PUT", "/ledgers/user/cyd/facts/keys/secret", secret)
    assert callers.desk.ok("GET", "/ledgers/user/cyd/facts/keys/secret")["value"] == "hidden"
    guest = {"Holdfast-Identity": '{"user_id": "cyd"}'}
    assert callers.desk.problem("GET", "/ledgers/user/cyd/facts/keys/secret", headers=guest)[:2] == (404, "Absent")
    staff = {"Holdfast-Identity": '{"user_id": "cyd", "permissions": ["staff"]}'}
    assert callers.desk.ok("GET", "/ledgers/user/cyd/facts/keys/secret", headers=staff)["value"] == "hidden"
    assert callers.ada.problem("GET", "/ledgers/user/ada/facts", headers=staff)[:2] == (403, "AccessRefused")
    wrong = {"Holdfast-Identity": '{"user_id": 1}'}
    assert callers.desk.problem("GET", "/ledgers/user/cyd/facts", headers=wrong)[:2] == (422, "InvalidArgument")


def test_rights(callers: Callers) -> None:
    callers.desk.ok("PUT", "/sessions/open", {"create": True})
    assert callers.reader.ok("GET", "/sessions/open")["version"] == 1
    assert callers.reader.problem("POST", "/sessions/open/messages", {"message": "user"})[:2] == (403, "RightMissing")
    assert callers.reader.problem("POST", "/sessions/open/tools/update_situation", {})[:2] == (403, "RightMissing")
    for verb, path in (
        ("GET", "/admin/totals"),
        ("GET", "/admin/tenants"),
        ("POST", "/admin/collect"),
        ("GET", "/admin/feed"),
    ):
        assert callers.desk.problem(verb, path)[:2] == (403, "RightMissing")
    assert callers.ada.problem("PUT", "/sessions/mine2", {"create": False})[:2] == (404, "SessionNotFound")
    assert callers.admin.http.get("/sessions", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_only_an_administrator_learns_which_tenants_there_are(callers: Callers) -> None:
    callers.stranger.ok("PUT", "/sessions/theirs", {"create": True})
    tenants = callers.admin.items("/admin/tenants")
    assert [each["name"] for each in tenants if each.get("is_own")] == ["default"]
    assert [each["name"] for each in tenants] == ["default", "elsewhere"]
    for caller in (callers.desk, callers.reader, callers.ada):
        assert caller.problem("GET", "/admin/tenants")[:2] == (403, "RightMissing")


def test_who_may_read_gets_a_pack_and_writes_nothing(callers: Callers) -> None:
    callers.desk.ok("PUT", "/sessions/packed", {"create": True})
    callers.desk.ok("POST", "/sessions/packed/messages", {"message": "user", "content": "My plan is pro."})
    frame = callers.desk.ok("POST", "/sessions/packed/frames", {"goal": "work", "budget": 1_000})["frame"]
    version = callers.desk.ok("GET", "/sessions/packed")["version"]
    for place in ("/sessions/packed", f"/sessions/packed/frames/{frame}"):
        assert callers.reader.ok("POST", f"{place}/packs", {"budget": 2_000})["manifest"]
        assert callers.reader.ok("POST", f"{place}/packs", {"budget": 2_000, "settle": False})["manifest"]
        for option in ({"settle": True}, {"reserve": 10}):
            assert callers.reader.problem("POST", f"{place}/packs", option)[:2] == (403, "RightMissing")
    assert callers.desk.ok("GET", "/sessions/packed")["version"] == version
    assert callers.desk.ok("POST", "/sessions/packed/packs", {"budget": 2_000, "settle": True})["manifest"]


def test_no_key_reaches_what_the_server_stores(callers: Callers) -> None:
    with pytest.raises(AssertionError):
        callers.admin.ok("GET", "/sessions/keys?actor=keys")
    feed = callers.admin.ok("GET", "/admin/feed", params={"limit": 1_000})["events"]
    assert {each["stream"]["tenant"] for each in feed} <= {"default", "elsewhere"}
    scope = {"tenant": "holdfast.system", "actor": "keys", "session": "keys"}
    callers.desk.ok("PUT", "/sessions/open", {"create": True})
    query = {"other": write_token({"scope": scope})}
    assert callers.admin.problem("GET", "/sessions/open/diff", params=query)[:2] == (404, "SessionNotFound")


def test_a_user_reads_no_body_of_others(callers: Callers) -> None:
    body = b"the salaries of all\n" * 5_000
    ref = callers.desk.ok("POST", "/blobs", content=body)
    assert callers.ada.problem("POST", "/blobs", content=b"x")[:2] == (403, "AccessRefused")
    assert callers.ada.problem("GET", f"/blobs/{ref['digest']}?size={ref['size']}")[:2] == (403, "AccessRefused")
    assert callers.stranger.problem("GET", f"/blobs/{ref['digest']}?size={ref['size']}")[:2] == (404, "BlobNotFound")
    callers.ada.ok("PUT", "/sessions/a2", {"create": True})
    for part in ({"type": "body", "ref": ref}, {"type": "file", "ref": ref}):
        message = {"message": "user", "content": [part]}
        assert callers.ada.problem("POST", "/sessions/a2/messages", message)[:2] == (404, "BlobNotFound")
    assert callers.ada.problem("POST", "/sessions/a2/packs", {"budget": 2_000, "audit": True})[:2] == (
        403,
        "AccessRefused",
    )
    digest = {"digest": "0" * 64, "title": "of a tool"}
    assert callers.ada.ok("POST", "/sessions/a2/messages", {"message": "user", "content": "x", "metadata": digest})


def test_the_identity_of_a_session_is_that_of_the_key(callers: Callers) -> None:
    callers.ada.ok("PUT", "/sessions/a3", {"create": True})
    claim = {"identity": {"user_id": "ada", "authority": "admin"}}
    assert callers.ada.problem("PUT", "/sessions/a3/identity", claim)[:2] == (403, "AccessRefused")
    assert callers.desk.ok("PUT", "/sessions/a3/identity?actor=ada", claim) is None
    assert callers.ada.ok("GET", "/sessions/a3")["identity"]["authority"] == "employee"


def test_a_stored_pack_is_not_found_for_whom_it_shows_too_much_by_now(callers: Callers) -> None:
    secret = {"value": "P-4471", "requires": ["passport"]}
    callers.desk.ok("PUT", "/ledgers/user/ada/facts/keys/passport_number", secret)
    may = {"user_id": "ada", "user_name": "Ada", "authority": "employee", "organization": "acme"}
    ledgers = [{"tenant": "default", "kind": "user", "names": ["ada"]}]
    identity = {**may, "permissions": ["passport"]}
    callers.desk.ok("POST", "/sessions", {"session": "trip", "actor": "ada", "identity": identity, "ledgers": ledgers})
    place = "/sessions/trip"
    for words in ("Which passport do I have?", "And now?"):
        callers.desk.ok("POST", f"{place}/messages?actor=ada", {"message": "user", "content": words})
        pack = callers.desk.ok("POST", f"{place}/packs?actor=ada", {"budget": 2_000})
        assert "P-4471" in str(callers.desk.ok("POST", f"{place}/packs?actor=ada&to=text", {"budget": 2_000}))
        reply = {"message": "assistant", "content": "One.", "pack": {"manifest": pack["manifest"]}}
        callers.desk.ok("POST", f"{place}/messages?actor=ada", reply)
    second, first = (each["id"] for each in callers.desk.items(f"{place}/packs?actor=ada"))
    requests = (
        ("GET", f"{place}/packs/{first}", None),
        ("GET", f"{place}/packs/{first}/manifest", None),
        ("GET", f"{place}/packs/{first}/redactions", None),
        ("POST", f"{place}/packs/{first}/vary", {"budget": 1_000}),
        ("POST", f"{place}/packs/diff", {"first": first, "second": second}),
    )
    for verb, path, body in requests:
        assert callers.desk.send(verb, f"{path}?actor=ada", body).status_code == 200, path
        answer = callers.ada.send(verb, path, body)
        assert (answer.status_code, answer.json()["type"]) == (404, "PackNotFound"), path
        assert "passport_number" not in answer.text
    assert "passport_number" not in callers.ada.send("GET", f"{place}/model-calls").text
