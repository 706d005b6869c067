"""What the model is sent: the pack of the conversation, word by word."""

from __future__ import annotations

import itertools
import json
from typing import Any, cast

from agents.extensions import handoff_filters
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from agents import Agent, Runner, SessionSettings, function_tool, handoff
from holdfast.openai_agents import BoundSession, bind
from holdfast.openai_agents.filters import _drop_orphans
from holdfast.openai_agents.items import build_message, item_key
from tests.frameworks.openai_agents.support import Items, call, run, say, script, sdk, texts, think, user, without_tail
from tests.frameworks.openai_agents.test_sessions import ITEMS

ADDRESS = "shipping_address"


@function_tool
def find(order: str) -> str:
    """Find an order."""
    return f"Order {order} goes to 12 Main Street."


def ask(agent: Agent[Any], text: Any, hf: BoundSession) -> Any:
    config = hf.config(tracing_disabled=True)
    return run(cast("Any", Runner.run(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)))


def test_superseded_values_are_redacted_everywhere_and_the_rest_is_the_sdks_own(engine: holdfast.Engine) -> None:
    hf = bind(engine, "order-1", user="ada", pack_options={"time": False})
    model = script(
        [think("rs_1"), call("find", "c1", order="7")],
        [think("rs_2"), say("It goes to 12 Main Street.", "msg_1")],
        [think("rs_3"), say("Noted.", "msg_2")],
        [say("To 456 Oak Ave.", "msg_3")],
    )
    agent = Agent(name="desk", instructions="You are the desk.", model=model, tools=[find])
    hf.holdfast.facts.set(ADDRESS, "12 Main Street")
    ask(agent, "Ship order 7 to 12 Main Street.", hf)
    hf.holdfast.facts.set(ADDRESS, "456 Oak Ave")
    ask(agent, "I moved to 456 Oak Ave.", hf)
    ask(agent, "Where does it go?", hf)

    shown = cast("Items", model.calls[-1].input)
    for text in texts(without_tail(shown)):  # a result of a tool is evidence: it is marked
        assert "12 Main Street" not in text.replace("12 Main Street [outdated: shipping_address]", "")
    assert texts(shown)[0] == "Ship order 7 to [outdated: shipping_address]."
    assert "456 Oak Ave" in str(shown[-1]["content"])
    assert shown[-1]["role"] == "developer"
    assert [item for item in shown if item.get("id") == "msg_2"]
    assert {"rs_3"} <= {str(item.get("id")) for item in shown}
    assert not [item for item in shown if item.get("type") == "reasoning" and not is_followed(shown, item)]
    assert "12 Main Street" in json.dumps(run(hf.session.get_items()))  # the transcript stays as it was
    assert "redact" in hf.why()
    assert engine.admin.verify().ok


def is_followed(items: Items, reasoning: dict[str, Any]) -> bool:
    """Whether an item of the model comes after a reasoning item."""
    after = items[items.index(reasoning) + 1]
    return after.get("type") in ("function_call", "message", "reasoning")


def test_each_call_extends_the_one_before_up_to_the_tail(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", budget=24_000)
    steps: list[Any] = []
    for number in range(6):
        steps += [[think(f"rs_{number}"), call("find", f"c{number}", order=str(number))], [say(f"Answer {number}.")]]
    model = script(*steps)
    agent = Agent(name="desk", instructions="You are the desk.", model=model, tools=[find])
    for number in range(6):
        ask(agent, f"Question {number}?", hf)

    requests = [json.dumps(without_tail(each.input))[:-1] for each in model.calls]
    assert len(requests) == 12
    for before, after in itertools.pairwise(requests):
        assert after.startswith(before)
    assert len({each.system_instructions for each in model.calls}) == 1


def test_a_long_conversation_stays_within_the_budget_and_nothing_is_lost(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", budget=3_000)
    steps: list[Any] = [[say(f"Answer {n}. " + "It is all well. " * 30)] for n in range(40)]
    model = script(*steps)
    agent = Agent(name="desk", instructions="You are the desk.", model=model)
    for number in range(40):
        ask(agent, f"Question {number}? " + "Tell me more. " * 20, hf)
    session = file_engine.session("order-1")

    assert len(run(hf.session.get_items())) == 80
    assert len(session.messages(limit=200)) == 80
    for each in model.calls:
        assert len(json.dumps(each.input)) / 4 < 3_600  # about four characters per token, and the JSON around them
    shown = texts(without_tail(model.calls[-1].input))
    assert shown[-1].startswith("Question 39?")
    assert not any(text.startswith("Question 0?") for text in shown)
    assert len(session.packs.list(limit=100)) == 40


def test_an_input_of_another_conversation_is_left_alone(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("Hello.")])
    agent = Agent(name="other", instructions="You are another.", model=model)

    run(cast("Any", Runner.run(agent, "Hi.", run_config=hf.config(tracing_disabled=True))))

    assert model.calls[0].input == [user("Hi.")]
    assert model.calls[0].system_instructions == "You are another."
    assert hf.last_pack is None
    assert file_engine.session("order-1").packs.list() == []


def test_what_a_callback_adds_is_shown_where_the_sdk_stores_it(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("1")], [say("2")])
    agent = Agent(name="desk", model=model)
    ask(agent, "a", hf)

    def add_items(history: Any, new: Any) -> Any:
        return [user("from a retriever"), *history, *new]

    config = hf.config(tracing_disabled=True, session_input_callback=add_items)
    run(cast("Any", Runner.run(agent, sdk([user("b")]), session=hf.session, hooks=hf.hooks, run_config=config)))

    assert texts(without_tail(model.calls[1].input)) == ["a", "1", "from a retriever", "b"]


