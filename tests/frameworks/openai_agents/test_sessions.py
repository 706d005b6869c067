"""The contract of a session of the SDK.

Which behaviours of the SDK's own tests apply, and where they are tested here:

| SDK's tests | behaviour | here |
|---|---|---|
| memory/test_session | add, get, pop, clear; order; empty session; empty list | test_items_come_back_in_their_order… |
| | sessions are isolated, also for pop and clear | test_sessions_do_not_see_each_other |
| | unicode, quotes, control characters | test_every_item_comes_back_equal |
| | limit of settings, explicit limit wins, settings as a dict, unknown fields refused | test_a_limit… |
| | runner remembers; without a session it does not; list input; streamed; sync | test_runs |
| | callback prepares the input; history that a callback repeats is not stored again | test_runs |
| | a failed add is seen by the caller, also streamed | test_runs |
| | concurrent adds and pops | test_threads_lose_nothing…, test_crash |
| | a cancelled write has ended when the caller goes on | test_a_cancelled_write… |
| memory/test_session_limit | limit 0, none, larger; orphans at the cut are dropped | test_a_limit…, test_runs |
| memory/test_session_context_wrapper | calls without `wrapper` are accepted; rewind pops by fingerprints | test_rewind… |
| memory/test_openai_responses_compaction | compaction-aware; history is never lost | test_compaction… |
| | run by the runner | test_runs |
| memory/test_session_persistence_sanitize | ids of items, encrypted reasoning | test_every_item_comes_back_equal |
| extensions/memory | the same contracts on files and on PostgreSQL | fixture `engine` |
| test_hitl_session_scenario | approvals, with a restored state; also after other turns | test_approvals |
| connections, closing, corrupt rows, TTL, encryption, indexes | not ours: the engine has them | – |
"""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any, cast

import pytest
from agents.memory import is_openai_responses_compaction_aware_session
from agents.run_internal.session_persistence import rewind_session_items
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from agents import Session, SessionSettings
from holdfast.errors import InvalidArgument
from holdfast.openai_agents import BindOptions, HoldfastSession, bind
from tests.frameworks.openai_agents.support import Items, assistant, run, sdk, user

ITEMS: Items = [
    user("Where is my order? Ünïcödé 日本語 'quotes' \"double\" \\ back\t\n"),
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look:"}]},
    {
        "role": "user",
        "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}],
    },
    {"role": "user", "content": [{"type": "input_file", "file_id": "file_1", "filename": None}]},
    {"role": "developer", "content": "Be brief."},
    {"role": "system", "content": "You are the desk."},
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA==", "content": None},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "find",
        "arguments": '{ "order" :  "7", "n": 1.0 }',
        "status": "completed",
    },
    {"type": "function_call", "call_id": "call_2", "name": "find", "arguments": "not json"},
    {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "At the depot."}]},
    {"type": "function_call_output", "call_id": "call_1", "output": "At the depot."},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "file_search_call", "id": "fs_1", "queries": ["a"], "status": "completed", "results": None},
    {"type": "code_interpreter_call", "id": "ci_1", "code": "1+1", "container_id": "c", "outputs": None, "status": "x"},
    {"type": "image_generation_call", "id": "ig_1", "result": "aGk=", "status": "completed"},
    {"type": "mcp_list_tools", "id": "ml_1", "server_label": "s", "tools": []},
    {"type": "mcp_approval_request", "id": "mr_1", "arguments": "{}", "name": "t", "server_label": "s"},
    {"type": "mcp_approval_response", "approval_request_id": "mr_1", "approve": True},
    {"type": "mcp_call", "id": "mc_1", "arguments": "{}", "name": "t", "server_label": "s", "output": "ok"},
    {"type": "custom_tool_call", "call_id": "ct_1", "name": "sql", "input": "select 1;"},
    {"type": "custom_tool_call_output", "call_id": "ct_1", "output": "1"},
    {"type": "local_shell_call", "id": "ls_1", "call_id": "sh_1", "status": "completed", "action": {"type": "exec"}},
    {"type": "local_shell_call_output", "id": "sh_1", "output": "done"},
    {"type": "shell_call", "id": "s_1", "call_id": "sh_2", "action": {"commands": ["ls"]}, "status": "completed"},
    {"type": "shell_call_output", "call_id": "sh_2", "output": [{"stdout": "a", "stderr": "", "outcome": {}}]},
    {"type": "computer_call", "id": "cu_1", "call_id": "cc_1", "action": {"type": "screenshot"}, "status": "x"},
    {"type": "computer_call_output", "call_id": "cc_1", "output": {"type": "computer_screenshot", "image_url": "u"}},
    {"type": "apply_patch_call", "id": "ap_1", "call_id": "ap_1", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "apply_patch_call_output", "call_id": "ap_1", "status": "completed", "output": "ok"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
    {"type": "item_reference", "id": "msg_7"},
    {"type": "of_the_future", "id": "x_1", "nested": {"a": [1, None, 2.5, True], "Ω": "ß"}},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Soon.", "annotations": [{"type": "url"}], "logprobs": []}],
    },
    {"id": "msg_2", "type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    assistant("Good bye."),
    user(""),
    user("nul \x00 and half a pair \ud83d"),
    user("a <holdfast-context> of the user"),
    {"role": "user", "content": "large number", "n": 2**80},
]


