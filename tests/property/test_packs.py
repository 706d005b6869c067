"""Packs, over random days of agents: bounded, explained, guarded, and each extends the one before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import fresh_url
from tests.property.agent_packs import AgentDay
from tests.support import figure

DAYS = figure(100, 20_000)
GROUPS = 20


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_pack_fits_explains_itself_is_guarded_and_extends_the_one_before(group: int) -> None:
    extended = 0
    for seed in range(group, DAYS, GROUPS):
        day = AgentDay("memory:", seed)
        day.live_through(14)
        day.close()
        extended += day.boundaries
    assert extended, "some packs had one before them"


@pytest.mark.parametrize("group", range(4))
def test_what_is_recalled_displaces_nothing_is_guarded_and_can_be_shown_again(group: int) -> None:
    recalled = again = 0
    for seed in range(group, figure(12, 2_000), 4):
        day = AgentDay("memory:", seed, memory=True)
        day.remember_day("before", 8)
        day.live_through(10)
        day.remember_day("between", 4)
        day.live_through(4)
        recalled += day.recalled
        again += day.check_reproduction()
        day.close()
    assert recalled, "some packs had something to recall"
    assert again, "and some of them were recorded"


def hashes(url: str, seed: int, *, memory: bool = False) -> list[str]:
    day = AgentDay(url, seed, memory=memory)
    if memory:
        day.remember_day("before", 10)
    day.live_through(20)
    day.close()
    return day.shown


def test_a_file_recalls_what_a_store_in_memory_does(tmp_path: Path) -> None:
    for seed in range(figure(2, 100)):
        expected = hashes("memory:", 20_000 + seed, memory=True)
        assert hashes(str(tmp_path / f"{seed}.db"), 20_000 + seed, memory=True) == expected


def test_every_store_makes_the_same_packs(tmp_path: Path) -> None:
    for seed in range(figure(3, 200)):
        expected = hashes("memory:", 10_000 + seed)
        assert expected
        assert hashes(str(tmp_path / f"{seed}.db"), 10_000 + seed) == expected
        if seed < figure(1, 40):
            assert hashes(fresh_url(), 10_000 + seed) == expected


_ELSEWHERE = "from tests.property.test_packs import hashes; print(*hashes('memory:', 77), *hashes('memory:', 78))"


def test_another_process_with_another_hash_seed_makes_the_same_packs() -> None:
    expected = [*hashes("memory:", 77), *hashes("memory:", 78)]
    for hash_seed in ("0", "4711"):
        found = subprocess.run(
            [sys.executable, "-c", _ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        )
        assert found.stdout.split() == expected
