"""`holdfast context`, `plan` and `handle`: what a model is shown of a conversation, what planning would make of it, and
what lies behind a handle.

Law: looking changes nothing; only `plan --apply` does.
"""

from __future__ import annotations

import heapq
import re
import shlex
from typing import Any

import click

import holdfast
from holdfast.cli import shapes
from holdfast.cli.screen import BAR_CHARS, ROLES, Column, Styled, block, drawable, emit, say, table
from holdfast.cli.sessions import limit_option, session_argument, thread_option
from holdfast.cli.settings import Settings, common
from holdfast.cli.words import clean, clean_lines, count, short, size
from holdfast.errors import InvalidContent
from holdfast.model import limits
from holdfast.model.explain import money
from holdfast.model.handles import handle_seq, piece_of
from holdfast.model.messages import Item
from holdfast.model.plan import label

TEXT_CHARS = 100
ITEM_CHARS = 10
"""The longest bar of an item."""
RESIDENCY = {"resident": "green", "spooled_out": "yellow", "paged_out": "magenta", "collapsed": "dim"}

frame_option = click.option(
    "--frame",
    metavar="FRAME",
    help="The conversation of this frame, or of the top of the stack (top), not that of the session.",
)
window_option = click.option("--window", type=click.IntRange(1), metavar="TOKENS", help="What all of it may take.")
model_option = click.option("--model", metavar="NAME", help="For this model, not the one that answered last.")

_PARTS = (
    Column("", whole=True),
    Column("TOKENS", right=True, whole=True),
    Column("", whole=True),
    Column("", whole=True),
)
_ITEMS = (
    Column("EVENT", right=True, whole=True),
    Column("ROLE", whole=True),
    Column("TOKENS", right=True, whole=True),
    Column("", whole=True),
    Column("TEXT"),
)
_HANDLES = (
    Column("HANDLE", whole=True),
    Column("WHERE", whole=True),
    Column("TOKENS", right=True, whole=True),
    Column("SIZE", right=True, whole=True),
    Column("OF"),
)
_STEPS = (
    Column("STEP", whole=True),
    Column("FROM ITEM", right=True, whole=True),
    Column("BEFORE", right=True, whole=True),
    Column("AFTER", right=True, whole=True),
)
_OPTIONS = (
    Column("COULD BE DONE", whole=True),
    Column("FREES", right=True, whole=True),
    Column("COSTS", right=True, whole=True),
    Column("SAVES", right=True, whole=True),
    Column(""),
)


def _conversation(
    settings: Settings, engine: holdfast.Engine, session: str, thread: str | None, frame: str | None
) -> Any:
    found = settings.session(engine, session, thread)
    return found if frame is None else found.get_frame(frame)


@click.command()
@session_argument
@thread_option
@frame_option
@window_option
@limit_option(20)
@common
@click.pass_obj
def context(
    settings: Settings, session: str, thread: str | None, frame: str | None, window: int | None, limit: int
) -> None:
    """Show what a model is shown of a conversation: what is resident, spooled out, paged out and collapsed.

    The newest items come last; those above the line were there when the view changed last.
    """
    with settings.open() as engine:
        conversation = _conversation(settings, engine, session, thread, frame)
        history = conversation.history()
        taken = conversation.occupancy()
        handles = conversation.pieces()
    if settings.json:
        items = [
            {"first": item.first, "last": item.last, "role": _role(item), "tokens": item.tokens}
            for item in history.items
        ]
        sums = {"non_resident_tokens": taken.non_resident_tokens, "total_tokens": taken.total_tokens}
        document = {"frozen": history.frozen, "items": items, "handles": shapes.plain(handles)}
        emit({**shapes.plain(history.scope), "frame": history.frame, **shapes.plain(taken), **sums, **document})
        return
    _parts(taken, window)
    if history.items:
        say("")
        _items(history, limit)
    if handles:
        say("")
        _handles(history, handles, limit)