def open_session(engine: holdfast.Engine, name: str = "s1", **options: Any) -> HoldfastSession:
    return HoldfastSession(engine, name, **options)


def test_it_is_a_session_of_the_sdk_and_knows_compaction(file_engine: holdfast.Engine) -> None:
    session = open_session(file_engine)

    assert isinstance(session, Session)
    assert is_openai_responses_compaction_aware_session(session)
    assert session.session_id == "s1"
    assert session.session_settings is None


def test_items_come_back_in_their_order_and_are_taken_back_from_the_end(engine: holdfast.Engine) -> None:
    async def work() -> None:
        session = open_session(engine)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([])
        await session.add_items(sdk([user("a"), assistant("b")]))
        await session.add_items(sdk([user("c")]))
        assert await session.get_items() == [user("a"), assistant("b"), user("c")]
        assert await session.pop_item() == user("c")
        assert await session.pop_item() == assistant("b")
        await session.add_items(sdk([assistant("d")]))
        assert await open_session(engine).get_items() == [user("a"), assistant("d")]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items(sdk([user("again")]))
        assert await session.get_items() == [user("again")]

    run(work())
    transcript = engine.session("s1")
    assert transcript.context.render("openai-responses")["input"] == [user("again")]
    assert [each.text for each in transcript.messages()] == ["a", "b", "c", "d", "again"]  # the log keeps all
    assert engine.admin.verify().ok


def test_every_item_comes_back_equal(engine: holdfast.Engine) -> None:
    async def work() -> None:
        session = open_session(engine)
        before = copy.deepcopy(ITEMS)
        await session.add_items(sdk(ITEMS))
        assert before == ITEMS  # nothing of the caller is changed
        assert await session.get_items() == ITEMS
        for item in ITEMS:  # one at a time, too
            await open_session(engine, "s2").add_items(sdk([item]))
        assert await open_session(engine, "s2").get_items() == ITEMS
        for item in reversed(ITEMS):
            assert await session.pop_item() == item

    run(work())
    engine.session("s2").pack(budget=20_000)
    assert engine.session("s1").context.render("openai-responses")["input"] == []
    assert engine.admin.verify().ok


def test_what_is_returned_belongs_to_the_caller(file_engine: holdfast.Engine) -> None:
    async def work() -> None:
        session = open_session(file_engine)
        await session.add_items(sdk([user("a")]))
        cast("Items", await session.get_items())[0]["content"] = "changed"
        assert await session.get_items() == [user("a")]

    run(work())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(items=st.lists(st.sampled_from(ITEMS) | st.dictionaries(st.text(), JSON, max_size=4), max_size=8))
