"""The report of a log as a few lines for a terminal."""

from __future__ import annotations

from holdfast.inspector.logs.reports import DeadValue, LogReport, TokenBill
from holdfast.runtime.figures import format_count, format_duration

_SHOWN_DEAD = 3
_SHOWN_BREAKS = 3
_TARGET_CHARS = 60
_MICROS = 1_000_000


def format_report(report: LogReport) -> str:
    """About a dozen lines: what was sent, what of it was dead, where the cache broke, and what Holdfast would have sent."""
    sent, packed = report.sent, report.holdfast
    skipped = f", {report.source.skipped:,} skipped" if report.source.skipped else ""
    span = format_duration((report.last_us - report.first_us) / _MICROS) if report.last_us else "no times"
    model = report.model or "model unknown"
    threads = f" in {report.threads} conversations" if report.threads > 1 else ""
    ideal = f" (the log: {_money(report, sent.modelled_cost)} in the same cache)" if report.is_priced else ""
    lines = [
        _plain(f"{report.source.file}  {report.source.kind}, {format_count(report.source.lines, 'line')}{skipped}"),
        _plain(f"{format_count(report.calls, 'model call')}{threads}, {model}, {span}"),
        "",
        _describe_bill(report, "sent", sent, _describe_source(report)),
        _describe_bill(report, "Holdfast", packed, f"in an ideal cache{ideal}"),
        f"dead       {_describe_dead(report)}",
        *(f"           {_plain(_describe_value(value))}" for value in report.dead[:_SHOWN_DEAD]),
        f"cache      {_describe_breaks(report)}",
    ]
    worst = sorted(report.cache_breaks, key=lambda each: -each.tokens_rewritten)[:_SHOWN_BREAKS]
    for found in worst:
        cost = f" {_money(report, found.cost)}" if report.is_priced else ""
        lines.append(_plain(f"           m{found.reply}: {found.tokens_rewritten:,} tokens again{cost}: {found.why}"))
    return "\n".join(lines)


def _describe_source(report: LogReport) -> str:
    """Where the tokens that were sent are known from."""
    if not report.estimated:
        return "from the cache"
    if report.estimated == report.calls:
        return "in an ideal cache: estimated, the log has no usage"
    return f"from the cache: {report.estimated:,} of {format_count(report.calls, 'call')} estimated"


def _describe_dead(report: LogReport) -> str:
    if not report.dead:
        return "no outdated text was found in later calls"
    paid = f", {_money(report, report.dead_cost)} to carry" if report.is_priced else ""
    values = format_count(report.dead_values, "outdated text")
    return f"{values}, shown in {report.dead_calls:,} of {format_count(report.calls, 'call')}{paid}"


def _describe_bill(report: LogReport, name: str, bill: TokenBill, cache: str) -> str:
    has_cache = bill.cache_read or bill.cache_write
    share = f"{bill.cache_read / bill.tokens:.0%} read {cache}" if has_cache else "no cache reported"
    return f"{name:<10} {bill.tokens:>13,} tokens  {_money(report, bill.cost)}   {share}"


def _describe_value(value: DeadValue) -> str:
    calls = format_count(value.calls, "call")
    target = value.what.partition(" ")[2]
    by = _end_of(value.by.replace(target, "").strip(" :") if target else value.by)
    what = f"{value.what} {value.value}" if value.value else value.what
    return f"m{value.at}: {_end_of(what)}: {value.tokens:,} tokens in {calls}, outdated by {by}"


def _end_of(text: str) -> str:
    """The end of a long text: of a path, that is what tells files apart."""
    return text if len(text) <= _TARGET_CHARS else f"…{text[-_TARGET_CHARS:]}"


def _describe_breaks(report: LogReport) -> str:
    if report.estimated == report.calls or not report.sent.cache_read:
        return "the log has no figures of a cache"
    if not report.cache_breaks:
        return "no break"
    tokens = sum(found.tokens_rewritten for found in report.cache_breaks)
    cost = sum(found.cost for found in report.cache_breaks)
    paid = f", {_money(report, cost)} more than reading them" if report.is_priced else ""
    return f"{format_count(len(report.cache_breaks), 'break')}, {tokens:,} tokens paid again{paid}"


def _plain(text: str) -> str:
    """A line of a terminal: whatever a log has, it moves no cursor."""
    return "".join(each if each.isprintable() else " " for each in text)


def _money(report: LogReport, micros: int) -> str:
    if not report.is_priced:
        return "(no prices)"
    return f"${micros / _MICROS:,.2f}" if micros >= _MICROS // 100 or not micros else f"${micros / _MICROS:.4f}"
