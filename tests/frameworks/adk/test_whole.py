"""All pieces together, with the fake model that ADK ships: a long conversation with a correction and a large result, which
goes on in the engine of another process."""

from __future__ import annotations

from google.adk.agents.llm_agent import LlmAgent
from google.adk.cli.agent_test_runner import MockModel
from google.genai import types

import holdfast
from holdfast.adk import ArtifactService, MemoryService, Plugin, SessionService
from tests.frameworks.adk.support import ask, build_runner, call, create, run, show

LOG = "\n".join([*(f"line {number}: unit {number} compiled" for number in range(3_000)), "ERROR: test_checkout failed"])


def read_log(which: str) -> str:
    """Read a log."""
    return LOG


def build_model(*replies: str | types.Part) -> MockModel:
    parts = [types.Part(text=reply) if isinstance(reply, str) else reply for reply in replies]
    model = MockModel.create([types.Content(role="model", parts=[part]) for part in parts])
    model.requests = []  # the class has one list for all
    return model


async def talk(engine: holdfast.Engine, model: MockModel, *texts: str, new: bool = False) -> None:
    service = SessionService(engine)
    agent = LlmAgent(name="desk_agent", model=model, tools=[read_log], instruction="You help with orders.")
    services = {"memory_service": MemoryService(engine), "artifact_service": ArtifactService(engine)}
    runner = build_runner(agent, service, Plugin(engine, budget=8_000), **services)
    if new:
        await create(service)
    for text in texts:
        await ask(runner, text)


def test_thirty_turns_word_by_word(engine: holdfast.Engine, url: str) -> None:
    engine.ledger(user="desk/ada").set("shipping_address", "12 Elm St")
    questions = [f"Is module {number} done?" for number in range(27)]
    first = [
        "Ship to 12 Elm St, and read the log.",
        *questions[:13],
        "Actually, my shipping address is now 456 Oak Ave.",
    ]
    answers = ["One failure; it goes to 12 Elm St.", *(["Yes."] * 13), "Noted."]
    run(talk(engine, build_model(call("read_log", which="build"), *answers), *first, new=True))
    model = build_model(*(["Yes."] * 14), "To 456 Oak Ave.")
    with holdfast.open(url) as other:
        run(talk(other, model, *questions[13:], "Where does the order go, and which test failed?"))
    *lines, tail = show(model.requests[-1])
    assert lines[0] == "user: Ship to [outdated: shipping_address], and read the log."
    assert lines[1] == "model: call read_log {'which': 'build'}"
    assert lines[2].startswith("user: result read_log {'result': 'line 0: unit 0 compiled")
    assert lines[2].endswith("ERROR: test_checkout failed'}")
    assert len(lines[2]) < len(LOG) / 10
    assert lines[3] == "model: One failure; it goes to [outdated: shipping_address]."
    said = [line for question in questions[:13] for line in (f"user: {question}", "model: Yes.")]
    corrected = ["user: Actually, my shipping address is now 456 Oak Ave.", "model: Noted."]
    later = [line for question in questions[13:] for line in (f"user: {question}", "model: Yes.")]
    assert lines[4:] == [*said, *corrected, *later, "user: Where does the order go, and which test failed?"]
    assert "- shipping_address: 456 Oak Ave" in tail
    assert "12 Elm St" not in "\n".join([*lines, tail])
    session = engine.session("s1", actor="desk/ada")
    assert len(session.messages(limit=200)) == 2 * 30 + 2
    assert engine.admin.verify().ok