def _parts(taken: holdfast.Occupancy, window: int | None) -> None:
    whole = window or max(1, taken.tokens + taken.non_resident_tokens)
    shares = (
        ("system", taken.system, "magenta", "always there"),
        ("messages", taken.messages, "green", "in view"),
        ("summaries", taken.summaries, "cyan", f"for {count(taken.folded, 'message')}" if taken.folded else ""),
        ("spooled out", taken.spooled_tokens, "yellow", "shown by a preview or an excerpt"),
        ("paged out", taken.paged_tokens, "magenta", "shown by a line"),
        ("collapsed", taken.collapsed_tokens, "dim", "what the summaries stand for"),
    )
    of = f" of {window:,} ({taken.tokens / window:.0%})" if window else ""
    say(Styled("in view", "bold"), f"  {taken.tokens:,} tokens{of}, {count(taken.handles, 'handle')}")
    rows = [
        (name, f"{tokens:,}", Styled(_bar(tokens / whole), style), note)
        for name, tokens, style, note in shares
        if tokens
    ]
    table(_PARTS, rows)


def _bar(share: float, chars: int = BAR_CHARS) -> str:
    full, least = ("█", "▏") if drawable("█▏") else ("#", ".")
    return full * round(min(1.0, share) * chars) or least


def _items(history: holdfast.History, limit: int) -> None:
    first = max(0, len(history.items) - limit) if limit else 0
    shown = history.items[first:]
    most = max(1, *(item.tokens for item in shown))
    if first:
        say(Styled(f"… {count(first, 'item')} before these. --limit 0 shows all.", "dim"))
    rows: list[tuple[str | Styled, ...]] = []
    for number, item in enumerate(shown, first):
        if number == history.frozen and number:
            line = Styled(("─" if drawable("─") else "-") * len("assistant"), "dim")
            rows.append(("", line, "", "", Styled("since the last boundary", "dim")))
        role = _role(item)
        style = ROLES.get(role, "cyan")
        share = Styled(_bar(item.tokens / most, ITEM_CHARS), style)
        rows.append((_event(item), Styled(role, style), f"{item.tokens:,}", share, short(_text(item), TEXT_CHARS)))
    table(_ITEMS, rows)


def _event(item: Item) -> str:
    return f"{item.first}-{item.last}" if isinstance(item, holdfast.Summary) else str(item.seq)


def _role(item: Item) -> str:
    return "summary" if isinstance(item, holdfast.Summary) else str(item.messages[0].role)


def _text(item: Item) -> str:
    if isinstance(item, holdfast.Summary):
        return item.text
    calls = ", ".join(call.name for message in item.messages for call in message.tool_calls)
    said = " ".join(message.text for message in item.messages[:1])
    return f"{said} [{calls}]" if calls else said


def _handles(history: holdfast.History, handles: list[holdfast.Handle], limit: int) -> None:
    """Of many, the largest: those are what one looks for. In the order of the view."""
    largest = heapq.nlargest(limit or len(handles), range(len(handles)), key=lambda at: handles[at].size)
    shown = [handles[at] for at in sorted(largest)]
    tools = {call.id: call.name for item in history.items for call in _calls(item)}
    rows = [
        (
            each.id,
            Styled(each.residency, RESIDENCY[each.residency]),
            f"{each.tokens:,}",
            size(each.size),
            short(f"{tools.get(each.source or '', '')} {each.source or each.kind}", TEXT_CHARS),
        )
        for each in shown
    ]
    table(_HANDLES, rows)
    if len(shown) < len(handles):
        say(Styled(f"… and {len(handles) - len(shown):,} smaller. --limit 0 shows all.", "dim"), error=True)
    thread = history.scope.thread
    words = [
        "holdfast",
        "handle",
        history.scope.session,
        handles[largest[0]].id,
        *(("--thread", thread) if thread else ()),
    ]
    say(Styled(f"{clean(shlex.join(words))}  reads one.", "dim"), error=True)


