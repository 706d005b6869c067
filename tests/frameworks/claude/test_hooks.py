"""The hooks, called as the SDK calls them."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, cast

import pytest
from claude_agent_sdk.types import HookContext, HookEvent, HookInput, HookMatcher, SessionKey, SessionStoreEntry

import holdfast
from holdfast.claude import HoldfastSessionStore
from tests.edges.claude_lines import Chat

SESSION = "1c2b5f0e-0000-4000-8000-000000000001"
KEY: SessionKey = {"project_key": "-work-shop", "session_id": SESSION}
Hooks = dict[HookEvent, list[HookMatcher]]


async def call_hook(hooks: Hooks, event: HookEvent, **fields: Any) -> dict[str, Any]:
    given = {
        "session_id": SESSION,
        "transcript_path": f"/home/ada/.claude/projects/-work-shop/{SESSION}.jsonl",
        "cwd": "/home/ada/shop",
        "hook_event_name": event,
        **fields,
    }
    (matcher,) = hooks[event]
    (hook,) = matcher.hooks
    context: HookContext = {"signal": None}
    return cast("dict[str, Any]", await hook(cast("HookInput", given), fields.get("tool_use_id"), context))


def start(hooks: Hooks, call: str, **more: Any) -> Any:
    return call_hook(hooks, "PreToolUse", tool_name="Bash", tool_input={"command": "pay"}, tool_use_id=call, **more)


async def append(store: HoldfastSessionStore, lines: list[dict[str, Any]], key: SessionKey = KEY) -> None:
    await store.append(key, cast("list[SessionStoreEntry]", lines))


def test_a_tool_waits_until_its_call_is_stored_and_starts_under_a_key(engine: holdfast.Engine) -> None:
    store, chat = HoldfastSessionStore(engine), Chat()
    hooks = store.hooks(wait_s=20)

    async def run() -> None:
        waiting = asyncio.create_task(start(hooks, "toolu_1"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await append(store, [chat.prompt("Pay."), *chat.reply("Yes.", ("Bash", "toolu_1", {"command": "pay"}))])
        assert await waiting == {}

    asyncio.run(run())
    session = store.session(SESSION, "-work-shop")
    (unknown,) = session.recover().unknown_outcomes
    (found,) = store.unknown_calls(SESSION, "-work-shop")
    assert (found.id, found.name, found.key) == ("toolu_1", "Bash", unknown.key)
    denied = asyncio.run(start(hooks, "toolu_1"))["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    assert unknown.key in denied["permissionDecisionReason"]
    asyncio.run(
        call_hook(hooks, "PostToolUse", tool_name="Bash", tool_response={"stdout": "paid"}, tool_use_id="toolu_1")
    )
    assert store.unknown_calls(SESSION, "-work-shop") == []
    assert "paid" in session.messages()[-1].text
    assert not session.open_calls()


def test_the_result_that_the_model_saw_is_recorded_not_that_of_the_hook(file_engine: holdfast.Engine) -> None:
    store, chat = HoldfastSessionStore(file_engine), Chat()
    hooks = store.hooks()

    async def run() -> None:
        await append(store, [chat.prompt("Pay."), *chat.reply("Yes.", ("Bash", "toolu_1", {"command": "pay"}))])
        await start(hooks, "toolu_1")
        await call_hook(hooks, "PostToolUseFailure", tool_name="Bash", error="exit 1", tool_use_id="toolu_1")
        await append(store, [chat.result("toolu_1", "Exit code 1", is_error=True), *chat.reply("It failed.")])
        await call_hook(hooks, "Stop", stop_hook_active=False)

    asyncio.run(run())
    session = store.session(SESSION, "-work-shop")
    assert [each.text for each in session.messages()] == ["Pay.", "Yes.", "Exit code 1", "It failed."]
    assert session.messages()[2].tool_results[0].is_error
    assert session.evidence() == []


def test_without_eager_flushes_the_start_is_an_entry(
    file_engine: holdfast.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    store, chat = HoldfastSessionStore(file_engine), Chat()
    hooks = store.hooks(wait_s=0.05)

    async def run() -> None:
        for number in range(4):
            assert await start(hooks, f"toolu_{number}") == {}
            if number:
                await call_hook(
                    hooks, "PostToolUse", tool_name="Bash", tool_response="ok", tool_use_id=f"toolu_{number}"
                )

    asyncio.run(run())
    assert 'session_store_flush="eager"' in caplog.text
    (found,) = store.unknown_calls(SESSION, "-work-shop")
    assert (found.id, found.name) == ("toolu_0", "Bash")
    asyncio.run(
        append(store, [chat.prompt("Go."), *chat.reply("", ("Bash", "toolu_0", {})), chat.result("toolu_0", "ok")])
    )
    assert store.unknown_calls(SESSION, "-work-shop") == []
    assert [each.role for each in store.session(SESSION, "-work-shop").messages()] == ["user", "assistant", "tool"]


def test_a_prompt_is_recorded_once_with_its_facts(engine: holdfast.Engine) -> None:
    engine.ledger(user="ada").set("shipping_address", "12 Elm St")
    store, chat = HoldfastSessionStore(engine, user="ada"), Chat()
    hooks = store.hooks(context=True)
    prompt = "I moved: my shipping address is 456 Oak Ave now."

    async def run() -> dict[str, Any]:
        name = str(uuid.uuid4())
        answer = await call_hook(hooks, "UserPromptSubmit", prompt=prompt, prompt_id=name)
        line = chat.prompt(prompt) | {"promptId": name}
        await append(store, [line, *chat.reply("Noted.")])
        await append(HoldfastSessionStore(engine), [line, *chat.reply("Again.")])
        return answer

    output = asyncio.run(run())["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    assert "- shipping_address: 456 Oak Ave" in output["additionalContext"]
    assert "12 Elm St" not in output["additionalContext"]
    session = store.session(SESSION, "-work-shop")
    assert [each.text for each in session.messages()] == [prompt, "Noted.", "Again."]
    assert asyncio.run(call_hook(store.hooks(), "UserPromptSubmit", prompt="Hello.", prompt_id="p2")) == {}


def test_facts_that_the_model_has_are_not_given_again(file_engine: holdfast.Engine) -> None:
    ledger = file_engine.ledger(user="ada")
    ledger.set("shipping_address", "12 Elm St")
    ledger.set("seat", "aisle")
    store, chat = HoldfastSessionStore(file_engine, user="ada"), Chat()
    hooks = store.hooks(context=True)
    numbers = iter(range(1_000))

    async def ask(text: str) -> str:
        answer = await call_hook(hooks, "UserPromptSubmit", prompt=text, prompt_id=f"p{next(numbers)}")
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    async def run() -> None:
        await append(store, [chat.prompt("Hello."), *chat.reply("Hello.")])
        assert "12 Elm St" in await ask("Which seat do I have?")
        assert await ask("What is my shipping address?") == ""
        ledger.set("shipping_address", "456 Oak Ave")
        assert "456 Oak Ave" in await ask("Where is my order?")
        assert await ask("Where is my order?") == ""
        ledger.retract("seat")
        assert "aisle" not in await ask("Where is it?") != ""
        await call_hook(hooks, "PreCompact", trigger="auto", custom_instructions=None)
        assert "456 Oak Ave" in await ask("Where is it?")
        assert [bool(await ask("And now?")) for _ in range(25)].index(True) == 19

    asyncio.run(run())


def test_a_fact_that_has_ended_is_named_also_by_another_process(engine: holdfast.Engine) -> None:
    """The model was told that it holds, and has that in its context."""
    ledger = engine.ledger(user="ada")
    ledger.set("shipping_address", "12 Elm St")
    ledger.set("seat", "aisle")

    async def ask(number: int) -> str:
        hooks = HoldfastSessionStore(engine, user="ada").hooks(context=True)
        answer = await call_hook(hooks, "UserPromptSubmit", prompt=f"Go on, {number}.", prompt_id=f"p{number}")
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    assert "- seat: aisle" in asyncio.run(ask(1))
    ledger.retract("seat")
    told = asyncio.run(ask(2))
    assert "- Earlier statements about seat are outdated. It has no current value.\n" in told
    assert "- shipping_address: 12 Elm St\n" in told
    ledger.retract("shipping_address")
    told = asyncio.run(ask(3))
    assert "hold now" not in told
    assert told.count("It has no current value.") == 2
    ledger.set("seat", "window")
    told = asyncio.run(ask(4))
    assert "- seat: window\n" in told
    assert told.count("It has no current value.") == 1
    assert engine.admin.verify().ok


def test_of_many_facts_constraints_and_the_newest_are_given(file_engine: holdfast.Engine) -> None:
    ledger = file_engine.ledger(user="ada")
    ledger.set("tone", "formal", is_constraint=True)
    for start in (0, 150):
        ledger.set_all([{"key": f"place_{number}", "value": str(number)} for number in range(start, start + 150)])
    hooks = HoldfastSessionStore(file_engine, user="ada").hooks(context=True, budget=500)
    answer = asyncio.run(call_hook(hooks, "UserPromptSubmit", prompt="Hello.", prompt_id="p1"))
    told = answer["hookSpecificOutput"]["additionalContext"]
    assert "tone: formal" in told
    assert "- place_299: 299\n" in told
    assert "- place_0: 0\n" not in told


def test_copied_prompts_state_nothing_anew(file_engine: holdfast.Engine) -> None:
    """A conversation that is copied into a store says what may have changed since. What is said there later counts."""
    ledger = file_engine.ledger(user="ada")
    ledger.set("shipping_address", "12 Elm St")
    store, chat = HoldfastSessionStore(file_engine, user="ada"), Chat()
    old = [chat.prompt("I moved: my shipping address is 456 Oak Ave now."), *chat.reply("Noted.")]
    old += [chat.prompt("Thank you."), *chat.reply("Gladly.")]

    def value() -> object:
        current = ledger.get("shipping_address")
        return current.value if current is not None else None

    asyncio.run(append(store, old))
    assert value() == "12 Elm St"
    later = chat.prompt("I moved: my shipping address is 7 Mill Road now.", timestamp="2126-01-01T00:00:00.000Z")
    asyncio.run(append(store, [later]))
    assert value() == "7 Mill Road"
    first = Chat().prompt("I moved: my shipping address is 5 Hill Lane now.")  # its turn took long
    asyncio.run(append(store, [first], {**KEY, "session_id": "another"}))
    assert value() == "5 Hill Lane"


def test_a_prompt_of_a_hook_is_recorded_again_where_its_line_is(engine: holdfast.Engine) -> None:
    """Before the lines that are copied into a fork, after which it comes; also if no line of it comes at all."""
    engine.ledger(user="ada").set("shipping_address", "12 Elm St")
    store, chat = HoldfastSessionStore(engine, user="ada"), Chat()
    hooks, prompt = store.hooks(context=True), "I moved: my shipping address is 456 Oak Ave now."

    async def run() -> None:
        await call_hook(hooks, "UserPromptSubmit", prompt=prompt, prompt_id="p1")
        copies = [chat.prompt("Hello."), *chat.reply("Good day.")]
        await append(store, copies[:1])
        await append(store, [*copies[1:], chat.prompt(prompt) | {"promptId": "p1"}, *chat.reply("Noted.")])
        await call_hook(hooks, "UserPromptSubmit", prompt="It is refused by another hook.", prompt_id="p2")
        await call_hook(hooks, "UserPromptSubmit", prompt="Thank you.", prompt_id="p3")
        await append(HoldfastSessionStore(engine), [chat.prompt("Thank you.") | {"promptId": "p3"}])

    asyncio.run(run())
    session = store.session(SESSION, "-work-shop")
    shown = [each.text for each in session.messages() if not each.withdrawn]
    assert shown == ["Hello.", "Good day.", prompt, "Noted.", "Thank you."]
    current = session.facts.get("shipping_address")
    assert current is not None
    assert (current.value, current.review) == ("456 Oak Ave", "")
    assert engine.admin.verify().ok


@pytest.mark.parametrize("has_hooks", [True, False])
def test_what_the_user_says_while_a_tool_runs_is_a_prompt(file_engine: holdfast.Engine, has_hooks: bool) -> None:
    """Claude Code attaches it to the next request, after the result of the tool, and does not name the prompt."""
    file_engine.ledger(user="ada").set("shipping_address", "12 Elm St")
    store, chat = HoldfastSessionStore(file_engine, user="ada"), Chat()
    hooks, said = store.hooks(), "I moved: my shipping address is 456 Oak Ave now."
    late: dict[str, Any] = {"timestamp": "2126-01-01T00:00:00.000Z"}

    async def run() -> None:
        await append(store, [chat.prompt("Go."), *chat.reply("", ("Bash", "toolu_1", {}))])
        if has_hooks:
            await call_hook(hooks, "UserPromptSubmit", prompt=said, prompt_id="p2")
        await append(store, [chat.result("toolu_1", "done", **late)])
        queued = {"type": "queued_command", "commandMode": "prompt", "prompt": said}
        shown = [{"content": f"The user sent a new message while you were working:\n{said}"}]
        notice = {"type": "queued_command", "commandMode": "task-notification", "prompt": "A task has ended."}
        await append(store, [chat.line("attachment", attachment=queued, rendered=shown, **late)])
        await append(store, [chat.line("attachment", attachment=notice, **late), *chat.reply("Noted.")])

    asyncio.run(run())
    session = store.session(SESSION, "-work-shop")
    shown = [each.text for each in session.messages() if not each.withdrawn]
    assert shown == ["Go.", "", "done", said, "A task has ended.", "Noted."]
    current = session.facts.get("shipping_address")
    assert current is not None
    assert (current.value, current.review) == ("456 Oak Ave", "")


def test_machine_prompts_are_not_observed_and_compactions_are_noted(file_engine: holdfast.Engine) -> None:
    store, chat = HoldfastSessionStore(file_engine), Chat()
    hooks = store.hooks(context=True)

    async def run() -> None:
        text = "<task-notification>\n<task-id>a1</task-id>"
        assert await call_hook(hooks, "UserPromptSubmit", prompt=text, prompt_id="p1") == {}
        await append(store, [chat.prompt(text)])
        await call_hook(hooks, "PreCompact", trigger="auto", custom_instructions=None)

    asyncio.run(run())
    session = store.session(SESSION, "-work-shop")
    assert len(session.messages()) == 1
    (noted,) = session.entries.list(kind="claude.compaction")
    assert noted.body == {"trigger": "auto", "instructions": None}


def test_tools_of_subagents_are_started_in_their_frames_and_their_end_is_that_of_the_frame(
    file_engine: holdfast.Engine,
) -> None:
    store, chat = HoldfastSessionStore(file_engine), Chat()
    hooks = store.hooks()
    key: SessionKey = {**KEY, "subpath": "subagents/agent-a1"}

    async def run() -> None:
        await append(store, [chat.prompt("Go.")])
        await append(store, [chat.prompt("Count."), *chat.reply("", ("Bash", "toolu_9", {}))], key)
        await start(hooks, "toolu_9", agent_id="a1", agent_type="Explore")

    asyncio.run(run())
    (found,) = store.unknown_calls(SESSION, "-work-shop")
    assert (found.id, found.subpath) == ("toolu_9", "subagents/agent-a1")
    (frame,) = store.frames(SESSION, "-work-shop", "subagents/agent-a1")
    (unknown,) = store.session(SESSION, "-work-shop").recover().unknown_outcomes
    assert (unknown.frame, unknown.key) == (frame.frame_id, found.key)

    async def finish() -> None:
        stop = {"agent_id": "a1", "agent_type": "Explore", "agent_transcript_path": "x", "stop_hook_active": False}
        await call_hook(hooks, "SubagentStop", **stop)
        assert frame.state().status == "active"  # its last words are not stored yet
        await append(store, [chat.result("toolu_9", "7")], key)
        assert frame.state().status == "active"
        await append(store, chat.reply("Seven."), key)

    asyncio.run(finish())
    assert (frame.state().status, frame.state().summary) == ("completed", "Seven.")
    assert store.unknown_calls(SESSION, "-work-shop") == []


def test_the_tools_of_a_subagent_of_a_workflow_are_its_own(file_engine: holdfast.Engine) -> None:
    """A hook has the id of a sub-agent, not its path."""
    store, chat = HoldfastSessionStore(file_engine), Chat()
    hooks, path = store.hooks(wait_s=0), "subagents/workflows/w1/agent-a1"

    async def run() -> None:
        await append(store, [chat.prompt("Count.")], {**KEY, "subpath": path})
        await start(hooks, "toolu_9", agent_id="a1", agent_type="Explore")  # its call is not stored yet
        await start(hooks, "toolu_8", agent_id="b2", agent_type="Explore")  # nothing of this one is

    asyncio.run(run())
    found = [(each.id, each.subpath) for each in store.unknown_calls(SESSION, "-work-shop")]
    assert found == [("toolu_9", path), ("toolu_8", "subagents/agent-b2")]

    async def finish() -> None:
        for agent, call in (("a1", "toolu_9"), ("b2", "toolu_8")):
            outcome = {"tool_name": "Bash", "tool_response": "7", "tool_use_id": call}
            await call_hook(hooks, "PostToolUse", agent_id=agent, agent_type="Explore", **outcome)
        await append(store, chat.reply("Seven."), {**KEY, "subpath": path})
        await call_hook(hooks, "SubagentStop", agent_id="a1", agent_type="Explore", stop_hook_active=False)

    asyncio.run(finish())
    assert store.unknown_calls(SESSION, "-work-shop") == []
    (frame,) = store.frames(SESSION, "-work-shop", path)
    assert (frame.state().status, frame.state().summary) == ("completed", "Seven.")


def test_a_store_that_fails_denies_tools_and_lets_prompts_pass(file_engine: holdfast.Engine) -> None:
    store = HoldfastSessionStore(file_engine)
    hooks = store.hooks(wait_s=0)
    file_engine.close()
    assert asyncio.run(call_hook(hooks, "UserPromptSubmit", prompt="Hello.", prompt_id="p1")) == {}
    denied = asyncio.run(start(hooks, "toolu_1"))["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    assert (
        asyncio.run(call_hook(hooks, "PostToolUse", tool_name="Bash", tool_response="ok", tool_use_id="toolu_1")) == {}
    )
    assert asyncio.run(call_hook(hooks, "Stop", stop_hook_active=False)) == {}
