"""The saver, the middleware and the store on the engine of a server."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver, HoldfastStore
from tests.frameworks.langgraph.chat_models import ScriptedModel, calls
from tests.frameworks.langgraph.graphs import chat, say, texts, thread, transcript
from tests.frameworks.langgraph.test_middleware import build

T1 = thread("t1", user_id="ada")


def test_a_graph_goes_on_forks_and_is_a_transcript(remote_engine: holdfast.Engine) -> None:
    said = [text for number in range(8) for text in (f"question {number}", f"answer to: question {number}")]
    for number in range(8):
        chat(HoldfastSaver(remote_engine)).invoke(say(f"question {number}"), T1)
    graph = chat(HoldfastSaver(remote_engine))
    assert texts(graph.get_state(T1).values) == said
    assert transcript(remote_engine.session("t1")) == said
    before = next(each for each in graph.get_state_history(T1) if len(each.values["messages"]) == 4 and not each.next)
    graph.invoke(say("My address is 456 Oak Ave."), before.config)
    assert transcript(remote_engine.session("t1")) == [
        *said[:4],
        "My address is 456 Oak Ave.",
        "answer to: My address is 456 Oak Ave.",
    ]
    assert [each.proposal.value for each in remote_engine.session("t1").facts.proposals()] == ["456 Oak Ave"]
    assert remote_engine.admin.verify().ok


def test_an_agent_gets_packs_and_its_tools_run_once(remote_engine: holdfast.Engine) -> None:
    ran: list[int] = []

    def pay(euros: int) -> str:
        """Pay."""
        ran.append(euros)
        return f"paid {euros}"

    model = ScriptedModel([calls(("pay", {"euros": 4}, "c1")), "Paid.", "Yes, 4 euros."])
    saver = HoldfastSaver(remote_engine)
    agent = build(model, HoldfastMiddleware(remote_engine), tools=[pay], checkpointer=saver)
    for text in ("Pay 4 euros.", "Did you?"):
        agent.invoke({"messages": [("user", text)]}, T1)
    assert ran == [4]
    sent = [each.text for each in model.sent[-1]]
    assert "paid 4" in sent
    assert sent[-1].startswith("<holdfast-context>")
    session = remote_engine.session("t1")
    roles = [each.role for each in session.messages() if not each.withdrawn]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert session.recover().pending_work == ()
    assert remote_engine.admin.verify().ok


def test_a_store_keeps_items_and_finds_them(remote_engine: holdfast.Engine) -> None:
    store = HoldfastStore(remote_engine)
    store.put(("users", "ada"), "food", {"text": "likes dark chocolate"})
    store.put(("users", "ada"), "food", {"text": "likes olives"})
    found: Any = HoldfastStore(remote_engine).get(("users", "ada"), "food")
    assert found.value == {"text": "likes olives"}
    assert [each.key for each in store.search(("users",))] == ["food"]
    store.delete(("users", "ada"), "food")
    assert store.get(("users", "ada"), "food") is None