def _calls(item: Item) -> tuple[holdfast.ToolCall, ...]:
    return () if isinstance(item, holdfast.Summary) else tuple(c for each in item.messages for c in each.tool_calls)


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
    help="By which rule.",
)
@click.option(
    "--before", type=click.IntRange(0), default=0, metavar="TOKENS", help="Of what stands before it: tools, a prompt."
)
@click.option("--cold", is_flag=True, help="The provider's cache is lost.")
@click.option("--apply", is_flag=True, help="Do it.")
@click.option(
    "--strategy",
    type=click.Choice(["priority_based", "summarize_oldest"]),
    help="With --apply: what to do, whatever it costs.",
)
@common
@click.pass_obj
def plan(settings: Settings, /, session: str, thread: str | None, frame: str | None, **asked: Any) -> None:
    """Say what would be done to a conversation's view now, what it frees, what it costs, and when it pays back.

    The price is that of the model that answered last; --model and --window say otherwise.
    """
    apply, strategy = asked.pop("apply"), asked.pop("strategy")
    if strategy and not apply:
        raise click.UsageError("--strategy is carried out: say --apply, too")
    with settings.open() as engine:
        conversation = _conversation(settings, engine, session, thread, frame)
        try:
            made = conversation.compact(**asked, strategy=strategy) if apply else conversation.plan(**asked)
        except InvalidContent as error:  # what it says is for who calls it from a program
            raise InvalidContent(reason=error.reason.replace(_SAY, "say --window, or --model")) from error
    if settings.json:
        emit({**shapes.plain(made), "net": made.figures.net, "explained": made.explain()})
        return
    block(clean_lines(made.explain()), 0)
    if len(made.steps) > 1:
        say("")
        rows = [
            (label(step.op), str(step.first_changed_index), f"{step.before:,}", f"{step.after:,}")
            for step in made.steps
        ]
        table(_STEPS, rows)
    if len(made.considered) > 1:
        say("")
        table(_OPTIONS, [_option(made, name, figures) for name, figures in made.considered])
        say(Styled("SAVES: until as much again has gathered.", "dim"))
    if apply:
        say("Nothing was changed." if made.at is None else f"Done: event {made.at}.")


_SAY = "say window=, or prices="


def _option(made: holdfast.Plan, name: str, figures: holdfast.Figures) -> tuple[str | Styled, ...]:
    costs, frees = money(figures.rewriting + figures.summarizing), f"{figures.before - figures.after:,}"
    if name in map(label, made.ops):
        note = Styled("done" if made.at else "to do", "green")
    else:
        note = Styled("would not pay" if figures.net > 0 else "pays less", "dim")
    return name, frees, costs, money(figures.earns), note


@click.command()
@session_argument
@click.argument("handle")
@thread_option
@click.option("--bytes", "span", metavar="FROM:TO", help="These bytes, counted from 0; TO is not among them.")
@click.option("--lines", metavar="FROM:TO", help="These lines, counted from 1.")
@click.option("--search", metavar="TEXT", help="The lines that have this text, in upper or lower case.")
@click.option(
    "--limit", type=click.IntRange(64, limits.PAYLOAD_BYTES), default=16_384, show_default=True, help="Bytes to show."
)
@common
@click.pass_obj
def handle(
    settings: Settings, /, session: str, handle: str, thread: str | None, limit: int, **asked: str | None
) -> None:
    """Read what a handle stands for: a tool result, a long text, what was added to a frame.

    HANDLE is its id, or the id of the tool call that it is the result of, ours or the provider's.
    """
    start, stop = _range("--bytes", asked["span"])
    first, last = _range("--lines", asked["lines"])
    with settings.open() as engine:
        conversation = settings.session(engine, session, thread)
        named = handle if piece_of(handle) or handle_seq(handle) else conversation.handle(handle).id
        found = conversation.read_text(
            named, start=start, stop=stop, first_line=first, last_line=last, search=asked["search"], limit=limit
        )
    if settings.json:
        emit(shapes.plain(found))
        return
    if found.text:
        block(clean_lines(found.text.removesuffix("\n")), 0)
    say(Styled(clean(_told(found)), "dim"), error=True)


def _told(found: holdfast.Reading) -> str:
    """What a reading is of what, and how to go on, in the options of this command."""
    has = "" if found.found is None else f" {count(found.found, 'line has it', 'lines have it')}."
    more = re.sub(r"\bfirst_line=(\d+)", r"--lines \1:", re.sub(r"\bstart=(\d+)", r"--bytes \1:", found.more))
    return f"{found.handle}: {size(found.size)} in all.{has}{' ' if more else ''}{more}"


def _range(option: str, text: str | None) -> tuple[int | None, int | None]:
    """ "3:10", "3:" or ":10" as two numbers."""
    if text is None:
        return None, None
    first, separator, last = text.partition(":")
    if not separator or not all(not each or (each.isdecimal() and each.isascii()) for each in (first, last)):
        raise click.UsageError(f"{option} takes two numbers, such as 10:20, and not '{clean(text)}'")
    return int(first) if first else None, int(last) if last else None
