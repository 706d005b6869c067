"""Where a contender is replayed: a provider and a clock of its own, and what is asked of its store afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gateway import checks
from benchmarks.gateway.clocks import RecordedClock
from benchmarks.gateway.contenders import Contender, GatewayProcess, run_contender
from benchmarks.gateway.findings import PLAIN, ReplayFinding
from benchmarks.gateway.heads import Head
from benchmarks.gateway.material import MODEL, ReplayCall, ReplaySession
from benchmarks.gateway.replays import Replay, SessionReplay
from benchmarks.gateway.upstream import ReplayProvider
from holdfast.model.history.prices import find_prices

Calls = Mapping[str, list[ReplayCall]]
"""By session, where it takes another course than the recorded one."""


class Ground:
    """A provider, a clock, and a folder for what contenders write."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._clock = RecordedClock(folder / "clock")
        self._provider = ReplayProvider(self._clock)
        prices = find_prices(MODEL)
        assert prices is not None, "a listed model"
        self._prices = prices

    def __enter__(self) -> Ground:
        self._provider.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._provider.stop()

    def replay_plain(
        self, sessions: Sequence[ReplaySession], head: Head, courses: Calls | None = None
    ) -> ReplayFinding:
        """Requests that go straight to the provider."""
        return _build_finding(PLAIN, self._run(self._provider.url, sessions, head, courses or {}))

    def replay(
        self,
        contender: Contender,
        sessions: Sequence[ReplaySession],
        head: Head,
        courses: Calls | None = None,
        *,
        is_killed: bool = False,
    ) -> ReplayFinding:
        """Requests through a contender; `is_killed` in the middle of each session, and started again."""
        with run_contender(contender, self._provider.url, self._folder, self._clock) as process:
            begun_s = process.read_cpu_s()
            found = self._run(process.url, sessions, head, courses or {}, process, is_killed=is_killed)
            finding = _build_finding(contender.name, found)
            if not is_killed:  # else the process is not the one that began
                finding.cpu_ms = (process.read_cpu_s() - begun_s) / max(1, finding.total.calls) * 1_000
            finding.rss = process.read_rss()
        contender.check_log(self._folder)
        store = self._folder / "gateway.db"
        if store.exists():
            _check_store(store, finding, sessions, found)
        return finding

    def _run(
        self,
        url: str,
        sessions: Sequence[ReplaySession],
        head: Head,
        courses: Calls,
        process: GatewayProcess | None = None,
        *,
        is_killed: bool = False,
    ) -> dict[str, SessionReplay]:
        replay = Replay(url, self._provider, self._clock, head, self._prices, process)
        found = {}
        for session in sessions:
            calls = courses.get(session.name, session.calls)
            middle = len(calls) // 2

            def disturb(number: int, middle: int = middle) -> None:
                if is_killed and process is not None and number == middle:
                    process.kill()
                    process.start()

            found[session.name] = replay.run(session, calls, disturb)
        replay.close()
        return found


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
