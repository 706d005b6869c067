"""The artifact service: files of a session or a user, in versions.

A version is an entry with the part, without its bytes. The bytes are another entry, named by their SHA-256: equal
content is stored once, and large content is in the blob store.

Laws: versions count from 0, without gaps, whoever saves at the same time. What is listed can be loaded by its name.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, NamedTuple
from urllib.parse import unquote

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from typing_extensions import override

import holdfast
from holdfast.adk.events import clean_json, clean_text, to_json
from holdfast.adk.names import ARTIFACT_THREAD, Conversations, actor_of, clean_id, escape_name
from holdfast.adk.state import append_entries, decode_body
from holdfast.adk.uris import choose_engine
from holdfast.errors import VersionConflict
from holdfast.frameworks.engines import run_blocking
from holdfast.types import Entry, NewEntry, shorten_name

_TRIES = 50
_PAGE = 1_000
_MAX_REFERENCES = 5
_USER = "user:"
_VERSION, _DATA = "version", "data"
_REMOVED = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""What ADK saves where a rewind removes an artifact."""


class _ArtifactName(NamedTuple):
    """Where an artifact is: the session of Holdfast, and the name in it."""

    app_name: str
    user_id: str
    session_id: str | None
    """None for an artifact of the user."""
    filename: str

    @property
    def key(self) -> str:
        """The name for entries: without control characters."""
        return escape_name(self.filename)


def check_location(app_name: str, user_id: str, session_id: str | None, filename: str) -> _ArtifactName:
    """Check the names of an artifact. A name with `user:` belongs to the user, whatever the session. A padded id of a
    session is the id without padding, as for SessionService."""
    artifact_util.validate_path_segment(app_name, "app_name")
    artifact_util.validate_path_segment(user_id, "user_id")
    if not filename:
        raise InputValidationError("filename must not be empty.")
    if filename.startswith(_USER):
        return _ArtifactName(app_name, user_id, None, clean_text(filename))
    if session_id is None:
        raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
    artifact_util.validate_path_segment(session_id, "session_id")
    return _ArtifactName(app_name, user_id, clean_id(session_id), clean_text(filename))


class ArtifactService(BaseArtifactService):
    """Artifacts of ADK in Holdfast.

    runner = Runner(app=app, session_service=…, artifact_service=ArtifactService(engine))
    """

    def __init__(self, engine: holdfast.Engine | None = None, *, uri: str | None = None, **_options: Any) -> None:
        self.engine = choose_engine(engine, uri)
        self._conversations = Conversations(self.engine)

    @override
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a version. Returns its number: the first is 0."""
        location = check_location(app_name, user_id, session_id, filename)
        return await run_blocking(self._save, location, ensure_part(artifact), custom_metadata, clean_id(session_id))

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Load a version, the newest by default; None if there is none, or a rewind has removed it."""
        location = check_location(app_name, user_id, session_id, filename)
        return await run_blocking(self._load, location, version, clean_id(session_id))

    @override
    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """List the names of the artifacts of the session and of the user; without a session, only those of the user."""
        for value, what in ((app_name, "app_name"), (user_id, "user_id"), (session_id, "session_id")):
            if value is not None:
                artifact_util.validate_path_segment(value, what)
        return await run_blocking(self._list_names, app_name, user_id, clean_id(session_id))

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions: their content is erased. An unknown name changes nothing."""
        await run_blocking(self._delete, check_location(app_name, user_id, session_id, filename))

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """List the numbers of all versions, oldest first."""
        versions = await self.list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )
        return [each.version for each in versions]

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """List all versions with what is stored about them, oldest first."""
        location = check_location(app_name, user_id, session_id, filename)
        return await run_blocking(self._list_versions, location)

    @override
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return what is stored about a version, the newest by default; None if there is none."""
        location = check_location(app_name, user_id, session_id, filename)
        return await run_blocking(self._describe, location, version)

    def _save(self, location: _ArtifactName, part: types.Part, custom: dict[str, Any] | None, session_id: str) -> int:
        media_type = _find_media_type(location, part, session_id)
        body, data = _take_bytes(part)
        session = self._session(location, create=True)
        assert session is not None, "it was created"
        for _ in range(_TRIES):
            state = session.state().version
            newest = session.entries.list(kind=_VERSION, parent=location.key, limit=1)
            number = int(decode_body(newest[0].body)["version"]) + 1 if newest else 0
            record = {
                "version": number,
                "time": time.time(),
                "media_type": media_type,
                "custom": clean_json(to_json(custom or {})),
                "part": body,
            }
            entries = [NewEntry(_VERSION, f"{_VERSION}/{number}/{location.key}", record, location.key)]
            if data is not None:
                name = hashlib.sha256(data).hexdigest()
                record["data"] = name
                if session.entries.get(f"{_DATA}/{name}") is None:
                    entries.append(NewEntry(_DATA, f"{_DATA}/{name}", data))
            try:
                append_entries(session, entries, expect=state)
            except VersionConflict:
                continue
            return number
        raise VersionConflict(stream=str(session.scope.stream), expected=state, actual=session.state().version)

    def _load(
        self, location: _ArtifactName, version: int | None, session_id: str | None, depth: int = _MAX_REFERENCES
    ) -> types.Part | None:
        session = self._session(location)
        entry = self._find(session, location, version)
        if session is None or entry is None:
            return None
        record = decode_body(entry.body)
        part = types.Part.model_validate(record["part"])
        if "data" in record:
            data = session.entries.get(f"{_DATA}/{record['data']}")
            assert data is not None, "it was stored with the version"
            assert isinstance(data.body, bytes), "contents are bytes"
            assert part.inline_data is not None, "only this kind of part has bytes"
            part.inline_data.data = data.body
        if artifact_util.is_artifact_ref(part):
            assert part.file_data is not None, "it is a reference"
            assert part.file_data.file_uri is not None, "it is a reference"
            target = artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri,
                app_name=location.app_name,
                user_id=location.user_id,
                session_id=session_id,
                remaining_depth=depth,
            )
            other = check_location(target.app_name, target.user_id, target.session_id, target.filename)
            return self._load(other, target.version, target.session_id, depth - 1)
        return None if _is_absent(part) else part

    def _list_names(self, app_name: str, user_id: str, session_id: str) -> list[str]:
        names: set[str] = set()
        scopes = [None, session_id] if session_id else [None]
        for scope in scopes:
            session = self._session(_ArtifactName(app_name, user_id, scope, ""))
            names.update(unquote(str(entry.parent)) for entry in _pages(session, _VERSION))
        return sorted(names)

    def _list_versions(self, location: _ArtifactName) -> list[ArtifactVersion]:
        session = self._session(location)
        return [_read_version(location, entry) for entry in _pages(session, _VERSION, location.key, bodies=True)][::-1]

    def _describe(self, location: _ArtifactName, version: int | None) -> ArtifactVersion | None:
        entry = self._find(self._session(location), location, version)
        return None if entry is None else _read_version(location, entry)

    def _delete(self, location: _ArtifactName) -> None:
        session = self._session(location)
        if session is None:
            return
        gone = _pages(session, _VERSION, location.key, bodies=True)
        if not gone:
            return
        keys = {entry.key for entry in gone}
        shared = {
            decode_body(entry.body).get("data")
            for entry in _pages(session, _VERSION, bodies=True)
            if entry.key not in keys
        }
        contents = {decode_body(entry.body).get("data") for entry in gone} - shared - {None}
        session.entries.delete(
            [*sorted(keys), *sorted(f"{_DATA}/{name}" for name in contents)], reason="deleted in ADK"
        )

    def _find(self, session: holdfast.Session | None, location: _ArtifactName, version: int | None) -> Entry | None:
        if session is None:
            return None
        if version is not None:
            return session.entries.get(f"{_VERSION}/{version}/{location.key}")
        newest = session.entries.list(kind=_VERSION, parent=location.key, limit=1)
        return newest[0] if newest else None

    def _session(self, location: _ArtifactName, *, create: bool = False) -> holdfast.Session | None:
        actor = actor_of(location.app_name, location.user_id)
        if location.session_id is None:
            return self._conversations.beside("user", actor, ARTIFACT_THREAD, create=create)
        name = shorten_name(f"session/{escape_name(location.session_id)}")
        return self._conversations.beside(name, actor, ARTIFACT_THREAD, create=create)


