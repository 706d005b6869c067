"""`holdfast situation`: the situation of a conversation, and its last actions."""

from __future__ import annotations

from typing import Any

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import frame_option, limit_option, open_conversation, session_argument, thread_option
from holdfast.cli.output import (
    StyledText,
    TableColumn,
    escape,
    escape_lines,
    format_timestamp,
    print_block,
    print_json,
    print_line,
    print_table,
    shorten,
)
from holdfast.cli.settings import Settings, common_options

TEXT_CHARS = 100
PAGE = 100
"""The number of actions that are read at a time."""
OUTCOME_STYLES = {"success": "green", "failure": "yellow", "error": "red", "timeout": "red"}

_FIELD_COLUMNS = (
    TableColumn("FIELD", whole=True),
    TableColumn("ITERATION", right=True, whole=True),
    TableColumn("BY"),
    TableColumn("TEXT", wrap=True),
)
_ACTION_COLUMNS = (
    TableColumn("EVENT", right=True, whole=True),
    TableColumn("ITERATION", right=True, whole=True),
    TableColumn("MODE", whole=True),
    TableColumn("TOOLS"),
    TableColumn("OUTCOME", whole=True),
    TableColumn("APPROACH", wrap=True),
)


@click.command()
@session_argument
@thread_option
@frame_option
@limit_option(4)
@click.option("--details", is_flag=True, help="Show the text about the situation that a model gets.")
@common_options
@click.pass_obj
def situation(
    settings: Settings, session: str, thread: str | None, frame: str | None, limit: int, details: bool
) -> None:
    """Show the situation of a conversation, and its last actions.

    The newest actions come last.
    """
    with settings.open() as engine:
        conversation = open_conversation(settings, engine, session, thread, frame)
        frame = None if frame is None else conversation.id
        current: holdfast.types.Situation = conversation.situation.get()
        actions = _read_newest_actions(conversation, limit)
        context: str = conversation.situation.reasoning("deep") if details else ""
    if settings.json:
        document = {**documents.to_plain(conversation.scope), "frame": frame, **documents.to_plain(current)}
        more = {"reasoning_context": context} if details else {}
        print_json({**document, "actions": documents.to_plain(actions), **more})
        return
    if not current.fields:
        print_line(escape(f"There is no situation yet in the {'frame' if frame else 'session'} {frame or session!r}."))
    else:
        _print_fields(current)
    if actions:
        print_line("")
        print_table(_ACTION_COLUMNS, (_action_cells(action) for action in actions))
    if details:
        print_line("")
        print_block(escape_lines(context), 0)


def _read_newest_actions(conversation: Any, limit: int) -> list[holdfast.types.Action]:
    """Read the last `limit` actions, oldest first; 0 for all."""
    actions: list[holdfast.types.Action] = []
    while not limit or len(actions) < limit:
        size = min(PAGE, limit - len(actions)) if limit else PAGE
        page = conversation.situation.actions(before=actions[0].seq if actions else None, limit=size)
        actions = [*page, *actions]
        if len(page) < size:
            break
    return actions


def _print_fields(current: holdfast.types.Situation) -> None:
    by = escape(f"{current.by}, in iteration {current.iteration:,}")
    print_line("Since ", StyledText(format_timestamp(current.time_us), "bold"), f", by {by}:")
    print_table(
        _FIELD_COLUMNS,
        (
            [StyledText(name, "bold"), f"{field.iteration:,}", shorten(field.by, TEXT_CHARS), escape(field.text)]
            for name, field in current.origins.items()
        ),
    )


def _action_cells(action: holdfast.types.Action) -> list[str | StyledText]:
    calls = action.tool_calls
    worst = next((call.outcome for call in calls if call.outcome != "success"), "success" if calls else "")
    tools = shorten(", ".join(call.name for call in calls), TEXT_CHARS) if calls else ""
    return [
        f"{action.seq:,}",
        f"{action.iteration:,}",
        action.mode,
        tools,
        StyledText(worst, OUTCOME_STYLES.get(worst, "")),
        shorten(action.approach or action.thinking, TEXT_CHARS),
    ]
