"""The page on a server: its files, its headers, who gets it, and what the key may do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import holdfast
from holdfast.access.records import KeyGrant
from holdfast.inspector.files import FOLDER, PATHS
from holdfast.inspector.pages import CONTENT_POLICY
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.server.running import running
from tests.server.test_authentication import TOKEN, bearer, make

TYPES = {"/": "text/html", "/inspector/inspector.js": "text/javascript", "/inspector/inspector.css": "text/css"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = str(tmp_path_factory.mktemp("page") / "agent.db")
    with running(build_app(ServerSettings(store=store, token=TOKEN, background=False))) as address:
        yield address


@pytest.mark.parametrize("path", PATHS)
def test_the_page_is_served_without_a_key_and_with_its_headers(url: str, path: str) -> None:
    answer = httpx2.get(url + path)
    content = Path(FOLDER, PATHS[path]).read_bytes()
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == f"{TYPES[path]}; charset=utf-8"
    assert answer.headers["content-security-policy"] == CONTENT_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    assert hashlib.sha256(content).hexdigest()[:32] in answer.headers["etag"]
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_a_browser_that_has_a_file_gets_no_copy_of_it(url: str, path: str) -> None:
    tag = httpx2.get(url + path).headers["etag"]
    for sent in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        answer = httpx2.get(url + path, headers={"if-none-match": sent})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    assert httpx2.get(url + path, headers={"if-none-match": '"other"'}).status_code == 200
    head = httpx2.head(url + path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert int(head.headers["content-length"]) == len(Path(FOLDER, PATHS[path]).read_bytes())


@pytest.mark.parametrize("path", PATHS)
def test_the_page_is_for_the_hosts_and_origins_of_the_server(url: str, path: str) -> None:
    assert httpx2.get(url + path, headers={"host": "evil.example"}).status_code == 421
    assert httpx2.get(url + path, headers={"origin": "https://evil.example"}).status_code == 403
    assert httpx2.get(url + path, headers={"origin": "null"}).status_code == 403
    assert httpx2.get(url + path, headers={"origin": url}).status_code == 200
    for verb in ("POST", "PUT", "DELETE", "PATCH"):
        assert httpx2.request(verb, url + path).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/inspector",
        "/inspector/",
        "/inspector/index.html",
        "/inspector/inspector.js.map",
        "/inspector/../api/sessions",
        "/inspector/%2e%2e/%2e%2e/files.py",
        "//inspector/inspector.js",
        "/inspector/inspector.js/",
        "/api/caller",
        "/api/sessions",
    ],
)
def test_nothing_else_is_open(url: str, path: str) -> None:
    assert httpx2.get(url + path).status_code == 401


def test_the_access_says_what_a_key_may_do(url: str, tmp_path: Path) -> None:
    assert httpx2.get(f"{url}/api/caller", headers=bearer(TOKEN)).json() == {
        "tenant": "default",
        "principal": "local",
        "rights": ["admin", "model", "read", "write"],
        "actor": None,
        "user": None,
        "is_local": True,
        "version": holdfast.__version__,
    }
    store = str(tmp_path / "agent.db")
    identity = holdfast.Identity(user_id="ada")
    _, key = make(store, KeyGrant(name="laptop", tenant="acme", rights=("read",), identity=identity))
    with running(build_app(ServerSettings(store=store, background=False))) as address:
        access = httpx2.get(f"{address}/api/caller", headers=bearer(key)).json()
    assert access["rights"] == ["read"]
    assert (access["tenant"], access["actor"], access["user"], access["is_local"]) == ("acme", "ada", "ada", False)
