"""A session as one file: what is in it, what is not, and that nothing in it can run."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.access.records import KeyGrant
from holdfast.cli import main
from holdfast.inspector import collection
from holdfast.inspector.addresses import encode_name
from holdfast.inspector.collection import SessionRef
from holdfast.inspector.documents import escape_json, write_file
from holdfast.inspector.export import ExportRequest, export_session, open_client
from holdfast.inspector.shared_parts import read_shared
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.inspector.conftest import copy_store
from tests.inspector.sample import SECRET, TRIP
from tests.server.running import running
from tests.server.test_authentication import bearer, make

DATA = re.compile(r'<script type="application/json" id="holdfast-data">(.*?)</script>', re.DOTALL)
SCRIPTS = re.compile(r"<script(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)
STYLES = re.compile(r"<style>(.*?)</style>", re.DOTALL)
EPOCH = "1794980000"


def read_data(path: Path) -> dict[str, Any]:
    found = DATA.findall(path.read_text())
    assert len(found) == 1
    data: dict[str, Any] = json.loads(found[0])
    data["answers"] = read_shared(data["shared"], data["answers"])
    return data


def export(*words: str | Path, monkeypatch: pytest.MonkeyPatch | None = None) -> int:
    if monkeypatch is not None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    return main(["inspect", *map(str, words)])


@pytest.fixture(scope="module", autouse=True)
def few_calls() -> Iterator[None]:
    """Whole packs of a few calls only: each takes its time, and they are alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "CALLS", 4)
        yield


