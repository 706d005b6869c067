"""What a tool call does to what other tool calls have read, as far as its name and its arguments say so.

Law: what is not certain is "other", and accuses nothing. A tool that asks a model or the web answers differently each
time, one that reads on from where it was returns the next part, and a shell command can do anything: only commands
from a short list are taken as reading.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any, Literal

import msgspec

_READING = frozenset(
    "read get list search find view show cat query lookup describe glob grep ls status load inspect".split()
)
_WRITING = frozenset("write edit multiedit update patch replace insert save append modify overwrite rewrite".split())
_DELETING = frozenset("delete remove unlink".split())
_UNSURE = frozenset(
    """
    web browser browse agent task think ask chat generate next poll output outputs stream events random new create
    """.split()
)
_SHELLS = frozenset(
    "bash shell terminal run_command execute_command run_shell_command execute_bash local_shell".split()
)
_PATHS = (
    "file_path",
    "path",
    "notebook_path",
    "filepath",
    "file",
    "filename",
    "target_file",
    "absolute_path",
    "relative_path",
)
_CONTENTS = ("content", "contents", "file_text", "new_content", "code_edit", "text", "data")
_OLD_TEXTS = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("search", "replace"))
_RANGES = (
    "offset",
    "limit",
    "start_line",
    "end_line",
    "view_range",
    "pages",
    "start",
    "end",
    "lines",
    "range",
    "head_limit",
    "page",
)
_VIEWS = frozenset({"view", "read", "cat", "open"})
_LOOKS = frozenset("cat ls find grep rg wc sort uniq cut stat du tree jq diff file which cd echo".split())
_GIT_LOOKS = frozenset("status diff branch".split())
"""Not those that show commits: they stay what they were."""
_PARTIAL = re.compile(r"\b(?:head|tail|sed|less|more)\b|\s-(?:m|n|c)?\s?\d+\b|--(?:max-count|lines)")
"""A command that shows a part of its output: what is missing there may only have moved."""
_CHECKS = (
    re.compile(
        r"(go|cargo|npm|pnpm|yarn|bun|make|mise|just|uv)( run)? (test|vet|build|check|clippy|lint|typecheck|fmt)\b"
    ),
    re.compile(r"(python3? -m )?(pytest|mypy|ruff|pyright|eslint|tsc|golangci-lint|staticcheck|jest|vitest)\b"),
)
COMMANDS = ("command", "cmd")
_FAILURES = ("<tool_use_error>", "error:", "traceback (most recent", "the user doesn't want")
_UNCHANGED = ("unchanged since", "has not changed", "not modified")
_NOTE_CHARS = 400
"""A longer result that says "unchanged" is content."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SEGMENTS = re.compile(r"&&|\|\||[;|\n]")
_HARMLESS = re.compile(r"2>&1|[0-9]?>\s*/dev/null")
_PATCHED = re.compile(r"(?:\*\*\* (?:Update|Delete) File:|---|\+\+\+) (?:[ab]/)?(\S+)")


class Replacement(msgspec.Struct, frozen=True):
    """A text that an edit took out, and what came for it."""

    old: str
    new: str
    everywhere: bool = False


