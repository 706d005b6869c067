"""The server around the responses: replicas, stores, limits, and upstreams that do not behave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from holdfast import errors
from holdfast.server import metrics
from holdfast.server.logs import JsonFormatter
from holdfast.server.settings import ServerSettings
from holdfast.server.v1.errors import build_error
from holdfast.server.v1.upstreams import find_kind
from tests.postgres import empty_url
from tests.server.test_problems import TREE, make
from tests.server.v1.conftest import Desk, open_desk
from tests.server.v1.serving import KEY, serving
from tests.server.v1.upstream import ModelServer, echo, model_server
from tests.support import PATIENCE_S


def client_of(url: str, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0)


def test_a_server_without_an_upstream_says_so(tmp_path: Path) -> None:
    with serving(str(tmp_path / "agent.db")) as url, client_of(url) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.create(model="m1", input="hello")
        assert (caught.value.status_code, caught.value.code) == (501, "no_upstream")
        assert list(client.models.list()) == []
        conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "hello"}])
        assert len(list(client.conversations.items.list(conversation.id))) == 1
        counted = client.responses.input_tokens.count(model="m1", input="hello there")
        assert counted.input_tokens > 0


def test_a_busy_conversation_is_refused_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    with (
        model_server(echo) as (model, address),
        serving(str(tmp_path / "agent.db"), upstream=address, turn_wait_s=0.2) as url,
        client_of(url) as client,
    ):
        conversation = client.conversations.create().id
        model.gate.hold(2)
        with client.responses.stream(model="m1", input="one", conversation=conversation) as stream:
            assert model.gate.reached.wait(PATIENCE_S)
            with pytest.raises(openai.ConflictError) as caught:
                client.responses.create(model="m1", input="two", conversation=conversation)
            assert caught.value.code == "conversation_busy"
            assert int(caught.value.response.headers["retry-after"]) >= 1
            model.gate.release()
            assert stream.get_final_response().output_text == "You said: one"
        assert len(list(client.conversations.items.list(conversation))) == 2


def test_replicas_know_each_others_responses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    store = str(tmp_path / "agent.db")
    with (
        model_server(echo) as (model, address),
        serving(store, upstream=address) as here,
        serving(store, upstream=address) as there,
        client_of(here) as first,
        client_of(there) as second,
    ):
        response = first.responses.create(model="m1", input="hello")
        assert second.responses.retrieve(response.id).to_dict() == response.to_dict()
        follow = second.responses.create(model="m1", input="more", previous_response_id=response.id)
        assert first.responses.retrieve(follow.id).output_text == "You said: more"
        model.gate.hold(2)
        slow = first.responses.create(model="m1", input="slow", background=True)
        assert model.gate.reached.wait(PATIENCE_S)
        assert second.responses.retrieve(slow.id).status == "in_progress"
        assert second.responses.cancel(slow.id).status == "cancelled"
        assert first.responses.retrieve(slow.id).status == "cancelled"
        model.gate.release()
        options: Any = {"model": "m1", "input": "once", "extra_headers": {"Idempotency-Key": "both"}}
        assert first.responses.create(**options).to_dict() == second.responses.create(**options).to_dict()


def test_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    with (
        empty_url() as store,
        model_server(echo) as (model, address),
        serving(store, upstream=address) as url,
        client_of(url) as client,
    ):
        conversation = client.conversations.create().id
        options: Any = {"model": "m1", "conversation": conversation}
        first = client.responses.create(input="one", **options, extra_headers={"Idempotency-Key": "k"})
        again = client.responses.create(input="one", **options, extra_headers={"Idempotency-Key": "k"})
        assert again.to_dict() == first.to_dict()
        with client.responses.stream(input="two", **options) as stream:
            assert stream.get_final_response().output_text == "You said: two"
        branch = client.responses.create(model="m1", input="three", previous_response_id=first.id)
        assert "two" not in json.dumps(model.asked[-1].body)
        assert client.responses.retrieve(branch.id).output_text == "You said: three"
        assert len(list(client.conversations.items.list(conversation))) == 4
        client.conversations.delete(conversation)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(branch.id)


def test_a_stream_in_the_background_goes_on_without_its_client(chat_desk: Desk) -> None:
    chat_desk.model.gate.hold(2)
    stream = chat_desk.client.responses.create(model="m1", input="hello", background=True, stream=True)
    first = next(iter(stream))
    assert first.type == "response.created"
    assert chat_desk.model.gate.reached.wait(PATIENCE_S)
    stream.close()
    chat_desk.model.gate.release()
    events = list(chat_desk.client.responses.retrieve(first.response.id, stream=True))
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "You said: hello"


def test_a_server_that_is_stopped_leaves_nothing_in_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    store = str(tmp_path / "agent.db")
    with model_server(echo) as (model, address):
        with serving(store, upstream=address) as url, client_of(url) as client:
            model.gate.hold(3)
            response = client.responses.create(model="m1", input="hello", background=True)
            assert model.gate.reached.wait(PATIENCE_S)
        with serving(store, upstream=address) as url, client_of(url) as client:
            stored = client.responses.retrieve(response.id)
            assert stored.status == "failed"
            assert stored.error is not None
            assert stored.output_text
            model.gate.release()
            assert client.responses.create(model="m1", input="more").status == "completed"


# Spending


def test_tokens_are_counted_and_limited(chat_desk: Desk) -> None:
    def counted() -> float:
        return sum(value for name, _, value in metrics.iterate_samples() if name == "holdfast_upstream_tokens_total")

    with client_of(chat_desk.url, chat_desk.key("poor")) as poor:
        before = counted()
        response = poor.responses.create(model="m1", input="hello")
        assert response.usage is not None
        assert counted() - before == response.usage.total_tokens > 1
        with pytest.raises(openai.RateLimitError) as caught:
            poor.responses.create(model="m1", input="more")
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert len(chat_desk.model.asked) == 1


# Time


def hold_back(model: ModelServer) -> Callable[[dict[str, Any]], int]:
    """A model that answers when its gate is opened."""

    def wait(_: dict[str, Any]) -> int:
        model.gate.pass_point(0)
        return 0

    return wait


def test_an_answer_may_take_longer_than_other_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    with (
        model_server(echo) as (model, address),
        serving(str(tmp_path / "agent.db"), upstream=address, request_s=1) as url,
        client_of(url) as client,
    ):
        held = threading.Timer(1.5, model.gate.release)
        model.gate.hold(0)
        model.weather = hold_back(model)
        held.start()
        assert client.responses.create(model="m1", input="hello").output_text == "You said: hello"
        held.join()


def test_an_upstream_that_is_silent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    with (
        model_server(echo) as (model, address),
        serving(str(tmp_path / "agent.db"), upstream=address, upstream_s=1) as url,
        client_of(url) as client,
    ):
        model.gate.hold(0)
        model.weather = hold_back(model)
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.create(model="m1", input="hello")
        assert (caught.value.status_code, caught.value.code) == (504, "upstream_timeout")
        model.gate.release()


# Errors


def test_every_error_has_a_status() -> None:
    for kind in TREE:
        error = make(kind)
        inside = (
            {"what", "path", "store", "reason"} & set(vars(error)) if isinstance(error, errors.StorageError) else set()
        )
        response = build_error(kind(**{**vars(error), **dict.fromkeys(inside, "/srv/agent.db: SELECT secret")}))
        body = bytes(response.body)
        assert 400 <= response.status_code <= 599
        if isinstance(error, errors.InvalidInput | errors.NotFound | errors.Conflict | errors.AccessRefused):
            assert response.status_code < 500, kind
        if isinstance(error, errors.StorageBusy | errors.RateExceeded | errors.TurnBusy | errors.ServerBusy):
            assert int(response.headers["retry-after"]) >= 1
        assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
        assert b"secret" not in body
        assert b"/srv" not in body


def test_no_log_quotes_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("what the user said")
    except ValueError as error:
        response = build_error(error, "r1")
    assert response.status_code == 500
    (record,) = caplog.records
    line = JsonFormatter().format(record)
    assert "ValueError" in line
    assert "what the user said" not in line + bytes(response.body).decode()


def test_the_language_of_an_upstream_follows_from_its_address() -> None:
    for host, kind in (("api.anthropic.com", "anthropic"), ("api.openai.com", "openai"), ("127.0.0.1:8000", "openai")):
        assert find_kind(ServerSettings(upstream="https" + f"://{host}/v1")) == kind
    assert find_kind(ServerSettings(upstream="x", upstream_kind="openai-responses")) == "openai-responses"


@contextmanager
def strange_upstream(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            answer(self)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


STRANGE: dict[str, bytes] = {
    "no JSON": b"<html>",
    "a list": b"[]",
    "nothing": b"{}",
    "no choices": b'{"choices": []}',
    "an error with a good status": b'{"error": {"message": "overloaded"}}',
    "a call that is a number": b'{"choices": [{"message": {"content": "x", "tool_calls": [7]}}]}',
    "blocks that are numbers": b'{"content": [7], "output": [7], "choices": [7]}',
    "a stream of nonsense": b"data: x\n\n",
    "an event that is no object": b"data: 7\n\n",
    "an error in a stream": b'data: {"error": {"message": "overloaded"}}\n\n',
    "wrong types": b'data: {"choices": [{"delta": {"tool_calls": [7]}}]}\n\n',
    "a wrong delta": b'data: {"choices": [{"delta": {"content": 7, "tool_calls": "x"}, "index": "y"}]}\n\n',
    "half a character": b'data: {"choices": [{"delta": {"content": "a\\ud800b"}, "finish_reason": "stop"}]}\n\n',
    "an early end": b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n',
    "an anthropic block without a start": b'data: {"type": "content_block_delta", "index": 3, "delta": {"type": '
    b'"input_json_delta", "partial_json": "{"}}\n\n',
    "an item without an end": b'data: {"type": "response.output_item.added", "output_index": 0, "item": 7}\n\n',
}


@pytest.mark.parametrize("kind", ["openai", "openai-responses", "anthropic"])
def test_an_upstream_that_does_not_behave(tmp_path: Path, kind: str) -> None:
    content = [b""]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(len(content[0])))
        handler.end_headers()
        handler.wfile.write(content[0])

    with (
        strange_upstream(answer) as address,
        serving(str(tmp_path / "agent.db"), upstream=address, upstream_kind=kind) as url,
        httpx2.Client(base_url=url, headers={"authorization": f"Bearer {KEY}"}, timeout=PATIENCE_S) as http,
    ):
        conversation = http.post("/conversations", json={}).json()["id"]
        for name, data in STRANGE.items():
            content[0] = data
            for streams in (False, True):
                body = {"model": "m1", "input": name, "conversation": conversation, "stream": streams}
                reply = http.post("/responses", json=body)
                assert streams or reply.status_code == 502 or kind not in name, (name, reply.text)
                if streams and reply.status_code == 200:
                    last = json.loads(reply.text.strip().rpartition("data: ")[2])
                    assert last["type"] in ("response.failed", "response.completed"), name
                elif reply.status_code != 200:
                    assert reply.status_code == 502, (name, reply.text)
                    assert reply.json()["error"]["code"] in ("upstream_error", None)


def test_an_upstream_that_is_not_there(tmp_path: Path) -> None:
    with strange_upstream(lambda handler: None) as address:
        pass
    with serving(str(tmp_path / "agent.db"), upstream=address) as url, client_of(url) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.create(model="m1", input="hello")
        assert (caught.value.status_code, caught.value.code) == (502, "upstream_error")


def test_a_long_history_is_recorded_in_several_steps(tmp_path: Path) -> None:
    with open_desk("openai", tmp_path) as desk:
        history: list[Any] = []
        for number in range(300):
            history.append({"role": "user", "content": f"question {number}"})
            history.append({"type": "message", "role": "assistant", "content": f"answer {number}"})
        response = desk.client.responses.create(model="m1", input=[*history, {"role": "user", "content": "last"}])
        assert response.output_text == "You said: last"
        assert len(desk.sent["messages"]) >= 601
        assert len(list(desk.client.responses.input_items.list(response.id, limit=100))) == 601
