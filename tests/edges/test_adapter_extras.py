"""Adapters without their frameworks: the engine works, and each adapter names the extra that it needs."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "a2a": "a2a",
    "adk": "google",
    "agent_framework": "agent_framework",
    "anthropic": "anthropic",
    "claude": "claude_agent_sdk",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}
"""The framework of each adapter: the outermost package of it."""
PROGRAM = """
import importlib, json, sys
adapters = json.loads(sys.argv[1])
sys.modules |= dict.fromkeys(adapters.values())  # as if they were not installed
import holdfast

with holdfast.open("memory:") as engine:
    session = engine.create_session("s")
    session.record("user", "Hello.")
    session.pack(budget=4_000).anthropic()
found = {}
for name in adapters:
    try:
        importlib.import_module(f"holdfast.{name}")
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""


def test_an_adapter_without_its_framework_names_the_extra_and_nothing_else_needs_one() -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(PACKAGES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    found = json.loads(done.stdout)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for name in PACKAGES:
        extra = name.replace("_", "-")
        assert extra in extras
        assert found[name][0] == "ExtraMissing", found[name]
        assert f"pip install 'holdfast[{extra}]'" in found[name][1]
