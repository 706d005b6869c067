"""`holdfast read`: read again what an agent was shown only in part, by the name that a summary or a preview gives it.

Laws: nothing is written, so a sandbox without that permission can run it beside the gateway. The text goes to standard
output as it was recorded, everything else to standard error. Only erased content cannot be read.
"""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import StyledText, escape, escape_lines, format_count, format_size, print_json, print_line
from holdfast.cli.settings import Settings, common_options, complete_session_names
from holdfast.errors import InvalidNumber
from holdfast.gateway.read_back import READ_BYTES
from holdfast.gateway.stores import default_store, describe_rows, find_only_session, find_session, shorten_session
from holdfast.model.limits import PAYLOAD_BYTES

if TYPE_CHECKING:
    import holdfast
    from holdfast.types import HandleText

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
@common_options
@click.pass_obj
def read(settings: Settings, /, handle: str, session: str | None, limit: int, **options: str | None) -> None:
    """Read a message, or a part of it, as it was recorded.

    HANDLE is as a text in the conversation names it: `h12_0` is a piece of message 12, `h12` the whole message,
    `55556666:h12_0` a piece of a message of the session whose name ends so. The file is that of the gateway, unless --file
    names another.
    """
    name, piece = _split_name(handle, session)
    ranges = _parse_range("--lines", options["lines"]), _parse_range("--bytes", options["span"])
    if not settings.has_file:
        settings.file = default_store()
    with settings.open() as engine:
        conversation = _open_session(settings, engine, name)
        body = _read_handle(conversation, piece, *ranges, search=options["search"], limit=limit)
    if settings.json:
        from holdfast.cli.documents import to_plain  # noqa: PLC0415 - only for this

        print_json({"session": conversation.scope.session, **to_plain(body)})
        return
    _print_text(body.text)
    command = f"holdfast read {shlex.quote(f'{shorten_session(conversation.scope.session)}:{piece}')}"
    print_line(StyledText(escape(_describe_reading(body, command)), "dim"), error=True)


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
