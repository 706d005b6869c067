"""The first use of an engine by many threads at once: what it loads late is loaded whole for each of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import PATIENCE_S

PROGRAM = """
import sys, threading
import holdfast

sys.setswitchinterval(1e-6)
with holdfast.open(sys.argv[1]) as engine:
    sessions = [engine.create_session(f"s{number}") for number in range(8)]
    for session in sessions:
        session.record("user", "hello")
    start = threading.Barrier(len(sessions))
    failures = []

    def use(number):
        start.wait()
        try:
            if number % 3 == 0:
                sessions[number].context.render("anthropic")
            elif number % 3 == 1:
                sessions[number].record({"role": "assistant", "content": [{"type": "text", "text": "hello"}]})
            else:
                sessions[number].pack(budget=4_000)
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(failures or "well")
"""


def test_threads_that_use_an_engine_first_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    for number in range(4):
        program = [sys.executable, "-c", PROGRAM, str(tmp_path / f"{number}.db")]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (ended.stdout, ended.stderr) == ("well\n", "")
