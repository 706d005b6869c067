"""Every operation of the table, over HTTP, from the first message to the end of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.api.operations import OPERATIONS
from holdfast.api.requests import write_token
from tests.server.native.serving import STORES, ApiClient, serving_on

S = "/sessions/order%2F1"
SCOPE = {"tenant": "default", "actor": "main", "session": "order/1"}
LONG = "The carrier says that the lamp is at the depot in Rome. " * 2_000
NEED_SUMMARIZER = {
    f"{holder}Context.{method}" if holder else f"Context.{method}"
    for holder in ("", "Frame")
    for method in ("prepare", "improve_summaries")
}


@pytest.mark.parametrize("store", STORES)
def test_every_operation_answers(tmp_path: Path, store: str) -> None:
    with serving_on(store, tmp_path) as api:
        walk_engine(api)
        walk_conversation(api, S)
        walk_context(api, S)
        walk_layers(api)
        walk_facts(api)
        for prefix in ("/ledgers/user/ada", f"{S}/ledgers/user/ada"):
            walk_ledger(api, prefix)
        walk_frames(api)
        walk_sessions(api)
        walk_memory(api)
        walk_admin(api)
        assert {each.name for each in OPERATIONS} - api.answered == NEED_SUMMARIZER


def walk_engine(api: ApiClient) -> None:
    identity = {"user_id": "ada", "permissions": ["facts:endorse"]}
    made = api.send("POST", "/sessions", {"session": "order/1", "user": "ada", "identity": identity})
    assert (made.status_code, made.headers["location"]) == (201, "/api/sessions/order%2F1?actor=main")
    assert made.json()["scope"] == {**SCOPE, "thread": None}
    assert api.problem("POST", "/sessions", {"session": "order/1"})[:2] == (409, "SessionExists")
    assert api.ok("PUT", S, {"create": True})["scope"]["session"] == "order/1"
    assert [each["session"] for each in api.items("/sessions")] == ["order/1"]
    assert api.items("/suspended") == []


def walk_conversation(api: ApiClient, prefix: str) -> None:
    """What a session and a frame share."""
    message = api.ok("POST", f"{prefix}/messages", {"message": "user", "content": "Where is my order?"})
    pair = api.ok("POST", f"{prefix}/messages/batch", {"messages": [["assistant", "One moment."], ["user", "Well?"]]})
    assert [each["seq"] for each in pair["items"]] == [message["seq"] + 1, message["seq"] + 2]
    use = {"purpose": "rerank", "model": "small", "usage": {"input_tokens": 12, "output_tokens": 4}}
    api.ok("POST", f"{prefix}/model-uses", {"uses": [use]})
    calls = [{"name": "find_order", "args": {"id": 7}}, {"name": "ask_depot"}]
    reply = api.ok("POST", f"{prefix}/messages", {"message": "assistant", "tool_calls": calls})
    first, second = (each["id"] for each in reply["tool_calls"])
    assert [each["id"] for each in api.items(f"{prefix}/calls")] == [first, second]
    assert api.ok("POST", f"{prefix}/calls/{first}/start", {})["key"]
    result = api.ok("POST", f"{prefix}/calls/{first}/result", {"value": LONG})
    assert result["tool_results"][0]["content"][0]["type"] == "body"
    closed = api.ok("POST", f"{prefix}/calls/close", {"reason": "the depot is closed"})
    assert closed["tool_results"][0]["is_error"]
    assert api.send("POST", f"{prefix}/calls/close", {}).status_code == 204
    withdrawn = api.ok("POST", f"{prefix}/withdrawals", {"reason": "wrong"})
    assert api.ok("POST", f"{prefix}/withdrawals/{withdrawn['seq']}/restore", {})["messages"]
    found = api.items(f"{prefix}/search", params={"query": "carrier depot"})
    assert any("depot" in each["text"] for each in found)
    walk_packs(api, prefix)
    walk_handles(api, prefix, result["seq"])


def walk_packs(api: ApiClient, prefix: str) -> None:
    brief = {"prompt": "You are the order desk."}
    pack = api.ok("POST", f"{prefix}/packs", {"budget": 4_000, "brief": brief})
    assert pack["manifest"]["entries"]
    assert pack["history"]["items"]
    receipt = {"manifest": pack["manifest"], "brief": brief}
    reply = {"message": "assistant", "content": "It is in Rome.", "pack": receipt}
    answer = api.ok("POST", f"{prefix}/messages", reply)
    stored = api.items(f"{prefix}/packs")[0]
    assert stored["reply"] == answer["seq"]
    manifest = api.ok("GET", f"{prefix}/packs/{stored['id']}/manifest")
    assert manifest == pack["manifest"]
    again = api.ok("GET", f"{prefix}/packs/{stored['id']}")
    assert again["history"] == pack["history"]
    assert api.items(f"{prefix}/packs/{stored['id']}/redactions") == []
    varied = api.ok("POST", f"{prefix}/packs/{stored['id']}/vary?to=anthropic", {"budget": 3_000, "policy": "classic"})
    assert varied["manifest"]["request"]["budget"] == 3_000
    assert varied["rendered"]["messages"]
    call = api.items(f"{prefix}/model-calls")[0]
    assert (call["id"], call["pack"], call["used"]) == (stored["id"], stored, stored["used"])
    assert call["cache"]["why"]
    other = api.ok("POST", f"{prefix}/packs", {"budget": 4_000, "query": "What now?"})
    kept = api.ok("POST", f"{prefix}/packs/store", {"pack": {"manifest": other["manifest"]}})
    diff = api.ok("POST", f"{prefix}/packs/diff", {"first": stored["id"], "second": kept["id"]})
    assert diff["changes"]


def walk_handles(api: ApiClient, prefix: str, seq: int) -> None:
    handle = f"h{seq}_0"
    assert handle in [each["id"] for each in api.items(f"{prefix}/handles")]
    assert api.ok("GET", f"{prefix}/handles/{handle}")["kind"] == "tool_result"
    assert api.items(f"{prefix}/handles/{handle}/parts")[0]["type"] == "body"
    text = api.ok("GET", f"{prefix}/handles/{handle}/text", params={"search": "depot", "limit": 500})
    assert "depot" in text["text"]
    assert text["matches"]
    assert api.ok("POST", f"{prefix}/handles/{handle}/page-out", {})["residency"] == "paged_out"
    assert api.ok("POST", f"{prefix}/handles/page-in", {"handle": handle})["id"] == handle


def walk_context(api: ApiClient, prefix: str) -> None:
    assert api.ok("GET", f"{prefix}/context/view", params={"budget": 2_000})["items"]
    assert "messages" in api.ok("GET", f"{prefix}/context/render")
    assert "Where is my order?" in api.ok("GET", f"{prefix}/context/render", params={"to": "text"})
    assert api.ok("GET", f"{prefix}/context/window", params={"tokens": 3_000})["items"]
    assert api.ok("GET", f"{prefix}/context/occupancy")["tokens"] > 0
    plan = api.ok("POST", f"{prefix}/context/plan", {"window": 8_000, "policy": "classic"})
    assert "steps" in plan
    check_needs_summarizer(api, f"{prefix}/context/prepare")
    for number in range(6):
        talk = [["user", f"question {number} " + "of some length " * 20], ["assistant", "answer " * 60]]
        api.ok("POST", f"{prefix}/messages/batch", {"messages": talk})
    draft = api.ok("GET", f"{prefix}/context/summary-draft", params={"keep_turns": 2})
    summary = api.ok("POST", f"{prefix}/context/summaries", {"draft": draft, "text": "They talked of an order."})
    assert [each["seq"] for each in api.items(f"{prefix}/context/summaries")] == [summary["seq"]]
    other = api.ok("PUT", f"{prefix}/context/summaries/{summary['seq']}", {"text": "The order is in Rome."})
    assert other["text"] == "The order is in Rome."
    check_needs_summarizer(api, f"{prefix}/context/summaries/improve")
    strategy = {"type": "truncate_at", "message_count": 2}
    assert "at" in api.ok("POST", f"{prefix}/context/compact", {"strategy": strategy})
    assert "steps" in api.ok("POST", f"{prefix}/context/compact", {"window": 100_000})
    walk_situation(api, prefix)


def check_needs_summarizer(api: ApiClient, path: str) -> None:
    """A server without a model has no summarizer of its own, and says so."""
    status, _, document = api.problem("POST", path, {})
    assert (status, document["attributes"]["argument"]) == (422, "summarizer")


def walk_situation(api: ApiClient, prefix: str) -> None:
    update = api.ok("PATCH", f"{prefix}/situation", {"update": {"goal": "Find the order", "mood": "good"}})
    assert (update["changed"], update["ignored"]) == (["goal"], ["mood"])
    assert api.ok("GET", f"{prefix}/situation")["goal"] == "Find the order"
    api.ok("POST", f"{prefix}/situation/refresh", {})
    api.ok("POST", f"{prefix}/situation/actions", {"thinking": "Look at the depot.", "mode": "deep"})
    assert api.items(f"{prefix}/situation/actions")[-1]["thinking"] == "Look at the depot."
    assert "Find the order" in api.ok("GET", f"{prefix}/situation/reasoning", params={"mode": "deep"})


def walk_layers(api: ApiClient) -> None:
    api.ok("PUT", f"{S}/working/step%2F1", {"value": {"at": 2}, "ttl_s": 600})
    assert api.ok("GET", f"{S}/working")["step/1"]["value"] == {"at": 2}
    api.ok("POST", f"{S}/working/clear", {"names": ["step/1"]})
    api.ok("PUT", f"{S}/environment/timezone", {"value": "Europe/Rome"})
    assert api.ok("GET", f"{S}/environment")["timezone"] == "Europe/Rome"
    api.ok("POST", f"{S}/environment/clear", {})
    raw = {"$bytes": "AAEC"}
    first = api.ok("POST", f"{S}/entries", {"kind": "checkpoint", "key": "a/1", "body": raw})
    assert (first["key"], first["body"]) == ("a/1", raw)
    new = [{"kind": "checkpoint", "key": "a/2", "body": {"step": [1, 2]}, "parent": "a/1"}]
    assert api.ok("POST", f"{S}/entries/batch", {"new": new})["items"][0]["parent"] == "a/1"
    assert api.ok("GET", f"{S}/entries/a%2F2")["body"] == {"step": [1, 2]}
    assert [each["key"] for each in api.items(f"{S}/entries", params={"limit": 1})] == ["a/2"]
    api.ok("POST", f"{S}/entries/delete", {"keys": ["a/1"]})
    assert api.problem("GET", f"{S}/entries/a%2F1")[:2] == (404, "Absent")


def walk_facts(api: ApiClient) -> None:
    fact = api.ok("PUT", f"{S}/facts/keys/budget%2Fmax", {"value": 150, "reason": "said by phone"})
    assert api.ok("GET", f"{S}/facts/keys/budget%2Fmax") == fact
    api.ok("POST", f"{S}/facts/batch", {"facts": [{"key": "plan", "value": "pro"}]})
    assert [each["key"] for each in api.items(f"{S}/facts")] == ["budget/max", "plan"]
    assert api.items(f"{S}/facts/search", params={"query": "budget"})[0]["fact"]["id"] == fact["id"]
    assert [each["id"] for each in api.items(f"{S}/facts/constraints")] == [fact["id"]]
    assert len(api.items(f"{S}/facts/history", params={"name": "plan"})) == 1
    why = api.ok("GET", f"{S}/facts/why", params={"name.json": write_token(fact)})
    assert why["current"] == fact
    observed = api.ok("POST", f"{S}/observations", {"message": "My address is 456 Oak Ave now."})
    assert observed["message"]["role"] == "user"
    assert api.ok("POST", f"{S}/observations", {"message": observed["message"]["seq"]})["message"]
    fork = api.ok("POST", f"{S}/forks", {"as_": "draft"})
    api.ok("PUT", "/sessions/draft/facts/keys/plan", {"value": "basic"})
    api.ok("PUT", "/sessions/draft/facts/keys/seats", {"value": 5})
    merged = api.ok("POST", "/sessions/draft/facts/merge", {"into": {"scope": SCOPE}})
    assert len(merged["items"]) == 2
    assert fork["scope"]["session"] == "draft"
    first, second, *_ = api.items(f"{S}/facts/proposals")
    api.ok("POST", f"{S}/facts/proposals/{first['id']}/accept", {})
    api.ok("POST", f"{S}/facts/proposals/{second['id']}/decline", {})
    assert api.ok("POST", f"{S}/facts/retract", {"fact": "plan", "reason": "wrong"})["items"]


def walk_ledger(api: ApiClient, prefix: str) -> None:
    key = prefix.count("/")
    address = api.ok("PUT", f"{prefix}/facts/keys/address{key}", {"value": "123 Main St"})
    newer = api.ok("PUT", f"{prefix}/facts/keys/address{key}", {"value": "456 Oak Ave"})
    [zone] = api.ok(
        "POST", f"{prefix}/facts/batch", {"facts": [{"key": f"zone{key}", "value": 2, "depends_on": newer["id"]}]}
    )["items"]
    assert api.ok("GET", f"{prefix}/facts/keys/address{key}")["id"] == newer["id"]
    assert api.ok("GET", f"{prefix}/facts/fact", params={"fact": address["id"]})["id"] == address["id"]
    assert newer["id"] in [each["id"] for each in api.items(f"{prefix}/facts", params={"within": "any"})]
    assert api.items(f"{prefix}/facts", params={"within": '[["task", "t1"]]', "limit": 5})
    assert api.items(f"{prefix}/facts/search", params={"query": f"zone{key}"})
    assert api.items(f"{prefix}/facts/constraints") == []
    assert len(api.items(f"{prefix}/facts/history", params={"name": f"address{key}"})) == 2
    assert api.ok("GET", f"{prefix}/facts/why", params={"name": f"address{key}"})["chain"]
    assert api.ok("POST", f"{prefix}/review/reinstate", {"fact": address["id"]})["id"] == address["id"]
    assert zone["id"] in [each["id"] for each in api.items(f"{prefix}/review")]
    api.ok("POST", f"{prefix}/review/confirm", {"fact": zone["id"]})
    assert api.ok("POST", f"{prefix}/review/endorse", {"fact": zone["id"], "authority": "peer"})["id"] == zone["id"]
    draft = api.ok("PUT", f"{prefix}/facts/keys/tone{key}", {"value": "kind", "scope": "draft"})
    promoted = api.ok("POST", f"{prefix}/review/promote", {"fact": draft["id"]})
    other = api.ok("PUT", f"{prefix}/facts/keys/voice{key}", {"value": "kind"})
    api.ok("POST", f"{prefix}/review/supersede", {"fact": promoted["id"], "by": other["id"]})
    api.ok("POST", f"{prefix}/review/expire", {"fact": other["id"]})
    assert api.ok("POST", f"{prefix}/facts/retract", {"fact": zone["id"]})["items"]
    api.ok("POST", f"{prefix}/facts/erase", {"facts": [zone["id"]], "reason": "asked to"})
    assert [each["kind"] for each in api.items("/ledgers", params={"kind": "user"})] == ["user"]


def walk_frames(api: ApiClient) -> None:
    made = api.send("POST", f"{S}/frames", {"goal": "Find the parcel", "budget": 60_000, "inputs": {"id": 7}})
    frame: str = made.json()["frame"]
    prefix = f"{S}/frames/{frame}"
    assert made.headers["location"] == f"/api{prefix}?actor=main"
    assert [each["id"] for each in api.items(f"{S}/frames/stack")] == [frame]
    assert [each["id"] for each in api.items(f"{S}/frames", params={"status": "live"})] == [frame]
    walk_conversation(api, prefix)
    walk_context(api, prefix)
    walk_attachments(api, prefix)
    api.ok("PATCH", prefix, {"goal": "Find the lost parcel"})
    assert api.ok("GET", f"{S}/frames/top")["goal"] == "Find the lost parcel"
    assert [each["id"] for each in api.items(f"{prefix}/ancestry")] == [frame]
    held = api.ok("POST", f"{prefix}/budget/reservations", {"purpose": "draft", "amount": 100})
    api.ok(
        "POST", f"{prefix}/budget/reservations/{held['id']}/commit", {"actual": {"input_tokens": 9, "output_tokens": 1}}
    )
    other = api.ok("POST", f"{prefix}/budget/reservations", {"purpose": "draft", "amount": 100})
    api.ok("POST", f"{prefix}/budget/reservations/{other['id']}/cancel", {})
    api.ok("POST", f"{prefix}/budget/use", {"actual": 10})
    api.ok("POST", f"{prefix}/budget/grant", {"amount": 1_000})
    assert api.ok("GET", f"{prefix}/spend")["tokens"] >= 20
    child = api.ok("POST", f"{prefix}/frames", {"goal": "Call the depot", "budget": 500})["frame"]
    assert api.ok("POST", f"{S}/frames/{child}/suspend", {"reason": "waits for approval"}).startswith("hf")
    api.ok("POST", f"{S}/frames/{child}/revoke", {})
    token = api.ok("POST", f"{S}/frames/{child}/reissue", {})
    assert [each["frame"] for each in api.items("/suspended")] == [child]
    assert api.ok("POST", "/resume", {"token": token})["frame"] == child
    api.ok("POST", f"{prefix}/pop", {"summary": "It is in Rome.", "result": {"depot": 4}, "cascade": True})
    assert api.ok("GET", prefix)["status"] == "completed"


def walk_attachments(api: ApiClient, prefix: str) -> None:
    added = api.ok("POST", f"{prefix}/handles", {"kind": "document", "content": "A report.", "title": "Report"})
    replaced = api.ok("PATCH", f"{prefix}/handles/{added['id']}", {"content": "A longer report."})
    assert replaced["id"] == added["id"]
    assert [each["id"] for each in api.items(f"{prefix}/attachments")] == [added["id"]]


def walk_sessions(api: ApiClient) -> None:
    state = api.ok("GET", S)
    assert api.items(f"{S}/messages", params={"limit": 3})[-1]["seq"] <= state["version"]
    assert api.items(f"{S}/evidence") == []
    spans = api.items(f"{S}/activity")
    assert [each["seq"] for each in spans] == sorted((each["seq"] for each in spans), reverse=True)
    first = api.items(f"{S}/events", params={"limit": 1})[0]
    assert (first["seq"], first["type"], first["data"]["identity"]["user_id"]) == (1, "session.created", "ada")
    assert api.ok("GET", f"{S}/messages/m2_0")["seq"] == 2
    assert api.ok("POST", f"{S}/recover", {})["frame_stack"] == []
    assert [each["session"] for each in api.items(f"{S}/forks")] == ["draft"]
    other = write_token({"scope": {**SCOPE, "session": "draft"}})
    assert api.ok("GET", f"{S}/diff", params={"other": other})["shared"] > 0
    api.ok("PUT", f"{S}/identity", {"identity": {"user_id": "ada", "user_name": "Ada", "authority": "employee"}})
    assert api.ok("GET", S)["identity"]["user_name"] == "Ada"
    api.ok("PUT", "/sessions/other", {"create": True, "user": "ada", "memory": True})
    message = api.ok("POST", "/sessions/other/messages", {"message": "user", "content": "My number is 555-0100."})
    api.ok("POST", "/sessions/other/erase", {"seqs": [message["seq"]], "reason": "asked to"})
    api.ok("POST", "/sessions/other/messages", {"message": "user", "content": "I live in Rome, near the river."})
    api.ok("POST", "/sessions/other/reset", {})
    api.ok("POST", "/sessions/other/end", {})
    assert api.problem("DELETE", S, params={"reason": "over"})[:2] == (409, "SessionHasForks")
    api.ok("DELETE", S, params={"forks": "destroy", "offload": "false"})
    assert api.problem("GET", S)[:2] == (404, "SessionDestroyedError")


def walk_memory(api: ApiClient) -> None:
    assert api.ok("GET", "/memory/backlog")["waiting"]
    assert api.ok("POST", "/memory/deliver", {})["delivered"]
    found = api.ok("POST", "/memory/recall", {"query": "Where does Ada live?", "user": "ada", "roles": ["user"]})
    assert "Rome" in found["passages"][0]["text"]
    assert api.ok("GET", "/memory/known", params={"user": "ada"})
    assert api.ok("GET", "/memory/totals", params={"user": "ada"})["passages"] >= 1
    assert api.ok("POST", "/memory/embed", {}) == 0
    assert api.ok("POST", "/memory/forget", {"user": "ada"})["passages"] >= 1


def walk_admin(api: ApiClient) -> None:
    api.ok("PUT", "/sessions/last", {"create": True, "user": "bob", "memory": True})
    api.ok("POST", "/sessions/last/messages", {"message": "user", "content": "Good bye."})
    api.ok("POST", "/sessions/last/end", {})
    offload = api.items("/admin/outbox")[-1]
    assert api.ok("POST", "/admin/outbox/messages", {"offload": offload})["items"]
    requeue_failed(api, offload)
    api.ok("POST", "/admin/outbox/acknowledge", {"offload": offload})
    assert api.ok("GET", "/admin/totals")["events"] > 100
    assert "sessions" in api.ok("POST", "/admin/sweep", {})
    assert api.ok("POST", "/admin/collect", {"grace_s": 86_400}) == 0
    page = api.ok("GET", "/admin/feed", params={"limit": 5})
    assert 1 <= len(page["events"]) <= 5
    assert page["cursor"]


def requeue_failed(api: ApiClient, offload: Any) -> None:
    """An entry that never failed can be made due at once, too."""
    api.ok("POST", "/memory/requeue", {"failed": {"offload": offload}})
