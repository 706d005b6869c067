"""`holdfast situation`: how things stand in a conversation, and what was done in it last."""

from __future__ import annotations

from typing import Any

import click

import holdfast
from holdfast.cli import shapes
from holdfast.cli.context import frame_option
from holdfast.cli.screen import Column, Styled, block, emit, say, table
from holdfast.cli.sessions import limit_option, session_argument, thread_option
from holdfast.cli.settings import Settings, common
from holdfast.cli.words import clean, clean_lines, short, stamp

TEXT_CHARS = 100
PAGE = 100
"""Actions that are read at once."""
OUTCOMES = {"success": "green", "failure": "yellow", "error": "red", "timeout": "red"}

_FIELDS = (
    Column("FIELD", whole=True),
    Column("ITERATION", right=True, whole=True),
    Column("BY"),
    Column("SAYS"),
)
_ACTIONS = (
    Column("EVENT", right=True, whole=True),
    Column("ITERATION", right=True, whole=True),
    Column("MODE", whole=True),
    Column("TOOLS"),
    Column("OUTCOME", whole=True),
    Column("APPROACH"),
)


@click.command()
@session_argument
@thread_option
@frame_option
@limit_option(4)
@click.option("--details", is_flag=True, help="Show what a model is given to reason on.")
@common
@click.pass_obj
def situation(
    settings: Settings, session: str, thread: str | None, frame: str | None, limit: int, details: bool
) -> None:
    """Show how things stand in a conversation, who says so, and what was done in it last.

    The newest actions come last.
    """
    with settings.open() as engine:
        whole = settings.session(engine, session, thread)
        conversation: Any = whole if frame is None else whole.get_frame(frame)
        frame = None if frame is None else conversation.id
        found: holdfast.Situation = conversation.situation()
        actions = _newest(conversation, limit)
        context: str = conversation.reasoning_context("deep") if details else ""
    if settings.json:
        document = {**shapes.plain(conversation.scope), "frame": frame, **shapes.plain(found)}
        more = {"reasoning_context": context} if details else {}
        emit({**document, "actions": shapes.plain(actions), **more})
        return
    if not found.fields:
        say(clean(f"Nobody has said how things stand in the {'frame' if frame else 'session'} {frame or session!r}."))
    else:
        _fields(found)
    if actions:
        say("")
        table(_ACTIONS, (_cells(each) for each in actions))
    if details:
        say("")
        block(clean_lines(context), 0)


def _newest(conversation: Any, limit: int) -> list[holdfast.Action]:
    """The newest actions, so many, or all of them; oldest first."""
    found: list[holdfast.Action] = []
    while not limit or len(found) < limit:
        size = min(PAGE, limit - len(found)) if limit else PAGE
        page = conversation.actions(before=found[0].seq if found else None, limit=size)
        found = [*page, *found]
        if len(page) < size:
            break
    return found


def _fields(found: holdfast.Situation) -> None:
    by = clean(f"{found.by}, in iteration {found.iteration:,}")
    say("Since ", Styled(stamp(found.time_us), "bold"), f", by {by}:")
    table(
        _FIELDS,
        (
            [Styled(name, "bold"), f"{stated.iteration:,}", short(stated.by, TEXT_CHARS), clean(stated.text)]
            for name, stated in found.stated.items()
        ),
    )


def _cells(action: holdfast.Action) -> list[str | Styled]:
    calls = action.tool_calls
    worst = next((each.outcome for each in calls if each.outcome != "success"), "success" if calls else "")
    tools = short(", ".join(each.name for each in calls), TEXT_CHARS) if calls else ""
    return [
        f"{action.seq:,}",
        f"{action.iteration:,}",
        action.mode,
        tools,
        Styled(worst, OUTCOMES.get(worst, "")),
        short(action.approach or action.thinking, TEXT_CHARS),
    ]
