"""The store answers as the framework's own store in memory does: the same results and errors, in any order of calls."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationRecord, ConversationStore, InMemoryConversationStore
from pydantic_ai.messages import ModelMessage
from pydantic_ai.tools import DeferredToolRequests

import holdfast
from holdfast.pydantic_ai import HoldfastConversationStore
from tests.frameworks.pydantic_ai.histories import answer, ask, call, give
from tests.postgres import empty_url
from tests.support import SHARED_MEMORY

NAMES = st.sampled_from(["c1", "c2", "c3"])
SCOPES = st.sampled_from([None, None, "ada", "bob"])
MESSAGES = st.lists(
    st.sampled_from([ask("yes"), ask("no"), answer("ok"), answer("sure"), call("look", "x1"), give("look", "x1", "7")]),
    max_size=4,
)
_NUMBERS = itertools.count()


class StoreMachine(RuleBasedStateMachine):
    """Both stores are given the same calls. Ids differ, so messages are compared, and entries by their number."""

    engine: holdfast.Engine

    @initialize()
    def open(self) -> None:
        self.actor = f"actor-{next(_NUMBERS)}"
        self.model: ConversationStore = InMemoryConversationStore()
        self.store: ConversationStore = HoldfastConversationStore(self.engine, actor=self.actor)
        self.loaded: dict[str, tuple[Conversation, Conversation]] = {}
        self.loop = asyncio.new_event_loop()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def call(self, make: Callable[[ConversationStore], Coroutine[Any, Any, Any]]) -> tuple[Any, Any] | None:
        """What both return; None if both raise, which must be the same."""
        answers: list[Any] = []
        errors: list[str] = []
        for store in (self.model, self.store):
            try:
                answers.append(self.loop.run_until_complete(make(store)))
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
        assert len(errors) in (0, 2), (errors, answers)
        if errors:
            kinds = [error.partition(":")[0] for error in errors]
            assert kinds[0] == kinds[1], errors
            return None
        return answers[0], answers[1]

    def compare(self, name: str, both: tuple[Any, Any] | None) -> None:
        if both is None:
            return
        ours, theirs = both[1], both[0]
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert describe(ours) == describe(theirs)
            self.loaded[name] = (theirs, ours)

    @rule(name=NAMES, limit=st.sampled_from([None, None, 0, 1, 3]), scope=SCOPES)
    def load(self, name: str, limit: int | None, scope: str | None) -> None:
        self.compare(name, self.call(lambda store: store.load(name, limit=limit, scope=scope)))

    @rule(name=NAMES, messages=MESSAGES, scope=SCOPES)
    def save_new(self, name: str, messages: list[ModelMessage], scope: str | None) -> None:
        pair = tuple(Conversation(conversation_id=name, messages=[*messages]) for _ in range(2))
        if self.save(pair[0], pair[1], scope):
            self.loaded[name] = (pair[0], pair[1])

    @rule(name=NAMES, messages=MESSAGES, scope=SCOPES, waits=st.booleans())
    def save_more(self, name: str, messages: list[ModelMessage], scope: str | None, waits: bool) -> None:
        """Also with a conversation that was loaded before others saved it."""
        for each in self.loaded.get(name, ()):
            each.messages += messages
            each.usage.requests += 1
            each.deferred_tool_requests = DeferredToolRequests() if waits else None
        if name in self.loaded:
            self.save(*self.loaded[name], scope)

    @rule(name=NAMES, keep=st.integers(0, 4), messages=MESSAGES)
    def save_rewritten(self, name: str, keep: int, messages: list[ModelMessage]) -> None:
        for each in self.loaded.get(name, ()):
            each.messages[:] = [*each.messages[:keep], *messages]
            each.new_message_index = None
        if name in self.loaded:
            self.save(*self.loaded[name], None)

    def save(self, theirs: Conversation, ours: Conversation, scope: str | None) -> bool:
        pairs = {id(self.model): theirs, id(self.store): ours}
        both = self.call(lambda store: store.save(pairs[id(store)], scope=scope))
        if both is not None:
            assert [entry.message for entry in both[0]] == [entry.message for entry in both[1]]
        return both is not None

    @rule(name=NAMES, at=st.integers(-1, 5), is_stale=st.sampled_from([False, False, True]))
    def branch(self, name: str, at: int, is_stale: bool) -> None:
        async def run(store: ConversationStore) -> Conversation:
            record = await store.read_record(name)
            revision = "stale" if is_stale or record is None else record.revision
            return await store.branch(name, at=at, expected_revision=revision)

        self.compare(name, self.call(run))

    @rule(name=NAMES, number=st.integers(0, 3), at=st.integers(0, 5))
    def branch_back(self, name: str, number: int, at: int) -> None:
        async def run(store: ConversationStore) -> Conversation | None:
            record = await store.read_record(name)
            if record is None or number >= len(record.branches):
                return None
            line = await store.read_history(record.branches[number])
            entry = line[min(at, len(line) - 1)]
            return await store.branch(name, from_entry=entry.id, expected_revision=record.revision)

        self.compare(name, self.call(run))

    @rule(name=NAMES, new=NAMES, at=st.sampled_from([None, 0, 1, 2, 4]), scope=SCOPES)
    def fork(self, name: str, new: str, at: int | None, scope: str | None) -> None:
        self.compare(new, self.call(lambda store: store.fork(name, at=at, new_conversation_id=new, scope=scope)))

    @rule(name=NAMES, scope=SCOPES)
    def delete(self, name: str, scope: str | None) -> None:
        self.call(lambda store: store.delete(name, scope=scope))

    @rule(scope=SCOPES, limit=st.sampled_from([None, 0, 1, 2, -1]))
    def list_conversations(self, scope: str | None, limit: int | None) -> None:
        both = self.call(lambda store: store.list_conversations(scope=scope, limit=limit))
        if both is not None:
            assert [describe_record(each) for each in both[1]] == [describe_record(each) for each in both[0]]

    @rule(name=NAMES, limit=st.sampled_from([None, 2]))
    def load_entries(self, name: str, limit: int | None) -> None:
        async def run(store: ConversationStore) -> Any:
            entries = await store.load_entries(name, limit=limit)
            if entries is None:
                return None
            assert [await store.read_entry(entry.id) for entry in entries] == entries
            assert all(later.parent_id == earlier.id for earlier, later in itertools.pairwise(entries))
            return [entry.message for entry in entries]

        both = self.call(run)
        assert both is not None
        assert both[0] == both[1]

    @rule(name=NAMES)
    def other_process(self, name: str) -> None:
        """Another process knows nothing of what this one remembers."""
        self.store = HoldfastConversationStore(self.engine, actor=self.actor)
        self.read_branches(name)

    @rule(name=NAMES)
    def read_branches(self, name: str) -> None:
        async def run(store: ConversationStore) -> Any:
            record = await store.read_record(name)
            if record is None:
                return None
            lines = [await store.read_history(tip) for tip in record.branches]
            return describe_record(record), [[entry.message for entry in line] for line in lines]

        both = self.call(run)
        assert both is not None
        assert both[0] == both[1]

    @rule(name=NAMES)
    def compare_session(self, name: str) -> None:
        """The session has the messages of the head."""
        loaded = self.loop.run_until_complete(self.model.load(name))
        if loaded is None:
            return
        thread: int | None = None
        while True:
            try:
                session = self.engine.session(name, actor=self.actor, thread=None if thread is None else str(thread))
            except holdfast.errors.SessionDestroyedError:
                thread = 2 if thread is None else thread + 1
                continue
            if session.entries.list(kind="pydantic-ai/record", limit=1)[0].body:
                break
            thread = 2 if thread is None else thread + 1
        texts = [each.text for each in session.messages(limit=1_000) if not each.withdrawn and each.role == "user"]
        asked = [part.content for each in loaded.messages for part in each.parts if part.part_kind == "user-prompt"]
        assert texts == asked


def describe(conversation: Conversation) -> Any:
    waits = conversation.deferred_tool_requests
    return (
        conversation.conversation_id,
        conversation.messages,
        conversation.usage,
        waits,
        conversation.new_message_index,
    )


def describe_record(record: ConversationRecord) -> Any:
    forked = (record.forked_from, record.forked_at is None)
    return record.conversation_id, record.usage, record.scope, forked, len(record.branches), record.head_id is None


def check(engine: holdfast.Engine, examples: int) -> None:
    machine = type("Machine", (StoreMachine,), {"engine": engine})
    options = settings(max_examples=examples, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(machine, settings=options)
    assert engine.admin.verify().ok


def test_the_store_in_a_file_answers_as_the_one_in_memory() -> None:
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder, holdfast.open(f"{folder}/agent.db") as engine:
        check(engine, 50)


@pytest.mark.timeout(120)
def test_the_store_in_postgres_answers_as_the_one_in_memory() -> None:
    with empty_url() as url, holdfast.open(url) as engine:
        check(engine, 15)