def _pages(
    session: holdfast.Session | None, kind: str, parent: str | None = None, *, bodies: bool = False
) -> list[Entry]:
    """All entries of a kind, newest first."""
    entries: list[Entry] = []
    before: int | None = None
    while session is not None and (
        page := session.entries.list(kind=kind, parent=parent, before=before, limit=_PAGE, bodies=bodies)
    ):
        entries += page
        before = page[-1].seq
        if len(page) < _PAGE:
            break
    return entries


def _find_media_type(location: _ArtifactName, part: types.Part, session_id: str) -> str | None:
    """The media type of an artifact. Raises InputValidationError for a part that is no artifact."""
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return "text/plain"
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if not artifact_util.is_artifact_ref(part):
        return part.file_data.mime_type
    parsed = artifact_util.parse_artifact_uri(part.file_data.file_uri or "")
    if not parsed:
        raise InputValidationError(f"Invalid artifact reference URI: {part.file_data.file_uri}")
    artifact_util.validate_artifact_reference_scope(
        app_name=location.app_name, user_id=location.user_id, session_id=session_id, parsed_uri=parsed
    )
    return None


def _take_bytes(part: types.Part) -> tuple[dict[str, Any], bytes | None]:
    """A part as JSON, and its bytes beside it."""
    data = part.inline_data.data if part.inline_data is not None else None
    if data is None:
        body: dict[str, Any] = clean_json(part.model_dump(mode="json", exclude_none=True))
        return body, None
    assert part.inline_data is not None, "it has the bytes"
    blob = part.inline_data.model_copy(update={"data": None})
    bare = part.model_copy(update={"inline_data": blob})
    body = clean_json(bare.model_dump(mode="json", exclude_none=True))
    body.setdefault("inline_data", {})
    return body, data


def _is_absent(part: types.Part) -> bool:
    """Whether a version stands for no artifact."""
    return part in (types.Part(), _REMOVED)


def _read_version(location: _ArtifactName, entry: Entry) -> ArtifactVersion:
    record = decode_body(entry.body)
    uri = artifact_util.get_artifact_uri(
        app_name=location.app_name,
        user_id=location.user_id,
        filename=location.filename,
        version=record["version"],
        session_id=location.session_id,
    )
    return ArtifactVersion(
        version=record["version"],
        canonical_uri=uri.replace("artifact://", "holdfast://", 1),
        custom_metadata=record["custom"],
        create_time=record["time"],
        mime_type=record["media_type"],
    )
