"""A process that runs a graph until it is killed. It writes a line when a node begins."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph

import holdfast
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.graphs import Steps, say, thread


def build(saver: HoldfastSaver, dies_at: str = "") -> Any:
    """Three nodes after each other; the process is killed in the one that is named."""

    def node(name: str) -> Any:
        def run(state: Steps) -> dict[str, Any]:
            print(name, len(state["messages"]), flush=True)
            if name == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"messages": [AIMessage(f"{name} is done")], "steps": [name]}

        return run

    builder = StateGraph(Steps)
    names = ["first", "second", "third"]
    for name in names:
        builder.add_node(name, node(name))
    for before, after in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


def main() -> None:
    address, dies_at = sys.argv[1:]
    with holdfast.open(address) as engine:
        build(HoldfastSaver(engine), dies_at).invoke(say("go"), thread("t1"), durability="sync")


if __name__ == "__main__":
    main()
