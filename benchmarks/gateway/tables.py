"""The figures as tables to read, with the goals."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.gateway.findings import FAITHFUL, FRUGAL, OURS, Comparison, GatewayFindings, ReplayFinding, TimeFindings
from benchmarks.harness import Spread
from benchmarks.report import Goal, Line, Table

COSTS = {FAITHFUL: Goal("at most", 0.70), FRUGAL: Goal("at most", 0.55)}
GROUNDED = {FAITHFUL: Goal("at least", 99.9), FRUGAL: Goal("at least", 99.4)}
WORST = Goal("at most", 1.01)
ADDED_MS = Goal("at most", 10)
ALL = Goal("at least", 100)
STATED = Goal("at most", 2)
EXTRA_MB = Goal("below", 50)
MEMORY_MB = Goal("below", 80)


def build_tables(findings: GatewayFindings) -> list[Table]:
    """A table for each thing that was measured."""
    tables = [_build_money(findings, findings.small, findings.small_head, has_goals=True)]
    tables += [_build_money(findings, findings.large, findings.large_head, has_goals=False)] if findings.large else []
    tables += [_build_variants(findings)] if findings.variants else []
    tables += [_build_times(findings, findings.times)] if findings.times is not None else []
    return tables


def _build_money(findings: GatewayFindings, found: Mapping[str, ReplayFinding], head: int, *, has_goals: bool) -> Table:
    lines = []
    for name in found:
        compared = findings.compare(name, found)
        total = compared.own.total
        lines.append(
            Line(
                what=f"{name}: input cost ÷ plain",
                ours=f"{_price(compared)}, {total.sent / total.calls:,.0f} tokens a call, read {total.hits:.1%}",
                theirs=f"grounding {total.grounding:.3%}, look-back {compared.billed:.3f}",
                ratio=Spread.of([compared.cost]),
                goal=COSTS.get(name) if has_goals else None,
            )
        )
    for name in OURS if has_goals else ():
        lines += _build_goals(findings, name)
    notes = [_describe(findings, head)]
    notes += [f"Not among them: {findings.missing}."] if findings.missing and has_goals else []
    broken = [name for name, each in found.items() if name in OURS and (each.total.failed or each.total.resent)]
    return Table(
        name=f"gateway, a head of {head:,} tokens",
        title="input cost ÷ that of plain requests",
        ours="input cost",
        theirs="content",
        lines=lines,
        notes=notes,
        wrong=f"calls failed or were refused: {', '.join(broken)}" if broken else "",
    )


def _price(compared: Comparison) -> str:
    return f"${compared.own.total.cost / 1e12:.2f}, {compared.cost:.4f} of plain"


def _describe(findings: GatewayFindings, head: int) -> str:
    return (
        f"{findings.sessions} sessions with {findings.calls:,} calls over HTTP, streamed, at the recorded times; "
        f"{head:,} tokens of instructions and tools stand before the messages."
    )


def _build_goals(findings: GatewayFindings, name: str) -> list[Line]:
    compared = findings.compare(name)
    own, total = compared.own, compared.own.total
    readable = own.readable / own.removed if own.removed else 1.0
    shares = {
        "grounding, in percent": (total.grounding, GROUNDED[name], f"{total.grounding:.4%} of {total.judged:,} calls"),
        "streams that stay streams, in percent": (total.streams / total.calls, ALL, f"of {total.calls:,}"),
        "answers that come byte for byte, in percent": (total.intact / total.calls, ALL, f"of {total.calls:,}"),
        "results that left a request and can be read, in percent": (readable, ALL, f"of {own.removed:,}"),
    }
    lines = [
        Line(what=f"  {name}: {what}", ours=of, ratio=Spread.of([100 * share]), goal=goal)
        for what, (share, goal, of) in shares.items()
    ]
    lines.append(
        Line(
            what=f"  {name}: dearest session ÷ plain",
            ours=f"{compared.dearer} sessions are dearer",
            ratio=Spread.of([compared.worst]),
            goal=WORST,
        )
    )
    lines.append(
        Line(
            what=f"  {name}: its own figure of the plain bill, percent off",
            ours=f"${own.stated_plain / 1e12:.2f}",
            theirs=f"${sum(compared.plain.billed.values()) / 1e12:.2f} billed",
            ratio=Spread.of([100 * abs(compared.stated_error)]),
            goal=STATED,
        )
    )
    return lines


def _build_variants(findings: GatewayFindings) -> Table:
    lines = [
        Line(
            what=f"{each.name}: {each.course}",
            ours=f"grounding {each.grounding:.2%}",
            theirs=f"dearest session {each.worst:.3f}, {each.failed} failed, {each.resent} refused",
            ratio=Spread.of([each.cost]),
        )
        for each in findings.variants
    ]
    title = "input cost ÷ that of plain requests on the same course"
    return Table(name="gateway, other courses", title=title, ours="content", theirs="", lines=lines)


def _build_times(findings: GatewayFindings, times: TimeFindings) -> Table:
    lines = [
        Line(
            what=f"{each.what}: added p95, ms",
            ours=f"p50 {each.p50:.1f}, most {each.most:.0f}",
            theirs=f"direct {each.direct_ms:.1f}, {each.calls} calls, body {each.body / 1e3:,.0f} kB",
            ratio=Spread.of([each.p95]),
            goal=ADDED_MS,
        )
        for each in times.latencies
    ]
    memory, size = times.memory, findings.size
    lines.append(
        Line(
            what=f"memory after {memory.requests:,} requests, MB",
            ours=f"start {memory.start / 1e6:.0f}, middle {memory.middle / 1e6:.0f}",
            ratio=Spread.of([memory.end / 1e6]),
            goal=MEMORY_MB,
        )
    )
    lines.append(
        Line(
            what="installed beside the core, MB",
            ours=f"core {size.core / 1e6:.0f}",
            ratio=Spread.of([size.extra / 1e6]),
            goal=EXTRA_MB,
        )
    )
    load = f"The load was {times.load:.1f} on {findings.machine}."
    note = f"Added: the difference of the same call both ways. {load}"
    return Table(
        name="gateway, time and memory", title="to the first byte", ours="ours", theirs="", lines=lines, notes=[note]
    )