def test_the_history_that_a_handoff_tells_comes_before_what_follows_it(file_engine: holdfast.Engine) -> None:
    """The SDK tells the next agent in messages of its own, around the texts of the first one."""
    hf = bind(file_engine, "order-1")
    model = script([call("find", "c1", order="7")], [call("find", "c2", order="8")], [say("Refunded.")])
    refunds = Agent(name="refunds", model=model, tools=[find])
    desk = Agent(name="desk", model=script([say("I ask them."), call("transfer_to_refunds", "c0")]), handoffs=[refunds])
    config = hf.config(tracing_disabled=True, nest_handoff_history=True)
    run(cast("Any", Runner.run(desk, "I want money.", session=hf.session, hooks=hf.hooks, run_config=config)))

    first, second, third = [without_tail(made.input) for made in model.calls]
    assert ["I want money" in first[0]["content"], "transfer_to_refunds" in first[2]["content"]] == [True, True]
    assert texts(first[1:2]) == ["I ask them."]
    assert second[:3] == first
    assert third[: len(second)] == second  # each call extends the one before
    assert [item["type"] for item in third[3:]] == ["function_call", "function_call_output"] * 2


def test_a_cleared_session_is_shown_no_more(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("1")], [say("2")])
    agent = Agent(name="desk", model=model)
    ask(agent, "a", hf)
    run(hf.session.clear_session())
    ask(agent, "b", hf)

    assert without_tail(model.calls[1].input) == [user("b")]
    assert len(file_engine.session("order-1").messages()) == 4


