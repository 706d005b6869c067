"""What checkpoints of a growing conversation cost: LangGraph's SQLite saver and ours, in turns, in one process.

python -m benchmarks.adapters.growth_agent FOLDER TURNS
"""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

import holdfast
from benchmarks.adapters.workload import GrowthFigures
from holdfast.langgraph import HoldfastSaver

CONFIG: Any = {"configurable": {"thread_id": "t1"}}
CHARS = 500
"""Of a message: a turn has two."""


def text(turn: int, speaker: str) -> str:
    return (f"{speaker} {turn}: " + "where is my order, and when will it arrive? " * 12)[:CHARS]


def build(saver: Any) -> Any:
    def respond(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(text(len(state["messages"]), "answer"))]}

    builder = StateGraph(MessagesState)
    builder.add_node("respond", respond)
    builder.add_edge(START, "respond")
    builder.add_edge("respond", END)
    return builder.compile(checkpointer=saver)


def main(folder: Path, turns: int) -> GrowthFigures:
    engine = holdfast.open(folder / "ours.db")
    connection = sqlite3.connect(folder / "own.db", check_same_thread=False)
    graphs = {"ours": build(HoldfastSaver(engine)), "own": build(SqliteSaver(connection))}
    for graph in graphs.values():  # what is loaded once does not count
        graph.invoke({"messages": [HumanMessage("hello")]}, {"configurable": {"thread_id": "t0"}})
    wall_s, cpu_s = dict.fromkeys(graphs, 0.0), dict.fromkeys(graphs, 0.0)
    for turn in range(turns):
        for side, graph in sorted(graphs.items(), reverse=bool(turn % 2)):
            start, cpu = time.perf_counter(), time.process_time()
            graph.invoke({"messages": [HumanMessage(text(turn, "question"))]}, CONFIG)
            wall_s[side] += time.perf_counter() - start
            cpu_s[side] += time.process_time() - cpu
    assert all(len(graph.get_state(CONFIG).values["messages"]) == 2 * turns for graph in graphs.values())
    assert engine.admin.verify().ok
    engine.close()
    connection.close()
    sizes = {side: sum(each.stat().st_size for each in folder.rglob(f"{side}.db*")) for side in graphs}
    return GrowthFigures(wall_s=wall_s, cpu_s=cpu_s, size=sizes)


if __name__ == "__main__":
    figures = main(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")
