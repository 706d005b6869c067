"""Maintenance of a server: jobs with progress, and files on the side of the caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import ImportRefused, InvalidUrl, StorageUnavailable
from holdfast.server.app import build_app
from tests.client.faulty import TOKEN, settings_of
from tests.server.running import running


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running(build_app(settings_of(tmp_path / "agent.db"))) as address:
        yield address


def fill(engine: holdfast.Engine) -> holdfast.Session:
    session = engine.session("s", user="ada", create=True)
    session.record("user", "Ship the lamp.")
    (call,) = session.record("assistant", "", tool_calls=[{"name": "look", "args": {}}]).tool_calls
    session.result(call, b"\xff" * 100_000)
    return session


def test_a_store_is_verified_and_rebuilt_with_progress(url: str) -> None:
    with holdfast.connect(url, key=TOKEN) as engine:
        fill(engine)
        seen: list[tuple[int, int]] = []
        report = engine.admin.verify(progress=lambda done, total: seen.append((done, total)))
        assert report.ok
        assert report.streams >= 2
        assert engine.admin.rebuild() >= 1
        assert all(0 <= done <= total for done, total in seen)


def test_an_export_is_a_file_here(url: str, tmp_path: Path) -> None:
    target = tmp_path / "export.jsonl"
    with holdfast.connect(url, key=TOKEN) as engine:
        session = fill(engine)
        assert engine.admin.export(target) > 0
        assert not list(tmp_path.glob("*.partial"))
        with holdfast.open("memory:") as copy:
            copy.admin.import_(target)
            assert copy.session("s").messages() == session.messages()


def test_a_file_from_here_is_imported_there(url: str, tmp_path: Path) -> None:
    source, damaged = tmp_path / "export.jsonl", tmp_path / "damaged.jsonl"
    with holdfast.open("memory:") as embedded:
        messages = fill(embedded).messages()
        events = embedded.admin.export(source)
    damaged.write_bytes(source.read_bytes()[:-20])
    with holdfast.connect(url, key=TOKEN) as engine:
        with pytest.raises(ImportRefused):
            engine.admin.import_(damaged)
        assert engine.sessions() == ()
        assert engine.admin.import_(source) == events
        assert engine.admin.import_(source) == 0
        assert engine.session("s").messages() == messages
        assert engine.admin.verify().ok


def test_a_backup_is_a_complete_store_here(url: str, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    with holdfast.connect(url, key=TOKEN) as engine:
        session = fill(engine)
        engine.admin.backup(target)
        with holdfast.open(target) as copy:
            assert copy.session("s").messages() == session.messages()
            assert copy.admin.verify().ok
        with pytest.raises(InvalidUrl, match="never overwrites"):
            engine.admin.backup(target)
        with pytest.raises(StorageUnavailable, match="does not exist"):
            engine.admin.backup(tmp_path / "nowhere" / "backup.db")


def test_a_transcript_comes_and_goes(url: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"role":"user","content":"hi"}\n{"role":"assistant","content":"hello"}\n')

    async def check() -> None:
        async with await holdfast.connect_async(url, key=TOKEN) as engine:
            session = await engine.admin.import_transcript(source, "t", metadata={"from": "file"})
            assert isinstance(session, holdfast.AsyncSession)
            assert [message.text for message in await session.messages()] == ["hi", "hello"]
            assert (await session.state()).metadata == {"from": "file"}
            assert await engine.admin.export_transcript(target, "t") == 2

    asyncio.run(check())
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert lines == [json.loads(line) for line in source.read_text().splitlines()]
    with holdfast.connect(url, key=TOKEN) as engine, pytest.raises(StorageUnavailable):
        engine.admin.import_transcript(tmp_path / "none.jsonl", "u")


def test_whoever_gives_up_cancels_the_job(url: str, tmp_path: Path) -> None:
    class GivenUp(Exception):
        pass

    def give_up(_done: int, _total: int) -> None:
        raise GivenUp

    with holdfast.connect(url, key=TOKEN) as engine:
        fill(engine)
        with pytest.raises(GivenUp):
            engine.admin.export(tmp_path / "export.jsonl", progress=give_up)
        assert list(tmp_path.glob("export*")) == []
        assert engine.admin.verify().ok
