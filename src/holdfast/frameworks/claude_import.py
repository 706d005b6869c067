"""Import the logs that Claude Code keeps in ~/.claude/projects. The Claude Agent SDK is not needed.

    <project>/<session>.jsonl                        a session
    <project>/<session>/subagents/**/agent-<id>.jsonl  a sub-agent of it, with agent-<id>.meta.json
    <project>/agent-<id>.jsonl                       a sub-agent, as older versions wrote it

Laws: every line is stored as it is, also one that is no JSON; importing again stores only what is new.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

import holdfast
from holdfast.errors import FileAbsent, ImportRefused
from holdfast.frameworks.claude_agents import name_agent
from holdfast.frameworks.claude_entries import LogName
from holdfast.frameworks.claude_lines import Line, is_log_line, line_id
from holdfast.frameworks.claude_logs import ClaudeLog
from holdfast.storage.files import translate_os_errors

_LOOKS = 50
"""How many lines are read to find out what a file is."""
_BATCH = 1_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DEFAULT_PROJECT = "main"


class ImportedLogs(msgspec.Struct):
    """What was imported."""

    sessions: int = 0
    """Sessions, and sub-agents of them, whose logs were read."""
    subagents: int = 0
    lines: int = 0
    """New lines."""
    messages: int = 0
    """New messages."""
    broken: int = 0
    """New lines that are no JSON objects. They are kept as entries."""


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a log of Claude Code, or a folder has one."""
    target = Path(path)
    if target.is_dir():
        return any(True for _ in find_logs(target))
    return target.suffix == ".jsonl" and any(is_log_line(line) for _, line in _read_head(target))


def find_logs(folder: Path) -> Iterator[Path]:
    """The logs in a folder and below it, sessions before their sub-agents."""
    files = sorted(folder.rglob("*.jsonl"), key=lambda path: (path.stem.startswith("agent-"), str(path)))
    return (path for path in files if path.is_file() and is_log(path))


