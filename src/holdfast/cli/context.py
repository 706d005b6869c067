"""`holdfast context`, `plan` and `handle`: the history view of a conversation, its compaction plan, and the body of a
handle.

Law: only `plan --apply` changes the store.
"""

from __future__ import annotations

import heapq
import re
import shlex
from typing import Any

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import (
    frame_option,
    limit_option,
    model_option,
    open_conversation,
    session_argument,
    thread_option,
    window_option,
)
from holdfast.cli.output import (
    ROLE_STYLES,
    StyledText,
    TableColumn,
    draw_bar,
    escape,
    escape_lines,
    format_count,
    format_size,
    is_drawable,
    print_block,
    print_json,
    print_line,
    print_more,
    print_table,
    shorten,
)
from holdfast.cli.settings import Settings, common_options
from holdfast.errors import InvalidArgument
from holdfast.model import limits
from holdfast.model.history.handles import handle_seq, parse_piece_id
from holdfast.model.history.plans import format_cost, op_name
from holdfast.model.history.views import HistoryItem

TEXT_CHARS = 100
ITEM_CHARS = 10
"""The maximum length of the bar of an item."""
RESIDENCY_STYLES = {"resident": "green", "spooled_out": "yellow", "paged_out": "magenta", "collapsed": "dim"}


_OCCUPANCY_COLUMNS = (
    TableColumn("", whole=True),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("", whole=True),
    TableColumn("", whole=True),
)
_ITEM_COLUMNS = (
    TableColumn("EVENT", right=True, whole=True),
    TableColumn("ROLE", whole=True),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("", whole=True),
    TableColumn("TEXT"),
)
_HANDLE_COLUMNS = (
    TableColumn("HANDLE", whole=True),
    TableColumn("WHERE", whole=True),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("SIZE", right=True, whole=True),
    TableColumn("OF"),
)
_STEP_COLUMNS = (
    TableColumn("STEP", whole=True),
    TableColumn("FROM ITEM", right=True, whole=True),
    TableColumn("BEFORE", right=True, whole=True),
    TableColumn("AFTER", right=True, whole=True),
)
_OPTION_COLUMNS = (
    TableColumn("OPTION", whole=True),
    TableColumn("FREES", right=True, whole=True),
    TableColumn("COSTS", right=True, whole=True),
    TableColumn("SAVES", right=True, whole=True),
    TableColumn(""),
)


@click.command()
@session_argument
@thread_option
@frame_option
@window_option
@limit_option(20)
@common_options
@click.pass_obj
def context(
    settings: Settings, session: str, thread: str | None, frame: str | None, window: int | None, limit: int
) -> None:
    """Show the history view of a conversation, and its handles.

    A handle is resident, spooled out, paged out or collapsed. The newest items come last. The items below the line came
    after the last boundary.
    """
    with settings.open() as engine:
        conversation = open_conversation(settings, engine, session, thread, frame)
        history = conversation.context.view()
        occupancy = conversation.context.occupancy()
        handles = conversation.handles.list()
    if settings.json:
        items = [
            {"first": item.first, "last": item.last, "role": _item_role(item), "tokens": item.tokens}
            for item in history.items
        ]
        sums = {"non_resident_tokens": occupancy.non_resident_tokens, "total_tokens": occupancy.total_tokens}
        document = {"frozen": history.frozen, "items": items, "handles": documents.to_plain(handles)}
        print_json(
            {
                **documents.to_plain(history.scope),
                "frame": history.frame,
                **documents.to_plain(occupancy),
                **sums,
                **document,
            }
        )
        return
    _print_occupancy(occupancy, window)
    if history.items:
        print_line("")
        _print_items(history, limit)
    if handles:
        print_line("")
        _print_handles(history, handles, limit)


def _print_occupancy(occupancy: holdfast.types.Occupancy, window: int | None) -> None:
    whole = window or max(1, occupancy.tokens + occupancy.non_resident_tokens)
    shares = (
        ("system", occupancy.system, "magenta", "in every pack"),
        ("messages", occupancy.messages, "green", "in view"),
        (
            "summaries",
            occupancy.summaries,
            "cyan",
            f"of {format_count(occupancy.folded, 'message')}" if occupancy.folded else "",
        ),
        ("spooled out", occupancy.spooled_tokens, "yellow", "a preview or an excerpt is shown"),
        ("paged out", occupancy.paged_tokens, "magenta", "one line is shown"),
        ("collapsed", occupancy.collapsed_tokens, "dim", "replaced by summaries"),
    )
    share = f" of {window:,} ({occupancy.tokens / window:.0%})" if window else ""
    print_line(
        StyledText("in view", "bold"),
        f"  {format_count(occupancy.tokens, 'token')}{share}, {format_count(occupancy.handles, 'handle')}",
    )
    rows = [
        (name, f"{tokens:,}", StyledText(draw_bar(tokens / whole), style), note)
        for name, tokens, style, note in shares
        if tokens
    ]
    print_table(_OCCUPANCY_COLUMNS, rows)


