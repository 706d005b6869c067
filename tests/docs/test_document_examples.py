"""The examples and test vectors of the five documents, through the public interface, where no other test has them.

docs/reference/documents.md names each one with its test."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import holdfast
from holdfast import Identity, errors
from holdfast.model.history.handles import Priority
from holdfast.model.history.plans import Level
from holdfast.model.situation.situations import FIELDS, ActionMode
from holdfast.types import Spooling

INTERN = Identity(user_id="i1", authority="intern")
ADA = Identity(user_id="ada", authority="employee")


NINE = {
    "frame.pushed",
    "frame.updated",
    "frame.popped",
    "frame.suspended",
    "frame.resumed",
    "frame.handle_added",
    "frame.result_added",
    "frame.compacted",
    "actor.resumed",
}


@pytest.fixture
def session() -> holdfast.Session:
    return holdfast.open("memory:").create_session("s")


def types(session: holdfast.Session) -> list[str]:
    """The names of the session's events, in order."""
    return [event.type for event in session.events(limit=1_000)]


# Document 000: frames, budgets, suspension, recovery


def test_000_the_scores_of_the_priorities(session: holdfast.Session) -> None:
    frame = session.frame("work", budget=8_000)
    added = [frame.handles.add("document", name, priority=name) for name in get_args(Priority)]
    assert [(each.priority, each.score) for each in added] == [
        ("critical", 100),
        ("high", 75),
        ("medium", 50),
        ("low", 25),
        ("background", 10),
    ]


def test_000_the_names_of_the_levels() -> None:
    assert get_args(Level) == ("none", "light", "moderate", "aggressive", "critical")


def test_000_the_newest_ten_messages_stay() -> None:
    session = holdfast.open("memory:").create_session("s")
    for number in range(15):
        session.record("user", f"question {number}: " + "what is there to say of this? " * 20)
        session.record("assistant", f"answer {number}: " + "there is a lot to say of this. " * 20)
    session.context.compact(strategy=holdfast.types.SummarizeOldest(), window=20_000)
    shown = session.context.view().messages
    assert [message.seq for message in shown] == [message.seq for message in session.messages(limit=10)]


@pytest.mark.parametrize("in_frame", [False, True])
def test_000_a_pack_has_500_tokens_or_more(session: holdfast.Session, *, in_frame: bool) -> None:
    frame = session.frame("work", budget=8_000)
    place = frame if in_frame else session
    with pytest.raises(errors.BudgetTooSmall) as refused:
        place.pack(budget=499)
    assert vars(refused.value) == {"budget": 499, "least": 500}
    assert place.pack(budget=500).tokens.used <= 500


def test_000_three_frames_below_the_root(session: holdfast.Session) -> None:
    """What the parent's depth is compared with is its limit, 3 unless the root was pushed with another."""
    frame = session.frame("root", budget=8_000)
    for depth in range(4):
        assert frame.state().depth == depth
        if depth < 3:
            frame = frame.frame(f"depth {depth + 1}", budget=1_000)
    with pytest.raises(errors.MaxDepthExceeded):
        frame.frame("depth 4", budget=1)
    with pytest.raises(errors.ParentFrameNotFound):
        session.frame("nowhere", budget=1, parent="f999")


def test_000_a_new_frame_has_the_fields_of_the_pseudocode(session: holdfast.Session) -> None:
    root = session.frame("root", budget=8_000)
    state = root.frame("child", budget=3_000, inputs={"path": "a.txt"}).state()
    assert (state.parent, state.goal, state.inputs) == (root.id, "child", {"path": "a.txt"})
    assert (state.scope, state.status, state.depth) == (session.scope, "active", 1)
    assert (state.budget, state.limits.max_subframe_depth) == (holdfast.types.Budget(total=3_000), 3)
    assert (state.context_handles, state.result_refs) == ((), ())
    assert state.created_us > 0
    assert (state.completed_us, state.context_hash) == (None, None)


