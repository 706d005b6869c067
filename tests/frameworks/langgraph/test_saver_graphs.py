"""Real graphs on the saver: interrupts, subgraphs, time travel, streams, durability, forks, and concurrent runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

import holdfast
from holdfast.errors import WriterStale
from holdfast.frameworks.shadows import mark_message
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver
from holdfast.langgraph.messages import to_shadow
from tests.frameworks.langgraph.chat_models import ScriptedModel
from tests.frameworks.langgraph.graphs import Steps, answer, chat, say, texts, thread, transcript

T1 = thread("t1")


def test_a_conversation_goes_on_in_another_process_and_is_a_transcript(engine: holdfast.Engine) -> None:
    chat(HoldfastSaver(engine)).invoke(say("Where is my order?"), thread("t1", user_id="ada"))
    state = chat(HoldfastSaver(engine)).invoke(say("My address is 456 Oak Ave."), T1)
    said = [
        "Where is my order?",
        "answer to: Where is my order?",
        "My address is 456 Oak Ave.",
        "answer to: My address is 456 Oak Ave.",
    ]
    assert texts(state) == said
    session = engine.session("t1")
    assert transcript(session) == said
    assert [each.text for each in session.pack().history.messages if each.role != "system"] == said
    assert session.state().identity.user_id == "ada"
    assert [each.proposal.value for each in session.facts.proposals()] == ["456 Oak Ave"]
    assert engine.admin.verify().ok


def test_a_checkpoint_and_what_was_said_up_to_it_are_stored_together(engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(engine))
    for text in ("one", "two"):
        graph.invoke(say(text), T1)
    events = engine.session("t1").events(limit=1_000)
    with_checkpoint = {event.command for event in events if b"checkpoint:" in (event.payload or b"")}
    recorded = [event.command for event in events if event.type == "message.recorded"]
    assert len(recorded) == 4
    assert {*recorded} <= with_checkpoint


def test_two_processes_in_turns_keep_one_conversation(url: str) -> None:
    said: list[str] = []
    with holdfast.open(url) as one, holdfast.open(url) as two:
        graphs = [chat(HoldfastSaver(each)) for each in (one, two)]
        for number in range(6):
            said += [f"question {number}", f"answer to: question {number}"]
            state = graphs[number % 2].invoke(say(f"question {number}"), T1)
            assert texts(state) == said
        assert transcript(one.session("t1")) == said
        assert not any(each.withdrawn for each in one.session("t1").messages())
        assert one.admin.verify().ok


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_gives_the_same_state(engine: holdfast.Engine, durability: Any) -> None:
    graph = chat(HoldfastSaver(engine))
    for text in ("one", "two"):
        graph.invoke(say(text), T1, durability=durability)
    assert texts(graph.get_state(T1).values) == ["one", "answer to: one", "two", "answer to: two"]
    assert transcript(engine.session("t1")) == ["one", "answer to: one", "two", "answer to: two"]
    expected = 2 if durability == "exit" else 6
    assert len([*graph.get_state_history(T1)]) == expected


def test_a_graph_that_is_awaited_stores_the_same(engine: holdfast.Engine) -> None:
    async def run() -> list[str]:
        graph = chat(HoldfastSaver(engine))
        await graph.ainvoke(say("one"), T1)
        events = [event async for event in graph.astream(say("two"), T1, stream_mode="values")]
        history = [state async for state in graph.aget_state_history(T1)]
        assert len(history) == 6
        return texts(events[-1])

    assert asyncio.run(run()) == transcript(engine.session("t1")) == ["one", "answer to: one", "two", "answer to: two"]


def test_a_stream_shows_updates_and_checkpoints(file_engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(file_engine))
    updates = [*graph.stream(say("one"), T1, stream_mode="updates")]
    assert [list(each) for each in updates] == [["respond"]]
    shown = [each["metadata"]["step"] for each in graph.stream(say("two"), T1, stream_mode="checkpoints")]
    assert shown == sorted(shown)


def approval(saver: HoldfastSaver) -> Any:
    def ask(state: Steps) -> dict[str, Any]:
        given = interrupt({"question": "Pay?"})
        return {"messages": [AIMessage(f"paid: {given}")], "steps": ["ask"]}

    builder = StateGraph(Steps)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("fence", [False, True])
def test_an_interrupted_run_is_resumed_in_another_process(engine: holdfast.Engine, fence: bool) -> None:
    stopped = approval(HoldfastSaver(engine, fence=fence)).invoke(say("Pay the invoice."), T1)
    assert stopped["__interrupt__"][0].value == {"question": "Pay?"}
    graph = approval(HoldfastSaver(engine, fence=fence))
    assert graph.get_state(T1).interrupts[0].value == {"question": "Pay?"}
    assert texts(graph.invoke(Command(resume="yes"), T1)) == ["Pay the invoice.", "paid: yes"]
    assert graph.get_state(T1).next == ()
    assert transcript(engine.session("t1")) == ["Pay the invoice.", "paid: yes"]


def test_subgraphs_have_namespaces_of_their_own(engine: holdfast.Engine) -> None:
    def inner_step(state: Steps) -> dict[str, Any]:
        given = interrupt("go on?")
        return {"messages": [AIMessage(f"inner: {given}")], "steps": ["inner"]}

    inner = StateGraph(Steps)
    inner.add_node("step", inner_step)
    inner.add_edge(START, "step")
    outer = StateGraph(Steps)
    outer.add_node("sub", inner.compile())
    outer.add_edge(START, "sub")
    saver = HoldfastSaver(engine)
    graph: Any = outer.compile(checkpointer=saver)
    graph.invoke(say("hello"), T1)
    inside = graph.get_state(T1, subgraphs=True).tasks[0].state
    assert inside.config["configurable"]["checkpoint_ns"].startswith("sub:")
    assert transcript(engine.session("t1")) == ["hello"]
    graph = outer.compile(checkpointer=HoldfastSaver(engine))
    assert texts(graph.invoke(Command(resume="yes"), T1)) == ["hello", "inner: yes"]
    namespaces = {each.config["configurable"]["checkpoint_ns"] for each in saver.list(T1)}
    assert {name.partition(":")[0] for name in namespaces} == {"", "sub"}
    assert {each.config["configurable"]["checkpoint_ns"] for each in saver.list(thread("t1", checkpoint_ns=""))} == {""}
    assert transcript(engine.session("t1")) == ["hello", "inner: yes"]


def test_parallel_tasks_keep_their_order(engine: holdfast.Engine) -> None:
    def work(state: Any) -> dict[str, Any]:
        return {"steps": [state["name"]]}

    def spread(_: Steps) -> list[Send]:
        return [Send("work", {"name": f"w{number}"}) for number in range(12)]

    builder = StateGraph(Steps)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, spread, ["work"])
    graph = builder.compile(checkpointer=HoldfastSaver(engine))
    state = graph.invoke({"messages": [], "steps": []}, T1)
    assert state["steps"] == [f"w{number}" for number in range(12)]
    before = [*graph.get_state_history(T1)][1]
    assert [task.result["steps"] for task in before.tasks if task.result] == [[f"w{number}"] for number in range(12)]


# Time travel


def test_a_run_from_an_old_checkpoint_forks_and_the_transcript_follows(engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(engine, fence=True))
    for text in ("one", "two", "three"):
        graph.invoke(say(text), T1)
    old = next(state for state in graph.get_state_history(T1) if len(state.values.get("messages", ())) == 2)
    forked = graph.invoke(say("other"), old.config)
    assert texts(forked) == ["one", "answer to: one", "other", "answer to: other"]
    session = engine.session("t1")
    assert transcript(session) == texts(forked)
    assert texts(graph.invoke(say("next"), T1)) == [*texts(forked), "next", "answer to: next"]
    assert texts(graph.get_state(old.config).values) == ["one", "answer to: one"]
    assert engine.admin.verify().ok


def test_an_update_of_the_state_is_a_checkpoint_and_a_message(engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(engine, fence=True))
    graph.invoke(say("one"), T1)
    graph.update_state(T1, {"messages": [HumanMessage("by hand")]}, as_node="respond")
    assert transcript(engine.session("t1")) == ["one", "answer to: one", "by hand"]
    first = next(state for state in graph.get_state_history(T1) if len(state.values.get("messages", ())) == 1)
    config = graph.update_state(first.config, {"messages": [AIMessage("other answer")]}, as_node="respond")
    assert texts(graph.get_state(config).values) == ["one", "other answer"]
    assert texts(graph.get_state(T1).values) == ["one", "other answer"]
    assert transcript(engine.session("t1")) == ["one", "other answer"]


def test_a_replay_of_an_old_checkpoint_runs_again_from_there(engine: holdfast.Engine) -> None:
    counts: list[int] = []

    def count(messages: Any) -> str:
        counts.append(len(messages))
        return f"reply {len(counts)}"

    graph = chat(HoldfastSaver(engine), count)
    graph.invoke(say("one"), T1)
    graph.invoke(say("two"), T1)
    old = next(state for state in graph.get_state_history(T1) if len(state.values.get("messages", ())) == 3)
    assert texts(graph.invoke(None, old.config)) == ["one", "reply 1", "two", "reply 3"]
    assert transcript(engine.session("t1")) == ["one", "reply 1", "two", "reply 3"]


def test_removed_and_edited_messages_leave_the_conversation(engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(engine))
    graph.invoke({"messages": [HumanMessage("one", id="u1")]}, T1)
    graph.invoke({"messages": [HumanMessage("two", id="u2")]}, T1)
    last = graph.get_state(T1).values["messages"][-1]
    graph.update_state(T1, {"messages": [RemoveMessage(id=last.id)]}, as_node="respond")
    assert transcript(engine.session("t1")) == ["one", "answer to: one", "two"]
    graph.update_state(T1, {"messages": [HumanMessage("edited", id="u2")]}, as_node="respond")
    assert transcript(engine.session("t1")) == ["one", "answer to: one", "edited"]
    assert engine.admin.verify().ok


def test_a_message_that_a_node_changes_in_place_is_stored_as_it_is_now(engine: holdfast.Engine) -> None:
    def scribble(messages: Any) -> AIMessage:
        messages[0].content = f"{messages[0].content}!"
        messages[0].additional_kwargs["seen"] = len(messages)
        return AIMessage("done")

    saver = HoldfastSaver(engine)
    graph = chat(saver, scribble)
    graph.invoke(say("one"), T1)
    graph.invoke(say("two"), T1)
    stored = chat(HoldfastSaver(engine)).get_state(T1).values["messages"]
    assert stored == chat(saver).get_state(T1).values["messages"]
    assert stored[0].content == "one!!"
    assert stored[0].additional_kwargs == {"seen": 3}


def test_states_that_are_read_share_nothing(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine)
    graph = chat(saver)
    graph.invoke(say("one"), T1)
    graph.get_state(T1).values["messages"][0].additional_kwargs["x"] = 1
    graph.get_state(T1).values["messages"][0].content = "changed"
    graph.get_state(T1).values["messages"].clear()
    assert texts(graph.get_state(T1).values) == ["one", "answer to: one"]
    assert graph.get_state(T1).values["messages"][0].additional_kwargs == {}


def test_tool_calls_are_calls_of_the_session(engine: holdfast.Engine) -> None:
    def plan(messages: Any) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("It is on its way.")
        call = {"name": "find_order", "args": {"id": 7}, "id": "call_7"}
        usage: Any = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
        return AIMessage("", tool_calls=[call], usage_metadata=usage)

    saver = HoldfastSaver(engine)
    graph = chat(saver, plan)
    graph.invoke(say("Where is order 7?"), T1)
    session = engine.session("t1")
    assert [call.provider_id for call in session.open_calls()] == ["call_7"]
    graph.invoke({"messages": [ToolMessage("lost", tool_call_id="call_7", status="error")]}, T1)
    results = [result for message in session.messages() for result in message.tool_results]
    assert [(result.is_error, result.content[0].text) for result in results] == [(True, "lost")]  # type: ignore[union-attr]
    assert session.open_calls() == ()
    assert session.state().usage.input_tokens == 9
    graph.invoke(say("And order 8?"), T1)
    session.start_call("call_7")
    assert [work.key for work in session.recover().unknown_outcomes] == [session.start_call("call_7", again=True).key]


def test_with_the_middleware_both_keep_one_transcript(engine: holdfast.Engine) -> None:
    def find_order(number: int) -> str:
        """Find an order."""
        return f"Order {number} is at the depot."

    call = AIMessage("", tool_calls=[{"name": "find_order", "args": {"number": 7}, "id": "call_7"}])
    model = ScriptedModel([call, "At the depot.", "You are welcome."])
    agent: Any = create_agent(
        model, [find_order], middleware=[HoldfastMiddleware(engine, budget=8_000)], checkpointer=HoldfastSaver(engine)
    )
    agent.invoke(say("Where is order 7?"), T1)
    state = agent.invoke(say("Thanks."), T1)
    said = ["Where is order 7?", "", "Order 7 is at the depot.", "At the depot.", "Thanks.", "You are welcome."]
    assert texts(state) == said
    session = engine.session("t1")
    found = [message for message in session.messages(limit=100) if not message.withdrawn]
    assert [message.role for message in found] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [each.text for each in found if not each.tool_results and not each.tool_calls] == [*said[:1], *said[3:]]
    assert len(session.packs.list()) == 3
    assert session.state().withdrawn == 0
    assert session.recover().unknown_outcomes == ()
    assert engine.admin.verify().ok


# Two runs at once


class Meeting:
    """Two runs that have both read the thread before one of them goes on."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2, timeout=120)
        self.errors: dict[str, Exception] = {}
        self.first_done = threading.Event()

    def reply(self, messages: Any) -> str:
        text = str(messages[-1].content)
        self.both.wait()
        if text == "B":
            self.first_done.wait(20)
        return f"re: {text}"

    def run(self, graph: Any, text: str) -> None:
        try:
            graph.invoke(say(text), T1, durability="exit")
        except Exception as error:
            self.errors[text] = error
        finally:
            if text == "A":
                self.first_done.set()

    def hold(self, graph: Any) -> None:
        runs = [threading.Thread(target=self.run, args=(graph, text)) for text in "AB"]
        for run in runs:
            run.start()
        for run in runs:
            run.join()


