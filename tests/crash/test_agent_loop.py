"""An agent that is killed wherever it waits, and started again from the top, ends as one that nobody disturbed: with the
same answer, every message once, every call with its result, and no tool run twice without having been reported unknown.

A point is each time that its coroutine, or a task that it has made, gives way to the event loop. Deaths are exceptions that
nothing stops and cancelled tasks, in one process, and SIGKILL for real ones.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import holdfast
from tests.crash.agent_checks import check
from tests.crash.agent_loop import ANSWER, MODELS, DeathKind, DeathPoint, LifeTask, provider, run_agent
from tests.crash.stores import KINDS, create_store
from tests.crash.worker import Nursery
from tests.provider import serve_provider
from tests.support import SHARED_MEMORY, SOAK, figure

PROTOCOLS = tuple(MODELS)
HOWS: tuple[DeathKind, ...] = get_args(DeathKind)[:2]
STRIDE = figure(307, 1)
"""Every so many-th point, in one process. A prime: what stands at regular distances is met in turn."""
CHAINS = figure(3, 1_500)
KILLS = {"sqlite": figure(1, 60), "postgres": figure(1, 60)}
POINTS = 1_000
"""More than an agent that nobody disturbs has."""

pytestmark = pytest.mark.promise(1, "an agent loop killed wherever it waits goes on: OpenAI chat, responses, Anthropic")


@pytest.fixture
def folder() -> Iterator[Path]:
    """In shared memory, where there is some: what survives power loss is not the question here."""
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Path(folder)


# In one process


def lived(url: str, address: str, protocol: str, *fates: DeathPoint) -> str | None:
    return asyncio.run(run_agent(url, address, protocol, *fates))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_that_dies_at_any_point_goes_on(folder: Path, protocol: str, how: DeathKind) -> None:
    first = 1 + 14 * (PROTOCOLS.index(protocol) * len(HOWS) + HOWS.index(how)) % STRIDE
    for at in itertools.count(first, STRIDE):
        assert at < POINTS
        asked = provider()
        url = str(folder / f"{at}.db")
        with serve_provider(asked) as address:
            ended = lived(url, address, protocol, DeathPoint(at, how))
            if ended is None:
                assert lived(url, address, protocol, DeathPoint()) == ANSWER
        with holdfast.open(url) as engine:
            check(engine, asked)
        if ended is not None:
            assert ended == ANSWER
            assert at > 100, "it hardly waits at all: this showed nothing"
            break


POINT = st.integers(1, 500)
LIVES = st.lists(st.tuples(st.lists(POINT, max_size=2), POINT, st.sampled_from(HOWS)), min_size=1, max_size=3)


@given(st.sampled_from(PROTOCOLS), LIVES)
@examples(max_examples=CHAINS)
def test_an_agent_that_dies_again_and_again_goes_on(
    protocol: str, lives: list[tuple[list[int], int, DeathKind]]
) -> None:
    """In each life agents are cancelled one after the other, and go on with the same engine; then it ends."""
    asked = provider()
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        url = str(Path(folder) / "agent.db")
        with serve_provider(asked) as address:
            for cancelled, at, how in lives:
                fates = [*(DeathPoint(each, "cancel") for each in cancelled), DeathPoint(at, how)]
                assert lived(url, address, protocol, *fates) in (None, ANSWER)
            assert lived(url, address, protocol, DeathPoint()) == ANSWER
        with holdfast.open(url) as engine:
            check(engine, asked)


# Processes that are killed


class Agents(Nursery):
    """Processes that live as agents, each to its end or to the point that it is killed at."""

    def __init__(self) -> None:
        super().__init__("tests.crash.agent_loop")

    def lived(self, life: LifeTask) -> tuple[int, str] | None:
        """At how many points it waited, and what it answered; None if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(life) + b"\n")
        self._process.stdin.flush()
        said = [self._process.stdout.readline()]
        while not said[-1].startswith(b"dead"):
            assert said[-1], "the nursery has ended"
            said.append(self._process.stdout.readline())
        if int(said[-1].split()[1]) == signal.SIGKILL:
            return None
        (answer,) = (line.decode() for line in said if line.startswith(b"answer"))
        _, points, text = answer.rstrip("\n").split(" ", 2)
        return int(points), text


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    with closing(Agents()) as agents:
        yield agents


@pytest.mark.parametrize(
    ("kind", "protocol"),
    [*(itertools.product(KINDS, PROTOCOLS) if SOAK else zip(itertools.cycle(KINDS), PROTOCOLS, strict=False))],
)
def test_an_agent_whose_process_is_killed_goes_on(folder: Path, agents: Agents, kind: str, protocol: str) -> None:
    kills, offset = KILLS[kind], PROTOCOLS.index(protocol)
    points = killed = 0
    with create_store(kind, folder) as store:
        for number in range(kills + 1):
            asked = provider()
            tenant, name = f"tenant-{number}", f"agent_{protocol}_{number}"
            with serve_provider(asked) as address:
                life = LifeTask(store.url_for(name), address, protocol, tenant)
                if number:
                    at = points * (3 * number - 2 + offset) // (3 * kills + 1)
                    killed += agents.lived(msgspec.structs.replace(life, at=at)) is None
                    with store.look(name):
                        pass  # nothing of it is at work any more
                ended = agents.lived(life)
                assert ended is not None
                assert ended[1] == ANSWER
                points = points or ended[0]  # the first one shows how long a life is
            with store.look(name) as engine:
                check(engine.acting_as(tenant=tenant), asked)
    assert points > 100, "it hardly waits at all: this showed nothing"
    assert killed > kills // 2
