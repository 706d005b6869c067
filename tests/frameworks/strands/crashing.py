"""A program that dies in the middle of a tool: `python -m tests.frameworks.strands.crashing URL KIND`."""

from __future__ import annotations

import sys

from strands import Agent

import holdfast
from holdfast.strands import HoldfastSessionManager
from tests.frameworks.strands.scripted import ScriptedModel, use
from tests.frameworks.strands.tools import die, pay

if __name__ == "__main__":
    model = ScriptedModel(use("c1", "pay", euros=3), use("c2", "die"))
    manager = HoldfastSessionManager(holdfast.open(sys.argv[1]), "s1", budget=4_000)
    agent = Agent(model=model, tools=[pay, die], session_manager=manager, callback_handler=None)
    if sys.argv[2] == "called by the program":
        agent.tool.die()
    agent("Pay, then stop.")