def test_with_another_saver_the_turn_of_one_of_two_runs_is_lost_without_an_error(folder: Path) -> None:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        meeting = Meeting()
        graph = chat(saver, meeting.reply)
        meeting.hold(graph)
        assert meeting.errors == {}
        assert len(texts(graph.get_state(T1).values)) == 2  # of four


def test_with_a_fence_the_run_that_comes_late_is_refused_and_nothing_is_lost(engine: holdfast.Engine) -> None:
    meeting = Meeting()
    graph = chat(HoldfastSaver(engine, fence=True), meeting.reply)
    meeting.hold(graph)
    assert list(meeting.errors) == ["B"]
    assert isinstance(meeting.errors["B"], WriterStale)
    assert texts(graph.get_state(T1).values) == ["A", "re: A"]
    meeting.both.abort()
    graph = chat(HoldfastSaver(engine, fence=True), answer)
    assert texts(graph.invoke(say("B"), T1)) == ["A", "re: A", "B", "answer to: B"]
    assert transcript(engine.session("t1")) == ["A", "re: A", "B", "answer to: B"]


def test_with_a_fence_a_run_is_refused_at_any_step(engine: holdfast.Engine) -> None:
    saver = HoldfastSaver(engine, fence=True)
    other = chat(HoldfastSaver(engine, fence=True))

    def overtake(messages: Any) -> str:
        other.invoke(say("in between"), T1)
        return "too late"

    with pytest.raises(WriterStale, match="'t1' has gone on without this writer: its latest checkpoint is"):
        chat(saver, overtake).invoke(say("slow"), T1, durability="sync")
    assert texts(other.get_state(T1).values) == ["slow", "in between", "answer to: in between"]
    assert transcript(engine.session("t1")) == ["slow", "in between", "answer to: in between"]