def import_logs(
    engine: holdfast.Engine,
    path: str | os.PathLike[str],
    *,
    actor: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> ImportedLogs:
    """Import a log of Claude Code with its sub-agents, or all logs in a folder.

    A session has the name that it has in Claude Code, and the folder of its project as its actor, unless `actor` names
    another. Sub-agents are frames of their session. Raises ImportRefused if there is no log. `progress` is called with the
    size of each file."""
    target = Path(path)
    if not target.exists():
        raise FileAbsent(path=str(path))
    if target.is_dir():
        files = list(find_logs(target))
    else:
        files = [target, *find_logs(target.with_suffix(""))] if is_log(target) else []
    if not files:
        raise ImportRefused(line=1, reason="it is not a log of Claude Code")
    imported = ImportedLogs()
    for name, named in _group_files(files, actor).items():
        main = ClaudeLog(engine, name)
        main.hold()
        parents = {_read_parent(file) for _, file in named}
        logs = {path: main.agent(path) if path else main for path, _ in named}
        for path, log in logs.items():
            if path and name_agent(path) in parents:
                log.hold()
        for path, file in named:
            _import_file(logs[path], file, imported)
            if progress is not None:
                progress(file.stat().st_size)
        for log in logs.values():
            log.end()
    return imported


def _group_files(files: Iterable[Path], actor: str | None) -> dict[LogName, list[tuple[str, Path]]]:
    """The files of each session, with their subpaths: the session, and its sub-agents, each after the one that started
    it."""
    found: dict[LogName, list[tuple[str, Path]]] = {}
    for file in files:
        name = _name_log(file, actor)
        found.setdefault(name._replace(subpath=""), []).append((name.subpath, file))
    for named in found.values():
        parents = {name_agent(path): _read_parent(file) for path, file in named if path}
        named.sort(key=lambda each: _depth_of(each[0], parents))
    return found


def _depth_of(path: str, parents: dict[str, str]) -> int:
    """How many sub-agents are above one; -1 for the session."""
    above: list[str] = []
    agent = name_agent(path) if path else ""
    while (agent := parents.get(agent, "")) and agent not in above:
        above.append(agent)
    return len(above) if path else -1


def _read_parent(file: Path) -> str:
    """The id of the sub-agent that started the one of a file; empty if the session did."""
    described = next((_parse(content) for number, content in _read_sidecar(file) if number == 0), None)
    parent = (described or {}).get("parentAgentId")
    return parent if type(parent) is str else ""


def _import_file(log: ClaudeLog, file: Path, imported: ImportedLogs) -> None:
    stored = log.load() or []
    session = log.session()
    messages = session.state().messages if session is not None else 0
    uuids = {line_id(line) for line in stored}
    others = collections.Counter(_digest(line) for line in stored if not line_id(line))
    log.note_ends(stored)
    batch: list[Line] = []
    keys: list[str] = []
    seen: collections.Counter[str] = collections.Counter()
    for number, content in _read_contents(file):
        line = _parse(content)
        if line is None:
            imported.broken += _keep_broken(log, number, content)
        elif line_id(line):
            if line_id(line) not in uuids:
                batch.append(line)
                keys.append("")
                uuids.add(line_id(line))
        else:
            digest = _digest(line)
            seen[digest] += 1
            if seen[digest] > others[digest]:
                batch.append(line)
                keys.append(_name_other(log, digest, seen[digest]))
        if len(batch) == _BATCH:
            imported.lines += len(batch)
            log.append(batch, keys=keys)
            batch, keys = [], []
    imported.lines += len(batch)
    log.append(batch, keys=keys)
    log.follow()  # also what an import that was killed has stored
    session = log.session()
    imported.messages += (session.state().messages if session is not None else 0) - messages
    imported.sessions += not log.name.subpath
    imported.subagents += bool(log.name.subpath)


def _name_log(file: Path, actor: str | None) -> LogName:
    """The name of the log of a file, from its path, or else from its lines."""
    parts = file.absolute().parts
    at = len(parts) - 1 - parts[::-1].index("subagents") if "subagents" in parts[:-1] else 0
    if at >= 2:
        subpath = "/".join([*parts[at:-1], file.stem])
        return LogName(actor or _name_project(parts[at - 2]), parts[at - 1], subpath)
    session = next((line["sessionId"] for _, line in _read_head(file) if type(line.get("sessionId")) is str), file.stem)
    project = actor or _name_project(file.absolute().parent.name)
    if file.stem.startswith("agent-"):
        return LogName(project, session, f"subagents/{file.stem}")
    return LogName(project, file.stem if _UUID.fullmatch(file.stem) else session)


def _name_project(folder: str) -> str:
    """The project of a folder: Claude Code names its folders after paths, beginning with a hyphen or a drive."""
    return folder if folder.startswith("-") or re.match(r"[A-Za-z]--", folder) else _DEFAULT_PROJECT


def _read_contents(file: Path) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank, with its number, and the file beside the log of a sub-agent. A last line that is not
    complete is left for the next import: Claude Code may still be writing it."""
    number = 0
    yield from _read_sidecar(file)
    with translate_os_errors(str(file)), open(file, "rb") as lines:
        for number, content in enumerate(lines, 1):
            is_whole = content.endswith(b"\n") or _parse(content) is not None
            if content.strip() and is_whole:
                yield number, content.strip()


def _read_sidecar(file: Path) -> Iterator[tuple[int, bytes]]:
    """What Claude Code notes of a sub-agent beside its log, as the line that the SDK makes of it."""
    sidecar = file.with_suffix(".meta.json")
    if sidecar.is_file():
        with translate_os_errors(str(sidecar)):
            described = _parse(sidecar.read_bytes())
        if described is not None:
            yield 0, json.dumps({**described, "type": "agent_metadata"}).encode()


def _read_head(file: Path) -> Iterator[tuple[int, Line]]:
    for number, content in _read_contents(file):
        line = _parse(content)
        if line is not None:
            yield number, line
        if number >= _LOOKS:
            return


def _parse(content: bytes) -> Line | None:
    try:
        line = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return line if type(line) is dict else None


def _digest(line: Line) -> str:
    return hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest()


def _name_other(log: ClaudeLog, digest: str, number: int) -> str:
    """The key of a line without a uuid: the same in each process that imports the file."""
    name = f"{log.name.subpath}/{digest}/{number}"
    return f"line-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _keep_broken(log: ClaudeLog, number: int, content: bytes) -> int:
    """Keep a line that is no JSON object. Returns 1 if it is new."""
    session = log.open()
    key = f"{log.name.subpath}{number}-{hashlib.sha256(content).hexdigest()[:32]}"
    if session.entries.get(key) is not None:
        return 0
    session.entries.append("claude.broken", key, content)
    return 1
