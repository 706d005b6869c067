"""The figures as tables to read, and as the page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.gateway.findings import (
    FAITHFUL,
    FRUGAL,
    OURS,
    PEERS,
    PLAIN,
    Comparison,
    GatewayFindings,
    ReplayFinding,
)
from benchmarks.harness import Spread
from benchmarks.report import Goal, Line, Table

COMMAND = (
    "python -m benchmarks gateway --table docs/explanation/gateway.md --picture docs/explanation/gateway-savings.svg"
)
COSTS = {FAITHFUL: Goal("at most", 0.70), FRUGAL: Goal("at most", 0.55)}
GROUNDED = {FAITHFUL: Goal("at least", 99.9), FRUGAL: Goal("at least", 99.4)}
WORST = Goal("at most", 1.01)
ADDED_MS = Goal("at most", 10)
ALL = Goal("at least", 100)
STATED = Goal("at most", 2)
EXTRA_MB = Goal("below", 50)
MEMORY_MB = Goal("below", 80)


def build_tables(findings: GatewayFindings) -> list[Table]:
    return [
        _build_money(findings, findings.small, findings.small_head, has_goals=True),
        _build_money(findings, findings.large, findings.large_head, has_goals=False),
        _build_variants(findings),
        _build_times(findings),
    ]


def _build_money(findings: GatewayFindings, found: Mapping[str, ReplayFinding], head: int, *, has_goals: bool) -> Table:
    lines = []
    for name in found:
        compared = findings.compare(name, found)
        total = compared.own.total
        lines.append(
            Line(
                what=name,
                ours=f"${total.cost / 1e12:.2f}, {total.sent / total.calls:,.0f} tokens a call, read {total.hits:.1%}",
                theirs=f"grounding {total.grounding:.2%}, look-back {compared.billed:.3f}",
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
        "grounding, in percent": (total.grounding, GROUNDED[name], f"of {total.judged:,} calls"),
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


def _build_times(findings: GatewayFindings) -> Table:
    lines = [
        Line(
            what=f"{each.what}: added p95, ms",
            ours=f"p50 {each.p50:.1f}, most {each.most:.0f}",
            theirs=f"direct {each.direct_ms:.1f}, {each.calls} calls, body {each.body / 1e3:,.0f} kB",
            ratio=Spread.of([each.p95]),
            goal=ADDED_MS,
        )
        for each in findings.latencies
    ]
    memory, size = findings.memory, findings.size
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
    note = f"Added: the difference of the same call both ways. The load was {findings.load:.1f} on {findings.machine}."
    return Table(
        name="gateway, time and memory", title="to the first byte", ours="ours", theirs="", lines=lines, notes=[note]
    )


HEAD = """# What the gateway saves

Made by `{command}` on {date}. {sessions} recorded sessions of a coding agent, {calls:,} model calls, are sent over HTTP as
Anthropic requests: streamed, with the cache marks that Claude Code sets, at the recorded times. Each contender stands
between the client and a fake provider, which answers with the recorded reply. `holdfast gateway` runs as a command with its
defaults; frugal is `--policy frugal`. headroom is its own proxy, headroom-ai 0.42.0 in an environment of its own, without
its limit of 60 requests a minute, else with its defaults.

![Input cost of each contender, as a share of plain requests](gateway-savings.svg)

One scorer prices what comes to the provider, for all: the cache holds the blocks of the last request for five minutes after
its reply; what a request has in common with it from the beginning on is read at $0.30 a million tokens, the rest is written
at $3.75. Tokens are counted exactly (o200k), with 4 more for each block. Replies cost the same for all and are left out.
**Grounding** is the share of the paths, names, ids and numbers in the arguments of the next call that its request contains,
of those that had appeared before. Beside it, *look-back* is the bill of the fake provider, which caches only at marks and
looks back 20 blocks from each, as Anthropic documents it.

## Instructions and tools of {head:,} tokens

"""

ROW = (
    "| contender | input cost | of plain | of plain, look-back | tokens a call | read from the cache | grounding "
    "| dearest session | dearer sessions | streams | CPU ms a call |\n"
)
RULE = "|---|---|---|---|---|---|---|---|---|---|---|\n"

LARGE = """
## Instructions and tools of {head:,} tokens

As large as those of Claude Code. headroom was not run with them.

"""

CHECKS = """
*Streams*: the answers whose first byte reached the client before the provider had sent the last one; the provider holds the
end back until then. {intact}

{read_back}

{stated}

On the half of the sessions that the summarizer's weights were fitted without: {held_out}.
"""

VARIANTS = """
## Other courses

On {few} of the sessions: clients that edit replies or go back, gaps that empty the cache, and a gateway that is killed with
`kill -9` in the middle of each session and started again.

| course | contender | of plain | dearest session | grounding | failed calls |
|---|---|---|---|---|---|
"""

TIMES = """
## Time and memory

