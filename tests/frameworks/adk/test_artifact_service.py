"""The artifact service: ADK's contract.

| behaviour of ADK's services | test |
|---|---|
| an unknown artifact is None; its versions are [] | unknown |
| versions count from 0; any can be loaded, the newest by default; others are None | versions |
| names with `user:` belong to the user, in every session and without one | user |
| a name without a session is refused | refused |
| keys are complete and sorted; another user, app or session has its own | keys |
| text, bytes, references to files, dicts in both spellings | kinds |
| an empty part is refused | refused |
| references to other artifacts are followed, in their scope, at most five deep | references |
| what a rewind saves loads as absent | removed |
| metadata, media type, time and address of a version | described |
| a loaded artifact is the caller's own | own copy |
| a deleted artifact is gone; the next version is 0 | deleted |
| `doc` and `doc/part` are two artifacts: versions and deletions of one leave the other | nested |
| a padded id of a session is the id without padding, also for references | padding |
| a version that cannot be stored leaves the others | not stored |
| what a path may have (`group/ada`, a session `user`, a display name, an empty text) is kept | kept |
| unsafe names of app, user and session are refused | refused |
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

import holdfast
from holdfast.adk import ArtifactService
from tests.frameworks.adk.support import run

DESK: dict[str, Any] = {"app_name": "desk", "user_id": "ada", "session_id": "s1"}
USER: dict[str, Any] = {"app_name": "desk", "user_id": "ada"}


@pytest.fixture
def artifacts(engine: holdfast.Engine) -> ArtifactService:
    return ArtifactService(engine)


def data(content: bytes, media_type: str = "text/plain") -> types.Part:
    return types.Part.from_bytes(data=content, mime_type=media_type)


def test_unknown(artifacts: ArtifactService) -> None:
    async def check() -> None:
        assert await artifacts.load_artifact(**DESK, filename="a.txt") is None
        assert await artifacts.list_versions(**DESK, filename="a.txt") == []
        assert await artifacts.list_artifact_keys(**DESK) == []
        assert await artifacts.get_artifact_version(**DESK, filename="a.txt") is None
        await artifacts.delete_artifact(**DESK, filename="a.txt")

    run(check())


def test_versions(artifacts: ArtifactService) -> None:
    async def check() -> None:
        for number in range(3):
            saved = await artifacts.save_artifact(**DESK, filename="a.txt", artifact=data(b"%d" % number))
            assert saved == number
        assert await artifacts.load_artifact(**DESK, filename="a.txt") == data(b"2")
        assert await artifacts.load_artifact(**DESK, filename="a.txt", version=0) == data(b"0")
        for version in (-1, 3):
            assert await artifacts.load_artifact(**DESK, filename="a.txt", version=version) is None
        assert await artifacts.list_versions(**DESK, filename="a.txt") == [0, 1, 2]

    run(check())


def test_user(artifacts: ArtifactService) -> None:
    async def check() -> None:
        await artifacts.save_artifact(**DESK, filename="user:me.txt", artifact=data(b"ada"))
        await artifacts.save_artifact(**USER, filename="user:me.txt", artifact=data(b"ada 2"))
        for where in (USER, DESK, {**DESK, "session_id": "other"}):
            assert await artifacts.load_artifact(**where, filename="user:me.txt") == data(b"ada 2")
            assert await artifacts.list_artifact_keys(**where) == ["user:me.txt"]

    run(check())


def test_keys(artifacts: ArtifactService) -> None:
    async def check() -> None:
        names = ["b/c.txt", "a.txt", "ümlaut \u2028.txt", "x" * 3_000]
        for name in names:
            await artifacts.save_artifact(**DESK, filename=name, artifact=data(b"x"))
        await artifacts.save_artifact(**{**DESK, "session_id": "s2"}, filename="z.txt", artifact=data(b"x"))
        await artifacts.save_artifact(**{**DESK, "user_id": "bob"}, filename="z.txt", artifact=data(b"x"))
        await artifacts.save_artifact(**{**DESK, "session_id": "user"}, filename="z.txt", artifact=data(b"x"))
        for name in ("z.txt", "user:z.txt"):
            await artifacts.save_artifact(**{**DESK, "app_name": "other"}, filename=name, artifact=data(b"x"))
            assert await artifacts.load_artifact(**DESK, filename=name) is None
            assert await artifacts.list_versions(**DESK, filename=name) == []
        assert await artifacts.list_artifact_keys(**DESK) == sorted(names)
        assert await artifacts.list_artifact_keys(**USER) == []
        for name in names:
            assert await artifacts.load_artifact(**DESK, filename=name) is not None

    run(check())


def test_kinds(artifacts: ArtifactService) -> None:
    async def check() -> None:
        kinds: list[tuple[Any, types.Part, str | None]] = [
            (types.Part(text="text"), types.Part(text="text"), "text/plain"),
            (data(b"\x00\xff", "image/png"), data(b"\x00\xff", "image/png"), "image/png"),
            (
                types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="video/mp4")),
                types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="video/mp4")),
                "video/mp4",
            ),
            ({"inlineData": {"mimeType": "text/csv", "data": "YSxi"}}, data(b"a,b", "text/csv"), "text/csv"),
            ({"inline_data": {"mime_type": "text/csv", "data": "YSxi"}}, data(b"a,b", "text/csv"), "text/csv"),
            (data(b"", "text/plain"), data(b"", "text/plain"), "text/plain"),
        ]
        for version, (given, loaded, media_type) in enumerate(kinds):
            assert await artifacts.save_artifact(**DESK, filename="f", artifact=given) == version
            assert await artifacts.load_artifact(**DESK, filename="f") == loaded
            described = await artifacts.get_artifact_version(**DESK, filename="f")
            assert described is not None
            assert described.mime_type == media_type

    run(check())


def test_refused(artifacts: ArtifactService) -> None:
    async def check() -> None:
        bad: list[dict[str, Any]] = [
            {**USER, "filename": "a.txt"},
            {**DESK, "app_name": "../x", "filename": "a"},
            {**DESK, "user_id": "", "filename": "a"},
            {**DESK, "session_id": "a\0b", "filename": "a"},
            {**DESK, "filename": ""},
        ]
        for where in bad:
            with pytest.raises(InputValidationError):
                await artifacts.save_artifact(**where, artifact=data(b"x"))
            for use in (
                artifacts.load_artifact,
                artifacts.delete_artifact,
                artifacts.list_versions,
                artifacts.list_artifact_versions,
                artifacts.get_artifact_version,
            ):
                with pytest.raises(InputValidationError):
                    await use(**where)
        for where in bad[1:4]:
            with pytest.raises(InputValidationError):
                await artifacts.list_artifact_keys(**{key: where[key] for key in where if key != "filename"})
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(**DESK, filename="a", artifact=types.Part())

    run(check())


def reference(target: str) -> types.Part:
    return types.Part(file_data=types.FileData(file_uri=target, mime_type="text/plain"))


def test_references(artifacts: ArtifactService) -> None:
    async def check() -> None:
        prefix = "artifact://apps/desk/users/ada"
        await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"target"))
        await artifacts.save_artifact(
            **DESK, filename="b", artifact=reference(f"{prefix}/sessions/s1/artifacts/a/versions/0")
        )
        assert await artifacts.load_artifact(**DESK, filename="b") == data(b"target")
        await artifacts.save_artifact(
            **DESK, filename="loop", artifact=reference(f"{prefix}/sessions/s1/artifacts/loop/versions/0")
        )
        with pytest.raises(InputValidationError, match="recursion"):
            await artifacts.load_artifact(**DESK, filename="loop")
        for target in (
            "artifact://apps/desk/users/bob/artifacts/user:x/versions/0",
            f"{prefix}/sessions/s2/artifacts/a/versions/0",
            "artifact://nothing",
        ):
            with pytest.raises(InputValidationError):
                await artifacts.save_artifact(**DESK, filename="c", artifact=reference(target))

    run(check())


def test_removed(artifacts: ArtifactService) -> None:
    async def check() -> None:
        mark = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
        await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"x"))
        await artifacts.save_artifact(**DESK, filename="a", artifact=mark)
        assert await artifacts.load_artifact(**DESK, filename="a") is None
        assert await artifacts.load_artifact(**DESK, filename="a", version=0) == data(b"x")

    run(check())


def test_described(artifacts: ArtifactService) -> None:
    async def check() -> None:
        await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"0"))
        await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"1"), custom_metadata={"page": 2})
        versions = await artifacts.list_artifact_versions(**DESK, filename="a")
        assert [(each.version, each.custom_metadata) for each in versions] == [(0, {}), (1, {"page": 2})]
        assert versions[0].create_time <= versions[1].create_time
        assert versions[1].canonical_uri == "holdfast://apps/desk/users/ada/sessions/s1/artifacts/a/versions/1"
        assert await artifacts.get_artifact_version(**DESK, filename="a") == versions[1]
        assert await artifacts.get_artifact_version(**DESK, filename="a", version=0) == versions[0]
        assert await artifacts.get_artifact_version(**DESK, filename="a", version=7) is None

    run(check())


def test_nested(artifacts: ArtifactService) -> None:
    async def check() -> None:
        await artifacts.save_artifact(**DESK, filename="doc", artifact=types.Part(text="doc 0"))
        for number in range(12):
            await artifacts.save_artifact(**DESK, filename="doc/part", artifact=types.Part(text=f"part {number}"))
        assert await artifacts.list_versions(**DESK, filename="doc") == [0]
        assert [each.version for each in await artifacts.list_artifact_versions(**DESK, filename="doc")] == [0]
        assert await artifacts.load_artifact(**DESK, filename="doc") == types.Part(text="doc 0")
        assert await artifacts.save_artifact(**DESK, filename="doc", artifact=types.Part(text="doc 1")) == 1
        assert await artifacts.list_versions(**DESK, filename="doc/part") == list(range(12))
        assert await artifacts.list_artifact_keys(**DESK) == ["doc", "doc/part"]
        await artifacts.delete_artifact(**DESK, filename="doc")
        assert await artifacts.list_versions(**DESK, filename="doc") == []
        assert await artifacts.load_artifact(**DESK, filename="doc/part") == types.Part(text="part 11")

    run(check())


def test_padding(artifacts: ArtifactService) -> None:
    """An artifact is found by the id that SessionService gives to its session."""
    padded = {**DESK, "session_id": " s1\n"}
    target = "artifact://apps/desk/users/ada/sessions/s1/artifacts/a/versions/0"

    async def check() -> None:
        await artifacts.save_artifact(**padded, filename="a", artifact=data(b"x"))
        await artifacts.save_artifact(**padded, filename="b", artifact=reference(target))
        for where in (DESK, padded):
            assert await artifacts.list_artifact_keys(**where) == ["a", "b"]
            assert await artifacts.load_artifact(**where, filename="a") == data(b"x")
            assert await artifacts.load_artifact(**where, filename="b") == data(b"x")
        described = await artifacts.get_artifact_version(**padded, filename="a")
        assert described is not None
        assert described.canonical_uri == "holdfast://apps/desk/users/ada/sessions/s1/artifacts/a/versions/0"
        await artifacts.delete_artifact(**DESK, filename="a")
        assert await artifacts.load_artifact(**padded, filename="a") is None

    run(check())


def test_not_stored(artifacts: ArtifactService) -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep}

    async def check() -> None:
        await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"x"))
        with pytest.raises(ValueError, match="depth"):
            await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"y"), custom_metadata=deep)
        assert await artifacts.list_versions(**DESK, filename="a") == [0]
        assert await artifacts.load_artifact(**DESK, filename="a") == data(b"x")

    run(check())


def test_kept(artifacts: ArtifactService) -> None:
    named = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"png", display_name="My report (final).png"))

    async def check() -> None:
        where: dict[str, Any] = {"app_name": "projects/1/engines/2", "user_id": "group/ada", "session_id": "user"}
        for name, part in (("a", named), ("b", types.Part(text="")), ("user:b", types.Part(text=""))):
            await artifacts.save_artifact(**where, filename=name, artifact=part)
            for version in (None, 0):
                assert await artifacts.load_artifact(**where, filename=name, version=version) == part
        profile = "artifact://apps/projects/1/engines/2/users/group/ada/artifacts/user:b/versions/0"
        other = {**where, "session_id": "s2"}
        await artifacts.save_artifact(**other, filename="r", artifact=reference(profile))
        assert await artifacts.load_artifact(**other, filename="r") == types.Part(text="")

    run(check())


def test_own_copy(artifacts: ArtifactService) -> None:
    async def check() -> None:
        part = types.Part(text="text")
        await artifacts.save_artifact(**DESK, filename="a", artifact=part)
        part.text = "changed"
        loaded = await artifacts.load_artifact(**DESK, filename="a")
        assert loaded == types.Part(text="text")

    run(check())


def test_deleted(artifacts: ArtifactService) -> None:
    async def check() -> None:
        for content in (b"secret", b"shared"):
            await artifacts.save_artifact(**DESK, filename="a", artifact=data(content))
        await artifacts.save_artifact(**DESK, filename="b", artifact=data(b"shared"))
        await artifacts.delete_artifact(**DESK, filename="a")
        assert await artifacts.load_artifact(**DESK, filename="a") is None
        assert await artifacts.list_artifact_keys(**DESK) == ["b"]
        assert await artifacts.load_artifact(**DESK, filename="b") == data(b"shared")
        opened = artifacts.engine.session("session/s1", actor="desk/ada", thread="#artifacts")
        assert not any(b"secret" in (event.payload or b"") for event in opened.events(limit=1_000))
        assert await artifacts.save_artifact(**DESK, filename="a", artifact=data(b"new")) == 0

    run(check())


def test_equal_content_is_stored_once(artifacts: ArtifactService) -> None:
    async def check() -> None:
        content = bytes(range(256)) * 4_000
        for name in ("a", "b", "a"):
            await artifacts.save_artifact(**DESK, filename=name, artifact=data(content))
        assert await artifacts.load_artifact(**DESK, filename="b") == data(content)
        opened = artifacts.engine.session("session/s1", actor="desk/ada", thread="#artifacts")
        assert len(opened.entries.list(kind="data")) == 1
        assert artifacts.engine.admin.verify().ok

    run(check())


def test_savers_at_the_same_time_get_a_version_each(artifacts: ArtifactService) -> None:
    async def check() -> None:
        services = [artifacts, ArtifactService(artifacts.engine)]
        saved = await asyncio.gather(
            *(
                services[number % 2].save_artifact(**DESK, filename="a", artifact=data(b"%d" % number))
                for number in range(10)
            )
        )
        assert sorted(saved) == list(range(10))
        for number, version in enumerate(saved):
            assert await artifacts.load_artifact(**DESK, filename="a", version=version) == data(b"%d" % number)

    run(check())
