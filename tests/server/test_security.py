"""From where requests may come, and what every answer has: hosts, origins, CORS, security headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.access.records import KeyGrant
from holdfast.server.security import HostRule, split_host
from holdfast.server.settings import ServerSettings, is_loopback
from tests.server.running import running
from tests.server.test_authentication import TOKEN, bearer, make, small_app

PAGE = "https://app.example"
KEYS: dict[str, str] = {}
"""The keys of servers that have no token, by their addresses."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(small_app(settings_in(tmp_path_factory.mktemp("plain")))) as url:
        yield url


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that pages of one origin may use, behind TLS."""
    settings = settings_in(
        tmp_path_factory.mktemp("shared"),
        allowed_origins=(PAGE + "/",),
        allowed_hosts=("api.example",),
        behind_tls=True,
    )
    _, key = make(settings.store, KeyGrant(name="page"))
    with running(small_app(settings)) as url:
        KEYS[url] = key
        yield url


def settings_in(folder: Path, **changes: Any) -> ServerSettings:
    return ServerSettings(store=str(folder / "agent.db"), token=TOKEN, **changes)


def get(url: str, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{url}/api/me", headers={**bearer(KEYS.get(url, TOKEN)), **headers})


def test_a_name_that_is_not_the_servers_is_refused(plain: str, shared: str) -> None:
    port = plain.rpartition(":")[2]
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:1", "LOCALHOST:9", "localhost."):
        assert get(plain, host=host).status_code == 200, host
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
    ):
        answer = get(plain, host=host)
        assert answer.status_code == 421, host
        assert answer.headers["content-type"] == "application/problem+json"
        assert "--allow-host" in answer.json()["detail"]
        assert host not in answer.text
        assert httpx2.get(f"{plain}/healthz", headers={"host": host}).status_code == 200
    assert get(shared, host="api.example").status_code == 200
    assert get(shared, host="api.example:443").status_code == 200
    assert get(shared, host="www.api.example").status_code == 421


def test_a_page_of_another_origin_is_refused_with_or_without_a_key(plain: str) -> None:
    host = plain.removeprefix("http://")
    assert get(plain, origin=plain).status_code == 200
    for origin in (
        "https://evil.example",
        "null",
        f"http://evil.example@{host}",
        "http://localhost:3000",
        "",
        "file://",
    ):
        answer = get(plain, origin=origin)
        assert answer.status_code == 403, origin
        assert "access-control-allow-origin" not in answer.headers
        request = {"origin": origin, "access-control-request-method": "POST"}
        assert httpx2.options(f"{plain}/api/me", headers=request).status_code == 403
    assert get(plain, host="evil.example", origin="http://evil.example").status_code == 421, "rebound"


def test_allowed_origins_get_cors_and_no_others(shared: str) -> None:
    request = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, idempotency-key",
    }
    preflight = httpx2.options(f"{shared}/api/me", headers=request)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == PAGE
    allowed = {each.strip() for each in preflight.headers["access-control-allow-headers"].split(",")}
    assert {"authorization", "content-type", "idempotency-key", "if-match", "last-event-id"} <= allowed
    assert "POST" in preflight.headers["access-control-allow-methods"]
    answer = get(shared, origin=PAGE)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "retry-after" in answer.headers["access-control-expose-headers"]
    for each in (preflight, answer, get(shared)):
        assert "origin" in each.headers["vary"].lower()
        assert "access-control-allow-credentials" not in each.headers
    refused = httpx2.get(f"{shared}/api/me", headers={"origin": PAGE})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == PAGE, "the page can read why"
    for origin in ("https://app.example.evil", "http://app.example", "https://app.example:8443", "null"):
        assert get(shared, origin=origin).status_code == 403


def test_any_origin_may_be_allowed_but_null(tmp_path: Path) -> None:
    with running(small_app(settings_in(tmp_path, allowed_origins=("*",)))) as url:
        assert get(url, origin="https://any.example").headers["access-control-allow-origin"] == "*"
        assert get(url, origin="null").status_code == 403


def test_every_answer_has_the_headers_of_security(plain: str, shared: str) -> None:
    answers = [
        get(plain),
        get(plain, host="evil.example"),
        get(plain, origin="null"),
        httpx2.get(f"{plain}/api/me"),
        httpx2.get(f"{plain}/nothing", headers=bearer(TOKEN)),
        httpx2.get(f"{plain}/healthz"),
        httpx2.options(f"{shared}/api/me", headers={"origin": PAGE, "access-control-request-method": "GET"}),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "server-timing" not in answer.headers
    assert "strict-transport-security" not in get(plain).headers
    assert "max-age=" in get(shared).headers["strict-transport-security"]


@pytest.mark.parametrize(
    ("host", "allowed", "right", "wrong"),
    [
        ("127.0.0.1", (), ["localhost", "127.0.0.1:1"], ["10.0.0.1", "box", ""]),
        ("10.0.0.5", (), ["10.0.0.5:8787", "localhost"], ["10.0.0.6", "box"]),
        ("box", (), ["box:8787", "BOX"], ["box.example"]),
        ("0.0.0.0", (), ["10.1.2.3", "[fd00::1]:80", "127.0.0.1"], ["box.example", "1.2.3.4.example", "10.1.2"]),
        ("::", ("api.example",), ["api.example", "[::1]"], ["example"]),
        ("127.0.0.1", ("*.example",), ["a.example", "a.b.example:1"], ["example", "aexample", "a.example.evil"]),
        ("127.0.0.1", ("api.example:443",), ["api.example:443"], ["api.example:80", "api.example"]),
        ("127.0.0.1", ("*",), ["anything.at.all:99"], ["", ":80", "x:y"]),
    ],
)
def test_which_hosts_are_right(host: str, allowed: tuple[str, ...], right: list[str], wrong: list[str]) -> None:
    rule = HostRule(ServerSettings(host=host, allowed_hosts=allowed))
    assert [each for each in right if not rule.allows(each)] == []
    assert [each for each in wrong if rule.allows(each)] == []


@given(st.text(max_size=40))
def test_no_text_confuses_the_check_of_hosts(text: str) -> None:
    rule = HostRule(ServerSettings())
    name, _ = split_host(text)
    if rule.allows(text):
        assert name in ("localhost", "127.0.0.1", "::1")


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]", "LocalHost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "box", "", "localhost.evil.example")))
