"""The files and directories of a memory, and the commands on them. Pure: texts of files come from outside.

Law: every answer, and every refusal, has the words of the local tool of Anthropic's client, on which models are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

ROOT = "/memories"
_MOST_LINES = 999_999
_WIDTH = len(str(_MOST_LINES))
_UNITS = "BKMG"
_DIRECTORY_SIZE = "4K"
_LEVELS = 2


class CommandRefused(Exception):
    """A command of the model cannot be carried out. Its text is for the model."""


class FileRef(msgspec.Struct, frozen=True, array_like=True):
    """Where the text of a file is stored."""

    path: str
    key: str
    size: int
    expires_us: int | None = None


class FileTree(msgspec.Struct):
    """Files and directories by their paths below the root, such as `notes/today.md`."""

    files: dict[str, FileRef] = msgspec.field(default_factory=dict)
    directories: set[str] = msgspec.field(default_factory=set)

    def is_directory(self, path: str) -> bool:
        return path == "" or path in self.directories

    def exists(self, path: str) -> bool:
        return path in self.files or self.is_directory(path)

    def below(self, path: str) -> Iterator[str]:
        """The files and directories in a directory, at any depth."""
        start = f"{path}/" if path else ""
        return (each for each in (*self.directories, *self.files) if each.startswith(start))

    def add_directories(self, path: str, shown: str) -> None:
        """Add the directories that a path is in."""
        parts = path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            parent = "/".join(parts[:end])
            if parent in self.files:
                raise CommandRefused(f"The path {shown} is inside of a file, not of a directory.")
            self.directories.add(parent)

    def remove(self, path: str) -> list[FileRef]:
        """Remove a file, or a directory with all that is in it. Returns the files."""
        gone = [path, *self.below(path)] if self.is_directory(path) else [path]
        self.directories.difference_update(gone)
        return [self.files.pop(each) for each in gone if each in self.files]

    def move(self, old: str, new: str) -> list[tuple[str, FileRef]]:
        """Move a file or a directory. Returns the files, each with its old path."""
        moved: list[tuple[str, FileRef]] = []
        for path in [old, *self.below(old)] if self.is_directory(old) else [old]:
            target = new + path[len(old) :]
            if path in self.directories:
                self.directories.remove(path)
                self.directories.add(target)
            else:
                ref = msgspec.structs.replace(self.files.pop(path), path=target)
                self.files[target] = ref
                moved.append((path, ref))
        return moved


def read_path(path: object) -> str:
    """The path below the root. Raises CommandRefused if it is not below."""
    if type(path) is not str:
        raise CommandRefused(f"Path must start with {ROOT}, got: {path}")
    if not path.startswith(ROOT):
        raise CommandRefused(f"Path must start with {ROOT}, got: {path}")
    if "\0" in path or not _is_text(path):
        raise CommandRefused(f"Path {path!r} has a character that no file name can have")
    parts: list[str] = []
    for part in path[len(ROOT) :].split("/"):
        if part == "..":
            if not parts:
                return _leave(path)
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _leave(path: str) -> str:
    """The path may come back to the root by its name; otherwise it escapes."""
    parts: list[str] = [ROOT[1:]]
    for part in path[len(ROOT) :].split("/"):
        if part == "..":
            if not parts:
                raise CommandRefused(f"Path {path} would escape {ROOT} directory")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if parts[:1] != [ROOT[1:]]:
        raise CommandRefused(f"Path {path} would escape {ROOT} directory")
    return "/".join(parts[1:])


def check_text(text: object, name: str) -> str:
    """The text, if it can be stored."""
    if type(text) is not str or not _is_text(text):
        raise CommandRefused(f"Invalid `{name}` parameter: it is not text")
    return text


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def describe_directory(tree: FileTree, path: str, shown: str) -> str:
    """The listing of a directory."""
    lines = [f"{_DIRECTORY_SIZE}\t{shown}"]
    lines += (f"{size}\t{shown}/{name}" for size, name in _list_items(tree, path, "", 1))
    header = f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden items:"
    return f"{header}\n" + "\n".join(lines)


def _list_items(tree: FileTree, path: str, prefix: str, level: int) -> Iterator[tuple[str, str]]:
    start = f"{path}/" if path else ""
    names = {each[len(start) :].split("/")[0] for each in tree.below(path)}
    for name in sorted(names):
        if name.startswith("."):
            continue
        if start + name in tree.directories:
            yield _DIRECTORY_SIZE, f"{prefix}{name}/"
            if level < _LEVELS:
                yield from _list_items(tree, start + name, f"{prefix}{name}/", level + 1)
        else:
            yield format_size(tree.files[start + name].size), f"{prefix}{name}"


def format_size(size: int) -> str:
    """The size of a file, in units of 1,024."""
    unit = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    value = size / 1_024**unit
    return f"{int(value) if value == int(value) else format(value, '.1f')}{_UNITS[unit]}"


def describe_file(text: str, shown: str, view_range: list[int] | None) -> str:
    """The lines of a file, or some of them, with their numbers."""
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise CommandRefused(f"File {shown} exceeds maximum line limit of 999,999 lines.")
    first = 0
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0]) - 1
        lines = lines[first : len(lines) if view_range[1] == -1 else view_range[1]]
    numbered = "\n".join(_number(first + at, line) for at, line in enumerate(lines, 1))
    return f"Here's the content of {shown} with line numbers:\n{numbered}"


def _number(number: int, line: str) -> str:
    return f"{number:>{_WIDTH}}\t{line}"


def replace_text(text: str, old: str, new: str, shown: str) -> tuple[str, str]:
    """The text with one occurrence replaced, and the answer. Raises CommandRefused unless there is exactly one."""
    count = text.count(old)
    if count == 0:
        reason = f"No replacement was performed, old_str `{old}` did not appear verbatim in {shown}."
        raise CommandRefused(reason)
    if count > 1:
        places = ", ".join(str(text.count("\n", 0, at) + 1) for at in _find_all(text, old))
        raise CommandRefused(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {places}. "
            "Please ensure it is unique"
        )
    changed = text.count("\n", 0, text.find(old))
    replaced = text.replace(old, new)
    lines = replaced.split("\n")
    start, stop = max(0, changed - 2), min(len(lines), changed + 3)
    snippet = "\n".join(_number(at + 1, lines[at]) for at in range(start, stop))
    head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return replaced, f"{head}\n{snippet}"


def _find_all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at != -1:
        yield at
        at = text.find(part, at + 1)


def insert_text(text: str, line: int, new: str, shown: str) -> tuple[str, str]:
    """The text with a line inserted after so many lines, and the answer."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if type(line) is not int or not 0 <= line <= len(lines):
        reason = f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
        raise CommandRefused(reason)
    lines.insert(line, new.rstrip("\n"))
    inserted = "\n".join(lines)
    return inserted if inserted.endswith("\n") else f"{inserted}\n", f"The file {shown} has been edited."


def require_file(tree: FileTree, path: str, shown: str) -> FileRef:
    """The file at a path. Raises CommandRefused if there is none."""
    if not tree.exists(path):
        raise CommandRefused(f"The path {shown} does not exist. Please provide a valid path.")
    if path not in tree.files:
        raise CommandRefused(f"The path {shown} is not a file.")
    return tree.files[path]


Edit = Callable[[str], tuple[str, str]]
"""Makes the new text of a file from the old one, and the answer to the model."""