Added time to the first byte, over a direct connection to a provider that answers at once: the difference of the same call
sent both ways, with a head of {head:,} tokens, faithful, on a file with durable commits. Of the {many} clients, each waits
two seconds on average between its calls. The machine: {machine}, with a load of {load:.1f} from others.

| | calls | median body, kB | direct, ms | added p50, ms | added p95, ms | most, ms |
|---|---|---|---|---|---|---|
"""

MEMORY = """
The gateway had {start:.0f} MB of memory at the start, {middle:.0f} MB after half of {requests:,} requests without a pause,
and {end:.0f} MB at the end. It needs {extra:.1f} MB of installed packages beside the {core:.0f} MB of the core.
"""

NOTES = """
## What such a replay does not say

- Replays do not react. No model reads an original again, takes another course because something is missing, or answers
  worse. Grounding sees names, not meaning. Whether tasks are solved as often was not measured.
- The prices are those of claude-sonnet-4-5, and the cache is a model of the documented one. Real hits depend on the
  provider.
- The sessions are from one agent and a few projects. The planner's shares were chosen with these sessions at hand.
- Recorded requests had other instructions and tools; here they are words of the same size.
- Text that only a model of headroom compresses (Kompress) needs a download, and passed through it unchanged.
- Times are of one machine, where clients, the provider and the gateway share the cores.
"""


def write_page(findings: GatewayFindings) -> str:
    """The page of the documentation."""
    page = HEAD.format(
        command=COMMAND,
        date=findings.date,
        sessions=findings.sessions,
        calls=findings.calls,
        head=findings.small_head,
    )
    page += ROW + RULE + "".join(_write_row(findings.compare(name)) for name in findings.small)
    page += f"\nheadroom is not in the table: {findings.missing}.\n" if findings.missing else ""
    page += f"\n{findings.remark}\n" if findings.remark else ""
    page += _write_checks(findings)
    if findings.large:
        page += LARGE.format(head=findings.large_head) + ROW + RULE
        page += "".join(_write_row(findings.compare(name, findings.large)) for name in findings.large)
    if findings.variants:
        page += VARIANTS.format(few=findings.few)
    for each in findings.variants:
        figures = f"{each.cost:.3f} | {each.worst:.3f} | {each.grounding:.2%} | {each.failed}"
        page += f"| {each.course} | {each.name} | {figures} |\n"
    return page + (_write_times(findings) if findings.latencies else "") + NOTES


def _write_row(compared: Comparison) -> str:
    own, total = compared.own, compared.own.total
    cells = [
        own.name,
        f"${total.cost / 1e12:.2f}",
        f"{compared.cost:.3f}",
        f"{compared.billed:.3f}",
        f"{total.sent / total.calls:,.0f}",
        f"{total.hits:.1%}",
        f"{total.grounding:.2%}",
        f"{compared.worst:.3f}",
        f"{compared.dearer}",
        f"{total.streams / total.calls:.1%}",
        f"{own.cpu_ms:.1f}" if own.name != PLAIN else "",
    ]
    return f"| {' | '.join(cells)} |\n"


def _write_checks(findings: GatewayFindings) -> str:
    shown = [findings.compare(name) for name in OURS if name in findings.small]
    intact = " ".join(
        f"Of {each.own.total.calls:,} answers through {each.own.name}, {each.own.total.intact:,} came byte for byte."
        for each in shown
    )
    read_back = " ".join(
        f"Of {each.own.removed:,} tool results that {each.own.name} left out of some request, or shortened in it, "
        f"{each.own.readable:,} can be read by their handles."
        for each in shown
    )
    stated = " ".join(
        f"{each.own.name} itself says that the calls would have cost ${each.own.stated_plain / 1e12:.2f} without it; the "
        f"plain replay was billed ${sum(each.plain.billed.values()) / 1e12:.2f}, with replies ({each.stated_error:+.1%})."
        for each in shown
    )
    names = [name for name in (*OURS, *PEERS) if name in findings.small]
    halves = [(name, findings.compare(name).on(findings.held_out)) for name in names] if findings.held_out else []
    held_out = "; ".join(f"{name} {half.cost:.3f} at {half.own.total.grounding:.2%}" for name, half in halves)
    return CHECKS.format(intact=intact, read_back=read_back, stated=stated, held_out=held_out or "none were run")


def _write_times(findings: GatewayFindings) -> str:
    memory, size = findings.memory, findings.size
    page = TIMES.format(head=findings.large_head, many=32, machine=findings.machine, load=findings.load)
    for each in findings.latencies:
        page += (
            f"| {each.what} | {each.calls} | {each.body / 1e3:,.0f} | {each.direct_ms:.1f} | {each.p50:.1f} "
            f"| {each.p95:.1f} | {each.most:,.0f} |\n"
        )
    return page + MEMORY.format(
        start=memory.start / 1e6,
        middle=memory.middle / 1e6,
        end=memory.end / 1e6,
        requests=memory.requests,
        extra=size.extra / 1e6,
        core=size.core / 1e6,
    )
