"""`holdfast inspect`: the inspector in the browser, on a store, a server or the log of an agent; or a session as one file.

Laws: a store is served on loopback only, with a token of this process, and nothing in it changes unless somebody asks for
it on the page. An exported file is redacted unless that is refused. A log is replayed into a scratch store, which ends with
the command.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from holdfast import errors
from holdfast.access.access import RIGHTS
from holdfast.cli import documents
from holdfast.cli.output import format_count, print_json, print_line
from holdfast.cli.settings import Settings, common_options
from holdfast.inspector.redaction import MODES
from holdfast.model.history.plans import Faithful, check_policy
from holdfast.storage.addresses import POSTGRES_SCHEMES, mask_address

if TYPE_CHECKING:
    from holdfast.inspector.collection import SessionRef
    from holdfast.inspector.export import ExportReport, ExportRequest
    from holdfast.inspector.logs import LogReport
    from holdfast.server.settings import ServerSettings

KEY_VARIABLE = "HOLDFAST_KEY"
"""The environment variable with the key of a server."""
TIME_VARIABLE = "SOURCE_DATE_EPOCH"
"""The environment variable with the time that an exported file names, in seconds: for a file with the same bytes."""
SERVER_SCHEMES = ("http://", "https://")
_FILE_ENDS = (".db", ".sqlite", ".sqlite3", ".jsonl", ".json", ".ndjson")
_SQLITE_START = b"SQLite format 3\0"
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Target:
    """What to inspect: a store, the address of a server, or a log; and a session in it."""

    store: str = ""
    server: str = ""
    log: str = ""
    session: str = ""
    thread: str = ""


@click.command()
@click.argument("targets", nargs=-1, metavar="[STORE|LOG|URL] [SESSION]")
@click.option("-o", "--output", metavar="FILE", help="Write the session to one HTML file, and open nothing.")
@click.option(
    "--redact",
    type=click.Choice(MODES),
    default="secrets",
    show_default=True,
    help="What the file replaces: credentials and personal data, all texts, or nothing.",
)
@click.option(
    "--permission", metavar="NAME", multiple=True, help="Write facts that need this permission, too.  [default: none]"
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--thread", metavar="NAME", default="", help="The thread of the session.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default=True,
    help="The port on 127.0.0.1; 0: any free one.",
)
@click.option("--open/--no-open", "opens", default=True, help="Open the browser, or print the address only.")
@click.option("--read-only", is_flag=True, help="Offer nothing that changes the store.")
@click.option("--model", metavar="NAME", help="The model of a log that names none: for its prices and its window.")
@click.option(
    "--policy",
    type=click.Choice(["faithful", "frugal", "classic"]),
    default="faithful",
    show_default=True,
    help="How Holdfast would have shortened the conversation of a log.",
)
@common_options
@click.pass_obj
def inspect(settings: Settings, /, targets: tuple[str, ...], thread: str, output: str | None, **options: Any) -> None:
    """Show in the browser what the model saw, why, and its cost.

    STORE is a file or postgresql://…; it is served on 127.0.0.1, for this run of the command and with a token of its own.
    LOG is a conversation of another program, such as a session.jsonl of Claude Code: it is replayed, and what it cost is
    compared with what Holdfast would have sent. URL is the address of a server (`holdfast serve`); its key is read from
    HOLDFAST_KEY. SESSION is the name of a session. With --json, a log is reported as JSON, and nothing is opened.

    With -o, the session is written to one HTML file, which opens without a network. Credentials and personal data that
    can be recognized are replaced: read the file before you send it.
    """
    target = read_targets(settings, targets, thread)
    if output is not None and not target.session and not target.log:
        raise click.UsageError("A file shows one session. Name it: holdfast inspect SESSION -o FILE")
    if target.server:
        _use_server(settings, target, output, options)
    elif target.log:
        with _replay(target, options) as (scratch, report):
            if settings.json and output is None:
                print_json(documents.to_plain(report))
                return
            if not settings.json:
                print_line(_describe_report(report))
            replayed = Target(store=scratch, session=report.session)
            _use_store(Settings(file=scratch, json=settings.json), replayed, output, options)
    else:
        settings.file = target.store or settings.file
        settings.check_exists()
        _use_store(settings, target, output, options)


# What to inspect


def read_targets(settings: Settings, words: tuple[str, ...], thread: str = "") -> Target:
    """Tell stores, logs, addresses and names of sessions apart."""
    source, session = "", ""
    for word in words:
        if _is_source(word) and not source:
            source = word
        elif not session:
            session = word
        else:
            raise click.UsageError("Pass at most one store, log or URL, and one session.")
    file = source or settings.file
    if file.startswith(SERVER_SCHEMES):
        return Target(server=file, session=session, thread=thread)
    if os.path.isfile(source) and os.path.getsize(source) and not _is_sqlite(source):
        return Target(log=source, session=session)
    return Target(store=source, session=session, thread=thread)


def _is_source(word: str) -> bool:
    """Whether a word names a store, a log or a server, and not a session."""
    if word.startswith((*SERVER_SCHEMES, *POSTGRES_SCHEMES, "sqlite:///", "/", "./", "../")):
        return True
    return os.path.exists(word) or word.lower().endswith(_FILE_ENDS)


def _is_sqlite(path: str) -> bool:
    try:
        with open(path.removeprefix("sqlite:///"), "rb") as file:
            return file.read(len(_SQLITE_START)) == _SQLITE_START
    except OSError:
        return False


@contextlib.contextmanager
def _replay(target: Target, options: dict[str, Any]) -> Iterator[tuple[str, LogReport]]:
    """Replay a log into a scratch store, which ends with the block. Yields its file, and the report."""
    from holdfast.inspector.logs import LogClock, open_scratch, replay_log  # noqa: PLC0415 - large

    with tempfile.TemporaryDirectory(prefix="holdfast-log-") as folder:
        path = os.path.join(folder, "log.db")
        clock = LogClock()
        with open_scratch(path, clock, policy=check_policy(options["policy"], Faithful())) as engine:
            report = replay_log(
                target.log, engine, clock=clock, session=target.session or None, model=options["model"] or ""
            )
        yield path, report


def _describe_report(report: LogReport) -> str:
    from holdfast.inspector.logs import format_report  # noqa: PLC0415 - large

    return format_report(report)


# A store


def _use_store(settings: Settings, target: Target, output: str | None, options: dict[str, Any]) -> None:
    """Serve a store for this run of the command, and open its page; or write a session of it to a file."""
    try:
        from holdfast.server import run  # noqa: PLC0415 - an extra
        from holdfast.server.settings import ServerSettings  # noqa: PLC0415
    except ImportError as error:
        raise errors.ExtraMissing(what="holdfast inspect", extra="inspector") from error
    is_read = options["read_only"] or output is not None
    chosen = ServerSettings(
        store=settings.file,
        port=options["port"],
        local_tenant=settings.tenant,
        local_actor=settings.actor,
        local_rights=("read", "admin") if output is not None else ("read",) if is_read else RIGHTS,
        grace_s=0,
    )
    ref = _find_ref(settings, target) if target.session else None
    if output is not None and ref is not None:
        _report(settings, run.export_store(chosen, _build_export(ref, output, options)))
        return

    def announce(started: ServerSettings) -> None:
        url = f"http://{started.host}:{started.port}/#key={started.token}{_link(ref)}"
        if not settings.json:
            print_line(f"The inspector shows {mask_address(started.store)}. Ctrl-C ends it.")
        _show(settings, url, opens=options["opens"])

    run.serve_owner(chosen, announce=announce, log_level="error")


def _find_ref(settings: Settings, target: Target) -> SessionRef:
    """The session of the name, of whichever actor has it, if only one has."""
    from holdfast.inspector.collection import SessionRef  # noqa: PLC0415 - an extra

    with settings.open() as engine:
        scope = settings.find_session(engine, target.session, target.thread or None).scope
    return SessionRef(session=scope.session, actor=scope.actor, thread=scope.thread or "")


# A server


def _use_server(settings: Settings, target: Target, output: str | None, options: dict[str, Any]) -> None:
    """Open the page of a server that runs, or write a session of it to a file."""
    try:
        from holdfast.inspector.collection import SessionRef  # noqa: PLC0415 - an extra
        from holdfast.inspector.export import open_client, run_export  # noqa: PLC0415
    except ImportError as error:
        raise errors.ExtraMissing(what="holdfast inspect URL", extra="client") from error
    key = os.environ.get(KEY_VARIABLE, "")
    ref = SessionRef(session=target.session, actor=settings.actor or "", thread=target.thread)
    if output is not None:
        request = _build_export(ref, output, options)
        _report(settings, run_export(lambda: open_client(target.server, key, TIMEOUT_S), request))
        return
    address = target.server.partition("#")[0].rstrip("/") + "/"
    link = _link(ref if target.session else None)
    fragment = f"#key={quote(key, safe='')}{link}" if key else f"#{link.removeprefix('&to=')}" if link else ""
    _show(settings, address + fragment, opens=options["opens"])


# Output


def _build_export(ref: SessionRef, output: str, options: dict[str, Any]) -> ExportRequest:
    from holdfast.inspector.export import ExportRequest  # noqa: PLC0415 - an extra

    if os.path.exists(output) and not options["force"]:
        raise errors.InvalidUrl(url=output, reason="the file exists; --force replaces it")
    return ExportRequest(
        ref=ref,
        target=output,
        made_at=_read_time(),
        redaction=options["redact"],
        permissions=options["permission"],
        replace=options["force"],
    )


def _read_time() -> str:
    """The time of the file: now, or what the environment says."""
    text = os.environ.get(TIME_VARIABLE, "")
    seconds = int(text) if text.isdecimal() else int(time.time())
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _link(ref: SessionRef | None) -> str:
    """What the fragment of the address says about the session to show."""
    if ref is None:
        return ""
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in ref.query.items())
    return "&to=" + quote(f"/s/{quote(ref.session, safe='')}{'?' if query else ''}{query}", safe="/")


def _show(settings: Settings, url: str, *, opens: bool) -> None:
    if settings.json:
        print_json({"url": url})
    else:
        print_line(url)
    if opens and not webbrowser.open(url):
        print_line("No browser could be opened: open the address yourself.", error=True)


def _report(settings: Settings, report: ExportReport) -> None:
    if settings.json:
        print_json({name: getattr(report, name) for name in report.__struct_fields__})
        return
    print_line(f"{report.file}: {format_count(report.answers, 'answer')}, {report.size:,} bytes")
    if report.redacted:
        print_line("Replaced: " + ", ".join(f"{count} {kind}" for kind, count in report.redacted.items()))
    if report.withheld:
        print_line(f"Withheld: {format_count(report.withheld, 'value')} of facts that need a permission (--permission)")
    if report.left_out:
        print_line(f"Left out: {format_count(report.left_out, 'answer')}; the file says which")
    print_line("Read the file before you send it: what nobody can recognize is still in it.")