def test_000_the_integration_checklist() -> None:
    """Resume, push, assemble, add what a tool returned, pop, resume again: all nine events, by their names."""
    engine = holdfast.open("memory:")
    session = engine.create_session("s")
    assert session.recover().pending_work == ()
    root = session.frame("answer", budget=8_000)
    child = root.frame("look it up", budget=3_000)
    child.record("user", "What does it cost?")
    pack = child.pack(budget=1_000)
    assert [entry.id for entry in pack.manifest.of("included") if entry.section == "breadcrumbs"] == [root.id, child.id]
    reply = child.record("assistant", "I look.", tool_calls=[{"name": "price", "args": {}}])
    assert [(work.kind, work.frame) for work in session.recover().pending_work] == [
        ("waiting_for_subcall", root.id),
        ("tool_not_started", child.id),
    ]
    child.start_call(reply.tool_calls[0])
    assert [work.kind for work in session.recover().pending_work] == ["waiting_for_subcall", "tool_in_progress"]
    child.result(reply.tool_calls[0], "17 euros")
    child.handles.add("tool_result", "17 euros", source=reply.tool_calls[0].id)
    child.update(goal="look up the price")
    for number in range(15):
        child.record("user", f"and part {number}? " + "tell me all about it. " * 20)
        child.record("assistant", f"{number} euros. " + "that is all about it. " * 20)
    child.context.compact(strategy=holdfast.types.SummarizeOldest(), window=20_000)
    token = child.suspend("wait for the user")
    assert [frame.id for frame in session.recover().frame_stack] == [root.id]
    engine.resume(token)
    child.pop("completed", "17 euros")
    assert [ref.frame for ref in root.state().result_refs] == [child.id]
    recovery = session.recover()
    assert (recovery.current_frame, recovery.pending_work) == (session.frames.stack()[-1], ())
    assert {name for name in types(session) if name.startswith(("frame.", "actor."))} == NINE


def test_000_the_lowest_priority_goes_first(session: holdfast.Session) -> None:
    frame = session.frame("work", budget=8_000)
    added = {
        each: frame.handles.add("document", f"{each} " + "word " * 300, priority=each) for each in get_args(Priority)
    }
    done = frame.context.compact(strategy=holdfast.types.PriorityBased(), window=1_000)
    assert {*done.removed} == {added["low"].id, added["background"].id}
    assert (done.items_removed, done.items_summarised, done.level) == (2, 0, "aggressive")
    assert done.final <= 1_000 < done.original
    assert done.target_met
    shown = {entry.id for entry in frame.pack(budget=4_000).manifest.of("included") if entry.section == "handles"}
    assert shown == {added[each].id for each in ("critical", "high", "medium")}
    assert types(session)[-1] == "frame.compacted"


def test_000_a_token_resumes_its_frame_once() -> None:
    engine = holdfast.open("memory:")
    session = engine.create_session("s")
    frame = session.frame("research", budget=100)
    token = frame.suspend("waits for an external system")
    [listed] = engine.suspended()
    assert (listed.frame, listed.reason, listed.scope) == (frame.id, "waits for an external system", session.scope)
    assert listed.at_us > 0
    assert engine.resume(token).id == frame.id
    with pytest.raises(errors.TokenConsumed):
        engine.resume(token)
    assert types(session)[-2:] == ["frame.suspended", "frame.resumed"]
    assert engine.suspended() == []


# Document 001: handles, spool


def spooled(value: str, *, threshold: int, preview: int) -> str:
    """What a model is shown of a tool result."""
    session = holdfast.open("memory:", spooling=Spooling(threshold=threshold, preview=preview)).create_session("s")
    session.record("user", "read it")
    reply = session.record("assistant", "I read.", tool_calls=[{"name": "read", "args": {}}])
    session.result(reply.tool_calls[0], value)
    shown: str = session.context.render("openai")[-1]["content"]
    [handle] = session.handles.list()
    assert session.handles.read(handle, limit=10_000).text == value
    return shown


