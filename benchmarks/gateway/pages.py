"""The figures as the page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.gateway.findings import (
    FAITHFUL,
    OURS,
    PEERS,
    PLAIN,
    Comparison,
    GatewayFindings,
    ReplayFinding,
    TimeFindings,
)
from benchmarks.gateway.latencies import MANY
from benchmarks.gateway.tables import build_tables

COMMAND = (
    "python -m benchmarks gateway --table docs/explanation/gateway.md --picture docs/explanation/gateway-savings.svg"
)

HEAD = """# What the gateway saves

With each call, a coding agent sends its whole conversation again. `holdfast gateway` stands between the agent and its
model, and sends less of it. {sessions} recorded sessions of a coding agent, with {calls:,} model calls, were replayed to
see what that saves, and what it leaves out.

{short}

![Input cost through each gateway, as a share of plain requests](gateway-savings.svg)

Made by `{command}` on {date}, with Holdfast {version}. Nothing on this page is written by hand.
{remark}
## Goals

{met} of {goals} goals are met.

| goal | wanted | measured | |
|---|---|---|---|
{rows}
## What is compared

The sessions are sent over HTTP as Anthropic requests: streamed, with the cache marks that Claude Code sets, at the recorded
times. Each contender stands between the client and a fake provider, which answers with the recorded reply.

- **plain**: the client's requests go straight to the provider.
- **Holdfast, faithful**: `holdfast gateway` as a command, with its defaults.
- **Holdfast, frugal**: the same with `--policy frugal`, which leaves out more.
- **headroom**: its own proxy, headroom-ai 0.42.0 in an environment of its own, in both of its modes. It has no limit of 60
  requests a minute and does not ask for a subscription; all else is its default.

One scorer prices what comes to the provider, for all: the cache holds the blocks of the last request for five minutes after
its reply; what a request has in common with it from the beginning on is read at $0.30 a million tokens, the rest is written
at $3.75. Tokens are counted exactly (o200k), with 4 more for each block. Replies cost the same for all and are left out.

**Grounding** is the share of the paths, names, ids and numbers in the arguments of the next call that its request contains,
of those that had appeared before. The *dearest session* is the one that came out worst, against its own plain cost.
*Look-back* is the bill of the fake provider, which caches only at marks and looks back 20 blocks from each, as Anthropic
documents it. The planner does not know of that: where it shortens results in the midst of a conversation, more is written
again than it reckons with.

"""

PARTIAL = """
These figures are not of a whole run of the command: what this page does not show was not measured with this version.
"""

MONEY = """## Instructions and tools of {head:,} tokens

{about}

"""
ROW = (
    "| contender | input cost | of plain | of plain, look-back | tokens a call | read from the cache | grounding "
    "| dearest session | dearest, look-back | dearer sessions |\n|---|---|---|---|---|---|---|---|---|---|\n"
)
SMALL = "What stands before the messages of a request is small, so these figures speak of the conversation."
LARGE = """As large as those of Claude Code. No gateway makes them smaller, so the shares move towards 1. headroom is run
with them in its default mode."""

WORK = """
| contender | answers that stay streams | that come byte for byte | CPU time a call, ms | memory at the end, MB |
|---|---|---|---|---|
"""

CHECKS = """
An answer *stays a stream* if its first byte reaches the client before the provider has sent the last one; the provider
holds the end back until then. CPU time is that of the contender's process, so it says little of what ran beside it.

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
two seconds on average between its calls. Nothing else of this command ran beside it. The machine: {machine},
with a load of {load:.1f} in the minute before.

| | calls | median body, kB | direct, ms | added p50, ms | added p95, ms | most, ms |
|---|---|---|---|---|---|---|
"""

MEMORY = """
The gateway had {start:.0f} MB of memory at the start, {middle:.0f} MB after half of {requests:,} requests without a pause,
and {end:.0f} MB at the end. These are of the {few} sessions of the other courses. After all {sessions} sessions, some of
which have far larger requests, it had {replayed} MB: see above. It needs {extra:.1f} MB of installed packages
beside the {core:.0f} MB of the core.
"""

NOTES = """
## What such a replay does not say

- Replays do not react. No model reads an original again, takes another course because something is missing, or answers
  worse. Grounding sees names, not meaning. Whether tasks are solved as often was not measured.
- The prices are those of claude-sonnet-4-5, and the cache is a model of the documented one. Real hits depend on the
  provider.
- The sessions are from one agent and a few projects. The planner's shares were chosen with these sessions at hand.
- Recorded requests had other instructions and tools; here they are words of the same size.
- headroom's model for prose (Kompress) needs a download and was not there. What it would have shortened passed unchanged.
- Seconds lie between two recorded calls. Here the next call comes when the contender has done its work behind the last one,
  or after two seconds.
