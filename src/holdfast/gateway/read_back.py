"""How a model reads again what left its view: the words that a summary or a marker says it with.

The log has texts for the tool `read_handle`, which packs offer. A client of the gateway has a shell, an MCP server, a tool
of the gateway, or none of these, so the same texts name that here.

Laws: the words depend on the stored text and the choice alone, so a restarted gateway sends the same bytes. Quoted content
is never changed, also if it looks like a marker. A command is complete: it can be copied and run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from holdfast.gateway.stores import shorten_session
from holdfast.model import limits
from holdfast.model.history.plans import READS_BRACKETS, READS_RESULTS

ReadBackKind: TypeAlias = Literal["shell", "mcp", "tool", "none"]
"""The command `holdfast read` · the tool `read_handle` of `holdfast mcp` · the tool that the gateway adds · nothing."""
READ_TOOL = "holdfast_read"
"""The tool that the gateway adds to requests."""
READ_BYTES = 16_384
"""What the command prints at once; a longer text is read in parts."""
_LINES = "--lines 1-80"
_HANDLE = r"h\d{1,19}_\d{1,9}"
_BRACKETED = re.compile(rf"^(Called [^\n]*?) \[({_HANDLE})\](?=$|; | → )", re.MULTILINE)
_LISTED = re.compile(
    rf"^(\([\d,]+ earlier messages are out of view){re.escape(READS_RESULTS)}((?:…, )?{_HANDLE}(?:, {_HANDLE})*)\)$",
    re.MULTILINE,
)
_MARKER = re.compile(
    rf'^\[(?:… |paged out: |outdated: )[^\n]*?; (read_handle\("({_HANDLE})"\) reads (them|all of it|it))(?: …)?\]$',
    re.MULTILINE,
)
_SIZE = re.compile(r"(\d+) bytes")
_LEFT_OUT = re.compile(r"\[… (\d+) of (\d+) bytes(?: in lines \d+ to \d+)? left out; ")
_SPOOLED = re.compile(r"\[… [^\n]*?, (?:the first (\d+) and the last (\d+)|preview of (\d+)|nothing of it) ")


class ReadBack(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has to read with."""

    kind: ReadBackKind = "shell"
    session: str = ""
    """The session whose handles the texts name: for a command its short name, for MCP its whole name."""
    origins: tuple[tuple[str, int], ...] = ()
    """The sessions that it has its first events from, the oldest first: the name of each, and the last of those events."""
    command: str = "holdfast read"

    def for_handles(self, handles: Iterable[str]) -> ReadBack:
        """With the oldest session that has all of these: so a fork says what the session before it said."""
        newest = max((int(handle[1:].partition("_")[0]) for handle in handles), default=limits.WHOLE_NUMBER)
        name = next((name for name, last in self.origins if newest <= last), self.session)
        return msgspec.structs.replace(self, session=name)

    def write_command(self, handle: str, *, is_long: bool = True) -> str:
        """The command that reads a handle; the first lines of it, if it may be long."""
        name = f"{self.session}:{handle}" if self.session else handle
        return f"`{self.command} {shlex.quote(name)}{f' {_LINES}' if is_long else ''}`"


def name_session(session: str) -> str:
    """The name of a session in a command: short, and no other session has it."""
    return shorten_session(session)


def reword_texts(text: str, read_back: ReadBack) -> str:
    """The text of a summary, or of a shortened result, with the words for what the client has."""
    marker = _find_marker(text)
    if marker is not None:
        start, end = marker.span(1)
        return f"{text[:start]}{_reword_marker(marker, read_back.for_handles([marker[2]]))}{text[end:]}"
    listed = _LISTED.search(text)
    listed_handles = [] if listed is None else re.findall(_HANDLE, listed[2])
    read_back = read_back.for_handles([*(found[2] for found in _BRACKETED.finditer(text)), *listed_handles])
    if READS_BRACKETS in text.partition("\n")[0]:
        text = _reword_excerpts(text, read_back)
    listed = _LISTED.search(text)
    if listed is None:
        return text
    return f"{text[: listed.end(1)]}{_reword_list(listed[2], text[: listed.start()], read_back)}){text[listed.end() :]}"


def _find_marker(text: str) -> re.Match[str] | None:
    """The marker in the text of a shortened result: the one whose numbers fit what stands before and behind it."""
    matches = list(_MARKER.finditer(text))
    for match in matches:
        head, tail = text[: max(0, match.start() - 1)], text[match.end() + 1 :]
        if _has_fitting_numbers(match[0], len(head.encode()), len(tail.encode())):
            return match
    first = matches[0] if matches and matches[0].start() == 0 else None
    return first if first is not None and _LEFT_OUT.match(first[0]) else None  # above the lines that are shown


def _has_fitting_numbers(line: str, head: int, tail: int) -> bool:
    if line.startswith(("[paged out: ", "[outdated: ")):
        return head == tail == 0
    if left := _LEFT_OUT.match(line):
        return int(left[1]) + head + tail == int(left[2])
    if spooled := _SPOOLED.match(line):
        first, last, start = (int(number or 0) for number in spooled.groups())
        return (first + start, last) == (head, tail)
    return False


def _reword_marker(marker: re.Match[str], read_back: ReadBack) -> str:
    handle, what = marker[2], marker[3]
    match read_back.kind:
        case "shell":
            size = _SIZE.search(marker[0])
            command = read_back.write_command(handle, is_long=size is not None and int(size[1]) > READ_BYTES)
            return f"run {command} to read {what}"
        case "mcp":
            return f'the MCP tool read_handle(session="{read_back.session}", handle="{handle}") reads {what}'
        case "tool":
            return f'{READ_TOOL}("{handle}") reads {what}'
    unreadable = {"them": "they cannot be read here", "it": "it cannot be read here"}
    return unreadable.get(what, "the rest cannot be read here")


def _reword_excerpts(text: str, read_back: ReadBack) -> str:
    """The text of a summary that names results in brackets. The first of them is the example."""
    first = _BRACKETED.search(text)
    if first is None or read_back.kind == "none":
        return _BRACKETED.sub(r"\1", text.replace(READS_BRACKETS, "", 1))
    match read_back.kind:
        case "shell":
            command = read_back.write_command(first[2])
            words = f"; a name in [brackets] is a result: the shell command {command} reads {first[2]}"
        case "mcp":
            words = (
                f'; the MCP tool read_handle, with session="{read_back.session}", reads the results named in [brackets]'
            )
        case _:
            words = f"; {READ_TOOL} reads the results named in [brackets]"
    return text.replace(READS_BRACKETS, words, 1)


def _reword_list(handles: str, before: str, read_back: ReadBack) -> str:
    """The end of the line for messages that left without a summary."""
    match read_back.kind:
        case "shell":
            last = handles.rpartition(", ")[2]
            command = read_back.write_command(last)
            if f"`{read_back.command} " in before.partition("\n")[0]:
                return f"; the same command reads their results: {handles}"
            return f"; the shell command {command} reads {last}, one of their results: {handles}"
        case "mcp":
            return f'; the MCP tool read_handle, with session="{read_back.session}", reads their results: {handles}'
        case "tool":
            return f"; {READ_TOOL} reads their results: {handles}"
    return ""
