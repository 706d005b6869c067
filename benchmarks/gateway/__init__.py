"""What the gateway saves: recorded sessions of a coding agent, replayed over HTTP through it, beside plain requests and
headroom's proxy.

Every contender gets the same requests at the recorded times, and one scorer prices what comes to the provider. The clients'
bodies, the fake provider and the price model are in `material`, `upstream` and `scores`; other courses of the sessions in
`variants`; times and memory in `latencies`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.cost_recordings import is_held_out
from benchmarks.gateway import checks
from benchmarks.gateway.clocks import RecordedClock
from benchmarks.gateway.contenders import (
    ENVIRONMENT,
    LOCK,
    Contender,
    GatewayProcess,
    build_headroom,
    build_holdfast,
    run_contender,
)
from benchmarks.gateway.findings import (
    PLAIN,
    Comparison,
    GatewayFindings,
    ReplayFinding,
    VariantFinding,
)
from benchmarks.gateway.heads import LARGE_HEAD, SMALL_HEAD, Head
from benchmarks.gateway.latencies import measure_latencies
from benchmarks.gateway.material import MODEL, ReplayCall, ReplaySession, find_files, read_sessions
from benchmarks.gateway.pages import build_tables, write_page
from benchmarks.gateway.pictures import draw_picture
from benchmarks.gateway.replays import Replay, SessionReplay
from benchmarks.gateway.sizes import measure_size
from benchmarks.gateway.upstream import ReplayProvider
from benchmarks.gateway.variants import COURSES
from benchmarks.harness import Bench, environment
from benchmarks.report import Table
from holdfast.model.history.prices import Prices, find_prices

NAME = "gateway"
QUICK = 8
"""A quick run takes one session in so many; so do other courses, always."""
RESTART = "kill -9 of the gateway in the middle"
UNDISTURBED = "as recorded, the same sessions"


def run(bench: Bench) -> list[Table]:
    files = find_files(bench.data)
    if not files:
        folder = bench.data / "trajectories" / "coding-agent"
        note = f"There is no data in {folder}: nothing was measured. --data names another folder."
        return [Table(name=NAME, title="what the gateway saves", ours="", theirs="", lines=[], notes=[note])]
    sessions = read_sessions(files[QUICK // 2 :: QUICK] if bench.quick else files)
    findings = measure(bench, sessions)
    if bench.table is not None:
        bench.table.write_text(write_page(findings), "utf-8")
    if bench.picture is not None:
        bench.picture.write_text(draw_picture(findings), "utf-8")
    return build_tables(findings)


def measure(bench: Bench, sessions: Sequence[ReplaySession]) -> GatewayFindings:
    peers, missing = find_peers(bench)
    few = sessions if bench.quick else sessions[QUICK // 2 :: QUICK]
    load = os.getloadavg()[0]
    latencies, memory = measure_latencies(few, bench.folder, each=bench.pick(20, 3), requests=bench.pick(10_000, 500))
    with Ground(bench.folder) as ground:
        small = {PLAIN: ground.replay_plain(sessions, SMALL_HEAD)}
        large = {PLAIN: ground.replay_plain(sessions, LARGE_HEAD)}
        for contender in (build_holdfast("faithful"), build_holdfast("frugal")):
            small[contender.name] = ground.replay(contender, sessions, SMALL_HEAD)
            large[contender.name] = ground.replay(contender, sessions, LARGE_HEAD)
        for contender in peers:
            try:
                small[contender.name] = ground.replay(contender, sessions, SMALL_HEAD)
            except (OSError, RuntimeError) as error:
                missing = f"{contender.name} could not be run: {error}"
        survivors = [each for each in peers[:1] if each.name in small]
        variants = list(ground.vary(few, small, survivors))
    return GatewayFindings(
        date=time.strftime("%Y-%m-%d"),
        machine=f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        sessions=len(sessions),
        calls=sum(len(each.calls) for each in sessions),
        small_head=SMALL_HEAD.tokens,
        large_head=LARGE_HEAD.tokens,
        small=small,
        large=large,
        few=len(few),
        variants=variants,
        latencies=latencies,
        memory=memory,
        size=measure_size(),
        load=load,
        held_out=frozenset(each.name for each in sessions if is_held_out(each.name)),
        missing=missing,
    )


def find_peers(bench: Bench) -> tuple[list[Contender], str]:
    """The peers that can run here, and why others cannot."""
    if bench.quick:
        return [], "a quick run leaves the peers out"
    try:
        python = environment(ENVIRONMENT, LOCK)
    except (OSError, subprocess.CalledProcessError) as error:
        return [], f"headroom could not be installed: {error}"
    return [build_headroom("cache", python), build_headroom("token", python)], ""


class Ground:
    """The provider and the clock that all contenders have."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = RecordedClock(folder / "clock")
        self._provider = ReplayProvider(self._clock)
        prices = find_prices(MODEL)
        assert prices is not None
        self._prices: Prices = prices
        self._runs = 0

    def __enter__(self) -> Ground:
        self._provider.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._provider.stop()

    def replay_plain(
        self, sessions: Sequence[ReplaySession], head: Head, courses: dict[str, list[ReplayCall]] | None = None
    ) -> ReplayFinding:
        """Requests that go straight to the provider."""
        return _build_finding(PLAIN, self._run(self._provider.url, sessions, head, courses or {}))

    def replay(
        self,
        contender: Contender,
        sessions: Sequence[ReplaySession],
        head: Head,
        courses: dict[str, list[ReplayCall]] | None = None,
        *,
        is_killed: bool = False,
    ) -> ReplayFinding:
        """Requests through a contender; `is_killed` in the middle of each session, and started again."""
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        with run_contender(contender, self._provider.url, folder, self._clock) as process:
            begun_s = process.read_cpu_s()
            found = self._run(process.url, sessions, head, courses or {}, process if is_killed else None)
            finding = _build_finding(contender.name, found)
            calls = max(1, finding.total.calls)
            finding.cpu_ms = (process.read_cpu_s() - begun_s) / calls * 1_000
            finding.rss = process.read_rss()
        store = folder / "gateway.db"
        if store.exists():
            _check_store(store, finding, sessions, found)
        return finding

    def _run(
        self,
        url: str,
        sessions: Sequence[ReplaySession],
        head: Head,
        courses: dict[str, list[ReplayCall]],
        killed: GatewayProcess | None = None,
    ) -> dict[str, SessionReplay]:
        replay = Replay(url, self._provider, self._clock, head, self._prices)
        found = {}
        for session in sessions:
            calls = courses.get(session.name, session.calls)
            middle = len(calls) // 2

            def disturb(number: int, middle: int = middle) -> None:
                if killed is not None and number == middle:
                    killed.kill()
                    killed.start()

            found[session.name] = replay.run(session, calls, disturb)
        replay.close()
        return found

    def vary(
        self, sessions: Sequence[ReplaySession], known: Mapping[str, ReplayFinding], peers: Sequence[Contender]
    ) -> Iterable[VariantFinding]:
        """Other courses of some sessions, each beside its own plain replay. `known` has all sessions as recorded; of
        peers, only the restart is replayed."""
        contenders = (build_holdfast("faithful"), build_holdfast("frugal"))
        names = frozenset(session.name for session in sessions)
        for contender in (*contenders, *peers):
            usual = Comparison(known[contender.name], known[PLAIN]).on(names)
            yield _build_variant(UNDISTURBED, usual.own, usual.plain)
            own = self.replay(contender, sessions, SMALL_HEAD, is_killed=True)
            yield _build_variant(RESTART, own, usual.plain)
        for name, change in COURSES.items():
            calls = {session.name: change(session) for session in sessions}
            plain = self.replay_plain(sessions, SMALL_HEAD, calls)
            for contender in contenders:
                yield _build_variant(name, self.replay(contender, sessions, SMALL_HEAD, calls), plain)


def _build_finding(name: str, found: dict[str, SessionReplay]) -> ReplayFinding:
    return ReplayFinding(
        name,
        {each: replay.score for each, replay in found.items()},
        {each: replay.billed for each, replay in found.items()},
    )


def _check_store(
    store: Path, finding: ReplayFinding, sessions: Sequence[ReplaySession], found: dict[str, SessionReplay]
) -> None:
    removed = {name: replay.removed for name, replay in found.items()}
    check = checks.check_read_back(store, {each.name: each for each in sessions}, removed)
    finding.removed, finding.readable = check.removed, check.readable
    figures = checks.read_figures(store).values()
    finding.stated_cost = sum(each.cost for each in figures)
    finding.stated_plain = sum(each.plain_cost for each in figures)


def _build_variant(course: str, own: ReplayFinding, plain: ReplayFinding) -> VariantFinding:
    ratios = [score.cost / plain.sessions[name].cost for name, score in own.sessions.items()]
    total = own.total
    return VariantFinding(
        course, own.name, total.cost / plain.total.cost, max(ratios), total.grounding, total.failed, total.resent
    )