def _print_items(history: holdfast.types.HistoryView, limit: int) -> None:
    first = max(0, len(history.items) - limit) if limit else 0
    shown = history.items[first:]
    most = max(1, *(item.tokens for item in shown))
    if first:
        print_more(f"{format_count(first, 'earlier item')}", error=False)
    rows: list[tuple[str | StyledText, ...]] = []
    for number, item in enumerate(shown, first):
        if number == history.frozen and number:
            line = StyledText(("─" if is_drawable("─") else "-") * len("assistant"), "dim")
            rows.append(("", line, "", "", StyledText("after the last boundary", "dim")))
        role = _item_role(item)
        style = ROLE_STYLES.get(role, "cyan")
        share = StyledText(draw_bar(item.tokens / most, ITEM_CHARS), style)
        rows.append(
            (
                _event_range(item),
                StyledText(role, style),
                f"{item.tokens:,}",
                share,
                shorten(_item_text(item), TEXT_CHARS),
            )
        )
    print_table(_ITEM_COLUMNS, rows)


def _event_range(item: HistoryItem) -> str:
    return f"{item.first}-{item.last}" if isinstance(item, holdfast.types.Summary) else str(item.seq)


def _item_role(item: HistoryItem) -> str:
    return "summary" if isinstance(item, holdfast.types.Summary) else str(item.messages[0].role)


def _item_text(item: HistoryItem) -> str:
    if isinstance(item, holdfast.types.Summary):
        return item.text
    calls = ", ".join(call.name for message in item.messages for call in message.tool_calls)
    text = " ".join(message.text for message in item.messages[:1])
    return f"{text} [{calls}]" if calls else text


def _print_handles(history: holdfast.types.HistoryView, handles: list[holdfast.Handle], limit: int) -> None:
    """Print the largest handles, in the order of the view."""
    largest = heapq.nlargest(limit or len(handles), range(len(handles)), key=lambda at: handles[at].size)
    shown = [handles[at] for at in sorted(largest)]
    tools = {call.id: call.name for item in history.items for call in _tool_calls(item)}
    rows = [
        (
            handle.id,
            StyledText(handle.residency, RESIDENCY_STYLES[handle.residency]),
            f"{handle.tokens:,}",
            format_size(handle.size),
            shorten(f"{tools.get(handle.source or '', '')} {handle.source or handle.kind}", TEXT_CHARS),
        )
        for handle in shown
    ]
    print_table(_HANDLE_COLUMNS, rows)
    if len(shown) < len(handles):
        print_more(f"and {len(handles) - len(shown):,} smaller")
    thread = history.scope.thread
    words = [
        "holdfast",
        "handle",
        history.scope.session,
        handles[largest[0]].id,
        *(("--thread", thread) if thread else ()),
    ]
    print_line(StyledText(f"{escape(shlex.join(words))}  reads a handle.", "dim"), error=True)


def _tool_calls(item: HistoryItem) -> tuple[holdfast.ToolCall, ...]:
    return (
        ()
        if isinstance(item, holdfast.types.Summary)
        else tuple(call for message in item.messages for call in message.tool_calls)
    )