class ToolAction(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool call does."""

    kind: Literal["read", "write", "delete", "other"] = "other"
    label: str = ""
    """The tool and its target."""
    target: str = ""
    """The path that it reads or writes; empty if it has none."""
    key: str = ""
    """Of reading: two calls with the same key look at the same."""
    is_part: bool = False
    """It reads a part of its target."""
    is_check: bool = False
    """The result of a command, whose times differ at each run."""
    replacements: tuple[Replacement, ...] = ()
    content: str | None = None
    """What the target has after it, if known."""
    moves: bool = False
    """A command that may change the folder of later ones."""


def read_action(tool: str, arguments: object, folder: int = 0) -> ToolAction:
    """What a tool call does. `folder` counts the changes of a shell's folder before it."""
    args: dict[str, Any] = arguments if type(arguments) is dict else {}
    name = tool.rpartition("__")[2]
    words = {word.lower() for word in _WORD.findall(name)}
    command = next((args[each] for each in COMMANDS if type(args.get(each)) is str), None)
    if name.lower() in _SHELLS and command is not None:
        return _read_command(tool, command, folder)
    if name == "apply_patch":
        text = next((value for value in args.values() if type(value) is str), arguments)
        return _read_patch(text if type(text) is str else "")
    target = find_target(args)
    kind = _find_kind(words, command)
    label = f"{tool} {target or _shorten_args(args)}".strip()
    if kind == "read":
        key = json.dumps([tool, args], sort_keys=True, default=str)
        is_part = any(args.get(each) is not None for each in _RANGES)
        if is_part and not target:
            return ToolAction(label=label)  # a page of a list: what is missing there may only have moved
        if is_part and words & {"grep", "glob", "search", "find", "list"}:
            return ToolAction(label=label)
        return ToolAction(kind="read", label=label, target=target, key=key, is_part=is_part)
    if not target or kind == "other":
        return ToolAction(label=label)
    if kind == "delete":
        return ToolAction(kind="delete", label=label, target=target)
    return _read_edit(args, label, target)


def find_target(args: dict[str, Any]) -> str:
    """The path in the arguments of a call; empty if they name none."""
    return next((clean_path(args[each]) for each in _PATHS if type(args.get(each)) is str and args[each]), "")


def find_subject(arguments: object) -> str:
    """The path or the command of a call, to find calls that may look at the same; empty if it has neither."""
    if type(arguments) is not dict:
        return ""
    target = find_target(arguments)
    return target or next((arguments[each] for each in COMMANDS if type(arguments.get(each)) is str), "")


def is_failure_text(text: str) -> bool:
    """Whether the text of a result says that the tool failed."""
    return text.lstrip()[:_NOTE_CHARS].lower().startswith(_FAILURES)


def is_unchanged_note(text: str) -> bool:
    """Whether a result only says that the file is as it was read before."""
    return len(text) < _NOTE_CHARS and any(each in text.lower() for each in _UNCHANGED)


def clean_path(path: str) -> str:
    return posixpath.normpath(path.strip().replace("\\", "/"))


def _find_kind(words: set[str], command: str | None) -> Literal["read", "write", "delete", "other"]:
    if words & _UNSURE:
        return "other"
    if command is not None and words & {"edit", "editor", "replace"}:  # a tool with several commands
        return "read" if command in _VIEWS else "write"
    kinds = [bool(words & each) for each in (_READING, _WRITING, _DELETING)]
    if sum(kinds) != 1:
        return "other"
    return "read" if kinds[0] else "write" if kinds[1] else "delete"


def _read_edit(args: dict[str, Any], label: str, target: str) -> ToolAction:
    edits = args.get("edits") if type(args.get("edits")) is list else [args]
    replacements: list[Replacement] = []
    for edit in edits or ():
        pair = next((names for names in _OLD_TEXTS if type(edit) is dict and names[0] in edit), None)
        if pair is not None and type(edit[pair[0]]) is str:
            new = edit.get(pair[1])
            everywhere = edit.get("replace_all") is True
            replacements.append(Replacement(edit[pair[0]], new if type(new) is str else "", everywhere))
    if replacements or args.get("insert_line") is not None or args.get("cell_id") is not None:
        return ToolAction(kind="write", label=label, target=target, replacements=tuple(replacements))
    content = next((args[each] for each in _CONTENTS if type(args.get(each)) is str), None)
    if content is None or "append" in label.lower():
        return ToolAction(label=label)  # the target changed, but the log does not say how
    return ToolAction(kind="write", label=label, target=target, content=content)


def _read_command(name: str, command: str, folder: int) -> ToolAction:
    segments = [each.strip() for each in _SEGMENTS.split(command) if each.strip()]
    starts_in = command.strip().startswith("cd /")
    moves = any(each.split()[0] in ("cd", "pushd", "popd") for each in segments)
    plain = _HARMLESS.sub("", command)
    is_plain = not any(sign in plain for sign in (">", "<<", "$(", "`", "&&&"))
    label = f"{name} {' '.join(command.split())[:80]}"
    if not segments or not is_plain or _PARTIAL.search(command) or not all(map(_is_look, segments)):
        return ToolAction(label=label, moves=moves)
    if all(each.split()[0] in ("cd", "echo") for each in segments):
        return ToolAction(label=label, moves=moves)
    key = json.dumps([name, command, 0 if starts_in else folder])
    return ToolAction(kind="read", label=label, key=key, is_check=True, moves=moves)


def _is_look(segment: str) -> bool:
    words = segment.split()
    if words[0] == "git":
        return len(words) > 1 and words[1] in _GIT_LOOKS
    if words[0] == "find" and any(each in words for each in ("-delete", "-exec")):
        return False
    return words[0] in _LOOKS or any(check.match(segment) for check in _CHECKS)


def _read_patch(patch: str) -> ToolAction:
    """A patch of one file: the lines that it takes out. Patches of several files are left alone."""
    targets = {clean_path(match[1]) for line in patch.splitlines() if (match := _PATCHED.match(line))} - {"/dev/null"}
    if len(targets) != 1:
        return ToolAction(label="apply_patch")
    (target,) = targets
    if "*** Delete File:" in patch:
        return ToolAction(kind="delete", label=f"apply_patch {target}", target=target)
    lines = patch.splitlines()
    removed = [line[1:] for line in lines if line.startswith("-") and not line.startswith("---")]
    added = {line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")}
    gone = tuple(Replacement(line, "") for line in removed if line.strip() and line not in added)
    return ToolAction(kind="write", label=f"apply_patch {target}", target=target, replacements=gone)


def _shorten_args(args: dict[str, Any]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in args.items() if type(value) in (str, int, bool))
    return text if len(text) <= 80 else f"{text[:79]}…"
