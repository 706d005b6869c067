"""The parts of a run: one contender on one course each. They run side by side, each with a provider and a clock of its own.

A finished part can be kept. It is bound to what made it: the code that measures, the sessions, and the contender. Only a
part that is bound to the same is used again, so no page mixes versions.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from benchmarks.gateway.contenders import ENVIRONMENT, LOCK, Contender, build_headroom, build_holdfast
from benchmarks.gateway.findings import CACHE_MODE, FAITHFUL, FRUGAL, OURS, PEERS, PLAIN, TOKEN_MODE, ReplayFinding
from benchmarks.gateway.grounds import Calls, Ground
from benchmarks.gateway.heads import LARGE_HEAD, SMALL_HEAD
from benchmarks.gateway.material import MODEL, ReplaySession, read_sessions
from benchmarks.gateway.variants import COURSES
from holdfast.model.history.prices import find_prices

T = TypeVar("T")
ROOT = Path(__file__).parent.parent.parent
RECORDED = "as recorded"
RESTART = "kill -9 of the gateway in the middle"
HEADS = {"small": SMALL_HEAD, "large": LARGE_HEAD}
MEASURING = (
    *(f"benchmarks/gateway/{name}.py" for name in ("clocks", "contenders", "grounds", "heads", "material", "replays")),
    *(f"benchmarks/gateway/{name}.py" for name in ("scores", "upstream", "variants")),
    "benchmarks/gateway/shifted_clock",
    "benchmarks/cost_grounding.py",
    "benchmarks/cost_score.py",
    "src/holdfast/adapters/tokens.py",
    "tests/gateway/upstreams",
)
"""What says of a replay how it is sent, answered and scored."""
OWN = ("src/holdfast", "benchmarks/gateway/checks.py")
TIMING = ("benchmarks/gateway/latencies.py", "benchmarks/gateway/quick_upstream.py", *OWN)
_TEXTS = {".py", ".json", ".toml", ".lock", ".sql"}


class Part(msgspec.Struct, frozen=True):
    """What is measured by itself."""

    contender: str
    head: str = "small"
    course: str = RECORDED
    is_few: bool = False
    """On some of the sessions only."""

    def __str__(self) -> str:
        size = ", large head" if self.head == "large" else ""
        return f"{self.contender}{size}: {self.course}{', some sessions' if self.is_few else ''}"


class Made(msgspec.Struct, Generic[T]):
    """A finished part."""

    what: str
    binding: str
    """A digest of what made it."""
    begun: str
    """When, as the clock of the machine said in UTC."""
    ended: str
    found: T


class PartFolder:
    """Where finished parts are kept. Without a folder, none are."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, what: str, binding: str, kind: type[T]) -> Made[T] | None:
        path = self._path(what)
        if path is None or not path.exists():
            return None
        try:
            made = msgspec.json.decode(path.read_bytes(), type=Made[kind])  # type: ignore[valid-type]
        except msgspec.DecodeError:  # of another shape
            return None
        return made if made.binding == binding else None

    def keep(self, made: Made[T]) -> None:
        path = self._path(made.what)
        if path is not None:
            new = path.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(made))
            new.replace(path)

    def _path(self, what: str) -> Path | None:
        name = "".join(each if each.isalnum() else "-" for each in what)
        return None if self._folder is None else self._folder / f"{name}.json"


def measure_part(folder: PartFolder, what: str, binding: str, kind: type[T], work: Callable[[], T]) -> Made[T]:
    """Take a part from the folder, or make and keep it."""
    made = folder.find(what, binding, kind)
    if made is None:
        begun = _now()
        made = Made(what, binding, begun, "", work())
        made.ended = _now()
        folder.keep(made)
        report(f"{what}: made")
    else:
        report(f"{what}: kept from {made.ended}")
    return made


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime())


