"""A process is killed in the middle of a run; another one goes on from where it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import holdfast
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.crash_worker import build
from tests.frameworks.langgraph.graphs import texts, thread, transcript

ROOT = Path(__file__).parents[3]


def test_a_killed_run_is_resumed_and_nothing_is_lost(url: str) -> None:
    command = [sys.executable, "-m", "tests.frameworks.langgraph.crash_worker", url, "third"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout.splitlines() == ["first 1", "second 2", "third 3"]
    with holdfast.open(url) as engine:
        session = engine.session("t1")
        assert transcript(session) == ["go", "first is done", "second is done"]
        assert engine.admin.verify().ok
        graph = build(HoldfastSaver(engine))
        state = graph.get_state(thread("t1"))
        assert (state.values["steps"], state.next) == (["first", "second"], ("third",))
        said = ["go", "first is done", "second is done", "third is done"]
        assert texts(graph.invoke(None, thread("t1"))) == said
        assert transcript(session) == said
        assert session.recover().unknown_outcomes == ()
        assert engine.admin.verify().ok
