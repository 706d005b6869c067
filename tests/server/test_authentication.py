"""Who gets in: keys, tokens and the token of a server without keys, over real sockets with real clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import holdfast
from holdfast.access import keys as key_module
from holdfast.access.audit import list_audit
from holdfast.access.keys import create_key, revoke_key, rotate_key
from holdfast.access.records import KeyGrant, KeySecret, make_key
from holdfast.access.token_settings import TokenSettings
from holdfast.api.problems import read_problem
from holdfast.errors import HoldfastError, KeyRefused, KeysMissing, RateExceeded, StorageUnavailable
from holdfast.server.app import build_app
from holdfast.server.authentication import access_layers, open_access, protect_settings
from holdfast.server.context import access_of
from holdfast.server.settings import ServerSettings
from tests.access.test_tokens import AUDIENCE, ISSUER, Issuer
from tests.server.running import running
from tests.support import PATIENCE_S

TOKEN = "hf_local_test"


async def whoami(request: Request) -> JSONResponse:
    access = access_of(request)
    user = None if access.identity is None else access.identity.user_id
    return JSONResponse({"principal": access.principal, "tenant": access.tenant, "user": user, "key": access.key_id})


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text(access_of(socket).principal)
    await socket.close()


def small_app(settings: ServerSettings) -> Starlette:
    """An application with a route in each family."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with await holdfast.open_async(settings.store) as app.state.engine:
            await open_access(app, app.state.engine, settings)
            yield

    paths = ("/api/me", "/v1/models", "/v1/responses", "/mcp", "/metrics", "/healthz", "/readyz", "/other")
    open_routes = [
        Route(path, whoami if path not in ("/metrics", "/healthz", "/readyz") else alive, methods=["GET", "POST"])
        for path in paths
    ]
    routes = [*open_routes, WebSocketRoute("/ws", talk)]
    return Starlette(routes=routes, middleware=access_layers(settings), lifespan=lifespan)