@pytest.fixture(scope="module")
def store(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_store(sample, tmp_path_factory.mktemp("export") / "desk.db")


@pytest.fixture(scope="module")
def trip(store: Path) -> Path:
    """The file of the trip, with the defaults."""
    target = store.with_name("trip.html")
    assert export(TRIP, "-o", target, "--file", store) == 0
    return target


def test_the_file_has_what_the_page_asks_for(trip: Path) -> None:
    data = read_data(trip)
    answers = data["answers"]
    path = f"/sessions/{TRIP}"
    assert data["format"] == 2
    assert (data["redaction"], data["session"]["session"]) == ("secrets", TRIP)
    assert [row["session"] for row in answers["/sessions"]["items"]] == [TRIP]
    messages = answers[f"{path}/messages"]["items"]
    assert [each["seq"] for each in messages] == sorted(each["seq"] for each in messages)
    assert "next" not in answers[f"{path}/messages"]
    packs = answers[f"{path}/packs"]["items"]
    assert packs
    newest = packs[0]["id"]
    for part in ("/manifest", "", "?to=openai", "?to=anthropic", "?to=text"):
        assert f"{path}/packs/{newest}{part}" in answers, part
    assert answers[f"{path}/packs/{newest}?to=openai"].keys() == {"rendered"}
    assert any(
        each.startswith(f"POST {path}/packs/diff {{") and each.endswith(f'"second":"{newest}"}}') for each in answers
    )
    for part in (
        "",
        "/model-calls",
        "/facts",
        "/frames",
        "/handles",
        "/situation",
        "/context/view",
        "/facts/proposals",
    ):
        assert path + part in answers, part
    assert "/caller" in answers
    assert "token" not in json.dumps(answers["/caller"])


def test_the_file_runs_its_own_script_and_nothing_else(trip: Path) -> None:
    text = trip.read_text()
    scripts, styles = SCRIPTS.findall(text), STYLES.findall(text)
    assert (len(scripts), len(styles)) == (1, 1)
    policy = html.unescape(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[0])
    for kind, source in (("script-src", scripts[0]), ("style-src", styles[0])):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert not re.search(r"unsafe|https?:|connect-src", policy)
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert 'src="' not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert len(text.encode()[: text.index('<meta charset="utf-8">')]) < 1_000


def test_a_value_that_needs_a_permission_is_nowhere_in_the_file(store: Path, trip: Path, tmp_path: Path) -> None:
    assert SECRET not in trip.read_text()
    for mode in ("none", "all"):
        target = tmp_path / f"{mode}.html"
        assert export(TRIP, "-o", target, "--file", store, "--redact", mode) == 0
        assert SECRET not in target.read_text(), mode
    target = tmp_path / "allowed.html"
    assert export(TRIP, "-o", target, "--file", store, "--redact", "none", "--permission", "passport") == 0
    assert SECRET in target.read_text()


def test_the_same_store_and_time_give_the_same_bytes(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.html" for number in range(2)]
    for file in files:
        assert export(TRIP, "-o", file, "--file", store, monkeypatch=monkeypatch) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert read_data(files[0])["made_at"] == "2026-11-18T05:33:20Z"


def test_all_keeps_the_structure_and_no_text(store: Path, trip: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.html"
    assert export(TRIP, "-o", target, "--file", store, "--redact", "all") == 0
    shown, plain = read_data(target)["answers"], read_data(trip)["answers"]
    assert len(shown) == len(plain)
    assert "Maya" not in json.dumps(shown)
    assert "Lindqvist" not in json.dumps(shown)
    name = read_data(target)["session"]["session"]
    assert name == "[name-1]"
    path = f"/sessions/{encode_name(name)}"
    messages = shown[f"{path}/messages"]["items"]
    own = plain[f"/sessions/{TRIP}/messages"]["items"]
    for figure in ("seq", "role", "tokens", "time_us"):
        assert [each[figure] for each in messages] == [each[figure] for each in own]


def test_a_file_is_replaced_only_if_that_is_asked_for(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "trip.html"
    target.write_text("mine")
    assert export(TRIP, "-o", target, "--file", store) == 3
    assert target.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert export(TRIP, "-o", target, "--file", store, "--force") == 0
    assert read_data(target)["answers"]
    assert os.listdir(tmp_path) == ["trip.html"]


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def pieces() -> Any:
        yield "half"
        raise RuntimeError("the power went out")

    target = tmp_path / "trip.html"
    with pytest.raises(RuntimeError):
        write_file(str(target), pieces(), replace=False)
    assert os.listdir(tmp_path) == []


def test_an_unknown_session_writes_nothing(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("no-such-trip", "-o", tmp_path / "x.html", "--file", store) == 3
    assert "no-such-trip" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
    assert export("-o", tmp_path / "x.html", "--file", store) == 2


SECRETS = (
    "ada.lovelace@example.org",
    "sk-proj-abcdefghijklmnopqrstuvwx1234",
    "hunter2-Tr0ub4dor",
    "4111 1111 1111 1111",
    "+49 30 12345678",
    "203.0.113.77",
    "DE89 3704 0044 0532 0130 00",
)


def test_no_secret_is_in_the_file_wherever_it_was_stored(tmp_path: Path) -> None:
    mail, key, password, card, phone, address, iban = SECRETS
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine:
        session = engine.create_session(f"trip of {mail}", user=mail, actor=mail)
        session.record("user", f"My card is {card}, my IBAN {iban}, call me: {phone}. Mail {mail}.")
        session.facts.set(f"mail of {mail}", mail)
        session.facts.set("api", {"api_key": key, "host": address, "nested": json.dumps({"password": password})})
        session.working.set("login", {"password": password, "by": mail})
        session.entries.append(
            "note", "n1", {"text": base64.b64encode(f"the key is {key} for {mail}".encode()).decode()}
        )
        session.record("assistant", [holdfast.Text(f"I use {key} at {address}."), holdfast.Text(password)])
        frame = session.frame(f"Book for {mail}", budget=4_000)
        frame.record("user", f"password={password} https://ada:{password}@{address}/x")
        session.pack(budget=4_000, query=f"what is the mail {mail}")
        session.record("assistant", "Done.")
    target = tmp_path / "trip.html"
    assert export(f"trip of {mail}", "-o", target, "--file", path) == 0
    text = target.read_text()
    data = read_data(target)
    readable = text + json.dumps(data, ensure_ascii=False)
    for run in re.findall(r"[A-Za-z0-9+/_-]{16,}={0,2}", DATA.findall(text)[0] + json.dumps(data["answers"])):
        plain = run.rstrip("=")
        try:
            readable += base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
        except ValueError:
            continue
    for secret in SECRETS:
        assert secret not in readable, secret
        assert secret.replace(" ", "") not in readable, secret
    assert data["session"] == {"session": "trip of [email-1]", "actor": "[email-1]"}
    assert "<title>trip of [email-1]" in text
    address_of = f"/sessions/{encode_name('trip of [email-1]')}/messages?actor=%5Bemail-1%5D"
    assert len(data["answers"][address_of]["items"]) >= 2


def test_no_content_ends_the_element_that_it_is_in(tmp_path: Path) -> None:
    name = "<b></script><script>alert(1)</script><!--<script>]]>&lt;"
    bad = f"{name}\u2028\u2029"
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine:
        session = engine.create_session(name)
        session.record("user", bad)
        session.facts.set(name, {bad: bad})
    target = tmp_path / "trip.html"
    assert export(name, "-o", target, "--file", path, "--redact", "none") == 0
    text = target.read_text()
    assert len(SCRIPTS.findall(text)) == 1
    assert "alert(1)</script>" not in text
    assert not set("<>&\u2028") & set(DATA.findall(text)[0])
    assert read_data(target)["session"]["session"] == name
    assert json.loads(escape_json({bad: bad})) == {bad: bad}


def test_what_does_not_fit_is_named(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "CALLS", 2)
    monkeypatch.setattr(collection, "KEYS", 1)
    monkeypatch.setattr(collection, "BODIES", 0)
    monkeypatch.setattr(collection, "ANSWER_BYTES", 20_000)
    target = tmp_path / "trip.html"
    assert export(TRIP, "-o", target, "--file", store) == 0
    data = read_data(target)
    manifests = [address for address in data["answers"] if address.endswith("/manifest")]
    assert len(manifests) <= 2
    reasons = " ".join(each["why"] for each in data["left_out"])
    assert "newest 2 packs" in reasons
    assert "history of 1 keys" in reasons
    assert "20000 bytes" in reasons
    assert all(len(json.dumps(answer)) <= 40_000 for answer in data["answers"].values())


def test_a_server_gives_the_same_file_as_its_store(store: Path, tmp_path: Path) -> None:
    copy = copy_store(store, tmp_path / "desk.db")
    _, key = make(str(copy), KeyGrant(name="reader", rights=("read", "admin")))
    request = ExportRequest(ref=SessionRef(session=TRIP), target=str(tmp_path / "remote.html"), made_at="now")
    with running(build_app(ServerSettings(store=str(copy), background=False))) as url:

        async def run() -> None:
            async with open_client(url, key, 60) as client:
                await export_session(client, request)

        asyncio.run(run())
        refused = httpx2.get(f"{url}/api/sessions", headers=bearer("hf_local_none"))
    assert refused.status_code == 401
    assert export(TRIP, "-o", tmp_path / "local.html", "--file", copy) == 0
    remote, local = (read_data(tmp_path / name)["answers"] for name in ("remote.html", "local.html"))
    for mine in (remote, local):
        del mine["/caller"], mine["/admin/totals"]
    assert remote == local


def test_the_key_of_a_user_exports_their_sessions_and_no_trace_of_others(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    with holdfast.open(path) as engine:
        engine.create_session("mine", user="ada", actor="ada").record("user", "Hello.")
        engine.create_session("theirs", user="bob", actor="bob").record("user", "Secret plans.")
    grant = KeyGrant(name="laptop", rights=("read",), identity=holdfast.Identity(user_id="ada"))
    _, key = make(path, grant)
    with running(build_app(ServerSettings(store=path, background=False))) as url:

        async def run(name: str) -> None:
            async with open_client(url, key, 60) as client:
                ref = SessionRef(session=name, actor="ada")
                target = str(tmp_path / f"{name}.html")
                await export_session(client, ExportRequest(ref=ref, target=target, made_at="now"))

        asyncio.run(run("mine"))
        with pytest.raises(holdfast.errors.SessionNotFound):
            asyncio.run(run("theirs"))
    text = (tmp_path / "mine.html").read_text()
    assert "theirs" not in text.partition("holdfast-data")[2].partition("</script>")[0]
    assert "/admin/totals" not in read_data(tmp_path / "mine.html")["answers"]
    assert not (tmp_path / "theirs.html").exists()
