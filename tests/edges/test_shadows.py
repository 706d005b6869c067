"""The shadow of a framework's conversation follows every list that a framework can give."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import Text
from holdfast.codec import check_json
from holdfast.frameworks.accepted import accept_calls, accept_json
from holdfast.frameworks.media import bound_parts
from holdfast.frameworks.shadows import RESULT_DIGEST, Shadow, ShadowMessage, mark_message, name_messages
from holdfast.frameworks.shown import show_pack

Listed = list[tuple[str, str]]


def user(name: str, text: str = "") -> ShadowMessage:
    return ShadowMessage(name, {"role": "user", "content": text or f"text of {name}"})


def reply(name: str, *calls: str, text: str = "") -> ShadowMessage:
    made = [{"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in calls]
    message: dict[str, Any] = {"role": "assistant", "content": text or f"text of {name}"}
    return ShadowMessage(name, message | ({"tool_calls": made} if made else {}))


def result(name: str, call: str) -> ShadowMessage:
    return ShadowMessage(name, {"role": "tool", "tool_call_id": call, "content": f"found by {call}"})


@pytest.fixture
def shadow() -> Shadow:
    return Shadow(holdfast.open("memory:").create_session("s"))


def live(session: holdfast.Session) -> list[str]:
    return [str(each.metadata.get("id", each.role)) for each in session.messages(limit=1_000) if not each.withdrawn]


def test_new_messages_are_recorded_once(shadow: Shadow) -> None:
    messages = [user("u1"), reply("a1", "c1"), result("t1", "c1"), reply("a2")]
    assert len(shadow.follow(messages).recorded) == 4
    version = shadow.session.state().version
    assert shadow.follow(messages) == ((), (), 0)
    assert Shadow(shadow.session).follow(messages).recorded == ()
    assert shadow.session.state().version == version
    assert live(shadow.session) == ["u1", "a1", "t1", "a2"]


def test_a_list_that_goes_on_otherwise_withdraws_what_it_lacks(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1"), user("u2"), reply("a2")])
    outcome = shadow.follow([user("u1"), reply("a1"), user("u3")])
    assert (outcome.withdrawn, len(outcome.recorded)) == (2, 1)
    assert live(shadow.session) == ["u1", "a1", "u3"]


def test_an_edited_message_replaces_the_old_one(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1", text="the old text")])
    shadow.follow([user("u1"), reply("a1", text="the new text")])
    text = shadow.session.pack("what?").text
    assert "the new text" in text
    assert "the old text" not in text


def test_a_shorter_list_withdraws_only_if_it_is_exact(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1")])
    shadow.follow([user("u1")])
    assert live(shadow.session) == ["u1", "a1"]
    shadow.follow([user("u1")], exact=True)
    assert live(shadow.session) == ["u1"]
    shadow.follow([], exact=True)
    assert live(shadow.session) == []


def test_a_framework_that_cuts_its_list_off_has_taken_nothing_back(shadow: Shadow) -> None:
    """Also if it puts a summary of its own before the rest."""
    shadow.follow([user("u1"), reply("a1"), user("u2"), reply("a2")])
    outcome = shadow.follow([user("summary"), user("u2"), reply("a2"), user("u3")])
    assert (outcome.withdrawn, outcome.extra) == (0, ())
    assert live(shadow.session) == ["u1", "a1", "u2", "a2", "u3"]


def test_what_is_put_before_a_whole_conversation_is_extra(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1")])
    outcome = shadow.follow([user("note"), user("u1"), reply("a1"), user("u2")])
    assert [each.id for each in outcome.extra] == ["note"]
    assert live(shadow.session) == ["u1", "a1", "u2"]


def test_a_list_that_shares_nothing_replaces_all_or_goes_on(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1")])
    shadow.follow([user("u2")], continues=True)
    shadow.follow([user("u2"), reply("a2")], continues=True)
    assert live(shadow.session) == ["u1", "a1", "u2", "a2"]
    shadow.follow([user("u3")])
    assert live(shadow.session) == ["u3"]


def test_a_whole_list_has_nothing_missing_at_its_front(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1"), user("u2")])
    shadow.follow([user("u2"), reply("a2")], whole=True)
    assert live(shadow.session) == ["u2", "a2"]
    shadow.follow([user("u2"), reply("a2"), user("u3")], whole=True)
    assert live(shadow.session) == ["u2", "a2", "u3"]


def test_results_that_a_tool_recorded_itself_are_known(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1", "c1", "c2")])
    shadow.session.result("c2", "recorded when the tool ended")
    messages = [user("u1"), reply("a1", "c1", "c2"), result("t1", "c1"), result("t2", "c2")]
    shadow.follow(messages)
    shadow.follow([*messages, reply("a2")])
    assert live(shadow.session) == ["u1", "a1", "tool", "t1", "a2"]
    assert shadow.session.open_calls() == ()


def test_results_of_parallel_tools_are_known_in_any_order(shadow: Shadow) -> None:
    messages = [user("u1"), reply("a1", "c1", "c2", "c3")]
    shadow.follow(messages)
    for call in ("c3", "c1", "c2"):
        shadow.session.result(call, f"recorded when {call} ended")
    messages += [result("t1", "c1"), result("t2", "c2"), result("t3", "c3"), reply("a2")]
    shadow.follow(messages)
    version = shadow.session.state().version
    shadow.follow(messages)
    assert shadow.session.state().version == version
    shadow.follow([*messages, user("u2")])
    assert live(shadow.session) == ["u1", "a1", "tool", "tool", "tool", "a2", "u2"]
    assert shadow.session.evidence() == []


def test_a_result_is_not_withdrawn_because_the_list_does_not_have_it_yet(shadow: Shadow) -> None:
    shadow.follow([user("u1"), reply("a1", "c1", "c2")])
    shadow.session.result("c1", "recorded when the tool ended")
    shadow.follow([user("u1"), reply("a1", "c1", "c2"), result("t2", "c2")])
    assert live(shadow.session) == ["u1", "a1", "tool", "t2"]


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=4), min_size=1, max_size=6))
def test_runs_that_do_not_know_results_of_each_other_settle(runs: list[list[tuple[int, bool]]]) -> None:
    """Runs on one thread at the same time: each list has some turns, with their results or without."""
    session = holdfast.open("memory:").create_session("s")
    for turns in runs:
        messages: list[ShadowMessage] = []
        for number, has_results in dict(turns).items():
            calls = [f"c{number}a", f"c{number}b"]
            messages += [user(f"u{number}"), reply(f"a{number}", *calls)]
            messages += [result(f"t{call}", call) for call in calls] if has_results else []
        messages.append(user("last"))
        shadow = Shadow(session, observe=False)
        shadow.follow(messages, exact=True)
        for call in session.open_calls():
            session.result(call, "not run", is_error=True)
        version = session.state().version
        shadow.follow(messages, exact=True)
        assert session.state().version == version
        assert session.open_calls() == ()


def answered(session: holdfast.Session) -> list[tuple[str, str]]:
    """The results in the conversation, each with the id of the message whose call it answers."""
    messages = session.messages(limit=1_000)
    origins = {call.id: str(each.metadata["id"]) for each in messages for call in each.tool_calls}
    return [
        (origins[one.tool_call_id], str(one.value))
        for each in messages
        for one in each.tool_results
        if not each.withdrawn
    ]


@given(
    turns=st.lists(st.tuples(st.lists(st.sampled_from(["look", "find"]), unique=True), st.booleans()), max_size=6),
    data=st.data(),
)
def test_a_call_may_have_the_id_of_an_earlier_one(turns: list[tuple[list[str], bool]], data: st.DataObject) -> None:
    """Some providers give a call the name of its tool as id. Results are in the list, or recorded when their tools end."""
    session = holdfast.open("memory:").create_session("s")
    shadow = Shadow(session, observe=False)
    listed: list[ShadowMessage] = []
    expected: list[tuple[str, str]] = []
    for number, (calls, is_beside) in enumerate(turns):
        listed += [user(f"u{number}"), reply(f"a{number}", *calls)]
        if is_beside:
            shadow.follow(listed)
        for call in calls:
            value = f"{call} {number}"
            expected.append((f"a{number}", value))
            if is_beside:
                session.result(call, value)
            message = {"role": "tool", "tool_call_id": call, "content": value}
            listed.append(ShadowMessage(f"t{number}-{call}", message))
        if data.draw(st.booleans()):
            shadow = Shadow(session, observe=False)  # another process
        if data.draw(st.booleans()):
            shadow.follow(listed)
    shadow.follow([*listed, user("end")], exact=True)
    assert answered(session) == expected
    version = session.state().version
    Shadow(session, observe=False).follow([*listed, user("end")], exact=True)
    assert session.state().version == version


def test_a_recorded_result_is_replaced_only_if_the_list_has_another_one(shadow: Shadow) -> None:
    """Also of two calls with one id: each result is compared with its own message."""

    def record(message: ShadowMessage) -> None:
        shadow.session.record_all([{**message.message, "metadata": {RESULT_DIGEST: message.digest}}], as_found=True)

    def build(name: str, value: str) -> ShadowMessage:
        return ShadowMessage(name, {"role": "tool", "tool_call_id": "look", "content": value})

    listed = [user("u1"), reply("a1", "look")]
    shadow.follow(listed)
    record(build("t1", "one"))
    listed += [build("t1", "one"), reply("a2", "look")]
    shadow.follow(listed)
    record(build("t2", "two"))
    for messages in (listed, [*listed, build("t2", "two"), reply("a3")]):
        assert shadow.follow(messages).withdrawn == 0
    assert answered(shadow.session) == [("a1", "one"), ("a2", "two")]
    shadow.follow([*listed, build("t2", "changed"), reply("a3")])
    assert answered(shadow.session) == [("a1", "one"), ("a2", "changed")]


def test_no_order_of_messages_is_refused(shadow: Shadow) -> None:
    shadow.follow([result("t0", "c0"), reply("a1", "c1"), reply("a2"), result("t1", "c1"), user("u1")])
    assert shadow.session.open_calls() == ()
    assert "text of u1" in shadow.session.pack().text


def test_a_reply_that_was_recorded_with_its_pack_is_known(shadow: Shadow) -> None:
    shadow.follow([user("u1")])
    pack = shadow.session.pack()
    answer = reply("a1")
    shadow.session.record(answer.message, pack=pack, metadata=mark_message(answer))
    shadow.follow([user("u1"), reply("a1"), user("u2")])
    assert live(shadow.session) == ["u1", "a1", "u2"]


def test_users_are_observed(shadow: Shadow) -> None:
    shadow.session.ledger().set("shipping_address", "123 Main St")
    shadow.follow([user("u1", "Actually, my shipping address is now 456 Oak Ave.")])
    current = shadow.session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "456 Oak Ave"


MOVES = [
    user("u1", "My shipping address is now 456 Oak Ave."),
    reply("a1"),
    user("u2", "Where is my order?"),
    reply("a2"),
]


def test_what_was_said_before_the_conversation_was_recorded_overrules_no_fact(shadow: Shadow) -> None:
    shadow.session.ledger().set("shipping_address", "789 Pine Rd")
    shadow.follow(MOVES)
    shadow.follow([*MOVES, user("u3", "And now?")])
    current = shadow.session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "789 Pine Rd"


def test_what_the_program_has_recorded_before_is_no_beginning_of_the_conversation(shadow: Shadow) -> None:
    shadow.session.ledger().set("shipping_address", "789 Pine Rd")
    shadow.session.record("system", "You are a shop assistant.")
    shadow.follow(MOVES)
    current = shadow.session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "789 Pine Rd"


def test_the_newest_turn_of_a_conversation_that_is_recorded_late_is_read(shadow: Shadow) -> None:
    shadow.session.ledger().set("shipping_address", "789 Pine Rd")
    newest = [user("u3", "Oh."), user("u4", "Actually, my shipping address is now 12 Elm St."), user("u5"), reply("a5")]
    shadow.follow([*MOVES, *newest])
    current = shadow.session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "12 Elm St"


def test_turns_that_continue_a_conversation_are_all_read(shadow: Shadow) -> None:
    shadow.session.ledger().set("shipping_address", "789 Pine Rd")
    shadow.follow([user("u0"), reply("a0")])
    shadow.follow([user("u0"), reply("a0"), *MOVES])
    current = shadow.session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "456 Oak Ave"


def test_an_engine_is_not_taken_for_one_that_is_gone() -> None:
    for _ in range(20):  # a new engine may have the address of the last one in memory
        with holdfast.open("memory:") as engine:
            followed = Shadow(engine.create_session("talk"))
            followed.session.ledger().set("shipping_address", "123 Main St")
            followed.follow([user("u1", "Actually, my shipping address is now 456 Oak Ave.")])
            current = followed.session.facts.get("shipping_address")
            assert current is not None
            assert current.value == "456 Oak Ave"
        del engine, followed


def test_two_shadows_of_one_session_agree(shadow: Shadow) -> None:
    other = Shadow(shadow.session)
    shadow.follow([user("u1")])
    other.follow([user("u1"), reply("a1")])
    shadow.follow([user("u1"), reply("a1"), user("u2")])
    assert live(shadow.session) == ["u1", "a1", "u2"]


def test_messages_without_ids_get_stable_ones() -> None:
    once = name_messages([{"role": "user", "content": "yes"}, {"role": "user", "content": "yes"}])
    again = name_messages([{"role": "user", "content": "yes"}, {"content": "yes", "role": "user"}])
    assert [each.id for each in once] == [each.id for each in again]
    assert once[0].id != once[1].id


def test_a_pack_shows_originals_and_changed_messages_apart(shadow: Shadow) -> None:
    shadow.session.ledger().set("shipping_address", "123 Main St")
    shadow.follow([user("u1", "Ship it to 123 Main St."), reply("a1", "c1"), result("t1", "c1"), reply("a2")])
    shadow.session.observe("Actually, my shipping address is now 456 Oak Ave.")
    shown = [*show_pack(shadow.session.pack(), shadow)]
    by_id = {each.id: each for each in shown if each.id}
    assert not by_id["u1"].is_original
    assert "123 Main St" not in by_id["u1"].text
    assert by_id["a1"].is_original
    assert [call.provider_id for call in by_id["a1"].calls] == ["c1"]
    assert by_id["t1"].is_original
    assert by_id["t1"].call == by_id["a1"].calls[0]
    assert "456 Oak Ave" in shown[-1].text


@st.composite
def states(draw: st.DrawFn) -> list[Listed]:
    """States of a list: it grows, loses its end or its front, and gets other texts under the same ids."""
    listed: Listed = []
    found: list[Listed] = []
    number = 0
    for _ in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(["grow", "grow", "grow", "cut", "edit", "same"])):
            case "grow":
                for _ in range(draw(st.integers(1, 3))):
                    number += 1
                    listed = [*listed, (f"m{number}", "first")]
            case "cut":
                listed = listed[: draw(st.integers(0, len(listed)))]
            case "edit" if listed:
                at = draw(st.integers(0, len(listed) - 1))
                listed = [*listed[:at], (listed[at][0], listed[at][1] + "+"), *listed[at + 1 :]]
        found.append(listed)
    return found


@given(states(), st.data())
def test_the_conversation_is_the_list_whatever_the_framework_does(listed: list[Listed], data: st.DataObject) -> None:
    session = holdfast.open("memory:").create_session("s")
    shadow = Shadow(session, observe=False)
    for each in listed:
        if data.draw(st.booleans()):
            shadow = Shadow(session, observe=False)  # another process
        messages = [user(name, text) if int(name[1:]) % 2 else reply(name, text=text) for name, text in each]
        shadow.follow(messages, exact=True)
        shown = [(str(one.metadata["id"]), one.text) for one in session.messages(limit=1_000) if not one.withdrawn]
        assert shown == each
        version = session.state().version
        shadow.follow(messages, exact=True)
        assert session.state().version == version


@pytest.mark.parametrize("front", [[], [user("u0"), reply("a0")]])
def test_a_call_that_is_withdrawn_with_its_result_is_recorded_again(shadow: Shadow, front: list[ShadowMessage]) -> None:
    """The call has no result: one that closes it follows the message that the framework takes back."""
    shadow.follow([*front, reply("a1", "c1"), user("u1"), reply("a2")])
    shadow.follow([*front, reply("a1", "c1"), reply("a2")], exact=True)
    assert shadow.known_ids() == [*(each.id for each in front), "a1", "a2"]


def test_what_is_kept_as_evidence_is_recorded_once(shadow: Shadow) -> None:
    orphan, empty = result("t1", "never-called"), ShadowMessage("u2", {"role": "user", "content": ""})
    messages = [user("u1"), orphan, reply("a1"), empty, reply("a2"), user("u3")]
    assert len(shadow.follow(messages).recorded) == 6
    version = shadow.session.state().version
    assert shadow.follow(messages) == ((), (), 0)
    assert Shadow(shadow.session).follow(messages) == ((), (), 0)
    assert shadow.session.state().version == version
    assert Shadow(shadow.session).follow([user("u1"), orphan, reply("b1")]).withdrawn == 3
    assert Shadow(shadow.session).follow([user("u1"), reply("b1"), user("u4")]).withdrawn == 0
    assert live(shadow.session) == ["u1", "b1", "u4"]


def test_a_second_shadow_builds_on_the_facts_of_the_first(shadow: Shadow) -> None:
    """Both follow the same list at once, as a saver and a middleware do: whoever is done sees the new value."""
    shadow.session.ledger().set("shipping_address", "123 Main St")
    messages = [user("u1", "Ship it to 123 Main St."), user("u2", "Actually, my shipping address is now 456 Oak Ave.")]

    def follow(_: int) -> str:
        other = Shadow(shadow.session)
        other.follow(messages)
        return other.session.pack().text

    with ThreadPoolExecutor(8) as pool:
        for text in pool.map(follow, range(8)):
            assert "123 Main St" not in text
            assert "456 Oak Ave" in text


def test_facts_are_read_from_a_message_whose_process_died_before() -> None:
    engine = holdfast.open("memory:")
    session = engine.create_session("s")
    session.ledger().set("shipping_address", "123 Main St")
    message = user("u1", "Actually, my shipping address is now 456 Oak Ave.")
    session.record(message.message, metadata=mark_message(message))
    Shadow(session).follow([message])
    current = session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "456 Oak Ave"


def test_a_list_that_only_grows_is_not_walked_again(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [user("u1"), reply("a1", "c1")]
    shadow.follow(messages)
    monkeypatch.setattr("holdfast.frameworks.shadows._compare", None)
    shadow.follow([*messages, result("t1", "c1"), reply("a2")])
    assert live(shadow.session) == ["u1", "a1", "t1", "a2"]
    monkeypatch.undo()
    shadow.session.record("user", "beside the framework")
    shadow.follow([*messages, result("t1", "c1"), reply("a2"), user("u2")])
    assert live(shadow.session) == ["u1", "a1", "t1", "a2", "user", "u2"]


def test_any_value_is_accepted_as_json() -> None:
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    value = {"a": float("inf"), "b": -(2**90), 3: "x\ud800", "deep": deep, "many": [*range(200_000)]}
    check_json("the value", accept_json(value))
    assert accept_json({"a": [1, 2.5, None, True, "é"]}) == {"a": [1, 2.5, None, True, "é"]}
    assert accept_json({"a": float("inf"), "b": 2**63}) == {"a": "inf", "b": "9223372036854775808"}


def test_calls_of_any_form_are_accepted() -> None:
    calls = accept_calls([("c", "", {"x": 1}), ("c", "a\nb", [1]), ("", "y" * 999, {})])
    assert [(each["id"], each["args"]) for each in calls] == [("c", {"x": 1}), ("c~1", {"arguments": [1]}), ("", {})]
    assert [each["name"][:7] for each in calls] == ["unnamed", "a?b", "yyyyyyy"]
    assert all(len(each["name"]) <= 256 for each in calls)
    assert len(accept_calls((number, "x", {}) for number in range(1_000))) == 256


def test_a_list_of_many_parts_is_bounded() -> None:
    parts = bound_parts([Text(str(number)) for number in range(1_200)])
    assert len(parts) == 1_000
    assert parts[-1] == Text("\n".join(str(number) for number in range(999, 1_200)))
