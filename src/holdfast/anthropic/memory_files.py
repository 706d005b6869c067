"""The files of a memory in a session of the engine: each write is a version, and nothing is overwritten.

Laws: a command is one transaction. Of two writers, the second works on what the first has stored. A version has the name of
its writer.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

import holdfast
from holdfast.anthropic.file_tree import (
    CommandRefused,
    Edit,
    FileRef,
    FileTree,
    check_text,
    describe_directory,
    describe_file,
    read_path,
    require_file,
)
from holdfast.errors import InvalidArgument, InvalidName, VersionConflict
from holdfast.model import limits
from holdfast.model.names import check_name
from holdfast.types import NewEntry, shorten_name

SESSION = "memory-files"
FILE_KIND = "memory.file"
TREE_KIND = "memory.tree"
_TRIES = 100
_BATCH = 150
_PAGE = 1_000
_SHOWN_CHARS = 200

T = TypeVar("T")


class FileVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a file of a memory."""

    path: str
    key: str
    """Names the version: pass it to restore()."""
    text: str | None
    """None if the file was deleted, or moved away, with this version."""
    by: str
    """Who wrote it."""
    command: str
    at_us: int


class _Write(msgspec.Struct):
    """What a command changes."""

    tree: FileTree
    entries: list[NewEntry] = msgspec.field(default_factory=list)
    is_changed: bool = False


