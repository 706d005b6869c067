"""`holdfast read`: read again what an agent was shown only in part, by the name that a summary or a preview gives it.

Laws: nothing is written but the file that `--output` names, so a sandbox without that permission can run it beside the
gateway. The text goes to standard output as it was recorded, everything else to standard error. An image is no text: its
bytes are printed only if they are asked for. Only erased content cannot be read.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import StyledText, escape, escape_lines, format_count, format_size, print_json, print_line
from holdfast.cli.settings import Settings, complete_session_names, gateway_options
from holdfast.errors import InvalidArgument, InvalidNumber
from holdfast.gateway.read_back import READ_BYTES
from holdfast.gateway.stores import default_store, describe_rows, find_only_session, find_session, shorten_session
from holdfast.model.limits import PAYLOAD_BYTES

if TYPE_CHECKING:
    import holdfast
    from holdfast import BlobRef
    from holdfast.types import HandleText

_ALL: tuple[int | None, int | None] = (None, None)
_NAMED_FILE = re.compile(r"^\[[^\n]{1,200}, \d+ bytes\]$", re.MULTILINE)
"""How a reading names what is not text."""
_RANGE = re.compile(r"([0-9]{0,18})[-:]([0-9]{0,18})")
_MAX_SUGGESTIONS = 10
_ARGUMENTS = {"first_line": "--lines", "last_line": "--lines", "start": "--bytes", "stop": "--bytes"}
"""The options that set the arguments of a reading."""


@click.command()
@click.argument("handle")
@click.option(
    "--session",
    metavar="NAME",
    envvar="HOLDFAST_SESSION",
    show_envvar=True,
    shell_complete=complete_session_names,
    help="The session, or 8 or more characters of its name; also before the handle, with a colon.",
)
@click.option("--lines", metavar="FROM-TO", help="Only these lines, counted from 1; -20 for the last 20.")
@click.option(
    "--bytes", "span", metavar="FROM-TO", help="Only these bytes, counted from 0, without TO; -500 for the last."
)
@click.option(
    "--search", metavar="TEXT", help="Only lines that contain this text, and those around them; case is ignored."
)
@click.option(
    "--limit",
    type=click.IntRange(64, PAYLOAD_BYTES),
    default=READ_BYTES,
    show_default=True,
    help="The maximum number of bytes.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write all of it to a file: its images and other files, else its text."
)
@gateway_options
@click.pass_obj
def read(settings: Settings, /, handle: str, session: str | None, limit: int, **options: str | None) -> None:
    """Read a message, or a part of it, as it was recorded.

    HANDLE is as a text in the conversation names it: `h12_0` is a piece of message 12, `h12` the whole message,
    `55556666:h12_0` a piece of a message of the session whose name ends so. The file is that of the gateway, unless --file
    names another.
    """
    name, piece = _split_name(handle, session)
    ranges = _parse_range("--lines", options["lines"]), _parse_range("--bytes", options["span"])
    output, search = options["output"], options["search"]
    if output is not None and (ranges != (_ALL, _ALL) or search is not None or limit != READ_BYTES):
        raise click.UsageError("--output writes all of it: leave out --lines, --bytes, --search and --limit.")
    if not settings.has_file:
        settings.file = default_store()
    with settings.open() as engine:
        conversation = _open_session(settings, engine, name)
        command = f"holdfast read {shlex.quote(f'{shorten_session(conversation.scope.session)}:{piece}')}"
        if output is not None:
            paths = _write_files(engine, conversation, piece, output)
            _print_files(settings, conversation.scope.session, paths)
            return
        body = _read_handle(conversation, piece, *ranges, search=search, limit=limit)
        has_files = _NAMED_FILE.search(body.text) is not None and bool(_find_files(conversation, piece))
    if body.is_binary and ranges[1] == _ALL:
        kind = body.media_type or "binary"
        reason = (
            f"{piece} is not text: {kind}, {format_size(body.size)}. `{command} --output FILE` writes it to a file; "
            "--bytes 0-100 prints bytes as hexadecimal digits"
        )
        raise InvalidArgument(argument="handle", reason=reason)
    if settings.json:
        from holdfast.cli.documents import to_plain  # noqa: PLC0415 - only for this

        print_json({"session": conversation.scope.session, **to_plain(body)})
        return
    _print_text(body.text)
    files = f" {command} --output FILE writes what is not text to a file" if has_files else ""
    print_line(StyledText(escape(f"{_describe_reading(body, command)}{files}"), "dim"), error=True)


def _split_name(handle: str, session: str | None) -> tuple[str | None, str]:
    """The session and the handle that a text names. Brackets and quotation marks around it may have been copied."""
    name, separator, piece = handle.strip(" \t\"'`[]()").rpartition(":")
    if separator and not name:
        raise click.UsageError("The name of the session before the colon is missing.")
    return (name or session or None), piece


def _open_session(settings: Settings, engine: holdfast.Engine, name: str | None) -> holdfast.Session:
    if name is not None:
        return find_session(engine, name, actor=settings.actor)
    only = find_only_session(engine, actor=settings.actor)
    if only is not None:
        return only
    recent = engine.sessions(actor=settings.actor, order="recent", limit=_MAX_SUGGESTIONS)
    raise click.UsageError(f"Name the session with --session. There are: {describe_rows(recent) or 'none'}.")


def _read_handle(
    session: holdfast.Session,
    handle: str,
    lines: tuple[int | None, int | None],
    span: tuple[int | None, int | None],
    *,
    search: str | None,
    limit: int,
) -> HandleText:
    from holdfast.flows.history.handle_text import read_recorded  # noqa: PLC0415 - the options are checked before

    flow = read_recorded(
        session._context,
        handle,
        start=span[0],
        stop=span[1],
        first_line=lines[0],
        last_line=lines[1],
        search=search,
        limit=limit,
    )
    try:
        body: HandleText = session._drive(flow)
    except InvalidNumber as error:
        what = _ARGUMENTS.get(error.what, error.what)
        raise InvalidNumber(what=what, value=error.value, low=error.low, high=error.high) from error
    return body


def _find_files(session: holdfast.Session, handle: str) -> tuple[BlobRef, ...]:
    from holdfast.flows.history.handle_text import find_files  # noqa: PLC0415 - the same

    return session._drive(find_files(session._context, handle))


def _write_files(engine: holdfast.Engine, session: holdfast.Session, handle: str, output: str) -> list[str]:
    """Write what is not text to files, else the text to one. No file is replaced."""
    bodies: list[Iterable[bytes]] = [engine.blobs.chunks(ref) for ref in _find_files(session, handle)]
    bodies = bodies or [_iterate_text(session, handle)]
    stem, suffix = os.path.splitext(output)
    paths = [output, *(f"{stem}-{number}{suffix}" for number in range(2, len(bodies) + 1))]
    for path in paths:
        if os.path.lexists(path):
            raise InvalidArgument(argument="--output", reason=f"{path!r}: the file exists; choose another name")
    for path, chunks in zip(paths, bodies, strict=True):
        with open(path, "xb") as file:
            file.writelines(chunks)
    return paths


def _iterate_text(session: holdfast.Session, handle: str) -> Iterator[bytes]:
    start: int | None = 0
    while start is not None:
        body = _read_handle(session, handle, _ALL, (start, None), search=None, limit=PAYLOAD_BYTES)
        yield body.text.encode()
        start = body.stop if body.more else None


def _print_files(settings: Settings, session: str, paths: list[str]) -> None:
    if settings.json:
        print_json({"session": session, "files": paths})
        return
    for path in paths:
        print_line(escape(path))


def _print_text(text: str) -> None:
    if sys.stdout.isatty():
        text = "\n".join(escape_lines(text))
    if text:
        click.echo(text, nl=not text.endswith("\n"), color=True)


def _describe_reading(body: HandleText, command: str) -> str:
    """Describe the part that was read, and the command that reads the next part."""
    part = "" if body.lines is None else "lines {} to {} of ".format(*body.lines)
    matches = "" if body.matches is None else f" {format_count(body.matches, 'matching line')}."
    more = re.sub(r"\bfirst_line=(\d+)", rf"{command} --lines \1-", body.more)
    more = re.sub(r"\bstart=(\d+)", rf"{command} --bytes \1-", more)
    return f"{body.handle}: {part}{format_size(body.size)} in all.{matches}{' ' if more else ''}{more}"


def _parse_range(option: str, text: str | None) -> tuple[int | None, int | None]:
    """Parse "3-10", "3-", "7" for one number, or "-20" for the last ones."""
    if text is None:
        return None, None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return int(text[:18]), int(text[:18]) + (option == "--bytes")
    match = _RANGE.fullmatch(text)
    if match is None or not any(match.groups()):
        raise click.UsageError(f"{option} takes two numbers, such as 10-20, not '{escape(text)}'.")
    first, last = (int(number) if number else None for number in match.groups())
    return (-last, None) if first is None and last and "-" in text else (first, last)