def test_withdrawn_items_are_not_shown(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([say("A chandelier.")], [say("A brass lamp.")])
    agent = Agent(name="desk", model=model)
    ask(agent, "Suggest a lamp.", hf)
    run(hf.session.pop_item())
    run(hf.session.pop_item())
    ask(agent, "Suggest a small lamp.", hf)

    assert without_tail(model.calls[1].input) == [user("Suggest a small lamp.")]


def test_a_summary_is_not_shown_to_a_list_that_does_not_go_back_so_far(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", budget=3_000)
    model = script(*cast("Any", [[say(f"Answer {n}. " + "It is all well. " * 30)] for n in range(32)]))
    agent = Agent(name="desk", model=model)
    for number in range(31):
        ask(agent, f"Question {number}? " + "Tell me more. " * 20, hf)
    assert len(without_tail(model.calls[-1].input)) < 61

    config = hf.config(tracing_disabled=True, session_settings=SessionSettings(limit=2))
    run(cast("Any", Runner.run(agent, "Yes?", session=hf.session, hooks=hf.hooks, run_config=config)))
    shown = texts(without_tail(model.calls[-1].input))
    assert [text.split("?")[0].split(".")[0] for text in shown] == ["Question 30", "Answer 30", "Yes"]


def test_ids_of_calls_may_repeat(file_engine: holdfast.Engine) -> None:
    """The SDK itself shows the newest of equal ids alone; nothing is lost, and it is shown no orphan."""
    hf = bind(file_engine, "order-1")
    steps = [step for n in range(3) for step in ([call("find", "call_0", order=str(n))], [say(f"{n}.")])]
    model = script(*cast("Any", steps))
    agent = Agent(name="desk", model=model, tools=[find])
    for number in range(3):
        ask(agent, f"Where is {number}?", hf)
        shown = texts(without_tail(model.calls[-1].input))
        assert f"Order {number} goes to 12 Main Street." == shown[-1]
        assert f'{{"order": "{number}"}}' in shown
    assert len(run(hf.session.get_items())) == 12
    messages = file_engine.session("order-1").messages()
    assert [each.text for each in messages if each.role == "tool"] == [
        f"Order {n} goes to 12 Main Street." for n in range(3)
    ]
    assert file_engine.session("order-1").recover().pending_work == ()


def test_reasoning_without_ids(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([think("rs_1"), say("1", "msg_1")], [think("rs_2"), say("2", "msg_2")], [say("3")])
    agent = Agent(name="desk", model=model)
    ask(agent, "a", hf)
    for text in ("b", "c"):
        config = hf.config(tracing_disabled=True, reasoning_item_id_policy="omit")
        run(cast("Any", Runner.run(agent, text, session=hf.session, hooks=hf.hooks, run_config=config)))

    shown = without_tail(model.calls[-1].input)
    assert [item.get("type", item.get("role")) for item in shown] == [
        "user",
        "reasoning",
        "message",
        "user",
        "reasoning",
        "message",
        "user",
    ]
    assert "rs_" not in json.dumps(shown)
    session = file_engine.session("order-1")
    assert [each.withdrawn for each in session.messages()] == [
        0
    ] * 6  # a reply is the message of its items all the same
    assert len(session.packs.list()) == 3


def test_reasoning_without_ids_stays_without_them_where_a_value_is_redacted(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    hf.holdfast.facts.set(ADDRESS, "12 Main Street")
    model = script([think("rs_1"), say("To 12 Main Street.", "msg_1")], [think("rs_2"), say("Noted.", "msg_2")])
    agent = Agent(name="desk", model=model)
    ask(agent, "Where does it go?", hf)
    hf.holdfast.facts.set(ADDRESS, "456 Oak Ave")
    config = hf.config(tracing_disabled=True, reasoning_item_id_policy="omit")
    run(cast("Any", Runner.run(agent, "And now?", session=hf.session, hooks=hf.hooks, run_config=config)))

    shown = without_tail(model.calls[-1].input)
    assert texts(shown) == ["Where does it go?", "", "To [outdated: shipping_address].", "And now?"]
    assert "rs_" not in json.dumps(shown)
    assert [item["id"] for item in shown if "id" in item] == ["msg_1"]


def test_a_callback_that_tears_a_call_from_its_result_leaves_no_orphan(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1")
    model = script([call("find", "c1", order="7")], [say("Found.")], [say("Yes.")])
    agent = Agent(name="desk", model=model, tools=[find])
    ask(agent, "Where is 7?", hf)

    def keep_two(history: Any, new: Any) -> Any:
        return history[-2:] + new

    config = hf.config(tracing_disabled=True, session_input_callback=keep_two)
    run(cast("Any", Runner.run(agent, "Sure?", session=hf.session, hooks=hf.hooks, run_config=config)))

    assert texts(without_tail(model.calls[-1].input)) == ["Found.", "Sure?"]


def test_what_is_redacted_in_part_keeps_to_the_list_of_the_sdk(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", pack_options={"time": False})
    refunds = script([say("Refunded.")])
    to_refunds = handoff(Agent(name="refunds", model=refunds), input_filter=handoff_filters.remove_all_tools)
    steps = script(
        [say("To 12 Main Street.", "msg_1"), call("find", "c1", order="7")],
        [say("Found.", "msg_2")],
        [call("transfer_to_refunds", "c2")],
    )
    desk = Agent(name="desk", model=steps, tools=[find], handoffs=[to_refunds])
    hf.holdfast.facts.set(ADDRESS, "12 Main Street")
    ask(desk, "Where does it go?", hf)
    hf.holdfast.facts.set(ADDRESS, "456 Oak Ave")
    ask(desk, "I want my money back.", hf)

    shown = without_tail(refunds.calls[0].input)
    assert texts(shown) == [
        "Where does it go?",
        "To [outdated: shipping_address].",
        "Found.",
        "I want my money back.",
    ]
    assert "call" not in json.dumps([item.get("type") for item in shown])


def test_a_fact_is_shown_to_all_agents_of_the_conversation(file_engine: holdfast.Engine) -> None:
    hf = bind(file_engine, "order-1", user="ada")
    model = script([say("To 456 Oak Ave.")])
    hf.holdfast.facts.set(ADDRESS, "456 Oak Ave")
    ask(Agent(name="desk", model=model), "Where do you ship to?", hf)

    assert "456 Oak Ave" in str(cast("Items", model.calls[0].input)[-1]["content"])


@given(items=st.lists(st.sampled_from(ITEMS), max_size=12))
def test_orphans_are_never_left(items: Items) -> None:
    kept = _drop_orphans(items)

    calls = {item["call_id"] for item in kept if str(item.get("type")).endswith("_call") and "call_id" in item}
    outputs = {item["call_id"] for item in kept if str(item.get("type")).endswith("_output") and "call_id" in item}
    assert calls - {"sh_1"} == outputs - {"sh_1"}
    assert _drop_orphans(kept) == kept


@given(item=st.sampled_from(ITEMS) | st.dictionaries(st.text(), st.text() | st.none() | st.lists(st.text())))
def test_every_item_makes_a_message_and_has_a_key_that_outlives_its_id(item: dict[str, Any]) -> None:
    message = build_message("x", [item])

    assert message.message["role"] in ("user", "assistant", "system", "developer", "tool")
    assert message.digest == build_message("x", [json.loads(json.dumps(item))]).digest
    assert item_key(item) == item_key(json.loads(json.dumps(item)))
    if item.get("type") not in ("item_reference", "local_shell_call_output"):
        assert item_key({**item, "id": "other"}) == item_key(item)
