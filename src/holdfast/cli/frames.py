"""`holdfast frames`, `suspended`, `resume` and `recover`: what is being worked on, what rests, and what was left behind.

Laws: a token comes in by standard input and goes nowhere; what nobody knows the outcome of is told first.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, get_args

import click

import holdfast
from holdfast.cli import shapes
from holdfast.cli.screen import FRAMES, TOKENS, Column, Styled, emit, say, table, tree
from holdfast.cli.sessions import limit_option, session_argument, thread_option
from holdfast.cli.settings import PAGE, PRINCIPAL, Settings, common, resting, session_names
from holdfast.cli.words import ago, clean, count, short, span
from holdfast.model.frames import FrameStatus, frame_seq

GOAL_CHARS = 80
PENDING_CHARS = 160
BAR_CELLS = 12
TOKEN_CHARS = 1_000
"""More than any token has: what is longer is none, and is not read to its end."""

_LEGEND = "#: used  r: reserved  =: granted to children  .: free  !: overdrawn"
_COLUMNS = (
    Column("FRAME", whole=True),
    Column("STATUS", whole=True),
    Column("BUDGET", whole=True),
    Column("USED", right=True, whole=True),
    Column("TOOLS", right=True, whole=True),
    Column("READ", right=True, whole=True),
    Column("WROTE", right=True, whole=True),
    Column("TIME", whole=True),
    Column("GOAL"),
)
_SUSPENDED = (
    Column("SESSION"),
    Column("ACTOR"),
    Column("THREAD"),
    Column("FRAME", whole=True),
    Column("TOKEN", whole=True),
    Column("SINCE", whole=True),
    Column("UNTIL", whole=True),
    Column("BY"),
    Column("OR FOR"),
    Column("REASON"),
)

Wanted: TypeAlias = FrameStatus | Literal["live"]

principal_option = click.option(
    "--principal", metavar="NAME", default=PRINCIPAL, show_default=True, help="In whose name."
)


class Chosen(NamedTuple):
    """The frames to show, oldest first, and how many there are in all."""

    frames: list[holdfast.FrameState]
    of: int


@click.command()
@session_argument
@thread_option
@click.option("--status", type=click.Choice(["live", *get_args(FrameStatus)]), help="Only these.")
@limit_option(100)
@common
@click.pass_obj
def frames(settings: Settings, session: str, thread: str | None, status: Wanted | None, limit: int) -> None:
    """Show the frames of a session as a tree, live and past.

    If there are more than --limit, the live ones and the newest of the others; those above them are always shown.
    """
    with settings.open() as engine:
        found = settings.session(engine, session, thread)
        chosen = _chosen(found, status, limit)
        if settings.json:
            for frame in chosen.frames:
                emit(shapes.frame(found.scope, frame))
            return
        shown = _with_ancestors(found, chosen.frames)
    if not shown:
        say(clean(f"No frames{f' that are {status}' if status else ''} in the session {session!r}."))
        return
    _draw(shown)
    left_out = chosen.of - sum(status in (None, frame.status) or (status == "live" and frame.live) for frame in shown)
    if left_out:
        say(Styled(f"… and {left_out:,} more. --limit 0 shows all.", "dim"), error=True)


def _pages(session: holdfast.Session, status: Wanted | None) -> Iterator[holdfast.FrameState]:
    last: str | None = None
    while page := session.frames(status=status, after=last, limit=PAGE):
        yield from page
        last = page[-1].id


def _chosen(session: holdfast.Session, status: Wanted | None, limit: int) -> Chosen:
    """Of too many, the newest, and the live ones before all others. No more of them are held than are shown."""
    live: deque[holdfast.FrameState] = deque(maxlen=limit or None)
    past: deque[holdfast.FrameState] = deque(maxlen=limit or None)
    seen = 0
    for frame in _pages(session, status):
        seen += 1
        (live if frame.live else past).append(frame)
    room = limit - len(live) if limit else len(past)
    newest = list(past)[len(past) - min(room, len(past)) :]
    kept = sorted((*live, *newest), key=lambda frame: frame_seq(frame.id))
    return Chosen(kept, seen)


def _with_ancestors(session: holdfast.Session, chosen: list[holdfast.FrameState]) -> list[holdfast.FrameState]:
    """A tree has no holes: what stands above a frame is fetched if it is not there."""
    known = {frame.id: frame for frame in chosen}
    for frame in chosen:
        above = frame.parent
        while above is not None and above not in known:
            known[above] = session.get_frame(above).state()
            above = known[above].parent
    return sorted(known.values(), key=lambda frame: frame_seq(frame.id))


def _draw(shown: list[holdfast.FrameState]) -> None:
    children: dict[str | None, list[holdfast.FrameState]] = {}
    for frame in shown:
        children.setdefault(frame.parent, []).append(frame)
    now_us = time.time_ns() // 1_000
    drawn = tree(children.get(None, []), lambda frame: children.get(frame.id, []))
    table(_COLUMNS, (_cells(frame, branch, now_us) for frame, branch in drawn))
    say(Styled(_LEGEND, "dim"))


def _cells(frame: holdfast.FrameState, branch: str, now_us: int) -> list[str | Styled]:
    budget, usage = frame.budget, frame.usage
    return [
        Styled(branch + frame.id, "bold" if frame.live else "dim"),
        Styled(frame.status, FRAMES.get(frame.status, "dim")),
        Styled(budget_bar(budget), "red" if budget.overdrawn else ""),
        f"{budget.used:,} of {budget.total:,}",
        _tools(frame),
        f"{usage.input_tokens:,}" if usage.input_tokens else "",
        f"{usage.output_tokens:,}" if usage.output_tokens else "",
        _time_left(frame, now_us),
        short(frame.goal, GOAL_CHARS),
    ]


def _tools(frame: holdfast.FrameState) -> str:
    most = frame.limits.max_tool_calls
    if most is not None:
        return f"{frame.tool_calls:,} of {most:,}"
    return f"{frame.tool_calls:,}" if frame.tool_calls else ""


def _time_left(frame: holdfast.FrameState, now_us: int) -> Styled:
    """Until its deadline; the time of a frame that rests stands still."""
    rest = frame.suspension
    if rest is not None and rest.remaining_us is not None:
        return Styled(f"{span(rest.remaining_us / 1e6)} left, paused", "yellow")
    if frame.deadline_us is None:
        return Styled("")
    left_s = (frame.deadline_us - now_us) / 1e6
    return Styled(f"{span(left_s)} left") if left_s > 0 else Styled(f"late by {span(-left_s)}", "red")


def budget_bar(budget: holdfast.Budget) -> str:
    """What became of a budget, in cells. Whatever is not nothing has one; what is beyond the total comes last."""
    used = min(budget.used, budget.total)
    reserved = min(budget.reserved, budget.total - used)
    delegated = min(budget.delegated, budget.total - used - reserved)
    free = budget.total - used - reserved - delegated
    over = max(0, budget.used + budget.reserved + budget.delegated - budget.total)
    parts = {"#": used, "r": reserved, "=": delegated, ".": free, "!": over}
    whole = sum(parts.values())
    if not whole:
        return f"[{' ' * BAR_CELLS}]"
    cells = {mark: max(1, part * BAR_CELLS // whole) for mark, part in parts.items() if part}
    largest = max(cells, key=lambda mark: parts[mark])
    cells[largest] += BAR_CELLS - sum(cells.values())
    return f"[{''.join(mark * number for mark, number in cells.items())}]"


@click.command()
@click.option("--session", metavar="NAME", shell_complete=session_names, help="Only those of sessions of this name.")
@limit_option(100)
@common
@click.pass_obj
def suspended(settings: Settings, session: str | None, limit: int) -> None:
    """List suspended frames: why they rest, and who may resume them.

    TOKEN tells whether the token that was handed out still works, and never what it is.
    """
    with settings.open() as engine:
        found = resting(engine, settings.actor, session)
        wanted = itertools.islice(found, limit or None)
        if settings.json:
            for entry in wanted:
                emit(shapes.suspended(entry))
            return
        listed = list(wanted)
        left_out = sum(1 for _ in found)
    if not listed:
        where = f"the session {session!r}" if session else f"the tenant {settings.tenant!r}"
        say(clean(f"Nothing is suspended in {where}."))
        return
    now_us = time.time_ns() // 1_000
    table(_SUSPENDED, (_rest_cells(entry, now_us) for entry in listed))
    if left_out:
        say(Styled(f"… and {left_out:,} more. --limit 0 shows all.", "dim"), error=True)


def _rest_cells(entry: holdfast.Suspended, now_us: int) -> list[str | Styled]:
    return [
        Styled(clean(entry.scope.session), "bold"),
        clean(entry.scope.actor),
        clean(entry.scope.thread or ""),
        entry.frame,
        Styled(entry.status, TOKENS[entry.status]),
        ago(entry.at_us, now_us),
        "" if entry.expires_us is None else ago(entry.expires_us, now_us),
        clean(entry.by),
        short(", ".join(entry.resumable_by), GOAL_CHARS),
        short(entry.reason, GOAL_CHARS),
    ]


@click.command(context_settings={"allow_extra_args": True})
@principal_option
@common
@click.pass_context
def resume(context: click.Context, principal: str) -> None:
    """Wake a suspended frame with its token.

    The token is read from standard input, or asked for on a terminal, and is never shown. It works for the principal who
    suspended the frame, and for those named then: `holdfast suspended` lists them.
    """
    settings = context.ensure_object(Settings)
    if context.args:
        told = "A token is read from standard input; on the command line, others can see it. Replace it with reissue()."
        raise click.UsageError(told)
    with settings.open(principal=principal) as engine:
        frame = engine.resume(_token())
        state, scope = frame.state(), frame.scope
    if settings.json:
        emit(shapes.frame(scope, state))
        return
    say(
        f"{state.id} is ", Styled(state.status, FRAMES.get(state.status, "")), " again: ", short(state.goal, GOAL_CHARS)
    )
    say(Styled(clean(_place(scope)), "dim"))


def _token() -> str:
    if sys.stdin is None:  # it was closed before we began
        return ""
    if sys.stdin.isatty():
        typed: str = click.prompt("Token", hide_input=True, err=True, default="", show_default=False)
        return typed.strip()
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="backslashreplace")
    return sys.stdin.readline(TOKEN_CHARS).strip()


def _place(scope: holdfast.Scope) -> str:
    thread = f" · thread {scope.thread}" if scope.thread else ""
    return f"session {scope.session} · actor {scope.actor} · tenant {scope.tenant}{thread}"


@click.command()
@session_argument
@thread_option
@limit_option(50)
@principal_option
@common
@click.pass_obj
def recover(settings: Settings, session: str, thread: str | None, limit: int, principal: str) -> None:
    """Take up a session that was left: the frames at work, and what is pending.

    First come the tool calls that were started and have no result: whether they took effect, nobody knows. Nothing is
    repeated; the log says that the session was taken up. --limit is for what else is pending.
    """
    with settings.open(principal=principal) as engine:
        scope = settings.session(engine, session, thread).scope
        found = engine.recover(scope)
    if settings.json:
        emit(shapes.recovery(scope, found))
        return
    say(Styled(clean(_place(scope)), "bold"))
    _show_unknown(found.unknown)
    if found.frame_stack:
        _draw(list(found.frame_stack))
    rest = [each for each in found.pending_work if each.kind != "tool_in_progress"]
    for each in rest[: limit or None]:
        say(Styled(f"{each.kind:<20}", "yellow"), f"  {each.frame or '-':<6}  ", short(each.description, PENDING_CHARS))
    if limit and len(rest) > limit:
        say(Styled(f"… and {len(rest) - limit:,} more pending. --limit 0 shows all.", "dim"), error=True)
    say(
        f"{count(found.frames_recovered, 'frame')} recovered, {count(len(found.pending_work), 'item')} pending,"
        f" last event {found.last_event_seq:,}, {found.recovery_ms:,} ms"
    )


def _show_unknown(unknown: tuple[holdfast.Pending, ...]) -> None:
    if not unknown:
        return
    say(
        Styled("OUTCOME UNKNOWN ", "bold red"),
        f"of {count(len(unknown), 'tool call')}: look under the key what took effect before anything is started again.",
    )
    for each in unknown:
        where = f" in {each.frame}" if each.frame else ""
        say(Styled(f"  {each.call or ''}{where}  ", "red"), short(each.description, PENDING_CHARS))
        say(f"    key {clean(each.key or '')}")