async def alive(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


def make(store: str, grant: KeyGrant) -> tuple[str, KeySecret]:
    async def run() -> tuple[str, KeySecret]:
        async with await holdfast.open_async(store) as engine:
            record, key = await create_key(engine, grant, by="root")
            return record.id, key

    return asyncio.run(run())


def change(store: str, function: Any, *args: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with await holdfast.open_async(store) as engine:
            return await function(engine, *args, **options)

    return asyncio.run(run())


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


@pytest.fixture
def url(store: str) -> Iterator[str]:
    with running(small_app(ServerSettings(store=store, token=TOKEN))) as address:
        yield address


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_key_gets_in_wherever_clients_put_it(url: str, store: str) -> None:
    key_id, key = make(store, KeyGrant(name="bot", tenant="acme"))
    expected = {"principal": "bot", "tenant": "acme", "user": None, "key": key_id}
    for headers in (bearer(key), {"authorization": f"bEARER   {key}"}, {"x-api-key": key}, {"api-key": key}):
        for path in ("/api/me", "/v1/models", "/mcp", "/other"):
            answer = httpx2.get(url + path, headers=headers)
            assert (answer.status_code, answer.json()) == (200, expected)
    _, user_key = make(store, KeyGrant(name="laptop", identity=holdfast.Identity(user_id="ada")))
    assert httpx2.get(f"{url}/api/me", headers=bearer(user_key)).json()["user"] == "ada"


def refused_headers(store: str, url: str) -> list[dict[str, str]]:
    """Requests that are refused: nothing, unknown, wrong, expired, revoked, rotated away, in odd places."""
    _, live = make(store, KeyGrant(name="live"))
    end = time.time_ns() // 1_000 + 300_000
    _, expired = make(store, KeyGrant(name="expired", expires_us=end))
    was_accepted = httpx2.get(f"{url}/api/me", headers=bearer(expired)).status_code == 200
    assert was_accepted or time.time_ns() // 1_000 >= end
    revoked_id, revoked = make(store, KeyGrant(name="revoked"))
    rotated_id, rotated = make(store, KeyGrant(name="rotated"))
    change(store, revoke_key, revoked_id, by="root")
    change(store, rotate_key, rotated_id, by="root", overlap_s=0)
    while time.time_ns() // 1_000 <= end:
        time.sleep(0.01)
    wrong = live[:-2] + ("AA" if live[-2:] != "AA" else "BB")
    sent: list[dict[str, str]] = [
        {},
        {"x-api-key": ""},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": live},
    ]
    sent += [{"authorization": f"Basic {live}"}, bearer(f"{live} {live}"), bearer(TOKEN + "x"), bearer("sk-123")]
    sent += [bearer("a.b.c"), {"authorization": "Basic x", "x-api-key": live}]
    return sent + [bearer(key) for key in (make_key()[1], wrong, expired, revoked, rotated, "x" * 5_000)]


def test_every_refusal_under_a_path_is_the_same(url: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_module, "REFUSAL_PAUSE_S", 0.0)
    refused = refused_headers(store, url)
    with httpx2.Client() as client:
        for path in ("/api/me", "/v1/models", "/mcp", "/other", "/api/nothing", "/v1/nothing"):
            check_refusals(path, [client.get(url + path, headers=headers) for headers in refused])


def check_refusals(path: str, answers: list[httpx2.Response]) -> None:
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    shown = [{name: value for name, value in answer.headers.items() if name != "date"} for answer in answers]
    assert all(each == shown[0] for each in shown)
    assert shown[0]["www-authenticate"].startswith("Bearer")
    document = answers[0].json()
    if path.startswith("/v1"):
        assert document["error"]["code"] == "invalid_api_key"
        assert set(document["error"]) == {"message", "type", "param", "code"}
    elif path == "/mcp":
        assert document["error"] == "invalid_token"
    else:
        assert shown[0]["content-type"] == "application/problem+json"
        assert isinstance(read_problem(document), KeyRefused)


def test_several_keys_in_one_request_are_none(url: str, store: str) -> None:
    _, key = make(store, KeyGrant(name="bot"))
    with httpx2.Client() as client:
        headers = [("authorization", f"Bearer {key}"), ("authorization", f"Bearer {key}")]
        assert client.get(f"{url}/api/me", headers=headers).status_code == 401
        assert client.get(f"{url}/api/me", headers=[("x-api-key", key), ("x-api-key", key)]).status_code == 401
        assert client.get(f"{url}/api/me", params={"key": key, "api-key": key}).status_code == 401


def test_a_revoked_key_is_refused_within_the_time_of_the_cache(
    url: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_module, "KEY_CACHE_S", 0.2)
    key_id, key = make(store, KeyGrant(name="bot"))
    assert httpx2.get(f"{url}/api/me", headers=bearer(key)).status_code == 200
    change(store, revoke_key, key_id, by="root")
    end = time.monotonic() + PATIENCE_S
    while httpx2.get(f"{url}/api/me", headers=bearer(key)).status_code == 200:
        assert time.monotonic() < end


def test_the_client_of_openai_understands_refusals(url: str, store: str) -> None:
    _, key = make(store, KeyGrant(name="bot", requests_per_minute=1))
    for wrong in (make_key()[1], "sk-nothing"):
        with openai.OpenAI(base_url=f"{url}/v1", api_key=wrong, max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as refused:
                client.models.list()
            assert refused.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        client.models.list()
        with pytest.raises(openai.RateLimitError) as limited:
            client.models.list()
        assert limited.value.code == "rate_limit_exceeded"
        assert int(limited.value.response.headers["retry-after"]) <= 60


def test_a_limit_of_requests_is_told_with_every_answer(url: str, store: str) -> None:
    _, key = make(store, KeyGrant(name="bot", requests_per_minute=2))
    answers = [httpx2.get(f"{url}/api/me", headers=bearer(key)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
    assert {answer.headers["ratelimit-limit"] for answer in answers} == {"2"}
    assert answers[-1].headers["retry-after"] == answers[-1].headers["ratelimit-reset"]
    error = read_problem(answers[-1].json())
    assert isinstance(error, RateExceeded)
    assert error.limit == 2
    _, other = make(store, KeyGrant(name="other"))
    assert httpx2.get(f"{url}/api/me", headers=bearer(other)).status_code == 200, "another key has its own"


def test_probes_need_no_key_and_metrics_none_on_loopback_only(url: str, store: str, tmp_path: Path) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert httpx2.get(url + path).status_code == 200
    _, plain = make(store, KeyGrant(name="bot", rights=("read", "write", "model")))
    _, admin = make(store, KeyGrant(name="scraper", rights=("admin",)))
    with running(small_app(ServerSettings(store=store, behind_tls=True))) as proxied:
        assert httpx2.get(f"{proxied}/healthz").status_code == 200
        assert httpx2.get(f"{proxied}/metrics").status_code == 401
        assert httpx2.get(f"{proxied}/metrics", headers=bearer(plain)).status_code == 403
        assert httpx2.get(f"{proxied}/metrics", headers=bearer(admin)).status_code == 200
        for trick in ("//healthz", "/healthz/", "/healthz/../api/me", "/HEALTHZ"):
            assert httpx2.get(proxied + trick).status_code == 401, trick


def test_a_server_without_keys_has_a_token_on_loopback_and_does_not_start_elsewhere(store: str) -> None:
    here = ServerSettings(store=store)
    first, second = asyncio.run(protect_settings(here)), asyncio.run(protect_settings(here))
    assert first.token != second.token
    assert len(first.token) > 40
    with running(small_app(first)) as url:
        assert httpx2.get(f"{url}/api/me", headers=bearer(first.token)).status_code == 200
        assert httpx2.get(f"{url}/api/me", headers=bearer(second.token)).status_code == 401
    elsewhere = ServerSettings(store=store, host="0.0.0.0", token="guess")
    with pytest.raises(KeysMissing, match="was not started"):
        asyncio.run(protect_settings(elsewhere))
    assert not starts(small_app(elsewhere))
    assert not starts(build_app(elsewhere))
    _, key = make(store, KeyGrant(name="bot"))
    assert asyncio.run(protect_settings(elsewhere)).token == ""
    with running(small_app(elsewhere)) as url:
        assert httpx2.get(f"{url}/api/me", headers=bearer(key)).status_code == 200
        assert httpx2.get(f"{url}/api/me", headers=bearer("guess")).status_code == 401, "no token but on loopback"
    assert asyncio.run(protect_settings(here)).token == "", "with keys there is no token"


def test_the_token_ends_with_the_first_key(url: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert httpx2.get(f"{url}/api/me", headers=bearer(TOKEN)).json()["principal"] == "local"
    key_id, key = make(store, KeyGrant(name="bot"))
    monkeypatch.setattr(key_module, "KEY_CACHE_S", 0.0)  # the time of the cache is over
    refused = httpx2.get(f"{url}/api/me", headers=bearer(TOKEN))
    unknown = httpx2.get(f"{url}/api/me", headers=bearer(TOKEN + "x"))
    assert refused.status_code == 401
    assert {**refused.json(), "instance": ""} == {**unknown.json(), "instance": ""}
    assert httpx2.get(f"{url}/api/me", headers=bearer(key)).status_code == 200
    change(store, revoke_key, key_id, by="root")
    assert httpx2.get(f"{url}/api/me", headers=bearer(TOKEN)).status_code == 200, "a store without a live key"


def test_behind_a_proxy_there_is_no_token_and_no_start_without_keys(store: str) -> None:
    proxied = ServerSettings(store=store, behind_tls=True, token="guess")
    with pytest.raises(KeysMissing, match="behind-tls"):
        asyncio.run(protect_settings(proxied))
    assert not starts(small_app(proxied))
    _, key = make(store, KeyGrant(name="bot"))
    assert asyncio.run(protect_settings(proxied)).token == ""
    with running(small_app(proxied)) as url:
        assert httpx2.get(f"{url}/api/me", headers=bearer("guess")).status_code == 401
        assert httpx2.get(f"{url}/api/me", headers=bearer(key)).status_code == 200


def starts(app: Starlette) -> bool:
    """Whether an application starts under uvicorn."""

    async def run() -> bool:
        config = uvicorn.Config(app, lifespan="on", log_level="critical")
        config.load()
        lifespan = config.lifespan_class(config)
        await lifespan.startup()
        return not lifespan.should_exit

    return asyncio.run(run())


def test_a_token_of_an_identity_provider_gets_in(store: str, tmp_path: Path) -> None:
    issuer, path = Issuer(), tmp_path / "jwks.json"
    path.write_text(json.dumps(issuer.key_set()))
    jwt = TokenSettings(issuer=ISSUER, audience=AUDIENCE, jwks=str(path), tenant="acme", requests_per_minute=3)
    settings = ServerSettings(store=store, host="0.0.0.0", jwt=jwt, allowed_hosts=("*",))
    restored = msgspec.json.decode(msgspec.json.encode(settings), type=ServerSettings)
    assert restored == settings
    with running(small_app(restored)) as url:
        answers = [httpx2.get(f"{url}/api/me", headers=bearer(issuer.sign("ES256"))) for _ in range(4)]
        assert answers[0].json()["user"] == "ada"
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        unknown = httpx2.get(f"{url}/api/me", headers=bearer(make_key()[1]))
        for token in (issuer.sign(exp=1), issuer.sign(aud="other"), "a.b.c"):
            answer = httpx2.get(f"{url}/api/me", headers=bearer(token))
            assert (answer.status_code, answer.content) == (401, unknown.content)
    path.unlink()
    with running(small_app(settings)) as url:
        answer = httpx2.get(f"{url}/api/me", headers=bearer(issuer.sign()))
        assert answer.status_code == 503
        assert answer.headers["retry-after"]


def test_neither_logs_nor_the_audit_have_a_key(url: str, store: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        _, key = make(store, KeyGrant(name="bot"))
        unknown = make_key()[1]
        httpx2.get(f"{url}/api/me", headers=bearer(key))
        httpx2.get(f"{url}/api/me", headers=bearer(unknown))
        httpx2.get(f"{url}/api/me", headers={"x-api-key": unknown, "user-agent": "x"})
    text = caplog.text + "".join(str(vars(record)) for record in caplog.records if record.name.startswith("holdfast"))
    shown = change(store, list_audit)
    assert [(each.action, each.details["path"]) for each in shown[:2]] == [("login.refused", "/api/me")] * 2
    assert shown[0].details["key"] == unknown[3:15]
    assert shown[0].details["client"] == "127.0.0.1"
    for secret in (key[16:], unknown[16:]):
        assert secret not in text
        assert secret not in repr(shown)


def test_a_store_that_fails_is_no_way_in(url: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_args: Any, **_options: Any) -> Any:
        raise StorageUnavailable(what="the store at /secret/place", reason="disk on fire")

    _, key = make(store, KeyGrant(name="bot"))
    monkeypatch.setattr(key_module, "find_system_session", fail)
    answer = httpx2.get(f"{url}/api/me", headers=bearer(key))
    assert answer.status_code == 503
    assert "secret" not in answer.text
    assert isinstance(read_problem(answer.json()), HoldfastError)


def test_a_web_socket_needs_a_key(store: str) -> None:
    settings = ServerSettings(store=store, token=TOKEN)
    app = small_app(settings)

    async def connect(headers: dict[str, str]) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        raw = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
        scope = {"type": "websocket", "path": "/ws", "headers": raw, "query_string": b"", "subprotocols": []}

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        async with app.router.lifespan_context(app):
            await app(scope, receive, send)
        return sent

    [closed] = asyncio.run(connect({}))
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    [closed] = asyncio.run(connect({**bearer(TOKEN), "origin": "http://evil.example"}))
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    accepted = asyncio.run(connect(bearer(TOKEN)))
    assert [message["type"] for message in accepted] == ["websocket.accept", "websocket.send", "websocket.close"]


def test_head_has_no_body_and_a_refusal_stores_nothing_of_the_request(url: str, store: str) -> None:
    answer = httpx2.head(f"{url}/api/me")
    assert (answer.status_code, answer.content) == (401, b"")
    assert httpx2.post(f"{url}/v1/responses", json={"input": "my secret words"}).status_code == 401
    stored = change(store, lambda engine: engine.admin.feed(limit=1_000))
    assert b"my secret words" not in b"".join(event.payload or b"" for event in stored.events)
