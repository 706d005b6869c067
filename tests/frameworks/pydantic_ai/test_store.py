"""The ConversationStore: what is stored comes back, also after a restart, a conflict, a branch, a fork and a deletion."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

import holdfast
from holdfast.pydantic_ai import HoldfastConversationStore
from tests.frameworks.pydantic_ai.histories import answer, ask, call, every_kind, give

T = TypeVar("T")


def run(awaited: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(awaited)


@pytest.fixture
def store(engine: holdfast.Engine) -> HoldfastConversationStore:
    return HoldfastConversationStore(engine)


def save(store: HoldfastConversationStore, name: str, messages: Sequence[ModelMessage], **options: Any) -> Conversation:
    conversation = Conversation(conversation_id=name, messages=[*messages])
    run(store.save(conversation, **options))
    return conversation


def load(store: HoldfastConversationStore, name: str, **options: Any) -> Conversation:
    loaded = run(store.load(name, **options))
    assert loaded is not None
    return loaded


def test_every_kind_of_part_comes_back_as_it_was(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    save(store, "c1", every_kind())
    loaded = load(HoldfastConversationStore(engine), "c1")
    stored = ModelMessagesTypeAdapter.dump_json(every_kind())
    assert ModelMessagesTypeAdapter.dump_json(loaded.messages) == stored
    assert loaded.messages == ModelMessagesTypeAdapter.validate_json(stored)


def test_a_record_comes_back_as_it_was(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    requests = DeferredToolRequests(
        calls=[ToolCallPart("pay", {"b": 1, "a": 2}, tool_call_id="x")], metadata={"x": {"raw": b"\xff".hex()}}
    )
    record = ConversationRecord(
        conversation_id="c1",
        head_id=None,
        usage=RunUsage(requests=2, tool_calls=1, input_tokens=7, details={"d": 1}),
        deferred_tool_requests=requests,
        scope="ada",
        forked_from="c0",
        branches=["e1", "e2"],
    )
    run(store.write_record(record, expected_revision=None))
    assert run(HoldfastConversationStore(engine).read_record("c1")) == record


def test_saving_again_stores_only_what_is_new(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    conversation = save(store, "c1", [ask("one"), answer("1")])
    conversation.messages += [ask("two"), answer("2")]
    entries = run(store.save(conversation))
    assert [entry.message for entry in entries] == [ask("two"), answer("2")]
    other = HoldfastConversationStore(engine)
    assert load(other, "c1").messages == [ask("one"), answer("1"), ask("two"), answer("2")]
    assert load(other, "c1", limit=1).messages == [answer("2")]
    assert load(other, "c1", limit=0).messages == []
    stored = run(store.load_entries("c1"))
    assert stored is not None
    assert stored[2:] == entries
    assert run(other.read_entry(entries[0].id)) == entries[0]


def test_what_is_returned_is_a_copy(store: HoldfastConversationStore) -> None:
    conversation = save(store, "c1", [ask("one")])
    part = conversation.messages[0].parts[0]
    assert isinstance(part, UserPromptPart)
    part.content = "changed"
    loaded = load(store, "c1")
    assert loaded.messages == [ask("one")]
    loaded.usage.requests = 99
    record = run(store.read_record("c1"))
    assert record is not None
    record.branches.append("x")
    assert load(store, "c1").usage.requests == 0
    assert run(store.read_record("c1")) != record


def test_the_second_writer_is_refused_and_nothing_is_lost(engine: holdfast.Engine) -> None:
    first, second = HoldfastConversationStore(engine), HoldfastConversationStore(engine)
    save(first, "c1", [ask("one")])
    ours, theirs = load(first, "c1"), load(second, "c1")
    ours.messages.append(answer("ours"))
    theirs.messages.append(answer("theirs"))
    run(first.save(ours))
    with pytest.raises(ConversationConflict):
        run(second.save(theirs))
    with pytest.raises(ConversationConflict):
        save(second, "c1", [ask("anew")])
    assert load(second, "c1").messages == [ask("one"), answer("ours")]
    saved = run(first.load_entries("c1"))
    assert saved is not None
    stored = [each.key for each in engine.session("c1").entries.list(kind="pydantic-ai/entry")]
    assert stored == [f"entry/{each.id}" for each in reversed(saved)]  # nothing of the refused ones is there


def test_of_many_writers_at_once_one_wins_each_round(engine: holdfast.Engine) -> None:
    save(HoldfastConversationStore(engine), "c1", [ask("start")])

    def write(number: int) -> int:
        store, saved = HoldfastConversationStore(engine), 0
        while saved < 3:
            conversation = load(store, "c1")
            conversation.messages.append(ask(f"{number}/{saved}"))
            try:
                run(store.save(conversation))
                saved += 1
            except ConversationConflict:
                continue
        return saved

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(4))) == 12
    texts = [message.parts[0].content for message in load(HoldfastConversationStore(engine), "c1").messages]  # type: ignore[union-attr]
    assert len(texts) == 13
    for number in range(4):
        assert [text for text in texts if str(text).startswith(f"{number}/")] == [f"{number}/{n}" for n in range(3)]
    assert engine.admin.verify().ok


def test_a_branch_moves_the_conversation_and_the_session_with_it(
    store: HoldfastConversationStore, engine: holdfast.Engine
) -> None:
    saved = save(store, "c1", [ask("lamp?"), answer("A chandelier."), ask("Why?"), answer("It shines.")])
    branched = run(store.branch("c1", at=1, expected_revision=saved.revision))
    assert branched.messages == [ask("lamp?")]
    assert [each.text for each in engine.session("c1").messages() if not each.withdrawn] == ["lamp?"]
    branched.messages.append(answer("A brass lamp."))
    run(store.save(branched))
    assert "A brass lamp." in engine.session("c1").pack().text
    assert "chandelier" not in engine.session("c1").pack().text
    record = run(HoldfastConversationStore(engine).read_record("c1"))
    assert record is not None
    back = run(store.branch("c1", from_entry=record.branches[0], expected_revision=record.revision))
    assert back.messages == saved.messages
    assert "It shines." in engine.session("c1").pack().text
    assert "brass" not in engine.session("c1").pack().text


def test_a_fork_shares_messages_and_facts(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    save(store, "c1", [ask("My city is Rome."), answer("Noted."), ask("Hotel?"), answer("The Grand.")], scope="ada")
    engine.session("c1").facts.set("budget", 150)
    forked = run(store.fork("c1", at=2, new_conversation_id="c2"))
    assert forked.messages == [ask("My city is Rome."), answer("Noted.")]
    forked.messages.append(ask("Museum?"))
    run(store.save(forked))
    session = engine.session("c2")
    assert [each.text for each in session.messages() if not each.withdrawn] == ["My city is Rome.", "Noted.", "Museum?"]
    assert [row.session for row in engine.session("c1").forks()] == ["c2"]
    whole = run(store.fork("c1", new_conversation_id="c3"))
    assert len(whole.messages) == 4
    fact = engine.session("c3").facts.get("budget")
    assert fact is not None
    assert fact.value == 150
    assert load(HoldfastConversationStore(engine), "c1").messages[2:] == [ask("Hotel?"), answer("The Grand.")]
    record = run(store.read_record("c2"))
    assert record is not None
    assert (record.forked_from, record.scope) == ("c1", "ada")


def test_a_fork_with_a_pending_call_can_still_answer_it(
    store: HoldfastConversationStore, engine: holdfast.Engine
) -> None:
    save(store, "c1", [ask("Pay."), call("pay", "x1")])
    forked = run(store.fork("c1", new_conversation_id="c2"))
    assert [each.provider_id for each in engine.session("c2").open_calls()] == ["x1"]
    forked.messages += [give("pay", "x1", "paid 40"), answer("Done.")]
    run(store.save(forked))
    assert "paid 40" in engine.session("c2").pack("?").text


def test_deleting_erases_but_not_what_a_fork_shares(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    save(store, "c1", [ask("shared secret"), answer("Noted."), ask("own secret"), answer("Yes.")])
    run(store.fork("c1", at=2, new_conversation_id="c2"))
    run(store.delete("c1"))
    assert run(store.read_record("c1")) is None
    assert [record.conversation_id for record in run(store.list_conversations())] == ["c2"]
    assert load(HoldfastConversationStore(engine), "c2").messages == [ask("shared secret"), answer("Noted.")]
    log = b"".join(event.payload or b"" for event in engine.session("c1").events(limit=1_000))
    assert b"own secret" not in log
    run(store.delete("c2"))
    for name in ("c1", "c2"):
        with pytest.raises(holdfast.errors.SessionDestroyedError):
            engine.session(name)
    assert engine.admin.verify().ok


def test_a_deleted_conversation_can_be_created_again(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    old = save(store, "c1", [ask("old")])
    entry = (run(store.load_entries("c1")) or [])[0]
    run(store.delete("c1"))
    assert run(store.load("c1")) is None
    with pytest.raises(LookupError):
        run(store.read_entry(entry.id))
    with pytest.raises(LookupError):
        run(store.read_history(entry.id))
    with pytest.raises(ConversationConflict):
        run(store.save(old))
    save(store, "c1", [ask("new")])
    assert load(HoldfastConversationStore(engine), "c1").messages == [ask("new")]
    run(store.delete("c1"))
    save(store, "c1", [ask("newest")])
    assert load(store, "c1").messages == [ask("newest")]
    run(store.delete("never there"))


def test_a_head_that_was_deleted_meanwhile_is_a_conflict(
    store: HoldfastConversationStore, engine: holdfast.Engine
) -> None:
    record = ConversationRecord(conversation_id="c2", head_id="gone", forked_from="c1")
    with pytest.raises(ConversationConflict):
        run(store.write_record(record, expected_revision=None))
    assert engine.sessions() == ()


def test_records_are_listed_by_scope_newest_first(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    saved = {name: save(store, name, [ask(name)], scope=name[0]) for name in ("a1", "b1", "a2", "a3")}
    saved["a1"].messages.append(answer("again"))
    run(store.save(saved["a1"]))
    for each in (store, HoldfastConversationStore(engine), store):
        assert [one.conversation_id for one in run(each.list_conversations())] == ["a1", "a3", "a2", "b1"]
        assert [one.conversation_id for one in run(each.list_conversations(scope="a", limit=2))] == ["a1", "a3"]
        assert run(each.list_conversations(scope="none")) == []
    with pytest.raises(UserError):
        run(store.list_conversations(limit=-1))
    assert run(store.load("a1", scope="b")) is None


def test_many_messages_are_stored_together(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    messages: list[ModelMessage] = [ask(f"number {number}") for number in range(450)]
    saved = save(store, "c1", messages)
    assert load(HoldfastConversationStore(engine), "c1").messages == messages
    assert len(engine.session("c1").messages(limit=1_000)) == 450
    record = ConversationRecord(conversation_id="c1", head_id=None, revision=str(saved.revision))
    entries = [ConversationEntry(parent_id=None, message=ask("x")) for _ in range(300)]
    with pytest.raises(ConversationConflict):
        run(store.write_record(record, new_entries=entries, expected_revision="another"))
    with pytest.raises(LookupError):
        run(store.read_entry(entries[0].id))


@pytest.mark.parametrize("name", ["", "x" * 5_000, "é\x00\n", "a/b:c", " "])
def test_any_id_names_a_conversation(file_engine: holdfast.Engine, name: str) -> None:
    store = HoldfastConversationStore(file_engine)
    save(store, "c", [ask("other")])
    save(store, name, [ask("text")])
    assert load(store, name).messages == [ask("text")]
    run(store.delete(name))
    assert run(store.load(name)) is None


def test_odd_texts_are_stored(file_engine: holdfast.Engine) -> None:
    store = HoldfastConversationStore(file_engine)
    texts = ["\x00", "", "é" * 200_000, "a\ud83d", "\u2028</holdfast>"]
    save(store, "c1", [ask(text) for text in texts])
    loaded = [message.parts[0].content for message in load(store, "c1").messages]  # type: ignore[union-attr]
    assert loaded == [*texts[:3], "a\ufffd", texts[4]]
    save(store, "c2", [])
    assert load(store, "c2").messages == []


def test_the_conversation_is_a_transcript(store: HoldfastConversationStore, engine: holdfast.Engine) -> None:
    engine.create_session("c1").ledger().set("shipping_address", "123 Main St")
    messages: list[ModelMessage] = [
        ask("Ship it to 123 Main St."),
        call("find", "x1", '{"id": 7}'),
        give("find", "x1", {"state": "packed"}),
        answer("It is packed."),
        ask("Actually, my shipping address is now 456 Oak Ave."),
    ]
    conversation = save(store, "c1", messages)
    session = engine.session("c1")
    fact = session.facts.get("shipping_address")
    assert fact is not None
    assert fact.value == "456 Oak Ave"
    text = session.pack().text
    assert "packed" in text
    assert "123 Main St" not in text
    assert [each.text for each in session.search("packed")]
    version = session.state().version
    conversation.messages.append(answer("Changed."))
    run(store.save(conversation))
    new = session.events(after=version)
    assert len(new) == 3  # an entry, the record, and the message
    assert engine.admin.verify().ok


def test_a_store_without_engine_is_refused() -> None:
    with pytest.raises(holdfast.errors.InvalidArgument):
        HoldfastConversationStore("agent.db")  # type: ignore[arg-type]


def test_scopes_can_be_users(engine: holdfast.Engine) -> None:
    store = HoldfastConversationStore(engine, scope_is_user=True)
    save(store, "c1", [ask("hello")], scope="ada")
    save(store, "c2", [ask("hello")], scope="ada")
    engine.session("c1").ledger(user="ada").set("city", "Rome")
    fact = engine.session("c2").facts.get("city")
    assert fact is not None
    assert fact.value == "Rome"


def test_a_record_with_another_head_is_written_whole(store: HoldfastConversationStore) -> None:
    """Records that a program writes itself: a head in another conversation is copied."""
    save(store, "c1", [ask("one"), answer("1")])
    first = run(store.read_record("c1"))
    assert first is not None
    save(store, "c2", [ask("two")])
    second = run(store.read_record("c2"))
    assert second is not None
    moved = dataclasses.replace(second, head_id=first.head_id, revision="next")
    run(store.write_record(moved, expected_revision=second.revision))
    run(store.delete("c1"))
    assert load(store, "c2").messages == [ask("one"), answer("1")]


def test_a_request_of_several_speakers_is_several_messages(
    store: HoldfastConversationStore, engine: holdfast.Engine
) -> None:
    both = ModelRequest(parts=[*give("find", "x1", "7").parts, *ask("And now?").parts])
    save(store, "c1", [ask("Find."), call("find", "x1"), both])
    assert [each.role for each in engine.session("c1").messages()] == ["user", "assistant", "tool", "user"]


def test_a_rewritten_history_is_the_whole_conversation(
    store: HoldfastConversationStore, engine: holdfast.Engine
) -> None:
    """Also if it is the end of the one before."""
    conversation = save(store, "c1", [ask("yes"), ask("no")])
    conversation.messages[:] = [ask("no")]
    conversation.new_message_index = None
    run(store.save(conversation))
    assert [each.text for each in engine.session("c1").messages() if not each.withdrawn] == ["no"]
