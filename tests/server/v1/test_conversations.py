"""Conversations, used with the official client: all eight operations, and what items promise."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from tests.server.v1.conftest import Desk, first_text
from tests.support import figure

CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":  1, "b": [ ]}', "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": '{"x": 1}'}


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def add(desk: Desk, conversation: str, *items: Any) -> list[dict[str, Any]]:
    created = desk.client.conversations.items.create(conversation, items=list(items))
    return [item.to_dict() for item in created.data]


def listed(desk: Desk, conversation: str, **options: Any) -> list[dict[str, Any]]:
    pages = desk.client.conversations.items.list(conversation, **{"order": "asc", **options})
    return [item.to_dict() for item in pages]


def test_a_conversation_lives(chat_desk: Desk) -> None:
    client = chat_desk.client
    made = client.conversations.create(items=[user("hello"), user("there")], metadata={"topic": "lamps"})
    assert made.id.startswith("conv_")
    assert (made.object, made.metadata) == ("conversation", {"topic": "lamps"})
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"topic": "bulbs", "a": "b"})
    assert changed.metadata == {"topic": "bulbs", "a": "b"}
    assert client.conversations.retrieve(made.id).metadata == changed.metadata
    assert client.conversations.update(made.id, metadata={}).metadata == {}
    first, second = listed(chat_desk, made.id)
    assert first["content"] == [{"type": "input_text", "text": "hello"}]
    assert (first["role"], first["status"], second["content"][0]["text"]) == ("user", "completed", "there")
    assert client.conversations.items.retrieve(first["id"], conversation_id=made.id).to_dict() == first
    gone = client.conversations.delete(made.id)
    assert (gone.deleted, gone.id, gone.object) == (True, made.id, "conversation.deleted")
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.list(made.id)
    with pytest.raises(openai.NotFoundError):
        add(chat_desk, made.id, user("again"))


def test_items_come_back_as_they_were(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    items: list[Any] = [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Be brief."}],
            "id": "msg_d",
        },
        {"type": "message", "role": "system", "content": "Be kind."},
        {**user("<holdfast-context> is text like any other"), "id": "msg_u"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "x",
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_a",
            "status": "completed",
            "content": [{"type": "output_text", "text": "One moment.", "annotations": [], "logprobs": []}],
        },
        CALL,
        OUTPUT,
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "item_of_tomorrow", "id": "new_1", "payload": {"b": [1, None, "é"], "a": 0.1}},
        {"type": "item_of_tomorrow", "payload": "without an id"},
    ]
    add(chat_desk, conversation, *items)
    shown = listed(chat_desk, conversation)
    assert [item["type"] for item in shown] == [item["type"] for item in items]
    assert [item.get("id") for item in items if "id" in item] == [
        shown[at]["id"] for at, item in enumerate(items) if "id" in item
    ]
    assert [shown[at]["role"] for at in range(3)] == ["developer", "system", "user"]
    assert shown[2]["content"][0]["text"] == items[2]["content"]
    assert shown[3] == items[3]
    assert shown[4] == items[4]
    assert shown[5] == {**CALL, "status": "completed"}
    assert shown[6]["output"] == OUTPUT["output"]
    assert shown[7] == items[7]
    assert shown[8] == items[8]
    assert {key: value for key, value in shown[9].items() if key != "id"} == items[9]
    assert all(item["id"] for item in shown)
    for item in shown:
        found = chat_desk.client.conversations.items.retrieve(item["id"], conversation_id=conversation)
        assert found.to_dict() == item


def test_a_long_text_comes_back_whole(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    text = "".join(f"line {number} of a long text é\n" for number in range(20_000))
    add(chat_desk, conversation, user(text), CALL, {**OUTPUT, "output": text})
    shown = listed(chat_desk, conversation)
    assert shown[0]["content"][0]["text"] == text
    assert shown[2]["output"] == text


def test_a_call_group_is_deleted_as_one(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    second = {**CALL, "call_id": "call_2", "id": "fc_2"}
    add(chat_desk, conversation, user("one"), CALL, second, OUTPUT, {**OUTPUT, "call_id": "call_2"}, user("two"))
    shown = listed(chat_desk, conversation)
    raw = chat_desk.http.delete(f"/conversations/{conversation}/items/{shown[3]['id']}")
    assert (raw.status_code, raw.json()["id"]) == (200, conversation)
    assert raw.headers["holdfast-deleted-items"].split(",") == [item["id"] for item in shown[1:5]]
    assert listed(chat_desk, conversation) == [shown[0], shown[5]]
    answer = chat_desk.client.conversations.items.delete(shown[0]["id"], conversation_id=conversation)
    assert answer.id == conversation
    assert listed(chat_desk, conversation) == [shown[5]]
    with pytest.raises(openai.NotFoundError):
        chat_desk.client.conversations.items.delete(shown[0]["id"], conversation_id=conversation)
    response = chat_desk.client.responses.create(model="m1", input="three", conversation=conversation)
    assert response.status == "completed"
    assert "one" not in json.dumps(chat_desk.sent["messages"])


def test_a_call_without_a_result_can_be_deleted(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    add(chat_desk, conversation, user("one"), CALL)
    add(chat_desk, conversation, user("two"))
    with pytest.raises(openai.BadRequestError) as caught:
        chat_desk.client.responses.create(model="m1", input="three", conversation=conversation)
    assert caught.value.code == "calls_open"
    assert len(listed(chat_desk, conversation)) == 3
    chat_desk.client.conversations.items.delete("fc_1", conversation_id=conversation)
    assert [item["content"][0]["text"] for item in listed(chat_desk, conversation)] == ["one", "two"]
    assert chat_desk.client.responses.create(model="m1", input="x", conversation=conversation).status == "completed"


def test_items_are_stored_together_or_not_at_all(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    for bad in (
        {"type": "function_call_output", "call_id": "nobody", "output": "x"},
        {"type": "message", "role": "robot", "content": "x"},
        {"type": "message", "role": "user", "content": 7},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:image/png;base64,?"}],
        },
        {"type": 7},
        "text",
    ):
        with pytest.raises(openai.BadRequestError):
            add(chat_desk, conversation, user("one"), bad)
        assert listed(chat_desk, conversation) == []
    with pytest.raises(openai.BadRequestError):
        add(chat_desk, conversation, *[user("x")] * 21)
    with pytest.raises(openai.BadRequestError):
        add(chat_desk, conversation)
    assert listed(chat_desk, conversation) == []


def test_an_id_is_used_once(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    item = {**user("one"), "id": "msg_once"}
    with pytest.raises(openai.BadRequestError):
        add(chat_desk, conversation, item, item)
    add(chat_desk, conversation, item)
    with pytest.raises(openai.BadRequestError) as caught:
        add(chat_desk, conversation, item)
    assert caught.value.code == "duplicate_item"
    key = {"idempotency-key": "items-once"}
    other = {"items": [{**user("two"), "id": "msg_twice"}]}
    first = chat_desk.http.post(f"/conversations/{conversation}/items", json=other, headers=key)
    again = chat_desk.http.post(f"/conversations/{conversation}/items", json=other, headers=key)
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    changed = chat_desk.http.post(f"/conversations/{conversation}/items", json={"items": [user("x")]}, headers=key)
    assert changed.status_code == 409
    assert len(listed(chat_desk, conversation)) == 2


def test_any_session_is_a_conversation(chat_desk: Desk) -> None:
    with holdfast.open(chat_desk.store) as engine:
        session = engine.session("order-7", create=True)
        session.record("user", "hello")
        session.record("assistant", "One moment.", tool_calls=[{"name": "find", "args": {"id": 7}}])
        session.result(session.open_calls()[0], {"state": "sent"})
    shown = listed(chat_desk, "order-7")
    assert [item["type"] for item in shown] == ["message", "message", "function_call", "function_call_output"]
    assert shown[2]["call_id"] == shown[3]["call_id"]
    assert json.loads(shown[3]["output"]) == {"state": "sent"}


# Pages

TEXTS = st.text(min_size=1, max_size=20).filter(lambda text: text.strip() and "\0" not in text)
UNITS = st.one_of(
    TEXTS.map(lambda text: [user(text)]),
    TEXTS.map(lambda text: [{"type": "message", "role": "assistant", "content": text}]),
    st.integers(1, 3).map(lambda count: [{"calls": count}]),
    TEXTS.map(lambda text: [{"type": "later", "text": text}]),
)


def spell(units: list[list[Any]]) -> list[Any]:
    items: list[Any] = []
    for number, (unit,) in enumerate(units):
        if "calls" not in unit:
            items.append(unit)
            continue
        names = [f"c{number}x{place}" for place in range(unit["calls"])]
        items += ({"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"} for name in names)
        items += ({"type": "function_call_output", "call_id": name, "output": name} for name in names)
    return items


@settings(max_examples=figure(4, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(units=st.lists(UNITS, min_size=1, max_size=6), limit=st.integers(1, 5))
def test_pages_together_are_the_list(chat_desk: Desk, units: list[list[Any]], limit: int) -> None:
    conversation = chat_desk.client.conversations.create().id
    items = spell(units)[:20]
    while items and items[-1].get("type") == "function_call":
        items.pop()
    open_names = {item["call_id"] for item in items if item.get("type") == "function_call"}
    open_names -= {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    items = [item for item in items if item.get("call_id") not in open_names]
    if not items:
        return
    created = add(chat_desk, conversation, *items)
    whole = listed(chat_desk, conversation, limit=100)
    assert whole == created
    assert [item["type"] for item in whole] == [item["type"] for item in items]
    assert len({item["id"] for item in whole}) == len(whole)
    assert listed(chat_desk, conversation, limit=limit) == whole
    assert listed(chat_desk, conversation, limit=limit, order="desc") == whole[::-1]
    for at, item in enumerate(whole):
        page = chat_desk.client.conversations.items.list(conversation, order="asc", after=item["id"], limit=limit)
        assert [each.id for each in page.data] == [each["id"] for each in whole[at + 1 : at + 1 + limit]]
        assert page.has_more == (at + 1 + limit < len(whole))
        assert (page.model_extra or {}).get("first_id") == (page.data[0].id if page.data else None)
    add(chat_desk, conversation, user("later"))
    assert listed(chat_desk, conversation, limit=limit)[:-1] == whole, "what is stored does not move"


def test_pages_are_checked(chat_desk: Desk) -> None:
    conversation = chat_desk.client.conversations.create().id
    path = f"/conversations/{conversation}/items"
    for query in ("limit=0", "limit=101", "limit=x", "order=up", "limit=" + "9" * 50):
        assert chat_desk.http.get(f"{path}?{query}").status_code == 400
    assert chat_desk.http.get(f"{path}?after=nothing").status_code == 404


def test_the_async_client_works_as_well(chat_desk: Desk) -> None:
    asyncio.run(use_async_client(chat_desk))


async def use_async_client(chat_desk: Desk) -> None:
    async with openai.AsyncOpenAI(base_url=chat_desk.url, api_key=chat_desk.client.api_key) as client:
        conversation = await client.conversations.create(items=[user(str(number)) for number in range(7)])
        shown = [item async for item in client.conversations.items.list(conversation.id, limit=3, order="asc")]
        assert [first_text(item) for item in shown] == [str(number) for number in range(7)]
        async with client.responses.stream(model="m1", input="hello", conversation=conversation.id) as stream:
            final = await stream.get_final_response()
        assert final.status == "completed"


# Rights, and hostile input


def client_of(desk: Desk, key: str) -> httpx2.Client:
    return httpx2.Client(base_url=desk.url, headers={"authorization": f"Bearer {desk.key(key)}"}, timeout=60)


def test_what_others_have_does_not_exist(chat_desk: Desk) -> None:
    with (
        client_of(chat_desk, "bob") as bob,
        client_of(chat_desk, "carol") as carol,
        client_of(chat_desk, "other-tenant") as eve,
    ):
        made = bob.post("/conversations", json={"items": [user("mine")]}).json()
        answer = bob.post("/responses", json={"model": "m1", "input": "x", "conversation": made["id"]}).json()
        for stranger in (carol, eve):
            unknown = stranger.get("/conversations/conv_unknown")
            for method, path in (
                ("GET", f"/conversations/{made['id']}"),
                ("DELETE", f"/conversations/{made['id']}"),
                ("GET", f"/conversations/{made['id']}/items"),
                ("GET", f"/responses/{answer['id']}"),
                ("DELETE", f"/responses/{answer['id']}"),
                ("GET", f"/responses/{answer['id']}/input_items"),
            ):
                refused = stranger.request(method, path)
                assert refused.status_code == unknown.status_code == 404, (method, path)
            body = {"model": "m1", "input": "x", "previous_response_id": answer["id"]}
            assert stranger.post("/responses", json=body).status_code == 404
        assert bob.get(f"/responses/{answer['id']}").status_code == 200
        for text in ("one", "two"):
            body = {"model": "m1", "input": text, "previous_response_id": answer["id"]}
            follow = bob.post("/responses", json=body).json()
            assert bob.get(f"/responses/{follow['id']}").json() == follow
            assert carol.get(f"/responses/{follow['id']}").status_code == 404
        with holdfast.open(chat_desk.store) as engine:
            assert engine.session(made["id"], actor="bob").state().identity.user_id == "bob"


def test_a_forged_response_id_is_the_id_of_nothing(chat_desk: Desk) -> None:
    name = chat_desk.client.responses.create(model="m1", input="hello").id
    for at in range(5, len(name), figure(23, 7)):
        forged = name[:at] + ("A" if name[at] != "A" else "B") + name[at + 1 :]
        assert chat_desk.http.get(f"/responses/{forged}").status_code == 404
    for forged in (name[:-1], name + "A", "resp_", "resp_" + "A" * 3_000, "x", name.upper(), name + "="):
        assert chat_desk.http.get(f"/responses/{forged}").status_code == 404


def test_rights(chat_desk: Desk) -> None:
    made = chat_desk.client.conversations.create(items=[user("hello")]).id
    with client_of(chat_desk, "reader") as reader, client_of(chat_desk, "writer") as writer:
        assert reader.get(f"/conversations/{made}").status_code == 200
        assert reader.get(f"/conversations/{made}/items").status_code == 200
        for method, path in (
            ("POST", "/conversations"),
            ("POST", f"/conversations/{made}"),
            ("DELETE", f"/conversations/{made}"),
            ("POST", f"/conversations/{made}/items"),
            ("POST", "/responses"),
        ):
            refused = reader.request(method, path, json={} if method == "POST" else None)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "right_missing")
        assert writer.post(f"/conversations/{made}/items", json={"items": [user("x")]}).status_code == 200
        refused = writer.post("/responses", json={"model": "m1", "input": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "right_missing")
    with httpx2.Client(base_url=chat_desk.url, headers={"authorization": "Bearer nobody"}) as nobody:
        refused = nobody.get("/models")
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 1 << 70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    "model input instructions tools tool_choice conversation previous_response_id items metadata store stream background "
    "truncation text reasoning include temperature max_output_tokens user type role content id call_id output".split()
)


@settings(max_examples=figure(40, 600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON, max_size=4).map(lambda item: [item]), max_size=6),
    path=st.sampled_from(
        ["/responses", "/conversations", "/conversations/made/items", "/responses/compact", "/responses/input_tokens"]
    ),
)
def test_whatever_is_sent_is_refused_properly(chat_desk: Desk, body: dict[str, Any], path: str) -> None:
    if "made" in path:
        path = path.replace("made", chat_desk.client.conversations.create().id)
    answer = chat_desk.http.post(path, content=json.dumps(body).encode())
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("content", [b"{", b"[1]", b"nonsense", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'"x"'])
def test_bad_json_is_refused(chat_desk: Desk, content: bytes) -> None:
    for path in ("/responses", "/conversations"):
        answer = chat_desk.http.post(path, content=content)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "value",
    ['"\\ud800"', "1e999", str(1 << 90), '"' + "x" * 2_000 + '"', '{"\\ud800": 1}', "[[[]]]", '"\\u0000"', "-0.0"],
)
def test_strange_values_are_refused_or_kept(chat_desk: Desk, value: str) -> None:
    conversation = chat_desk.client.conversations.create().id
    for name in (
        "input instructions model reasoning metadata tools user text conversation previous_response_id unknown"
    ).split():
        content = f'{{"model": "m1", "input": "x", "{name}": {value}}}'
        for key in ({}, {"idempotency-key": f"{name}-{conversation}"}):
            answer = chat_desk.http.post("/responses", content=content.encode(), headers=key)
            assert answer.status_code < 500, (name, answer.text)
    for item in (
        f'{{"type": "unknown", "x": {value}}}',
        f'{{"type": "message", "role": "user", "content": {value}}}',
        f'{{"type": "function_call", "call_id": "c", "name": {value}, "arguments": {value}}}',
        f'{{"type": "message", "role": "user", "content": "x", "id": {value}}}',
    ):
        answer = chat_desk.http.post(f"/conversations/{conversation}/items", content=f'{{"items": [{item}]}}'.encode())
        assert answer.status_code < 500, (item, answer.text)
    assert chat_desk.http.get(f"/conversations/{conversation}/items").status_code == 200


def test_unknown_paths_have_the_envelope(chat_desk: Desk) -> None:
    answer = chat_desk.http.get("/nothing/here")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url")
    assert chat_desk.http.patch("/responses").status_code in (404, 405)


def test_metadata_is_checked(chat_desk: Desk) -> None:
    for metadata in ({"a": 1}, {str(n): "x" for n in range(17)}, {"a" * 65: "x"}, {"a": "x" * 513}, "text", [1]):
        assert chat_desk.http.post("/conversations", json={"metadata": metadata}).status_code == 400


def test_models_are_those_of_the_upstream(chat_desk: Desk) -> None:
    assert [model.id for model in chat_desk.client.models.list()] == ["m1"]
    assert chat_desk.client.models.retrieve("m1").owned_by == "me"
    with pytest.raises(openai.NotFoundError):
        chat_desk.client.models.retrieve("m2")