@pytest.mark.parametrize(("value", "threshold"), [("small", 50), ("x" * 1_000, 0)])
def test_001_a_small_output_stays_as_it_is(value: str, threshold: int) -> None:
    assert spooled(value, threshold=threshold, preview=16) == value


def test_001_a_label_for_each_residency(session: holdfast.Session) -> None:
    """A piece is in view, then out of it, then in it again, the same."""
    session.record("user", "read it")
    reply = session.record("assistant", "I read.", tool_calls=[{"name": "read", "args": {}}])
    session.result(reply.tool_calls[0], "line\n" * 200)
    [piece] = session.handles.list()
    assert (piece.residency, piece.is_in_context) == ("resident", True)
    assert piece.source == reply.tool_calls[0].id
    out = session.handles.page_out(piece, tier="semantic")
    assert (out.residency, out.tier, out.is_in_context) == ("paged_out", "semantic", False)
    back = session.handles.page_in(piece)
    assert (back.residency, back.digest, back.tokens) == ("resident", piece.digest, piece.tokens)


# Document 002: what a context contains


def test_002_vector_1_in_a_pack() -> None:
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    ledger.set("status_v1", "approved")
    ledger.set("status_v2", "cancelled", supersedes="status_v1")
    text = engine.create_session("s", ledgers=[ledger.id]).pack("What is the current status?").text
    assert "cancelled" in text
    assert "approved" not in text


def test_002_vector_2_in_a_pack() -> None:
    """Each mention is in the conversation, and no mention of the superseded value is shown."""
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    session = engine.create_session("s", ledgers=[ledger.id])
    for _ in range(3):
        ledger.set("order_v1", "approved")
        session.record("user", "The order is approved.")
    ledger.set("order_v2", "cancelled", supersedes="order_v1")
    session.record("user", "The order is cancelled.")
    text = session.pack("Should we proceed with the order?").text
    assert "order_v2: cancelled" in text
    assert "approved" not in text
    assert sum("approved" in message.text for message in session.messages()) == 3


def test_002_vector_3_in_a_pack() -> None:
    engine = holdfast.open("memory:")
    ledger = engine.ledger(organization="acme")
    policy = ledger.set("policy", "max 15%", source="CFO", authority="CFO")
    session = engine.create_session("s", identity=INTERN, ledgers=[ledger.id])
    session.observe("Let's offer 25%")
    pack = session.pack("Can we offer 25%?")
    [entry] = [each for each in pack.manifest.of("included") if each.section == "facts"]
    assert (entry.id, entry.priority) == (policy.id, "critical")
    assert "policy: max 15%" in pack.text
    assert ledger.fact(policy.id).is_valid


@pytest.mark.parametrize(
    "text",
    [
        "I moved to 456 Oak Ave",
        "My new address is 456 Oak Ave",
        "My address changed to 456 Oak Ave",
        "My address was updated to 456 Oak Ave",
        "Actually, my address is 456 Oak Ave",
        "Correction: my address is 456 Oak Ave",
        "Use 456 Oak Ave as my address instead",
        "My address is now 456 Oak Ave",
    ],
)
def test_002_the_words_of_an_explicit_change(text: str) -> None:
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    ledger.set("address", "123 Main St")
    session = engine.create_session("s", identity=ADA, ledgers=[ledger.id])
    session.observe(text)
    current = ledger.get("address")
    assert current is not None
    assert current.value == "456 Oak Ave"
    assert "123 Main St" not in session.pack("Where do I live?").text


