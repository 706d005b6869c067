"""The comparison as tables: each line against one peer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.agents import workload
from benchmarks.agents.measure import OURS, PEERS, TAIL, TURN, UNITS, WINDOW, Contender, Findings, Kills, Sized, what
from benchmarks.harness import FSYNC, Sample, Spread, each_us, limit_met, rate, rate_ratio, time_ratio
from benchmarks.report import Goal, Line, Table, micros, per_second

AHEAD = Goal("at least", 1)
FASTER = Goal("below", 1)
FLAT = Goal("at most", 1.5)
NONE = Goal("at most", 0)
GOAL_FROM_TURNS = 1_000
"""A read of a shorter session is of about all that there is."""
GROWTH_FROM_TURNS = 100
READS = {TAIL: f"last {workload.TAIL_MESSAGES} messages", WINDOW: f"last {workload.WINDOW_TOKENS:,} tokens"}


def compared(found: Findings) -> list[Table]:
    return [appends(found), reads(found), disk(found), growth(found), kills(found)]


def table(title: str, lines: list[Line], notes: Sequence[str] = ()) -> Table:
    return Table(name="agents", title=title, ours="ours", theirs="theirs", lines=lines, notes=list(notes))


def appends(found: Findings) -> Table:
    lines = []
    for unit in UNITS:
        for peer in PEERS:
            for sized in found.sized:
                samples = sized.pairs[peer.name].appends
                ours, theirs = samples[what(OURS, unit)], samples[what(peer, unit if unit in peer.units else TURN)]
                lines.append(
                    Line(
                        what=f"{unit}, {sized.turns:,} turns: {peer.name}",
                        ours=per_second(rate(ours)),
                        theirs=per_second(rate(theirs)),
                        ratio=rate_ratio(ours, theirs),
                        goal=AHEAD,
                        limit=limit_met(ours, samples[FSYNC]),
                    )
                )
    shortest = found.sized[0]
    notes = [
        *(described(name, about) for name, about in found.about.items()),
        "All are durable when they return. langgraph saves the whole state after each step and has no smaller unit; its",
        "graph has the usual MessagesState, not the DeltaChannel that is in beta.",
        f"Measuring adds turns: our sessions of {shortest.turns} ended with {shortest.ended_with[OURS.name]}.",
    ]
    return table("messages appended a second, by each one's own durable default", lines, notes)


def described(name: str, about: Mapping[str, object]) -> str:
    versions = about["versions"]
    assert isinstance(versions, dict)
    named = ", ".join(f"{package} {version}" for package, version in versions.items())
    return (
        f"{name}: {named} on SQLite {about['sqlite']}, journal_mode={about['journal_mode']}, "
        f"synchronous={about['synchronous']} (2 is FULL)."
    )


def reads(found: Findings) -> Table:
    lines = []
    for peer in PEERS:
        (kind,) = peer.reads
        for sized in found.sized:
            samples = sized.pairs[peer.name].reads
            ours, theirs = samples[what(OURS, kind)], samples[what(peer, kind)]
            lines.append(
                Line(
                    what=f"{READS[kind]}, {sized.turns:,} turns: {peer.name}",
                    ours=micros(each_us(ours)),
                    theirs=micros(each_us(theirs)),
                    ratio=time_ratio(ours, theirs),
                    goal=FASTER if sized.turns >= GOAL_FROM_TURNS else None,
                    limit=limit_met(ours, samples[FSYNC]),
                )
            )
    notes = [
        "openai-agents has no window by tokens, langgraph's is trimmed, llama-index keeps its own, of at most 0.7 of them.",
        "llama-index makes its indexes in an order that varies; after some, SQLite reads by one that makes this linear.",
        "Ours shows of a result above 50 KiB the beginning; theirs leave out what does not fit.",
    ]
    return table("what goes to the model next", lines, notes)


def disk(found: Findings) -> Table:
    lines = []
    notes = ["With the write-ahead log, and all that lies beside the file."]
    for peer in PEERS:
        grown = found.grown.get(peer.name)
        for sized in found.sized:
            ours = sized.on_disk[OURS.name]
            theirs = sized.on_disk[peer.name] if grown is None else grown.on_disk.get(sized.turns)
            lines.append(
                Line(
                    what=f"{sized.turns:,} turns: {peer.name}",
                    ours=size(ours),
                    theirs="not reached" if theirs is None else size(theirs),
                    ratio=None if theirs is None else Spread.of([ours / theirs]),
                )
            )
        if grown is not None and grown.turns < found.sized[-1].turns:
            notes.append(f"{peer.name} was stopped at {grown.turns:,} turns, with {size(grown.bytes)}.")
    return table("bytes on disk", lines, notes)


def size(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"


def growth(found: Findings) -> Table:
    first, last = next(each for each in found.sized if each.turns == GROWTH_FROM_TURNS), found.sized[-1]
    lines = []
    for action, named in (*((unit, unit) for unit in UNITS), *READS.items()):
        peers = [peer for peer in PEERS if action in (*peer.units, *peer.reads)]
        ours = Spread.of([dearer(first, last, peer, OURS, action) for peer in peers])
        lines.append(Line(what=named, ours=f"{ours.median:.2f}×", ratio=ours, goal=FLAT))
        for peer in peers:
            theirs = dearer(first, last, peer, peer, action)
            lines.append(Line(what=f"{named}: {peer.name}", ours="", theirs=f"{theirs:.2f}×"))
    notes = ["Our ratio is over the comparisons with each peer."]
    return table(f"what one costs at {last.turns:,} turns, over what it costs at {first.turns:,}", lines, notes)


def dearer(first: Sized, last: Sized, peer: Contender, contender: Contender, action: str) -> float:
    def cost(sized: Sized) -> float:
        pair = sized.pairs[peer.name]
        samples: Sequence[Sample] = (pair.appends if action in UNITS else pair.reads)[what(contender, action)]
        return statistics.median(sample.each_us for sample in samples)

    return cost(last) / cost(first)


def kills(found: Findings) -> Table:
    lines = []
    for fault in ("missing", "doubled"):
        ours, *theirs = ((each.name, found.kills[each.name]) for each in (OURS, *PEERS))
        count = getattr(ours[1], fault)
        lines.append(Line(what=fault, ours=counted(ours[1], fault), ratio=Spread.of([count]), goal=NONE))
        lines += [Line(what=f"{fault}: {name}", ours="", theirs=counted(each, fault)) for name, each in theirs]
    notes = [
        "Missing of those that were answered for. What had no answer when the kill came is sent again, as a client would:",
        "we know it by its key, langgraph resumes the run that was cut off; the others keep it twice if it had arrived,",
        "and it had if the kill came while the disk was being waited for.",
    ]
    return table(f"messages after {found.killed} kills", lines, notes)


def counted(kills: Kills, fault: str) -> str:
    return f"{getattr(kills, fault)} of {kills.answered:,}"
