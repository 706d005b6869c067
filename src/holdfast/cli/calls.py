"""`holdfast calls`: the model calls of a session, what each cost, and what broke the prompt cache. It writes nothing."""

from __future__ import annotations

from typing import Any

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import frame_option, limit_option, open_conversation, session_argument, thread_option
from holdfast.cli.output import StyledText, TableColumn, escape, print_json, print_line, print_table, shorten
from holdfast.cli.settings import PAGE, Settings, common_options

NAME_CHARS = 40
WHY_CHARS = 160
_MICRO = 1_000_000

_COLUMNS = (
    TableColumn("CALL", whole=True),
    TableColumn("FRAME", whole=True),
    TableColumn("MODEL"),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("CACHED", right=True, whole=True),
    TableColumn("OUTPUT", right=True, whole=True),
    TableColumn("COST", right=True, whole=True),
    TableColumn("AGAIN", right=True, whole=True),
    TableColumn("CACHE", whole=True),
    TableColumn("WHY", below=True),
)


@click.command()
@session_argument
@thread_option
@frame_option
@limit_option(20)
@common_options
@click.pass_obj
def calls(settings: Settings, session: str, thread: str | None, frame: str | None, limit: int) -> None:
    """List the model calls of a session, with cost and cache.

    Each has its tokens, its cost, and what broke the prompt cache.

    The newest come first. AGAIN is the part of the cost that was paid for tokens which the call before had in its warm
    cache. Costs are those of the price list; a call without a reported usage, or of a model that is not listed, has none.
    """
    with settings.open() as engine:
        found = _read_calls(open_conversation(settings, engine, session, thread, frame).packs, limit)
    if settings.json:
        for call in found:
            print_json(documents.to_plain(call))
    elif not found:
        print_line(escape(f"The session {session!r} has no model calls."))
    else:
        print_table(_COLUMNS, map(_call_cells, found))
        _print_total(found)


def _read_calls(facet: Any, limit: int) -> list[holdfast.types.ModelCall]:
    """Read the newest calls; 0 for all."""
    found: list[holdfast.types.ModelCall] = []
    while not limit or len(found) < limit:
        size = min(PAGE, limit - len(found)) if limit else PAGE
        page = facet.calls(before=found[-1].seq if found else None, limit=size)
        found += page
        if len(page) < size:
            break
    return found


def _call_cells(call: holdfast.types.ModelCall) -> list[str | StyledText]:
    usage, cost, cache = call.usage, call.cost, call.cache
    is_lost = cache.cause not in ("first", "kept")
    tokens = f"{usage.input_tokens:,}" if usage is not None else f"~{call.used:,}" if call.used else ""
    return [
        StyledText(call.id, "bold"),
        call.frame or "",
        shorten(call.model, NAME_CHARS),
        tokens,
        "" if cache.read is None else f"{cache.read:,}",
        "" if usage is None else f"{usage.output_tokens:,}",
        "" if cost is None else format_dollars(cost.total),
        "" if cost is None or not cost.rewritten else format_dollars(cost.rewritten),
        StyledText(cache.cause, "yellow" if is_lost else "green"),
        StyledText(shorten(cache.why, WHY_CHARS) if is_lost else "", "dim"),
    ]


def _print_total(found: list[holdfast.types.ModelCall]) -> None:
    costs = [call.cost for call in found if call.cost is not None]
    if costs:
        total, again = sum(cost.total for cost in costs), sum(cost.rewritten for cost in costs)
        number = f"{len(costs):,} of {len(found):,}" if len(costs) < len(found) else f"{len(found):,}"
        paid = f", {format_dollars(again)} of it for tokens that were in the cache before" if again else ""
        print_line(StyledText(f"{number} calls: {format_dollars(total)}{paid}.", "dim"))


def format_dollars(micro: int) -> str:
    """Micro-dollars as dollars, with as many digits as are useful."""
    dollars = micro / _MICRO
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}" if micro else "$0"
