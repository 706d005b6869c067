"""One agent of one framework, in a process of its own: it runs, is killed in the middle of a tool, or looks what is left.

python -m benchmarks.adapters.worker DRIVER SIDE run|die|survey FOLDER TURNS
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.adapters import workload
from benchmarks.adapters.workload import Model, RunFigures

TOOL_S = 0.5
"""How long the tool has run when its process is killed: those who write in the background have had the time."""


def run(driver: Any, side: str, folder: Path, turns: int) -> RunFigures:
    model = Model()
    agent = driver.open_agent(side, folder, model, workload.look_up)
    with contextlib.closing(agent):
        agent.turn(workload.question(0))  # what is loaded once does not count
        model.cpu_s = 0.0
        start, cpu = time.perf_counter(), time.process_time()
        for turn in range(1, turns):
            model.turn = turn
            agent.turn(workload.question(turn))
        return RunFigures.of(model, time.perf_counter() - start, time.process_time() - cpu)


def die(driver: Any, side: str, folder: Path, turns: int) -> None:
    """The process is killed in the tool of the last turn."""
    model = Model()

    def look_up(number: str) -> str:
        if number == workload.order(turns - 1):
            time.sleep(TOOL_S)
            os.killpg(0, signal.SIGKILL)  # with the programs that the framework started
        return workload.look_up(number)

    agent = driver.open_agent(side, folder, model, look_up)
    for turn in range(turns):
        model.turn = turn
        agent.turn(workload.question(turn))


def main(arguments: list[str]) -> None:
    name, side, mode, folder, turns = arguments
    warnings.simplefilter("ignore")
    driver = importlib.import_module(f"benchmarks.adapters.{name}")
    if mode == "die":
        die(driver, side, Path(folder), int(turns))
        sys.exit("the process was not killed")
    answer = (
        run(driver, side, Path(folder), int(turns)) if mode == "run" else driver.survey(side, Path(folder), int(turns))
    )
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.flush()
    os._exit(0)  # some frameworks leave threads behind


if __name__ == "__main__":
    main(sys.argv[1:])