class MemoryFiles:
    """The files of one memory: of a user, a project or an organization. `MemoryTool.files` has them.

    Paths begin with /memories. Commands of a model raise CommandRefused, with a text for the model."""

    def __init__(self, engine: holdfast.Engine, space: str, *, by: str, ttl_s: float | None = None) -> None:
        self._engine = engine
        self._actor = shorten_name(space)
        self._by = by
        self._ttl_s = ttl_s
        self._opened: holdfast.Session | None = None

    def session(self) -> holdfast.Session:
        """The session that has the files as entries."""
        if self._opened is None:
            self._opened = self._engine.session(SESSION, actor=self._actor, create=True)
        return self._opened

    # For programs

    def read(self, path: str) -> str:
        """The text of a file. Raises InvalidArgument if there is none."""
        tree = self.tree()
        try:
            return self._text(require_file(tree, read_path(path), path))
        except CommandRefused as error:
            raise InvalidArgument(argument="path", reason=str(error)) from error

    def paths(self) -> list[str]:
        """The paths of all files."""
        return sorted(f"/memories/{path}" for path in self.tree().files)

    def history(self, path: str) -> list[FileVersion]:
        """The versions of a file, oldest first, also if it is deleted."""
        name = self._check_path(path)
        versions: list[FileVersion] = []
        before: int | None = None
        while page := self.session().entries.list(kind=FILE_KIND, parent=name, before=before, limit=_PAGE):
            versions += (self._read_version(entry) for entry in page)
            before = page[-1].seq
        return versions[::-1]

    def restore(self, path: str, version: FileVersion | str) -> None:
        """Write an earlier version of a file again, as its newest version."""
        key = version if isinstance(version, str) else version.key
        text = next((each.text for each in self.history(path) if each.key == key), None)
        if text is None:
            raise InvalidArgument(argument="version", reason=f"{key!r} is not a version of {path} that has a text")
        self.write(path, text, command="restore")

    def write(self, path: str, text: str, *, command: str = "write", ttl_s: float | None = None) -> None:
        """Write a file for the program: create it, or replace its text. After `ttl_s` seconds it is gone."""
        name = self._check_path(path)

        def change(write: _Write) -> None:
            if write.tree.is_directory(name):
                raise InvalidArgument(argument="path", reason=f"{path} is a directory")
            write.tree.add_directories(name, path)
            self._put(write, name, text, command, ttl_s)

        try:
            self._change(change)
        except CommandRefused as error:
            raise InvalidArgument(argument="path", reason=str(error)) from error

    def erase(self, path: str, reason: str = "erased") -> None:
        """Erase a file with all of its versions, for good. Its name stays in the log."""
        name = self._check_path(path)
        keys = [version.key for version in self.history(path)]

        def change(write: _Write) -> None:
            if name in write.tree.files:
                keys.append(write.tree.files[name].key)
                write.tree.remove(name)
                write.is_changed = True

        self._change(change)
        for start in range(0, len(keys), _PAGE):
            self.session().entries.delete(keys[start : start + _PAGE], reason=reason)

    def _check_path(self, path: str) -> str:
        try:
            return read_path(path)
        except CommandRefused as error:
            raise InvalidArgument(argument="path", reason=str(error)) from error

    # The commands of the model

    def view(self, path: str, view_range: Any = None) -> str:
        """Show a file, or list a directory."""
        name, tree = read_path(path), self.tree()
        if tree.is_directory(name):
            return describe_directory(tree, name, path)
        if name not in tree.files:
            raise CommandRefused(f"The path {path} does not exist. Please provide a valid path.")
        return describe_file(self._text(tree.files[name]), path, view_range)

    def create(self, path: str, text: str) -> str:
        """Create a file that does not exist."""
        name, content = read_path(path), check_text(text, "file_text")

        def change(write: _Write) -> None:
            if write.tree.exists(name):
                raise CommandRefused(f"File {path} already exists")
            write.tree.add_directories(name, path)
            self._put(write, name, content, "create")

        self._change(change)
        return f"File created successfully at: {path}"

    def edit(self, path: str, edit: Edit, command: str) -> str:
        """Change the text of a file."""
        name = read_path(path)

        def change(write: _Write) -> str:
            ref = require_file(write.tree, name, path)
            text, answer = edit(self._text(ref))
            self._put(write, name, text, command)
            return answer

        return self._change(change)

    def delete(self, path: str) -> str:
        """Delete a file or a directory. Its versions stay for history() and restore()."""
        name = read_path(path)
        if not name:
            raise CommandRefused("Cannot delete the /memories directory itself")

        def change(write: _Write) -> None:
            if not write.tree.exists(name):
                raise CommandRefused(f"The path {path} does not exist")
            self._remove(write, name, "delete")

        self._change(change)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or a directory."""
        old, new = read_path(old_path), read_path(new_path)
        if not old:
            raise CommandRefused("Cannot rename the /memories directory itself")

        def change(write: _Write) -> str:
            if write.tree.exists(new):
                raise CommandRefused(f"The destination {new_path} already exists")
            known, is_there = len(write.tree.directories), write.tree.exists(old)
            if is_there or new.rpartition("/")[0] not in write.tree.files:
                write.tree.add_directories(new, new_path)
            write.is_changed = len(write.tree.directories) != known
            if not is_there:
                return f"The path {old_path} does not exist"
            if f"{new}/".startswith(f"{old}/"):
                return f"The directory {old_path} cannot be moved into itself"
            for path, ref in write.tree.move(old, new):
                self._note(write, path, None, f"rename to /memories/{ref.path}")
                key = self._note(write, ref.path, self._text(ref), f"rename from /memories/{path}")
                write.tree.files[ref.path] = msgspec.structs.replace(ref, key=key)
            write.is_changed = True
            return ""

        refused = self._change(change)
        if refused:
            raise CommandRefused(refused)
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Delete everything. The versions stay for history() and restore()."""

        def change(write: _Write) -> None:
            self._remove(write, "", "clear")

        self._change(change)
        return "All memory cleared"

    # Storage

    def tree(self) -> FileTree:
        """The files and directories now, without expired ones."""
        newest = self.session().entries.list(kind=TREE_KIND, limit=1)
        body: Any = newest[0].body if newest else {"files": [], "directories": []}
        now_us = time.time_ns() // 1_000
        refs = (msgspec.convert(each, FileRef) for each in body["files"])
        files = {ref.path: ref for ref in refs if ref.expires_us is None or ref.expires_us > now_us}
        return FileTree(files, set(body["directories"]))

    def _change(self, change: Callable[[_Write], T]) -> T:
        session = self.session()
        for _ in range(_TRIES):
            version = session.state().version
            write = _Write(self.tree())
            answer = change(write)
            if not write.is_changed:
                return answer
            *first, last = [write.entries[at : at + _BATCH] for at in range(0, len(write.entries), _BATCH)] or [[]]
            body: Any = {
                "files": [msgspec.to_builtins(ref) for ref in write.tree.files.values()],
                "directories": sorted(write.tree.directories),
            }
            try:
                for batch in first:
                    version = session.entries.append_all(batch, expect=version)[-1].seq
                session.entries.append_all([*last, NewEntry(TREE_KIND, _new_key(), body)], expect=version)
                return answer
            except VersionConflict:
                continue
        raise CommandRefused("The memory is changed by others all the time. Nothing was changed. Try again.")

    def _put(self, write: _Write, path: str, text: str, command: str, ttl_s: float | None = None) -> None:
        key = self._note(write, path, text, command)
        lasts_s = self._ttl_s if ttl_s is None else ttl_s
        expires_us = None if lasts_s is None else time.time_ns() // 1_000 + int(lasts_s * 1_000_000)
        write.tree.files[path] = FileRef(path, key, len(text.encode()), expires_us)
        write.is_changed = True

    def _remove(self, write: _Write, path: str, command: str) -> None:
        for ref in write.tree.remove(path):
            self._note(write, ref.path, None, command)
        write.is_changed = True

    def _note(self, write: _Write, path: str, text: str | None, command: str) -> str:
        try:
            check_name("path", path, limits.LONG_NAME_BYTES)
        except InvalidName as error:
            raise CommandRefused(
                f"No file can have the path /memories/{path[:_SHOWN_CHARS]}: {error.reason}"
            ) from error
        key = _new_key()
        body: Any = {"path": path, "text": text, "by": self._by, "command": command}
        write.entries.append(NewEntry(FILE_KIND, key, body, parent=path))
        return key

    def _text(self, ref: FileRef) -> str:
        entry = self.session().entries.get(ref.key)
        body: Any = entry.body if entry is not None else None
        if not isinstance(body, dict) or body.get("text") is None:
            raise CommandRefused(
                f"The file /memories/{ref.path} no longer exists (may have been deleted or renamed concurrently)."
            )
        return str(body["text"])

    def _read_version(self, entry: Any) -> FileVersion:
        body = entry.body
        return FileVersion(
            path=f"/memories/{body['path']}",
            key=entry.key,
            text=body["text"],
            by=body["by"],
            command=body["command"],
            at_us=entry.at_us,
        )


def _new_key() -> str:
    return secrets.token_hex(12)
