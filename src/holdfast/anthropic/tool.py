"""The memory tool for Anthropic's client: commands of the model, on files and facts in an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

import holdfast
from holdfast.anthropic.fact_files import FOLDER, FactFiles
from holdfast.anthropic.file_tree import CommandRefused, Edit, check_text, insert_text, read_path, replace_text
from holdfast.anthropic.memory_files import MemoryFiles
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.model.names import check_options


class _Memory:
    """The commands on files and on facts."""

    def __init__(self, files: MemoryFiles, facts: FactFiles | None) -> None:
        self.files = files
        self._facts = facts

    def view(self, path: str, view_range: list[int] | None) -> str:
        fact, facts = self._fact_of(path), self._facts
        if facts is None or (fact is None and read_path(path)):
            return self.files.view(path, view_range)
        if fact:
            return facts.view(fact, path, view_range)
        if fact == "":
            header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
            return "\n".join([header, f"4K\t{path}", *facts.lines(f"{path}/")])
        listed = self.files.view(path, view_range)
        lines = facts.lines(f"{path}/{FOLDER}/")
        return "\n".join([listed, f"4K\t{path}/{FOLDER}/", *lines]) if lines else listed

    def create(self, path: str, text: str) -> str:
        fact = self._fact_of(path)
        if fact is None or self._facts is None:
            return self.files.create(path, text)
        return self._facts.create(fact, text, path)

    def replace(self, path: str, old: str, new: str) -> str:
        check_text(new, "new_str")
        return self._edit(path, lambda text: replace_text(text, old, new, path), "str_replace")

    def insert(self, path: str, line: int, text: str) -> str:
        check_text(text, "insert_text")
        return self._edit(path, lambda before: insert_text(before, line, text, path), "insert")

    def _edit(self, path: str, edit: Edit, command: str) -> str:
        fact = self._fact_of(path)
        if fact is None or self._facts is None:
            return self.files.edit(path, edit, command)
        return self._facts.edit(fact, edit, path)

    def delete(self, path: str) -> str:
        fact = self._fact_of(path)
        if fact is None or self._facts is None:
            return self.files.delete(path)
        if not fact:
            raise CommandRefused(f"Cannot delete {path}: it shows the facts of the user. Delete single files of it.")
        return self._facts.delete(fact, path)

    def rename(self, old: str, new: str) -> str:
        for path in (old, new):
            if self._fact_of(path) is not None:
                raise CommandRefused(
                    f"Cannot rename {path}: files in /memories/{FOLDER} are facts. Create and delete them."
                )
        return self.files.rename(old, new)

    def _fact_of(self, path: str) -> str | None:
        """The name of the file of a fact; empty for their directory, None for any other path."""
        if self._facts is None:
            return None
        head, _, name = read_path(path).partition("/")
        return name if head == FOLDER else None


class MemoryToolOptions(TypedDict, total=False):
    """Options of a memory tool."""

    facts: bool
    """True, the default: /memories/facts/ shows the current facts of the ledger, and edits there set them."""
    authority: str
    """The authority of facts that are set there; "agent" by default."""
    by: str
    """The writer of each version; "assistant" by default."""
    ttl_s: float | None
    """A file is gone so many seconds after its last write."""
    cache_control: BetaCacheControlEphemeralParam | None


def _open_memory(
    engine: holdfast.Engine,
    user: str | None,
    project: str | None,
    organization: str | None,
    options: MemoryToolOptions,
) -> _Memory:
    check_options("MemoryTool", MemoryToolOptions, options)
    by = options.get("by", "assistant")
    checked = check_engine(engine)
    owners = {"user": user, "project": project, "organization": organization}
    named = [(kind, name) for kind, name in owners.items() if name is not None]
    if len(named) != 1:
        raise InvalidArgument(
            argument="user", reason="name one owner of the memory: a user, a project or an organization"
        )
    ((kind, name),) = named
    files = MemoryFiles(checked, f"{kind}:{name}", by=by, ttl_s=options.get("ttl_s"))
    if not options.get("facts", True):
        return _Memory(files, None)
    identity = holdfast.Identity(user_id=user or "", user_name=by, authority=options.get("authority", "agent"))
    ledger = checked.ledger(user=user, project=project, organization=organization, identity=identity)
    return _Memory(files, FactFiles(ledger))


def _run(command: Callable[..., str], *arguments: Any) -> str:
    """Run a command; what goes wrong is for the model."""
    try:
        return command(*arguments)
    except CommandRefused as error:
        raise ToolError(str(error)) from error
    except HoldfastError as error:
        raise ToolError(f"The memory is not available: {error}") from error


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool on an engine, for `client.beta.messages.tool_runner()`.

        memory = MemoryTool(engine, user="ada")

    The memory belongs to a user, or is shared: by a `project` or an `organization`. /memories/facts/ shows the current
    facts of that ledger, and edits there set them. MemoryToolOptions lists all options."""

    def __init__(
        self,
        engine: holdfast.Engine,
        *,
        user: str | None = None,
        project: str | None = None,
        organization: str | None = None,
        **options: Unpack[MemoryToolOptions],
    ) -> None:
        super().__init__(cache_control=options.get("cache_control"))
        self._memory = _open_memory(engine, user, project, organization, options)

    @property
    def files(self) -> MemoryFiles:
        """The files, for the program: read, write, history, restore and erase."""
        return self._memory.files

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file, or list a directory."""
        return _run(self._memory.view, command.path, command.view_range)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        return _run(self._memory.create, command.path, command.file_text)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that a file has once."""
        return _run(self._memory.replace, command.path, command.old_str, command.new_str)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a line into a file."""
        return _run(self._memory.insert, command.path, command.insert_line, command.insert_text)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or a directory."""
        return _run(self._memory.delete, command.path)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory."""
        return _run(self._memory.rename, command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        """Delete all files. Facts stay."""
        return _run(self.files.clear)


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for the async client. It takes the same blocking engine, and works in threads. See MemoryTool."""

    def __init__(
        self,
        engine: holdfast.Engine,
        *,
        user: str | None = None,
        project: str | None = None,
        organization: str | None = None,
        **options: Unpack[MemoryToolOptions],
    ) -> None:
        super().__init__(cache_control=options.get("cache_control"))
        self._memory = _open_memory(engine, user, project, organization, options)

    @property
    def files(self) -> MemoryFiles:
        """The files, for the program. Its methods block."""
        return self._memory.files

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file, or list a directory."""
        return await run_blocking(_run, self._memory.view, command.path, command.view_range)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        return await run_blocking(_run, self._memory.create, command.path, command.file_text)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that a file has once."""
        return await run_blocking(_run, self._memory.replace, command.path, command.old_str, command.new_str)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a line into a file."""
        return await run_blocking(_run, self._memory.insert, command.path, command.insert_line, command.insert_text)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or a directory."""
        return await run_blocking(_run, self._memory.delete, command.path)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory."""
        return await run_blocking(_run, self._memory.rename, command.old_path, command.new_path)

    async def clear_all_memory(self) -> str:
        """Delete all files. Facts stay."""
        return await run_blocking(_run, self.files.clear)
