"""Threads of the saver as a whole: names, copies onto threads that exist, and sessions that are destroyed."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import RemoveMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import holdfast
from holdfast.errors import InvalidArgument, InvalidName, SessionDestroyedError
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver
from holdfast.langgraph.deflation import open_body
from tests.frameworks.langgraph.chat_models import ScriptedModel, calls
from tests.frameworks.langgraph.graphs import chat, ids, say, texts, thread, transcript


def test_a_thread_without_an_id_is_refused(file_engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(file_engine))
    with pytest.raises(InvalidArgument, match="thread_id"):
        graph.invoke(say("Hello."), thread(None))
    assert not file_engine.sessions()


@pytest.mark.parametrize("name", ["", "a\x00b", "\n", "\ud800"])
def test_a_name_that_no_session_can_have_is_refused_with_its_reason(file_engine: holdfast.Engine, name: str) -> None:
    graph = chat(HoldfastSaver(file_engine))
    with pytest.raises(InvalidName) as caught:
        graph.invoke(say("Hello."), thread(name))
    assert "thread_id" in str(caught.value)
    assert "4611686018427387903" not in str(caught.value)


def test_a_copy_onto_a_newer_thread_leaves_its_latest_checkpoint(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, observe=False)
    graph = chat(saver)
    graph.invoke(say("old"), thread("old"))
    graph.invoke(say("new"), thread("new"))
    saver.copy_thread("old", "new")
    saver.copy_thread("old", "new")
    for reader in (saver, HoldfastSaver(engine, observe=False)):
        assert texts(chat(reader).get_state(thread("new")).values) == ["new", "answer to: new"]
        listed = ids(reader.list(thread("new", checkpoint_ns="")))
        assert listed == sorted(listed, reverse=True)
        assert {*listed} > {*ids(reader.list(thread("old")))}
    assert transcript(engine.session("new")) == ["new", "answer to: new"]


def test_a_copy_onto_an_older_thread_is_its_latest_checkpoint(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, observe=False)
    graph = chat(saver)
    graph.invoke(say("old"), thread("old"))
    graph.invoke(say("new"), thread("new"))
    saver.copy_thread("new", "old")
    for reader in (saver, HoldfastSaver(engine, observe=False)):
        assert texts(chat(reader).get_state(thread("old")).values) == ["new", "answer to: new"]
    assert transcript(engine.session("old")) == ["new", "answer to: new"]


def test_a_copy_belongs_to_the_same_user(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine)
    chat(saver).invoke(say("Hello."), thread("t1", user_id="ada"))
    saver.copy_thread("t1", "t2")
    assert file_engine.session("t2").state().identity.user_id == "ada"


def test_a_destroyed_thread_is_as_good_as_none_also_for_a_saver_that_knew_it(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine)
    graph = chat(saver)
    graph.invoke(say("Hello."), thread("t1"))
    file_engine.session("t1").destroy()

    def work(known: HoldfastSaver) -> list[Any]:
        known.delete_thread("t1")
        known.prune(["t1"])
        known.copy_thread("t1", "t2")
        known.delete_for_runs(["run"])
        return [known.get_tuple(thread("t1")), *known.list(thread("t1")), *known.list(None)]

    assert work(HoldfastSaver(file_engine)) == [None]
    assert work(saver) == [None]
    assert saver.get_delta_channel_history(config=thread("t1"), channels=["messages"]) == {"messages": {"writes": []}}
    with pytest.raises(SessionDestroyedError):
        graph.invoke(say("Hello again."), thread("t1"))


def test_no_fact_is_read_from_the_messages_of_a_copy(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    ledger = engine.ledger(user="ada")
    ledger.set("shipping_address", "1 First St")
    chat(saver).invoke(say("My shipping address is now 123 Main St."), thread("t1", user_id="ada"))
    ledger.set("shipping_address", "456 Oak Ave")
    saver.copy_thread("t1", "t2")
    assert transcript(engine.session("t2")) == transcript(engine.session("t1"))
    assert [fact.value for fact in ledger.history("shipping_address")] == ["1 First St", "123 Main St", "456 Oak Ave"]
    chat(saver).invoke(say("My shipping address is now 789 Pine Rd."), thread("t2"))
    assert [fact.value for fact in ledger.history("shipping_address")][3:] == ["789 Pine Rd"]


def _contents(engine: holdfast.Engine) -> bytes:
    """All that can be read in the logs of the sessions."""
    sessions = [engine.session(row.session, thread=row.thread or None) for row in engine.sessions()]
    bodies = [entry.body for session in sessions for entry in session.entries.list()]
    entries = [str(open_body(body) if isinstance(body, dict) else body).encode() for body in bodies]
    payloads = [event.payload or b"" for session in sessions for event in session.events(limit=1_000)]
    return b"".join([*entries, *payloads])


def test_a_thread_that_waits_for_a_person_is_deleted(engine: holdfast.Engine) -> None:
    def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}: {interrupt('Pay?')}"

    saver = HoldfastSaver(engine)
    model = ScriptedModel([calls(("pay", {"to": "Zebra Ltd"}, "c1")), "New."])
    agent: Any = create_agent(model, [pay], middleware=[HoldfastMiddleware(engine)], checkpointer=saver)
    assert "__interrupt__" in agent.invoke(say("Pay Zebra Ltd."), thread("t1"))
    saver.delete_thread("t1")
    assert b"Zebra" not in _contents(engine)
    assert engine.session("t1").recover().pending_work == ()
    assert texts(agent.invoke(say("Hello."), thread("t1"))) == ["Hello.", "New."]
    assert [each.text for each in model.sent[-1][:-1]] == ["Hello."]
    assert engine.admin.verify().ok


def test_a_message_is_erased_for_good_once_it_is_out_of_the_state(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    graph = chat(saver)
    for text in ("Zebra", "Thanks."):
        graph.invoke(say(text), thread("t1"))
    removed = [each.id for each in graph.get_state(thread("t1")).values["messages"] if "Zebra" in each.text]
    graph.update_state(thread("t1"), {"messages": [RemoveMessage(str(each)) for each in removed]})
    saver.prune(["t1"])
    session = engine.session("t1")
    session.erase([each.seq for each in session.messages() if each.metadata.get("id") in removed], "asked for")
    assert len(removed) == 2
    assert b"Thanks." in _contents(engine)
    assert b"Zebra" not in _contents(engine)
    for reader in (graph, chat(HoldfastSaver(engine))):
        assert texts(reader.get_state(thread("t1")).values) == ["Thanks.", "answer to: Thanks."]
    assert texts(graph.invoke(say("Bye."), thread("t1")))[2:] == ["Bye.", "answer to: Bye."]
    assert engine.admin.verify().ok


def test_a_thread_whose_session_has_ended_is_deleted(file_engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(file_engine)
    chat(saver).invoke(say("Zebra"), thread("t1"))
    file_engine.session("t1").end()
    saver.delete_thread("t1")
    assert saver.get_tuple(thread("t1")) is None
    assert b"Zebra" not in _contents(file_engine)


@pytest.mark.parametrize("remote", [False, True])
def test_what_agents_have_stored_is_deleted_with_the_thread(request: pytest.FixtureRequest, remote: bool) -> None:
    engine = request.getfixturevalue("remote_engine" if remote else "file_engine")

    def note(text: str, runtime: ToolRuntime) -> Command[Any]:
        """Note a text."""
        return Command(update={"messages": [ToolMessage(f"noted {text}", tool_call_id=runtime.tool_call_id)]})

    def fail(text: str) -> str:
        """Fail."""
        raise ValueError(text)

    replies = [calls(("note", {"text": "zebra"}, "c1")), calls(("fail", {"text": "zebra"}, "c2"))]
    desk: Any = create_agent(ScriptedModel(replies * 2), [note, fail], middleware=[HoldfastMiddleware(engine)])
    builder = StateGraph(MessagesState)
    builder.add_node("desk", desk)
    builder.add_edge(START, "desk")
    builder.add_edge("desk", END)
    saver = HoldfastSaver(engine)
    graph: Any = builder.compile(checkpointer=saver)
    for name in ("t1", "t2"):
        with pytest.raises(ValueError, match="zebra"):
            graph.invoke(say("Note the zebra."), thread(name))
    saver.delete_thread("t1")
    (inside,) = [row for row in engine.sessions() if row.session == "t2" and row.thread]
    roles = [each.role for each in engine.session("t2", thread=inside.thread).messages()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    saver.delete_thread("t2")
    assert not engine.session("t2", thread=inside.thread).entries.list()
    assert b"zebra" not in _contents(engine)
    assert engine.admin.verify().ok