def test_002_the_steps_of_the_context() -> None:
    """Identity first, the environment, facts by relevance within their share, then the working set."""
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    for number in range(200):
        ledger.set(f"part {number}", f"{number} euros")
    session = engine.create_session("s", identity=ADA, ledgers=[ledger.id])
    session.environment.set("location", "Lisbon")
    session.working.set("draft about part 7", "part 7 costs too much")
    pack = session.pack("What does part 7 cost?", budget=1_000)
    included = pack.manifest.of("included")
    assert {"identity", "environment", "facts", "working_set"} <= {entry.section for entry in included}
    facts = [entry for entry in included if entry.section == "facts"]
    assert ledger.fact(facts[0].id).key == "part 7"
    assert sum(entry.tokens for entry in facts) <= 0.7 * pack.tokens.budget
    assert pack.tokens.used <= pack.tokens.budget
    assert [entry for entry in pack.manifest.of("omitted") if entry.section == "facts"]


@pytest.mark.parametrize(("profile", "share"), [("high_stakes", 0.5), ("balanced", 0.7), ("comprehensive", 0.85)])
def test_002_the_tunings(session: holdfast.Session, profile: str, share: float) -> None:
    assert session.pack("anything", profile=profile).manifest.request.fact_share == share


# Document 003: situation, actions


def test_003_an_update_merges_known_keys_that_are_not_blank(session: holdfast.Session) -> None:
    session.situation.update({"goal": "find the bug", "progress": "read the log"})
    update = session.situation.update({"summary_update": {"goal": "  ", "progress": "found it", "mood": "good"}})
    assert (update.situation.goal, update.situation.progress) == ("find the bug", "found it")
    assert update.ignored == ("mood",)
    assert str(session.situation.get()) == "goal: find the bug; progress: found it"


def test_003_five_fields_that_begin_empty(session: holdfast.Session) -> None:
    assert FIELDS == ("goal", "progress", "current_approach", "key_findings", "next_focus")
    assert session.situation.get().fields == ()
    assert [*holdfast.UPDATE_SITUATION.parameters["properties"]] == [*FIELDS]


def test_003_what_an_action_has(session: holdfast.Session) -> None:
    calls = [{"name": "read", "args": {"path": "a"}, "result": "x" * 5_000, "outcome": "failure"}]
    texts: dict[str, Any] = {"thinking": "hm", "planning": "first a", "reflection": "not a", "approach": "by file"}
    session.situation.act("deep", **texts, tool_calls=calls, iteration=2)
    [action] = session.situation.actions()
    assert (action.iteration, action.mode, action.timestamp[10]) == (2, "deep", "T")
    assert {name: getattr(action, name) for name in texts} == texts
    [call] = action.tool_calls
    assert (call.name, call.args, len(call.result), call.outcome) == ("read", {"path": "a"}, 1_000, "failure")


@pytest.mark.parametrize("mode", get_args(ActionMode))
def test_003_the_reasoning_context(session: holdfast.Session, mode: ActionMode) -> None:
    """Nothing yet; then three actions before the latest; then the situation, with details in deep mode alone."""
    assert session.situation.reasoning(mode) == "Nothing has been done yet."
    for number in range(6):
        call = {"name": "look", "args": {"at": number}, "result": f"result {number}"}
        session.situation.act(mode, thinking=f"thought {number}", approach=f"approach {number}", tool_calls=[call])
    text = session.situation.reasoning(mode)
    assert [number for number in range(6) if f"approach {number}" in text] == [2, 3, 4, 5]
    assert "LATEST DETAILS" in text
    assert "approach 3" not in session.situation.reasoning(mode, max_history=1)
    session.situation.update({"goal": "find the bug"})
    text = session.situation.reasoning(mode)
    assert text.startswith("SITUATION\ngoal: find the bug")
    assert "approach 4" not in text
    assert ("thought 5" in text) == (mode == "deep")
    assert "result 5" in text


# Document 004: messages, sessions


