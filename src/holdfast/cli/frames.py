"""`holdfast frames`, `suspended`, `resume` and `recover`: frames, their budgets, and interrupted work.

Laws: a token is read from standard input and is never printed; tool calls with an unknown outcome are shown first.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import limit_option, principal_option, session_argument, thread_option
from holdfast.cli.output import (
    FRAME_STYLES,
    TOKEN_STYLES,
    StyledText,
    TableColumn,
    escape,
    format_age,
    format_count,
    format_duration,
    print_json,
    print_line,
    print_more,
    print_table,
    shorten,
    walk_tree,
)
from holdfast.cli.settings import (
    PAGE,
    Settings,
    common_options,
    complete_session_names,
    iterate_suspended,
    read_pages,
)
from holdfast.model.frames.frames import FrameStatus, frame_seq

GOAL_CHARS = 80
PENDING_CHARS = 160
BAR_CELLS = 12
TOKEN_CHARS = 1_000
"""Every token is shorter than this; the rest of a longer line is not read."""
_LEGEND = "#: used  r: reserved  =: granted to children  .: free  !: overdrawn"


_FRAME_COLUMNS = (
    TableColumn("FRAME", whole=True),
    TableColumn("STATUS", whole=True),
    TableColumn("BUDGET", whole=True),
    TableColumn("USED", right=True, whole=True),
    TableColumn("TOOLS", right=True, whole=True),
    TableColumn("READ", right=True, whole=True),
    TableColumn("WROTE", right=True, whole=True),
    TableColumn("TIME", whole=True),
    TableColumn("GOAL", below=True),
)
_SUSPENSION_COLUMNS = (
    TableColumn("SESSION"),
    TableColumn("ACTOR"),
    TableColumn("THREAD"),
    TableColumn("FRAME", whole=True),
    TableColumn("TOKEN", whole=True),
    TableColumn("SINCE", whole=True),
    TableColumn("UNTIL", whole=True),
    TableColumn("BY"),
    TableColumn("OR FOR"),
    TableColumn("REASON", below=True),
)
FrameStatusFilter: TypeAlias = FrameStatus | Literal["live"]


class FrameSelection(NamedTuple):
    """The frames to show, oldest first, and how many there are in all."""

    frames: list[holdfast.types.FrameState]
    total: int


@click.command()
@session_argument
@thread_option
@click.option("--status", type=click.Choice(["live", *get_args(FrameStatus)]), help="Only frames with this status.")
@limit_option(100)
@common_options
@click.pass_obj
def frames(settings: Settings, session: str, thread: str | None, status: FrameStatusFilter | None, limit: int) -> None:
    """Show the frames of a session as a tree, live and past.

    If there are more than --limit: the live frames and the newest of the others. Parents are always shown.
    """
    with settings.open() as engine:
        conversation = settings.find_session(engine, session, thread)
        selection = _select_frames(conversation, status, limit)
        if settings.json:
            for frame in selection.frames:
                print_json(documents.frame(conversation.scope, frame))
            return
        shown = _add_ancestors(conversation, selection.frames)
    if not shown:
        print_line(escape(f"No {f'{status} ' if status else ''}frames in the session {session!r}."))
        return
    _print_tree(shown)
    left_out = selection.total - sum(
        status in (None, frame.status) or (status == "live" and frame.is_live) for frame in shown
    )
    if left_out:
        print_more(f"and {left_out:,} more")


def _select_frames(session: holdfast.Session, status: FrameStatusFilter | None, limit: int) -> FrameSelection:
    """Select at most `limit` frames: live ones first, then the newest. No more than that are held in memory."""
    live: deque[holdfast.types.FrameState] = deque(maxlen=limit or None)
    past: deque[holdfast.types.FrameState] = deque(maxlen=limit or None)
    seen = 0

    def read(last: holdfast.types.FrameState | None) -> Sequence[holdfast.types.FrameState]:
        return session.frames.list(status=status, after=None if last is None else last.id, limit=PAGE)

    for frame in read_pages(read):
        seen += 1
        (live if frame.is_live else past).append(frame)
    room = limit - len(live) if limit else len(past)
    newest = list(past)[len(past) - min(room, len(past)) :]
    selection = sorted((*live, *newest), key=lambda frame: frame_seq(frame.id))
    return FrameSelection(selection, seen)


def _add_ancestors(
    session: holdfast.Session, frames: list[holdfast.types.FrameState]
) -> list[holdfast.types.FrameState]:
    """Add the parents of these frames, so that the tree is complete."""
    known = {frame.id: frame for frame in frames}
    for frame in frames:
        above = frame.parent
        while above is not None and above not in known:
            known[above] = session.frames.get(above).state()
            above = known[above].parent
    return sorted(known.values(), key=lambda frame: frame_seq(frame.id))


def _print_tree(shown: list[holdfast.types.FrameState]) -> None:
    children: dict[str | None, list[holdfast.types.FrameState]] = {}
    for frame in shown:
        children.setdefault(frame.parent, []).append(frame)
    now_us = time.time_ns() // 1_000
    drawn = walk_tree(children.get(None, []), lambda frame: children.get(frame.id, []))
    print_table(_FRAME_COLUMNS, (_frame_cells(frame, branch, now_us) for frame, branch in drawn))
    print_line(StyledText(_LEGEND, "dim"))


def _frame_cells(frame: holdfast.types.FrameState, branch: str, now_us: int) -> list[str | StyledText]:
    budget, usage = frame.budget, frame.usage
    return [
        StyledText(branch + frame.id, "bold" if frame.is_live else "dim"),
        StyledText(frame.status, FRAME_STYLES.get(frame.status, "dim")),
        StyledText(draw_budget_bar(budget), "red" if budget.is_overdrawn else ""),
        f"{budget.used:,} of {budget.total:,}",
        _format_tool_calls(frame),
        f"{usage.input_tokens:,}" if usage.input_tokens else "",
        f"{usage.output_tokens:,}" if usage.output_tokens else "",
        _format_time_left(frame, now_us),
        shorten(frame.goal, GOAL_CHARS),
    ]


def _format_tool_calls(frame: holdfast.types.FrameState) -> str:
    most = frame.limits.max_tool_calls
    if most is not None:
        return f"{frame.tool_calls:,} of {most:,}"
    return f"{frame.tool_calls:,}" if frame.tool_calls else ""


def _format_time_left(frame: holdfast.types.FrameState, now_us: int) -> StyledText:
    """The time until the deadline; it does not pass while a frame is suspended."""
    rest = frame.suspension
    if rest is not None and rest.remaining_us is not None:
        return StyledText(f"{format_duration(rest.remaining_us / 1e6)} left, paused", "yellow")
    if frame.deadline_us is None:
        return StyledText("")
    left_s = (frame.deadline_us - now_us) / 1e6
    return (
        StyledText(f"{format_duration(left_s)} left")
        if left_s > 0
        else StyledText(f"late by {format_duration(-left_s)}", "red")
    )


def draw_budget_bar(budget: holdfast.types.Budget) -> str:
    """Draw the parts of a budget as cells. Every part has at least one cell; the overdraft comes last."""
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
@click.option(
    "--session", metavar="NAME", shell_complete=complete_session_names, help="Only frames of sessions with this name."
)
@limit_option(100)
@common_options
@click.pass_obj
def suspended(settings: Settings, session: str | None, limit: int) -> None:
    """List suspended frames, their reasons, and who may resume them.

    TOKEN is the state of the token; the token itself is never shown.
    """
    with settings.open() as engine:
        entries = iterate_suspended(engine, settings.actor, session)
        first_entries = itertools.islice(entries, limit or None)
        if settings.json:
            for entry in first_entries:
                print_json(documents.suspension(entry))
            return
        listed = list(first_entries)
        left_out = sum(1 for _ in entries)
    if not listed:
        where = f"the session {session!r}" if session else f"the tenant {settings.tenant!r}"
        print_line(escape(f"No suspended frames in {where}."))
        return
    now_us = time.time_ns() // 1_000
    print_table(_SUSPENSION_COLUMNS, (_suspension_cells(entry, now_us) for entry in listed))
    if left_out:
        print_more(f"and {left_out:,} more")


def _suspension_cells(entry: holdfast.types.SuspendedFrame, now_us: int) -> list[str | StyledText]:
    return [
        StyledText(escape(entry.scope.session), "bold"),
        escape(entry.scope.actor),
        escape(entry.scope.thread or ""),
        entry.frame,
        StyledText(entry.status, TOKEN_STYLES[entry.status]),
        format_age(entry.at_us, now_us),
        "" if entry.expires_us is None else format_age(entry.expires_us, now_us),
        escape(entry.by),
        shorten(", ".join(entry.resumable_by), GOAL_CHARS),
        shorten(entry.reason, GOAL_CHARS),
    ]


@click.command(context_settings={"allow_extra_args": True})
@principal_option
@common_options
@click.pass_context
def resume(context: click.Context, principal: str) -> None:
    """Resume a suspended frame with its token.

    The token is read from standard input, with a prompt on a terminal, and is never shown. The principal who
    suspended the frame may use it, and those named in the suspension: `holdfast suspended` lists them.
    """
    settings = context.ensure_object(Settings)
    if context.args:
        message = (
            "Pass the token on standard input: other users can see the command line. Call reissue() to replace it."
        )
        raise click.UsageError(message)
    with settings.open(principal=principal) as engine:
        frame = engine.resume(_read_token())
        state, scope = frame.state(), frame.scope
    if settings.json:
        print_json(documents.frame(scope, state))
        return
    print_line(
        f"{state.id} is ",
        StyledText(state.status, FRAME_STYLES.get(state.status, "")),
        " again: ",
        shorten(state.goal, GOAL_CHARS),
    )
    print_line(StyledText(escape(_format_scope(scope)), "dim"))


def _read_token() -> str:
    if sys.stdin is None:  # standard input is closed
        return ""
    if sys.stdin.isatty():
        typed: str = click.prompt("Token", hide_input=True, err=True, default="", show_default=False)
        return typed.strip()
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="backslashreplace")
    return sys.stdin.readline(TOKEN_CHARS).strip()


def _format_scope(scope: holdfast.types.Scope) -> str:
    thread = f" · thread {scope.thread}" if scope.thread else ""
    return f"session {scope.session} · actor {scope.actor} · tenant {scope.tenant}{thread}"


@click.command()
@session_argument
@thread_option
@limit_option(50)
@principal_option
@common_options
@click.pass_obj
def recover(settings: Settings, session: str, thread: str | None, limit: int, principal: str) -> None:
    """Recover an interrupted session: its frames and pending work.

    Tool calls that were started and have no result come first: their outcome is unknown. No call is repeated. The
    recovery is recorded in the log. --limit applies to the other pending work.
    """
    with settings.open(principal=principal) as engine:
        scope = settings.find_session(engine, session, thread).scope
        recovered = engine.recover(scope)
    if settings.json:
        print_json(documents.recovery(scope, recovered))
        return
    print_line(StyledText(escape(_format_scope(scope)), "bold"))
    _print_unknown_outcomes(recovered.unknown_outcomes)
    if recovered.frame_stack:
        _print_tree(list(recovered.frame_stack))
    others = [item for item in recovered.pending_work if item.kind != "tool_in_progress"]
    for item in others[: limit or None]:
        print_line(
            StyledText(f"{item.kind:<20}", "yellow"),
            f"  {item.frame or '-':<6}  ",
            shorten(item.description, PENDING_CHARS),
        )
    if limit and len(others) > limit:
        print_more(f"and {len(others) - limit:,} more pending")
    print_line(
        f"{format_count(recovered.frames_recovered, 'frame')} recovered, "
        f"{format_count(len(recovered.pending_work), 'item')} pending, "
        f"last event {recovered.last_event_seq:,}, {recovered.recovery_ms:,} ms"
    )


def _print_unknown_outcomes(unknown: tuple[holdfast.types.PendingWork, ...]) -> None:
    if not unknown:
        return
    print_line(
        StyledText("OUTCOME UNKNOWN ", "bold red"),
        f"of {format_count(len(unknown), 'tool call')}: "
        "use the key to check whether it took effect before you start it again.",
    )
    for item in unknown:
        where = f" in {item.frame}" if item.frame else ""
        print_line(StyledText(f"  {item.call or ''}{where}  ", "red"), shorten(item.description, PENDING_CHARS))
        print_line(f"    key {escape(item.key or '')}")
