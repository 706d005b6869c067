"""A program that dies in the middle of a tool: `python -m tests.frameworks.agent_framework.crashing URL`."""

from __future__ import annotations

import sys

from agent_framework import Agent, AgentSession

import holdfast
from holdfast.agent_framework import HoldfastHistoryProvider
from tests.frameworks.agent_framework.scripted import ScriptedClient, call, wait
from tests.frameworks.agent_framework.tools import die, pay

if __name__ == "__main__":
    client = ScriptedClient(call("c1", "pay", euros=3), call("c2", "die"))
    provider = HoldfastHistoryProvider(holdfast.open(sys.argv[1]), budget=4_000)
    agent = Agent(client=client, tools=[pay, die], context_providers=[provider])
    wait(agent.run("Pay, then stop.", session=AgentSession(session_id="s1")))
