"""The comparison as tables: each line against one peer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.agents import workload
from benchmarks.agents.measure import Findings, Kills, SizeFindings, line_name
from benchmarks.agents.targets import TAIL, TURN, UNITS, WINDOW, Contender, Target
from benchmarks.harness import FSYNC, Sample, Spread, each_us, limit_met, rate, rate_ratio, time_ratio
from benchmarks.report import Goal, Line, Table, micros, per_second

AHEAD = Goal("at least", 1)
FASTER = Goal("below", 1)
FLAT = Goal("at most", 1.5)
NONE = Goal("at most", 0)
GROWTH_FROM_TURNS = 100
READS = {TAIL: f"last {workload.TAIL_MESSAGES} messages", WINDOW: f"last {workload.WINDOW_TOKENS:,} tokens"}


def build_tables(found: Findings) -> list[Table]:
    return [appends(found), reads(found), disk(found), growth(found), kills(found)]


def table(target: Target, title: str, lines: list[Line], notes: Sequence[str] = ()) -> Table:
    said = [note for note in notes if note]
    return Table(name=target.name, title=title, ours="ours", theirs="theirs", lines=lines, notes=said)


def appends(found: Findings) -> Table:
    target, lines = found.target, []
    for unit in UNITS:
        for peer in target.peers:
            for sized in found.sized:
                samples = sized.pairs[peer.name].appends
                ours, theirs = (
                    samples[line_name(target.ours, unit)],
                    samples[line_name(peer, unit if unit in peer.units else TURN)],
                )
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
        *(describe_peer(name, about) for name, about in found.about.items()),
        target.settings_note,
        "All are durable when they return.",
        *(peer.appends_note for peer in target.peers),
        f"Measuring adds turns: our sessions of {shortest.turns} ended with {shortest.ended_with[target.ours.name]}.",
    ]
    return table(target, "messages appended a second, by each one's own durable default", lines, notes)


def describe_peer(name: str, about: Mapping[str, object]) -> str:
    versions, settings = about["versions"], about["settings"]
    assert isinstance(versions, dict)
    assert isinstance(settings, dict)
    packages = ", ".join(f"{package} {version}" for package, version in versions.items())
    (database, version), *others = settings.items()
    set_to = ", ".join(f"{setting}={value}" for setting, value in others)
    return f"{name}: {packages} on {database} {version}, {set_to}."


def reads(found: Findings) -> Table:
    target, lines = found.target, []
    for peer in target.peers:
        (kind,) = peer.reads
        for sized in found.sized:
            samples = sized.pairs[peer.name].reads
            ours, theirs = samples[line_name(target.ours, kind)], samples[line_name(peer, kind)]
            lines.append(
                Line(
                    what=f"{READS[kind]}, {sized.turns:,} turns: {peer.name}",
                    ours=micros(each_us(ours)),
                    theirs=micros(each_us(theirs)),
                    ratio=time_ratio(ours, theirs),
                    goal=FASTER if sized.turns >= target.reads_goal_from_turns else None,
                    limit=limit_met(ours, samples[FSYNC]),
                )
            )
    notes = [
        *(peer.reads_note for peer in target.peers),
        "Ours shows of a result above 50 KiB the beginning; theirs leave out what does not fit.",
    ]
    return table(target, "what goes to the model next", lines, notes)


def disk(found: Findings) -> Table:
    target, lines = found.target, []
    notes = [target.ground.sizes_note]
    for peer in target.peers:
        grown = found.grown.get(peer.name)
        for sized in found.sized:
            ours = sized.on_disk[target.ours.name]
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
    return table(target, "bytes on disk", lines, notes)


def size(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"


def growth(found: Findings) -> Table:
    first, last = next(each for each in found.sized if each.turns == GROWTH_FROM_TURNS), found.sized[-1]
    target, lines = found.target, []
    for action, named in (*((unit, unit) for unit in UNITS), *READS.items()):
        peers = [peer for peer in target.peers if action in (*peer.units, *peer.reads)]
        ours = Spread.of([cost_ratio(first, last, peer, target.ours, action) for peer in peers])
        lines.append(Line(what=named, ours=f"{ours.median:.2f}×", ratio=ours, goal=FLAT))
        for peer in peers:
            theirs = cost_ratio(first, last, peer, peer, action)
            lines.append(Line(what=f"{named}: {peer.name}", ours="", theirs=f"{theirs:.2f}×"))
    notes = ["Our ratio is over the comparisons with each peer."]
    title = f"what one costs at {last.turns:,} turns, over what it costs at {first.turns:,}"
    return table(target, title, lines, notes)


def cost_ratio(first: SizeFindings, last: SizeFindings, peer: Contender, contender: Contender, action: str) -> float:
    def cost(sized: SizeFindings) -> float:
        pair = sized.pairs[peer.name]
        samples: Sequence[Sample] = (pair.appends if action in UNITS else pair.reads)[line_name(contender, action)]
        return statistics.median(sample.each_us for sample in samples)

    return cost(last) / cost(first)


def kills(found: Findings) -> Table:
    target, lines = found.target, []
    for fault in ("missing", "doubled"):
        ours, *theirs = ((each.name, found.kills[each.name]) for each in target.contenders)
        count = getattr(ours[1], fault)
        lines.append(Line(what=fault, ours=format_kills(ours[1], fault), ratio=Spread.of([count]), goal=NONE))
        lines += [Line(what=f"{fault}: {name}", ours="", theirs=format_kills(each, fault)) for name, each in theirs]
    notes = [
        "Missing of those that were answered for. What had no answer when the kill came is sent again, as a client would:",
        "we know it by its key, langgraph resumes the run that was cut off; the others keep it twice if it had arrived,",
        "and it had if the kill came while the disk was being waited for.",
    ]
    return table(target, f"messages after {found.killed} kills", lines, notes)


def format_kills(kills: Kills, fault: str) -> str:
    return f"{getattr(kills, fault)} of {kills.answered:,}"