@click.command()
@session_argument
@thread_option
@frame_option
@window_option
@model_option
@click.option(
    "--policy",
    type=click.Choice(["faithful", "frugal", "classic"]),
    default="faithful",
    show_default=True,
    help="The compaction policy.",
)
@click.option(
    "--before",
    type=click.IntRange(0),
    default=0,
    metavar="TOKENS",
    help="The tokens of the tools and prompts before the conversation.",
)
@click.option("--cold", is_flag=True, help="Assume that the provider has no cache of the conversation.")
@click.option("--apply", is_flag=True, help="Apply the plan.")
@click.option(
    "--strategy",
    type=click.Choice(["priority_based", "summarize_oldest"]),
    help="With --apply: use this strategy, whatever it costs.",
)
@common_options
@click.pass_obj
def plan(settings: Settings, /, session: str, thread: str | None, frame: str | None, **options: Any) -> None:
    """Show the compaction plan of a conversation, with its costs.

    The plan says what it frees, what it costs, and when it pays back. Prices are those of the model of the last reply,
    unless --model and --window are given.
    """
    apply, strategy = options.pop("apply"), options.pop("strategy")
    if strategy and not apply:
        raise click.UsageError("--strategy needs --apply.")
    with settings.open() as engine:
        conversation = open_conversation(settings, engine, session, thread, frame)
        try:
            result = (
                conversation.context.compact(**options, strategy=strategy)
                if apply
                else conversation.context.plan(**options)
            )
        except InvalidArgument as error:  # its hint is for Python callers
            reason = error.reason.replace(_WINDOW_HINT, "pass --window or --model")
            raise InvalidArgument(argument=error.argument, reason=reason) from error
    if settings.json:
        print_json({**documents.to_plain(result), "net": result.figures.net, "explained": result.explain()})
        return
    print_block(escape_lines(result.explain()), 0)
    if len(result.steps) > 1:
        print_line("")
        rows = [
            (op_name(step.op), str(step.first_changed_index), f"{step.before:,}", f"{step.after:,}")
            for step in result.steps
        ]
        print_table(_STEP_COLUMNS, rows)
    if len(result.considered) > 1:
        print_line("")
        print_table(_OPTION_COLUMNS, [_option_cells(result, name, figures) for name, figures in result.considered])
        print_line(StyledText("SAVES: until the view has its present size again.", "dim"))
    if apply:
        print_line("Nothing was changed." if result.at is None else f"Applied: event {result.at}.")


_WINDOW_HINT = "pass window= or prices="


def _option_cells(
    result: holdfast.Plan, name: str, figures: holdfast.types.PlanFigures
) -> tuple[str | StyledText, ...]:
    costs, frees = format_cost(figures.rewriting + figures.summarizing), f"{figures.before - figures.after:,}"
    if name in map(op_name, result.ops):
        note = StyledText("applied" if result.at else "planned", "green")
    else:
        note = StyledText("does not pay" if figures.net > 0 else "pays less", "dim")
    return name, frees, costs, format_cost(figures.earns), note


@click.command()
@session_argument
@click.argument("handle")
@thread_option
@click.option("--bytes", "span", metavar="FROM:TO", help="Only these bytes, counted from 0, without TO.")
@click.option("--lines", metavar="FROM:TO", help="Only these lines, counted from 1.")
@click.option("--search", metavar="TEXT", help="Only lines that contain this text; case is ignored.")
@click.option(
    "--limit",
    type=click.IntRange(64, limits.PAYLOAD_BYTES),
    default=16_384,
    show_default=True,
    help="The maximum number of bytes.",
)
@common_options
@click.pass_obj
def handle(
    settings: Settings, /, session: str, handle: str, thread: str | None, limit: int, **options: str | None
) -> None:
    """Read the body of a handle.

    A handle is a tool result, a long text, or an attachment of a frame. HANDLE is its id, or the id of its tool call, from
    Holdfast or from the provider.
    """
    start, stop = _parse_range("--bytes", options["span"])
    first, last = _parse_range("--lines", options["lines"])
    with settings.open() as engine:
        conversation = settings.find_session(engine, session, thread)
        handle_id = handle if parse_piece_id(handle) or handle_seq(handle) else conversation.handles.get(handle).id
        body = conversation.handles.read(
            handle_id, start=start, stop=stop, first_line=first, last_line=last, search=options["search"], limit=limit
        )
    if settings.json:
        print_json(documents.to_plain(body))
        return
    if body.text:
        print_block(escape_lines(body.text.removesuffix("\n")), 0)
    print_line(StyledText(escape(_describe_reading(body)), "dim"), error=True)


def _describe_reading(body: holdfast.types.HandleText) -> str:
    """Describe the part that was read, and the options that read the next part."""
    matches = "" if body.matches is None else f" {format_count(body.matches, 'matching line')}."
    more = re.sub(r"\bfirst_line=(\d+)", r"--lines \1:", re.sub(r"\bstart=(\d+)", r"--bytes \1:", body.more))
    return f"{body.handle}: {format_size(body.size)} in all.{matches}{' ' if more else ''}{more}"


def _parse_range(option: str, text: str | None) -> tuple[int | None, int | None]:
    """Parse "3:10", "3:" or ":10"; a missing number is None."""
    if text is None:
        return None, None
    first, separator, last = text.partition(":")
    if not separator or not all(not number or (number.isdecimal() and number.isascii()) for number in (first, last)):
        raise click.UsageError(f"{option} takes two numbers, such as 10:20, not '{escape(text)}'")
    return int(first) if first else None, int(last) if last else None
