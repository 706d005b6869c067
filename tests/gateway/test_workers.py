"""Threads for blocking calls."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

from holdfast.gateway.workers import WorkerPool
from tests.gateway.raw_upstream import WAIT_S


def test_calls_of_a_series_run_one_after_the_other_and_those_of_two_at_once() -> None:
    pool = WorkerPool("test", 2)
    both = threading.Barrier(2)
    running: Counter[str] = Counter()
    together: list[dict[str, int]] = []
    order: list[tuple[str, int]] = []

    def run(series: str, number: int) -> None:
        order.append((series, number))
        running[series] += 1
        both.wait(WAIT_S)
        together.append(dict(running))
        both.wait(WAIT_S)
        running[series] -= 1

    calls = [pool.submit(partial(run, series, number), series=series) for series in "ab" for number in range(20)]
    for call in calls:
        call.result(WAIT_S)
    assert together == [{"a": 1, "b": 1}] * 40
    assert [number for series, number in order if series == "a"] == [*range(20)]
    assert [number for series, number in order if series == "b"] == [*range(20)]


def test_a_call_that_fails_lets_the_next_one_of_its_series_run() -> None:
    pool = WorkerPool("test", 1)
    begin = threading.Event()
    first = pool.submit(lambda: begin.wait(WAIT_S), series="a")
    failing = pool.submit(lambda: 1 // 0, series="a")
    given_up = pool.submit(lambda: 2, series="a")
    last = pool.submit(lambda: 3, series="a")
    given_up.cancel()
    begin.set()
    assert first.result(WAIT_S)
    assert isinstance(failing.exception(WAIT_S), ZeroDivisionError)
    assert last.result(WAIT_S) == 3
