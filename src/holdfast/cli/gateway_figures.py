"""The figures of gateways as texts: `holdfast stats --gateway`, and the line at the end of `holdfast run`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from holdfast.cli.output import StyledText, TableColumn, escape, format_count, print_json, print_line, print_table
from holdfast.cli.settings import Settings

if TYPE_CHECKING:
    from holdfast.gateway.statistics import CallTotals

_FIGURE_COLUMNS = (TableColumn("", whole=True), TableColumn("", right=True, whole=True), TableColumn(""))
_SESSION_COLUMNS = (
    TableColumn("SESSION"),
    TableColumn("CALLS", right=True, whole=True),
    TableColumn("SENT", right=True, whole=True),
    TableColumn("NOT SENT", right=True, whole=True),
    TableColumn("COST", right=True, whole=True),
    TableColumn("WITHOUT", right=True, whole=True),
)
NO_CALLS = (
    "No call came to the gateway. The command may not use ANTHROPIC_BASE_URL or OPENAI_BASE_URL, or its own settings name"
    " another base URL."
)
_PICO = 1_000_000_000_000


def show_gateway_stats(settings: Settings, since_us: int, top: int) -> None:
    """Show the sums over the calls of the store, and the largest sessions."""
    from holdfast.gateway.statistics import PRICE_MODEL, CallTotals, read_calls  # noqa: PLC0415 - only for this

    with settings.open() as engine:
        sessions = _sum_by_session(read_calls(engine, since_us=since_us, actor=settings.actor))
    totals = CallTotals()
    for each in sessions.values():
        totals.merge(each)
    if settings.json:
        rows = [{"session": name, **each.as_document()} for name, each in sessions.items()]
        document: dict[str, Any] = {"since_us": since_us or None, **totals.as_document(), "price_model": PRICE_MODEL}
        print_json({**document, "sessions": rows})
        return
    print_line(StyledText(escape(settings.display_address), "bold"))
    if not sessions:
        print_line(f"No gateway has recorded a call here{' since then' if since_us else ''}.")
        return
    _print_totals(totals, settings.display_address)
    _print_sessions(sessions, top)


def _sum_by_session(calls: Any) -> dict[str, CallTotals]:
    from holdfast.gateway.statistics import CallTotals  # noqa: PLC0415 - only for this

    sessions: dict[str, CallTotals] = {}
    for call in calls:
        sessions.setdefault(call.session, CallTotals()).add(call.figures)
    return sessions


def _print_totals(totals: CallTotals, store: str) -> None:
    from holdfast.gateway.statistics import PRICE_MODEL  # noqa: PLC0415 - only for this

    lines = [
        ("calls", f"{totals.calls:,}", _list_others(totals)),
        ("boundaries", f"{totals.boundaries:,}", ""),
        ("sent", f"{totals.sent:,}", f"tokens, {totals.cache_share:.0%} of them read from the prompt cache"),
        ("not sent", f"{totals.saved:,}", "tokens"),
        ("replies", f"{totals.output:,}", "tokens"),
    ]
    if totals.has_prices:
        lines += [
            ("cost", format_picodollars(totals.cost), ""),
            ("without", format_picodollars(totals.plain_cost), f"{describe_change(totals)}"),
        ]
    if totals.refusals:
        lines.append(
            ("refusals", f"{totals.refusals:,}", f"changed requests; {name_doctor(store)} says of which sessions")
        )
    print_table(_FIGURE_COLUMNS, lines)
    for text in (*describe_gaps(totals), PRICE_MODEL if totals.has_prices else ""):
        if text:
            print_line(StyledText(escape(text), "dim"))


def _list_others(totals: CallTotals) -> str:
    parts = [format_count(totals.side_calls, "side call")] if totals.side_calls else []
    if totals.failed:
        parts.append(f"{totals.failed:,} failed")
    return f"and {', '.join(parts)}" if parts else ""


def _print_sessions(sessions: dict[str, CallTotals], top: int) -> None:
    largest = sorted(sessions.items(), key=lambda each: (-each[1].plain_cost, -each[1].sent, each[0]))[:top]
    if not largest:
        return
    print_line("")
    rows = [
        (
            escape(name),
            f"{each.calls + each.side_calls:,}",
            f"{each.sent:,}",
            f"{each.saved:,}",
            format_picodollars(each.cost) if each.has_prices else "",
            format_picodollars(each.plain_cost) if each.has_prices else "",
        )
        for name, each in largest
    ]
    print_table(_SESSION_COLUMNS, rows)


def describe_gaps(totals: CallTotals) -> list[str]:
    """What the sums of money leave out."""
    texts = []
    if totals.unpriced:
        models = ", ".join(f"{name} ({count:,})" for name, count in sorted(totals.unpriced.items()))
        texts.append(f"Not in the money: calls of models without a known price: {models}.")
    if totals.unmetered:
        calls = format_count(totals.unmetered, "call")
        texts.append(f"Not in the figures: {calls} whose usage the provider did not report.")
    return texts


def describe_change(totals: CallTotals) -> str:
    """How the cost differs from what it would have been."""
    if not totals.plain_cost:
        return ""
    change = totals.cost / totals.plain_cost - 1
    return "the same" if abs(change) < 0.0005 else f"{abs(change):.1%} {'less' if change < 0 else 'more'}"


def name_doctor(store: str) -> str:
    """The command that names the conversations that are left alone: it does not find the gateway's store by itself."""
    return f"`holdfast doctor --file {shlex.quote(store)}`"


def describe_run(totals: CallTotals, store: str) -> list[str]:
    """The lines at the end of a run on a store."""
    if not totals.calls + totals.side_calls + totals.failed:
        return [NO_CALLS]
    others = _list_others(totals)
    counts = [f"{format_count(totals.calls, 'call')}{f' ({others})' if others else ''}"]
    counts.append(format_count(totals.boundaries, "boundary", "boundaries"))
    if totals.refusals:
        counts.append(f"{format_count(totals.refusals, 'refusal')} (see {name_doctor(store)})")
    tokens = f"{totals.sent:,} tokens sent, {totals.saved:,} not sent, {totals.cache_share:.0%} from the cache"
    money = ""
    if totals.has_prices:
        cost, plain = format_picodollars(totals.cost), format_picodollars(totals.plain_cost)
        money = f"; {cost}, without Holdfast {plain} ({describe_change(totals)})"
    model = [_price_model()] if money else []
    return [f"{', '.join(counts)}; {tokens}{money}.", *describe_gaps(totals), *model]


def _price_model() -> str:
    from holdfast.gateway.statistics import PRICE_MODEL  # noqa: PLC0415 - only for this

    return PRICE_MODEL


def format_picodollars(amount: int) -> str:
    """Picodollars as dollars, with as many digits as are useful."""
    dollars = amount / _PICO
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}" if amount else "$0"
