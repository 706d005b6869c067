"""Commands that look after a file as a whole: verify, rebuild, backup, copy, export, import, sweep, collect."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

import holdfast
from holdfast import errors
from holdfast.cli import shapes
from holdfast.cli.screen import Styled, emit, progress, say
from holdfast.cli.settings import Settings, common, session_names
from holdfast.cli.words import clean, count, size
from holdfast.model import limits
from holdfast.runtime.engine import DEFAULT_ACTOR
from holdfast.runtime.moving import copy as copy_store

F = TypeVar("F", bound=Callable[..., Any])

target_argument = click.argument("target", type=click.Path())
thread_option = click.option("--thread", metavar="NAME", help="Which thread of the session; with --transcript.")


def transcript_option(told: str) -> Callable[[F], F]:
    return click.option("--transcript", metavar="SESSION", shell_complete=session_names, help=told)


@click.command()
@common
@click.pass_obj
def verify(settings: Settings) -> int:
    """Compare everything with everything.

    Hash chains, heads, snapshots, rows and bodies. The exit code is 1 if something is wrong.
    """
    with settings.open() as engine, progress("verifying") as advance:
        report = engine.verify(progress=advance)
    if settings.json:
        emit({"ok": report.ok, **shapes.plain(report)})
    else:
        for problem in report.problems:
            say(Styled("bad   ", "bold red"), clean(str(problem)))
        found = count(len(report.problems), "problem") if report.problems else "all sound"
        say(f"{count(report.streams, 'stream')}, {count(report.events, 'event')}: ", Styled(found, _verdict(report.ok)))
    return 0 if report.ok else 1


def _verdict(ok: bool) -> str:
    return "bold green" if ok else "bold red"


@click.command()
@common
@click.pass_obj
def rebuild(settings: Settings) -> None:
    """Make everything that is derived from the log anew."""
    with settings.open() as engine, progress("rebuilding") as advance:
        streams = engine.rebuild(progress=advance)
    _done(settings, f"Rebuilt from the log: {count(streams, 'stream')}.", {"streams": streams})


@click.command()
@target_argument
@common
@click.pass_obj
def backup(settings: Settings, target: str) -> None:
    """Copy the file and its blobs to TARGET.

    Others may write meanwhile. TARGET must not exist.
    """
    settings.check_present()
    if settings.on_server:
        reason = "a server is backed up by its own tools (pg_dump), or copied to a file with `holdfast copy`"
        raise errors.InvalidUrl(url=settings.shown, reason=reason)
    with settings.open() as engine, progress("copying", in_bytes=True) as advance:
        engine.backup(target, progress=advance)
    total = os.path.getsize(target)
    _done(settings, f"Copied to {target} ({size(total)}).", {"target": target, "bytes": total})


@click.command()
@click.argument("source", type=click.Path())
@target_argument
@common
@click.pass_obj
def copy(settings: Settings, source: str, target: str) -> None:
    """Move house: take everything from SOURCE to TARGET.

    Each is a file or the address of a server. Others may write to SOURCE meanwhile. TARGET is made if it is not there,
    and keeps what it has. Repeat it to go on after an interruption, or to bring along what is new.
    """
    here, there = (dataclasses.replace(settings, file=file) for file in (source, target))
    with here.open() as engine, progress("copying") as advance:
        begun = not there.begun()
        copied = copy_store(engine, target, progress=advance)
    told = f"Copied {count(copied.events, 'event')} and {count(copied.bodies, 'body', 'bodies')} to {there.shown}"
    found = "a new store" if begun else f"{count(copied.already_there, 'event')} there already"
    told += f" ({found}); all of {count(copied.streams, 'stream')} compared."
    data = {"source": here.shown, "target": there.shown, **shapes.plain(copied), "created": begun}
    _done(settings, told, data)


@click.command()
@target_argument
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
@transcript_option("Only this session, one message a line, as other systems read it.")
@thread_option
@common
@click.pass_obj
def export(settings: Settings, target: str, force: bool, transcript: str | None, thread: str | None) -> None:
    """Write everything to TARGET as JSON lines.

    All tenants' events and blobs, for import elsewhere; or the transcript of one session.
    """
    _check_thread(transcript, thread)
    settings.check_present()
    if os.path.exists(target) and not force:
        raise errors.InvalidUrl(url=target, reason="the file exists; --force replaces it")
    with settings.open() as engine, progress("exporting") as advance:
        if transcript is None:
            events = engine.export(target, progress=advance)
            told, data = count(events, "event"), {"events": events}
        else:
            scope = settings.session(engine, transcript, thread).scope
            lines = engine.export_transcript(target, scope.session, actor=scope.actor, thread=scope.thread)
            told, data = f"{count(lines, 'line')} of {scope.session!r}", {"lines": lines, **shapes.plain(scope)}
    total = os.path.getsize(target)
    _done(settings, f"Exported {told} to {target} ({size(total)}).", {"target": target, **data, "bytes": total})


@click.command("import")
@click.argument("source", type=click.Path())
@transcript_option("SOURCE is the transcript of one session, of any system: take it in as a new session of this name.")
@thread_option
@common
@click.pass_obj
def import_(settings: Settings, source: str, transcript: str | None, thread: str | None) -> None:
    """Take in an export, or with --transcript what another system kept of a session.

    What is here already is passed over. The file, or the schema on a server, is made if it is not there.
    """
    _check_thread(transcript, thread)
    if not os.path.isfile(source):
        raise errors.FileAbsent(path=source)
    begun = not settings.begun()
    data: dict[str, object]
    with settings.open(create=True) as engine, progress("importing", in_bytes=True) as advance:
        if transcript is None:
            events = engine.import_(source, progress=advance)
            told, data = count(events, "new event"), {"events": events}
        else:
            actor = DEFAULT_ACTOR if settings.actor is None else settings.actor
            session = engine.import_transcript(source, transcript, actor=actor, thread=thread)
            state = session.state()
            told = f"{count(state.messages, 'message')} of {transcript!r}"
            told += f" and {count(state.late, 'piece')} of evidence" if state.late else ""
            data = {"messages": state.messages, "late": state.late, **shapes.plain(session.scope)}
    new = " (a new store)" if begun else ""
    told = f"Took {told} from {source} into {settings.shown}{new}."
    _done(settings, told, {"source": source, **data, "created": begun})


def _check_thread(transcript: str | None, thread: str | None) -> None:
    if thread is not None and transcript is None:
        raise click.UsageError("--thread goes with --transcript.")


@click.command()
@common
@click.pass_obj
def sweep(settings: Settings) -> None:
    """Time out idle sessions and frames that are out of time, and expire facts that have run out."""
    sessions: list[holdfast.Scope] = []
    frames: list[tuple[holdfast.Scope, str]] = []
    facts = 0
    with settings.open() as engine:
        while (swept := engine.sweep()) != holdfast.Swept():
            sessions += swept.sessions
            frames += swept.frames
            facts += swept.facts
    if settings.json:
        late = [{"scope": shapes.plain(scope), "frame": frame} for scope, frame in frames]
        emit({"timed_out": shapes.plain(sessions), "frames": late, "facts": facts})
        return
    for scope in sessions:
        say(clean(f"{scope.session}  (actor {scope.actor})"))
    for scope, frame in frames:
        say(clean(f"{scope.session}  frame {frame}  (actor {scope.actor})"))
    say(
        f"{count(len(sessions), 'session')} and {count(len(frames), 'frame')} timed out,"
        f" {count(facts, 'fact')} expired."
    )


@click.command()
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=limits.BLOB_GRACE_S,
    show_default=True,
    help="Seconds for which a body that nothing names is kept, since someone may be about to name it.",
)
@common
@click.pass_obj
def collect(settings: Settings, grace: float) -> None:
    """Remove bodies that no event names.

    What interrupted writes left behind goes as well.
    """
    with settings.open() as engine:
        dropped = engine.collect_blobs(grace_s=grace)
    _done(settings, f"Removed {count(dropped, 'unused body', 'unused bodies')}.", {"removed": dropped})


def _done(settings: Settings, told: str, data: dict[str, object]) -> None:
    if settings.json:
        emit(data)
    else:
        say(clean(told))