def test_any_dicts_come_back_equal(items: Items) -> None:
    with holdfast.open(":memory:") as engine:
        session = open_session(engine)
        run(session.add_items(sdk(items)))
        assert run(session.get_items()) == items


class PlainSession:
    """What a list would do."""

    def __init__(self) -> None:
        self.items: Items = []

    def apply(self, step: tuple[str, Any]) -> Any:
        match step:
            case ("add", items):
                self.items += items
            case ("pop", _):
                return self.items.pop() if self.items else None
            case ("clear", _):
                self.items = []
        return None


STEPS = st.lists(
    st.tuples(st.just("add"), st.lists(st.sampled_from(ITEMS[:32]), min_size=1, max_size=6))
    | st.tuples(st.just("pop"), st.none())
    | st.tuples(st.sampled_from(["clear", "reopen"]), st.none()),
    max_size=10,
)


@given(steps=STEPS)
def test_any_sequence_of_calls_is_that_of_a_list_and_no_model_sees_an_orphan(steps: list[tuple[str, Any]]) -> None:
    with holdfast.open(":memory:") as engine:
        session, plain = open_session(engine), PlainSession()
        for step in steps:
            if step[0] == "reopen":
                session = open_session(engine)
                continue
            expected = plain.apply(step)
            if step[0] == "add":
                run(session.add_items(sdk(step[1])))
            else:
                assert run(session.pop_item() if step[0] == "pop" else session.clear_session()) == expected
            assert run(session.get_items()) == plain.items
        session.session.close_calls()
        shown = session.session.pack(budget=20_000).openai_responses()["input"]
        calls = [item["call_id"] for item in shown if str(item.get("type")).endswith("_call") and "call_id" in item]
        answers = [item.get("call_id", item.get("id")) for item in shown if str(item.get("type")).endswith("_output")]
        assert sorted(calls) == sorted(answers)
        assert engine.admin.verify().ok


def test_sessions_do_not_see_each_other(engine: holdfast.Engine) -> None:
    async def work() -> None:
        one, two = open_session(engine, "one"), open_session(engine, "two")
        ada = open_session(engine, "one", actor="ada")
        for session, text in ((one, "1"), (two, "2"), (ada, "a")):
            await session.add_items(sdk([user(text)]))
        await one.clear_session()
        assert await two.pop_item() == user("2")
        assert await ada.get_items() == [user("a")]

    run(work())


@pytest.mark.parametrize(("limit", "expected"), [(None, 5), (0, 0), (2, 2), (5, 5), (99, 5), (-1, 5)], ids=str)
def test_a_limit_returns_the_newest_in_their_order(
    file_engine: holdfast.Engine, limit: int | None, expected: int
) -> None:
    items = [user(str(number)) for number in range(5)]
    session = open_session(file_engine)
    run(session.add_items(sdk(items)))

    assert run(session.get_items(limit=limit)) == items[5 - expected :]


def test_a_limit_of_the_settings_applies_unless_another_is_given(file_engine: holdfast.Engine) -> None:
    items = [user(str(number)) for number in range(5)]
    session = open_session(file_engine, session_settings=SessionSettings(limit=2))
    run(session.add_items(sdk(items)))

    assert run(session.get_items()) == items[3:]
    assert run(session.get_items(limit=4)) == items[1:]
    assert open_session(file_engine, session_settings={"limit": 3}).session_settings == SessionSettings(limit=3)
    with pytest.raises((TypeError, ValueError)):
        open_session(file_engine, session_settings={"limits": 3})