def test_004_parallel_calls_are_paired_with_their_results(session: holdfast.Session) -> None:
    session.record("user", "What do both cost?")
    reply = session.record(
        "assistant", "I look.", tool_calls=[{"name": "price", "args": {"of": part}} for part in ("a", "b")]
    )
    first, second = reply.tool_calls
    assert (first.name, first.args) == ("price", {"of": "a"})
    assert first.id != second.id
    session.result(second, {"euros": 7})
    session.result(first, "there is no part a", is_error=True)
    results = [result for message in session.messages() for result in message.tool_results]
    assert [(each.tool_call_id, each.value, each.is_error) for each in results] == [
        (second.id, {"euros": 7}, False),
        (first.id, "there is no part a", True),
    ]
    ids = [message.id for message in session.messages()]
    assert len({*ids}) == len(ids)
    assert [message.role for message in session.messages()] == ["user", "assistant", "tool", "tool"]


def test_004_a_window_leaves_out_the_oldest_and_keeps_the_system_prompt(session: holdfast.Session) -> None:
    session.record("system", "You keep a shop.")
    for number in range(30):
        session.record("user", f"question {number} " + "word " * 30)
        session.record("assistant", f"answer {number} " + "word " * 30)
    view = session.context.window(1_000)
    assert view.tokens <= 1_000
    assert view.messages[0].text == "You keep a shop."
    assert view.messages[-1].text.startswith("answer 29")
    assert view.omitted == 61 - len(view.messages) > 0
    assert len(session.messages(limit=100)) == 61


def test_004_a_summary_stands_for_the_oldest_rounds(session: holdfast.Session) -> None:
    for number in range(10):
        session.record("user", f"question {number} " + "word " * 30)
        session.record("assistant", f"answer {number} " + "word " * 30)
    draft = session.context.draft_summary()
    assert draft is not None
    session.context.summarize(draft, "Ten questions were asked.")
    assert session.context.render("openai")[0]["content"] == "Summary of earlier context: Ten questions were asked."
    assert len(session.messages(limit=100)) == 20


@pytest.mark.parametrize("end", ["reset", "end", "destroy"])
def test_004_the_history_is_offered_to_the_memory_engine(end: str) -> None:
    engine = holdfast.open("memory:")
    session = engine.create_session("s")
    session.record("user", "I like tea.")
    getattr(session, end)()
    [offload] = engine.admin.outbox()
    assert [message.text for message in engine.admin.offloaded(offload)] == ["I like tea."]
    assert engine.admin.outbox() == [offload]
    engine.admin.acknowledge(offload)
    assert engine.admin.outbox() == []


def test_004_any_process_serves_any_session() -> None:
    engine = holdfast.open("memory:", cached_streams=1)
    for name in ("ada", "bob"):
        engine.create_session("s", actor=name).record("user", f"I am {name}.")
    assert [engine.session("s", actor=name).messages()[0].text for name in ("ada", "bob")] == ["I am ada.", "I am bob."]
    with pytest.raises(errors.SessionNotFound):
        engine.session("s", actor="eve")


def test_004_a_new_session_knows_what_the_users_ledger_knows() -> None:
    engine = holdfast.open("memory:")
    ledger = engine.ledger(user="ada")
    first = engine.create_session("first", identity=ADA, ledgers=[ledger.id])
    ledger.set("favourite drink", "green tea")
    first.end()
    second = engine.create_session("second", identity=ADA, ledgers=[ledger.id])
    assert "favourite drink: green tea" in second.pack("What may I offer you?").text


def test_004_a_new_session_knows_what_an_earlier_one_left_to_memory() -> None:
    engine = holdfast.open("memory:")
    first = engine.session("first", user="ada", memory=True, create=True)
    first.record("user", "My address is 4 Fir Road. I drink tea in the garden.")
    first.end()
    assert engine.memory.deliver().facts == 1
    second = engine.session("second", user="ada", memory=True, create=True)
    shown = second.pack("Where shall I serve the tea?").text
    assert "address: 4 Fir Road" in shown
    assert "> ada: My address is 4 Fir Road. I drink tea in the garden." in shown
    assert "garden" not in engine.session("third", user="bo", memory=True, create=True).pack("Where is the tea?").text