- Times are of one machine, where clients, the provider and the gateway share the cores.

## When it was made

A long run can be stopped and goes on with `--keep DIR`. A part that was kept is used again only for the same sessions, the
same measuring code, and the same code of Holdfast or version of headroom. Times are UTC.

| part | from | to |
|---|---|---|
"""


def write_page(findings: GatewayFindings) -> str:
    """The page of the documentation."""
    lines = [line for table in build_tables(findings) for line in table.lines if line.met is not None]
    rows = "".join(
        f"| {line.what.strip()} | {line.goal.side} {line.goal.value:g} | {line.ratio.median:,.3f} "
        f"| {'met' if line.met else '**missed**'} |\n"
        for line in lines
        if line.goal is not None and line.ratio is not None
    )
    page = HEAD.format(
        command=COMMAND,
        date=findings.date,
        version=findings.version,
        sessions=findings.sessions,
        calls=findings.calls,
        short="\n".join(_write_short(findings)),
        met=sum(line.met is True for line in lines),
        goals=len(lines),
        rows=rows,
        remark="" if findings.is_whole else PARTIAL,
    )
    page += _write_money(findings, findings.small, findings.small_head, SMALL)
    page += f"\nheadroom is not among them: {findings.missing}.\n" if findings.missing else ""
    page += WORK + "".join(map(_write_work, findings.small.values()))
    page += _write_checks(findings)
    page += _write_money(findings, findings.large, findings.large_head, LARGE) if findings.large else ""
    page += VARIANTS.format(few=findings.few) if findings.variants else ""
    for each in findings.variants:
        figures = f"{each.cost:.3f} | {each.worst:.3f} | {each.grounding:.2%} | {each.failed}"
        page += f"| {each.course} | {each.name} | {figures} |\n"
    page += _write_times(findings, findings.times) if findings.times is not None else ""
    page += NOTES
    return page + "".join(f"| {each.name} | {each.begun} | {each.ended} |\n" for each in findings.works)


def _write_short(findings: GatewayFindings) -> Iterator[str]:
    """What a reader should know first."""
    for name, found in findings.small.items():
        if name != PLAIN:
            yield (
                f"- **{name}**: the input costs {findings.compare(name).cost:.1%} of plain requests. The requests held "
                f"{found.total.grounding:.2%} of what the next call named."
            )


def _write_money(findings: GatewayFindings, found: Mapping[str, ReplayFinding], head: int, about: str) -> str:
    rows = "".join(_write_row(findings.compare(name, found)) for name in found)
    return MONEY.format(head=head, about=about) + ROW + rows


def _write_row(compared: Comparison) -> str:
    total = compared.own.total
    cells = [
        compared.own.name,
        f"${total.cost / 1e12:.2f}",
        f"{compared.cost:.3f}",
        f"{compared.billed:.3f}",
        f"{total.sent / total.calls:,.0f}",
        f"{total.hits:.1%}",
        f"{total.grounding:.2%}",
        f"{compared.worst:.3f}",
        f"{compared.worst_billed:.3f}",
        f"{compared.dearer}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _write_work(found: ReplayFinding) -> str:
    total, is_plain = found.total, found.name == PLAIN
    cells = [
        found.name,
        f"{total.streams / total.calls:.1%}",
        f"{total.intact / total.calls:.1%}",
        "" if is_plain else f"{found.cpu_ms:.1f}",
        "" if is_plain else f"{found.rss / 1e6:.0f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _write_checks(findings: GatewayFindings) -> str:
    shown = [findings.compare(name) for name in OURS if name in findings.small]
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
    return CHECKS.format(read_back=read_back, stated=stated, held_out=held_out or "none were run")


def _write_times(findings: GatewayFindings, times: TimeFindings) -> str:
    size = findings.size
    page = TIMES.format(head=findings.large_head, many=MANY, machine=findings.machine, load=times.load)
    for each in times.latencies:
        page += (
            f"| {each.what} | {each.calls} | {each.body / 1e3:,.0f} | {each.direct_ms:.1f} | {each.p50:.1f} "
            f"| {each.p95:.1f} | {each.most:,.0f} |\n"
        )
    return page + MEMORY.format(
        start=times.memory.start / 1e6,
        middle=times.memory.middle / 1e6,
        end=times.memory.end / 1e6,
        requests=times.memory.requests,
        few=findings.few,
        sessions=findings.sessions,
        replayed=f"{findings.small[FAITHFUL].rss / 1e6:.0f}",
        extra=size.extra / 1e6,
        core=size.core / 1e6,
    )