def report(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Binder:
    """Digests of what makes a part."""

    def __init__(self, sessions: Sequence[ReplaySession], few: Sequence[ReplaySession]) -> None:
        self._all, self._few = digest_sessions(sessions), digest_sessions(few)
        self._measuring = digest_files(MEASURING)
        self._own, self._peer = digest_files(OWN), hashlib.sha256(LOCK.read_bytes()).hexdigest()
        self._timing = digest_files(TIMING)

    def bind(self, part: Part) -> str:
        made_by = "" if part.contender == PLAIN else self._own if part.contender in OURS else self._peer
        sessions = self._few if part.is_few else self._all
        return _digest([str(part), sessions, self._measuring, made_by, repr(find_prices(MODEL))])

    def bind_times(self, requests: int) -> str:
        return _digest([self._few, self._measuring, self._timing, str(requests)])


def digest_files(names: Iterable[str]) -> str:
    """Of the texts of these files and folders."""
    hashed = hashlib.sha256()
    for name in names:
        path = ROOT / name
        files = sorted(each for each in path.rglob("*") if each.suffix in _TEXTS) if path.is_dir() else [path]
        for file in files:
            hashed.update(f"{file.relative_to(ROOT)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return hashed.hexdigest()


def digest_sessions(sessions: Sequence[ReplaySession]) -> str:
    hashed = hashlib.sha256()
    for session in sessions:
        hashed.update(msgspec.json.encode([session.name, session.calls[-1].turns]))
        for call in session.calls:
            hashed.update(
                msgspec.json.encode([len(call.turns), call.sent_us, call.replied_us, call.wanted, call.reply])
            )
    return hashed.hexdigest()


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def list_parts(peers: Sequence[str]) -> list[Part]:
    """The parts of a whole run: all that takes long first."""
    parts = [Part(name) for name in peers]
    parts += [Part(name, "large") for name in peers[:1]]
    for head in ("large", "small"):
        parts += [Part(name, head) for name in (FAITHFUL, FRUGAL, PLAIN)]
    for course in (RESTART, *COURSES):
        names = (*peers[:1], *OURS) if course == RESTART else (*peers[:1], *OURS, PLAIN)
        parts += [Part(name, course=course, is_few=True) for name in names]
    return parts


def run_parts(
    parts: Sequence[Part],
    binder: Binder,
    kept: PartFolder,
    files: Sequence[Path],
    few: Sequence[str],
    folder: Path,
    lanes: int,
) -> tuple[dict[Part, Made[ReplayFinding]], dict[str, str]]:
    """The findings of all parts, and why contenders could not be run. Those of Holdfast raise their errors."""
    found: dict[Part, Made[ReplayFinding]] = {}
    missing: dict[str, str] = {}
    for part in parts:
        known = kept.find(str(part), binder.bind(part), ReplayFinding)
        if known is not None:
            report(f"{part}: kept from {known.ended}")
            found[part] = known
    with _start_lanes(lanes, files, few, folder) as pool:
        works = {pool.submit(_run_part, part, binder.bind(part)): part for part in parts if part not in found}
        try:
            for work in concurrent.futures.as_completed(works):
                part = works[work]
                try:
                    made = found[part] = work.result()
                except (OSError, RuntimeError) as error:
                    if part.contender not in PEERS:
                        raise
                    missing[part.contender] = f"{part.contender} could not be run: {error}"
                    report(missing[part.contender])
                    continue
                kept.keep(made)
                report(f"{part}: made since {made.begun[11:]}, {len(found)} of {len(parts)}")
        finally:
            pool.shutdown(cancel_futures=True)
    return {part: found[part] for part in parts if part in found}, missing


# In the lanes

_sessions: Sequence[ReplaySession] = ()
_few: frozenset[str] = frozenset()
_folder = Path()


def _start_lanes(
    lanes: int, files: Sequence[Path], few: Sequence[str], folder: Path
) -> concurrent.futures.ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    given: tuple[Any, ...] = (os.getpid(), list(files), list(few), folder)
    return concurrent.futures.ProcessPoolExecutor(lanes, mp_context=context, initializer=_load, initargs=given)


def _load(parent: int, files: list[Path], few: list[str], folder: Path) -> None:
    global _sessions, _few, _folder
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _sessions, _few, _folder = read_sessions(files), frozenset(few), folder


def _end_with(parent: int) -> None:
    """End this process and its contender when the command was killed: nobody would take what they find."""
    while os.getppid() == parent:
        time.sleep(1)
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    os._exit(1)


def _run_part(part: Part, binding: str) -> Made[ReplayFinding]:
    begun = _now()
    sessions = [each for each in _sessions if each.name in _few] if part.is_few else _sessions
    change = COURSES.get(part.course)
    courses = {} if change is None else {each.name: change(each) for each in sessions}
    own = _folder / f"{os.getpid()}-{hashlib.sha256(str(part).encode()).hexdigest()[:8]}"
    try:
        with Ground(own) as ground:
            found = _replay(ground, part, sessions, courses)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return Made(str(part), binding, begun, _now(), found)


def _replay(ground: Ground, part: Part, sessions: Sequence[ReplaySession], courses: Calls) -> ReplayFinding:
    head = HEADS[part.head]
    if part.contender == PLAIN:
        return ground.replay_plain(sessions, head, courses)
    return ground.replay(build_contender(part.contender), sessions, head, courses, is_killed=part.course == RESTART)


def build_contender(name: str) -> Contender:
    if name in OURS:
        return build_holdfast(name.partition(", ")[2])
    mode = {CACHE_MODE: "cache", TOKEN_MODE: "token"}[name]
    return build_headroom(mode, ENVIRONMENT / "bin" / "python")


def collect(found: Mapping[Part, Made[ReplayFinding]], head: str) -> dict[str, ReplayFinding]:
    """What was found of all sessions as recorded, by contender."""
    chosen: Iterator[tuple[Part, Made[ReplayFinding]]] = iter(found.items())
    rows = {part.contender: made.found for part, made in chosen if part.head == head and not part.is_few}
    order = (PLAIN, FAITHFUL, FRUGAL, CACHE_MODE, TOKEN_MODE)
    return {name: rows[name] for name in order if name in rows}