def test_runs_of_many_threads_at_once_mix_nothing_up(engine: holdfast.Engine) -> None:
    graph = chat(HoldfastSaver(engine, fence=True))

    async def talk(name: str) -> list[str]:
        for number in range(4):
            state = await graph.ainvoke(say(f"{name} {number}"), thread(name))
        return texts(state)

    async def run() -> list[list[str]]:
        return await asyncio.gather(*(talk(f"t{number}") for number in range(6)))

    for number, found in enumerate(asyncio.run(run())):
        assert found == [part for at in range(4) for part in (f"t{number} {at}", f"answer to: t{number} {at}")]
        assert transcript(engine.session(f"t{number}")) == found
    assert engine.admin.verify().ok


def test_a_started_call_without_a_result_is_not_withdrawn(file_engine: holdfast.Engine) -> None:
    """Its checkpoint was lost with the process. Who runs the tools tells the model of it."""
    graph = chat(HoldfastSaver(file_engine))
    graph.invoke(say("Hi."), thread("t"))
    session = file_engine.session("t")
    lost = [
        HumanMessage("Pay 40.", id="h"),
        AIMessage("", id="a", tool_calls=[{"id": "c1", "name": "pay", "args": {}}]),
    ]
    for each in map(to_shadow, lost):
        session.record(each.message, metadata=mark_message(each))
    call = session.start_call("c1")

    graph.invoke(say("And now?"), thread("t"))
    assert [each.key for each in session.recover().unknown_outcomes] == [call.key]
    assert all(not message.withdrawn for message in session.messages())

    session.result("c1", "paid")
    graph.invoke(say("Thanks."), thread("t"))
    assert [each.text for each in session.messages() if each.role == "user" and not each.withdrawn][-2:] == [
        "And now?",
        "Thanks.",
    ]