def test_a_call_without_its_output_is_shown_to_nobody(file_engine: holdfast.Engine) -> None:
    """The output is taken back, then the call."""
    items: Items = [
        user("a"),
        {"id": "rs_1", "type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "old"},
    ]

    async def work() -> None:
        session = open_session(file_engine)
        await session.add_items(sdk(items))
        assert await session.pop_item() == items[3]
        assert await session.get_items() == items[:3]
        assert session.session.context.render("openai-responses")["input"] == items[:1]
        await session.add_items(sdk([{"type": "function_call_output", "call_id": "c1", "output": "new"}]))
        assert session.session.context.render("openai-responses")["input"][-1]["output"] == "new"
        await session.pop_item()
        await session.pop_item()
        assert await session.get_items() == items[:2]
        assert session.session.context.render("openai-responses")["input"] == items[:1]
        await session.add_items(sdk([assistant("b")]))
        assert session.session.context.render("text").split("\n\n") == ["[user]\na", "[assistant]\nb"]

    run(work())
    assert file_engine.admin.verify().ok


def test_rewind_takes_back_what_the_fingerprints_name(file_engine: holdfast.Engine) -> None:
    async def work() -> None:
        session = open_session(file_engine)
        await session.add_items(sdk(ITEMS[:-4]))
        await rewind_session_items(session, sdk(copy.deepcopy(ITEMS[-7:-4])))
        assert await session.get_items() == ITEMS[:-7]
        await rewind_session_items(session, sdk([user("of somebody else")]))  # not at the end: nothing happens
        assert await session.get_items() == ITEMS[:-7]

    run(work())


def test_compaction_changes_no_item(file_engine: holdfast.Engine) -> None:
    words = "More words about it. " * 80
    items = [each for n in range(30) for each in (user(f"Question {n}. {words}"), assistant(f"Answer {n}. {words}"))]

    async def work() -> None:
        session = open_session(file_engine, window=4_000, model="gpt-5")
        await session.add_items(sdk(items))
        before = session.session.context.occupancy()
        await session.run_compaction({"force": True, "response_id": "resp_1"})
        assert session.session.context.occupancy() != before  # something was compacted
        assert await session.get_items() == items
        await session.add_items(sdk([user("new")]))
        assert await session.get_items() == [*items, user("new")]
        await open_session(file_engine, "empty").run_compaction()

    run(work())
    assert [each.withdrawn for each in file_engine.session("s1").messages()] == [0] * 61


def test_threads_lose_nothing_and_take_each_item_once(engine: holdfast.Engine) -> None:
    async def work() -> None:
        sessions = [open_session(engine) for _ in range(3)]
        await asyncio.gather(*(sessions[n % 3].add_items(sdk([user(str(n)), user(f"{n}b")])) for n in range(12)))
        items = cast("Items", await sessions[0].get_items())
        assert sorted(each["content"] for each in items[::2]) == sorted(map(str, range(12)))
        assert [each["content"] + "b" for each in items[::2]] == [each["content"] for each in items[1::2]]
        popped = await asyncio.gather(*(sessions[n % 3].pop_item() for n in range(8)))
        assert sorted(str(each) for each in popped) == sorted(str(each) for each in items[16:])
        assert await sessions[1].get_items() == items[:16]

    run(work())
    shown = engine.session("s1").context.render("openai-responses")["input"]
    assert shown == run(open_session(engine).get_items())
    assert engine.admin.verify().ok


def test_a_cancelled_write_has_ended_when_the_caller_goes_on(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(file_engine)
    entered, go_on = threading.Event(), threading.Event()
    add = session.conversation.add

    def add_slowly(items: Any) -> None:
        entered.set()
        go_on.wait(10)
        add(items)

    async def work() -> None:
        monkeypatch.setattr(session.conversation, "add", add_slowly)
        task = asyncio.ensure_future(session.add_items(sdk([user("a")])))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await session.get_items() == [user("a")]

    run(work())


@pytest.mark.parametrize("items", [["text"], [None], [{"content": object()}]])
def test_what_is_no_item_is_refused_and_nothing_is_stored(file_engine: holdfast.Engine, items: Any) -> None:
    session = open_session(file_engine)

    with pytest.raises(InvalidArgument):
        run(session.add_items(sdk([user("a"), *items])))

    assert run(session.get_items()) == []
    assert file_engine.session("s1").messages() == []


def test_long_names_and_wrong_engines(file_engine: holdfast.Engine) -> None:
    long = "thread/" * 100
    session = open_session(file_engine, long)
    run(session.add_items(sdk([user("a")])))

    assert session.session_id == long
    assert run(open_session(file_engine, long).get_items()) == [user("a")]
    with pytest.raises(InvalidArgument):
        HoldfastSession(cast("Any", "agent.db"), "s1")
    with pytest.raises(holdfast.errors.InvalidInput):
        open_session(file_engine, "")


def test_only_options_are_accepted(file_engine: holdfast.Engine) -> None:
    options: BindOptions = {"session_settings": {"limit": 1}, "repeatable": ["look"], "agent_budget": 900}
    session = bind(file_engine, "s1", user="ada", **options).session
    run(session.add_items(sdk([user("a"), user("b")])))
    assert run(session.get_items()) == [user("b")]
    assert session.session.state().ledgers == (("user", "ada"),)
    for call in (bind, HoldfastSession):
        with pytest.raises(TypeError, match=f"{call.__name__}.. got an unexpected keyword argument 'windows'"):
            cast("Any", call)(file_engine, "s1", windows=4)


def test_a_large_item_comes_back_and_costs_no_view(file_engine: holdfast.Engine) -> None:
    items: Items = [
        user("x" * 3_000_000),
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "line\n" * 400_000},
    ]
    session = open_session(file_engine)
    run(session.add_items(sdk(items)))

    assert run(session.get_items()) == items
    assert session.session.pack(budget=8_000).tokens.used <= 8_000


def test_erased_messages_have_no_items(engine: holdfast.Engine) -> None:
    async def work() -> None:
        session = open_session(engine)
        other = open_session(engine)
        items: Items = [
            user("my card is 4111-2222"),
            {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": '{"card": "4111-2222"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "paid with 4111-2222"},
            assistant("Done."),
        ]
        await session.add_items(sdk(items))
        assert await other.get_items() == items
        session.conversation.erase(session.session.messages()[:2], "the user asked for it")
        assert await session.get_items() == await other.get_items() == [assistant("Done.")]
        await session.add_items(sdk([user("Thanks.")]))
        assert await other.get_items() == [assistant("Done."), user("Thanks.")]

    run(work())
    assert b"4111-2222" not in b"".join(event.payload or b"" for event in engine.session("s1").events(limit=100))
    assert engine.admin.verify().ok


def test_facts_are_read_from_what_users_say(file_engine: holdfast.Engine) -> None:
    session = open_session(file_engine, user="ada")
    session.session.facts.set("shipping_address", "12 Main Street")
    run(session.add_items(sdk([user("My shipping address is 456 Oak Ave now.")])))

    assert "456 Oak Ave" in str(session.session.facts.get("shipping_address")) or session.session.facts.proposals()


@pytest.mark.parametrize("size", [1, 2, 3, 9, 12])
def test_a_reply_of_several_items_is_never_taken_apart(file_engine: holdfast.Engine, size: int) -> None:
    """The comparison with the messages may begin at any item, but not in the middle of a reply."""
    session = HoldfastSession(file_engine, "order-1")
    calls: Items = [
        {"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": f'{{"n": {n}}}'} for n in range(size)
    ]
    outputs: Items = [{"type": "function_call_output", "call_id": f"c{n}", "output": f"seen {n}"} for n in range(size)]
    run(session.add_items(sdk([user("Look."), *calls, *outputs])))
    for number in range(24):
        run(session.add_items(sdk([user(f"Question {number}")])))

    messages = session.session.messages(limit=1_000)
    assert not any(message.withdrawn for message in messages)
    assert len(messages[1].tool_calls) == size
    assert len(messages) == 1 + 1 + size + 24
