"""The contract of long-term memories. Subclass it, say how to open your memory, and run pytest:

class TestMyMemory(MemoryContract):
    @pytest.fixture
    def memory(self):
        return MyMemory()
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.adapters.tokens import EstimatingCounter
from holdfast.model.content import Role, Text
from holdfast.model.memory.passages import MemorySubject
from holdfast.model.memory.recall import ForgetReport, MemoryRange, MemoryReader, RecalledPassage, SessionHistory
from holdfast.model.names import Scope
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message
from holdfast.ports import Memory

DAY_US = 86_400_000_000
START_US = 1_767_225_600_000_000
"""The time of the first message: 1 January 2026."""
BUDGET = 1_000
TENANT, USER, SESSION = "shop", "ada", "visit"
ADDRESS = "Please deliver the blue lamp to 456 Oak Ave."
REPLY = "The margin on the blue lamp is nine euros."
ABOUT = "blue lamp"
"""A question that has words of both messages."""

count_tokens = EstimatingCounter().count


def build_scope(session: str = SESSION, *, tenant: str = TENANT, actor: str = USER) -> Scope:
    return Scope(tenant, actor, session)


def build_history(
    *texts: str,
    scope: Scope | None = None,
    user: str = USER,
    permissions: tuple[str, ...] = (),
    first: int = 2,
    part: int = 0,
    is_last: bool = True,
    situation: dict[str, str] | None = None,
) -> SessionHistory:
    """A conversation: the user and the assistant in turn, a message a day, from the event `first` on."""
    scope = scope or build_scope()
    return SessionHistory(
        key=f"{scope.tenant}/{scope.actor}/{scope.session}.{part}",
        scope=scope,
        identity=Identity(user_id=user, user_name=user.title(), permissions=permissions),
        why="closed",
        part=part,
        is_last=is_last,
        messages=tuple(_build_message(first + number, text, number) for number, text in enumerate(texts)),
        situation=situation or {},
    )


def _build_message(seq: int, text: str, number: int) -> Message:
    role: Role = "assistant" if number % 2 else "user"
    time_us = START_US + seq * DAY_US
    return Message(
        id=f"m{seq}",
        seq=seq,
        role=role,
        content=(Text(text),),
        tokens=count_tokens(text),
        time_us=time_us,
        principal="",
    )


def build_reader(user: str = USER, *, tenant: str = TENANT, permissions: tuple[str, ...] | None = None) -> MemoryReader:
    return MemoryReader(tenant=tenant, user=user, permissions=permissions)


def count_answer(passages: Sequence[RecalledPassage]) -> int:
    """The tokens of passages, each on a line with its speaker."""
    return sum(count_tokens(f"{one.speaker or one.role}: {one.text}\n") for one in passages)


class MemoryContract:
    """Tests everything that `ports.Memory` promises. A subclass defines the fixture `memory`: a new, empty memory."""

    @pytest.fixture
    def memory(self) -> Memory:
        """Override this: return a new, empty memory."""
        pytest.fail("define the fixture `memory`: it returns a new, empty memory")

    def finish(self, answer: Any) -> Any:
        """The answer of a method; a coroutine is run. Override this if your memory needs one event loop for all calls."""
        return asyncio.run(answer) if inspect.iscoroutine(answer) else answer

    def take(self, memory: Memory, *histories: SessionHistory) -> None:
        take: Any = memory.take
        for history in histories:
            assert self.finish(take(history)) is None

    def recall(
        self,
        memory: Memory,
        query: str = ABOUT,
        reader: MemoryReader | None = None,
        *,
        budget: int = BUDGET,
        **within: Any,
    ) -> list[RecalledPassage]:
        who = reader or build_reader()
        found = self.finish(memory.recall(query, budget=budget, reader=who, within=MemoryRange(**within)))
        assert all(type(one) is RecalledPassage for one in found)
        assert len({one.id for one in found}) == len(found), "two passages share an id"
        assert count_answer(found) <= budget
        return list(found)

    def bootstrap(
        self, memory: Memory, reader: MemoryReader | None = None, budget: int = BUDGET
    ) -> list[RecalledPassage]:
        found = self.finish(memory.bootstrap(reader or build_reader(), budget))
        assert all(type(one) is RecalledPassage for one in found)
        assert count_answer(found) <= budget
        return list(found)

    def forget(self, memory: Memory, **subject: Any) -> int:
        """Forget a subject, and return how many passages that removed."""
        report = self.finish(memory.forget(MemorySubject(**{"tenant": TENANT, **subject})))
        assert type(report) is ForgetReport
        assert report.residue == 0
        return report.passages

    def assert_nothing(self, memory: Memory, reader: MemoryReader | None = None) -> None:
        assert self.recall(memory, reader=reader) == []
        assert self.bootstrap(memory, reader) == []

    def test_it_has_a_name(self, memory: Memory) -> None:
        assert memory.name

    def test_an_empty_memory_answers_with_nothing(self, memory: Memory) -> None:
        self.assert_nothing(memory)
        assert self.forget(memory, user=USER) == 0
        assert self.forget(memory, scope=build_scope()) == 0

    def test_a_conversation_is_recalled_with_its_origin(self, memory: Memory) -> None:
        self.take(memory, build_history(ADDRESS, REPLY))
        found = {one.text: one for one in self.recall(memory)}
        assert set(found) == {ADDRESS, REPLY}
        assert [found[text].role for text in (ADDRESS, REPLY)] == ["user", "assistant"]
        assert [found[text].time_us for text in (ADDRESS, REPLY)] == [START_US + 2 * DAY_US, START_US + 3 * DAY_US]
        assert {one.session for one in found.values()} == {SESSION}

    def test_a_second_delivery_changes_nothing(self, memory: Memory) -> None:
        history = build_history(ADDRESS, REPLY, situation={"progress": "The blue lamp is on its way."})
        self.take(memory, history)
        before = [[one.id for one in found] for found in (self.recall(memory), self.bootstrap(memory))]
        self.take(memory, history, history)
        assert [[one.id for one in found] for found in (self.recall(memory), self.bootstrap(memory))] == before
        other = build_history(ADDRESS, REPLY, scope=build_scope("other"), situation=history.situation)
        self.take(memory, other)
        assert self.forget(memory, scope=history.scope) == self.forget(memory, scope=other.scope)

    def test_the_parts_of_a_conversation_stay_beside_each_other(self, memory: Memory) -> None:
        self.take(
            memory,
            build_history(ADDRESS, "Noted.", is_last=False),
            build_history("The blue lamp came broken.", first=4, part=1),
            build_history(ADDRESS, "Noted.", is_last=False),
        )
        assert {ADDRESS, "The blue lamp came broken."} <= {one.text for one in self.recall(memory)}

    @pytest.mark.parametrize("other", ["bo", "Ada", "ada ", "ad", "a%", "*"])
    def test_nothing_of_another_user_is_recalled(self, memory: Memory, other: str) -> None:
        self.take(memory, build_history(ADDRESS, REPLY, situation={"goal": "A blue lamp."}))
        self.assert_nothing(memory, build_reader(other))
        self.take(memory, build_history("My blue lamp is fine.", scope=build_scope(actor=other), user=other))
        assert {one.text for one in self.recall(memory, reader=build_reader(other))} == {"My blue lamp is fine."}
        assert "My blue lamp is fine." not in {one.text for one in [*self.recall(memory), *self.bootstrap(memory)]}

    def test_nothing_of_another_tenant_is_recalled(self, memory: Memory) -> None:
        self.take(memory, build_history(ADDRESS, REPLY))
        self.assert_nothing(memory, build_reader(tenant="bank"))
        self.take(memory, build_history("My blue lamp is fine.", scope=build_scope(tenant="bank")))
        assert {one.text for one in self.recall(memory)} == {ADDRESS, REPLY}
        assert self.forget(memory, tenant="bank", user=USER) == 1
        assert {one.text for one in self.recall(memory)} == {ADDRESS, REPLY}

    def test_a_conversation_without_a_user_is_nobodys_memory(self, memory: Memory) -> None:
        self.take(memory, build_history(ADDRESS, REPLY, user=""))
        self.assert_nothing(memory)

    def test_words_of_the_assistant_need_the_permissions_of_their_session(self, memory: Memory) -> None:
        self.take(memory, build_history(ADDRESS, REPLY, permissions=("margins", "stock")))
        for permissions in ((), ("stock",), ("Margins", "stock")):
            reader = build_reader(permissions=permissions)
            assert {one.text for one in self.recall(memory, reader=reader)} == {ADDRESS}
            assert REPLY not in {one.text for one in self.bootstrap(memory, reader)}
        for everything in (("stock", "margins", "more"), None):
            reader = build_reader(permissions=everything)
            assert {one.text for one in self.recall(memory, reader=reader)} == {ADDRESS, REPLY}

    def test_a_search_can_be_narrowed(self, memory: Memory) -> None:
        later = "The blue lamp came broken."
        self.take(memory, build_history(ADDRESS, REPLY))
        self.take(memory, build_history(later, scope=build_scope("later"), first=9))
        for within, expected in (
            ({"sessions": (SESSION,)}, {ADDRESS, REPLY}),
            ({"sessions": ("later", "none")}, {later}),
            ({"sessions": ("none",)}, set()),
            ({"roles": ("assistant",)}, {REPLY}),
            ({"since_us": START_US + 3 * DAY_US}, {REPLY, later}),
            ({"until_us": START_US + 3 * DAY_US}, {ADDRESS, REPLY}),
            ({"since_us": START_US + 3 * DAY_US, "until_us": START_US + 3 * DAY_US}, {REPLY}),
        ):
            assert {one.text for one in self.recall(memory, **within)} == expected, within

    def test_the_best_passage_comes_first_and_the_budget_holds(self, memory: Memory) -> None:
        fillers = [f"The blue chair number {number} has a long story of its own." for number in range(40)]
        self.take(memory, build_history(*fillers, ADDRESS))
        assert self.recall(memory, "Where shall the blue lamp be delivered, 456 Oak Ave?")[0].text == ADDRESS
        for budget in (1, 20, 100):
            assert len(self.recall(memory, budget=budget)) <= budget
            assert len(self.bootstrap(memory, budget=budget)) <= budget
        assert self.recall(memory, budget=100) != []

    def test_the_start_of_a_session_knows_what_the_user_said(self, memory: Memory) -> None:
        self.take(memory, build_history(ADDRESS, REPLY))
        assert ADDRESS in {one.text for one in self.bootstrap(memory)}

    def test_a_user_can_be_forgotten(self, memory: Memory) -> None:
        fine = build_history("My blue lamp is fine.", scope=build_scope(actor="bo"), user="bo")
        first, second = build_history(ADDRESS, REPLY), build_history(ADDRESS, scope=build_scope("second"))
        self.take(memory, first, second, fine)
        assert self.forget(memory, user=USER) >= 3
        self.assert_nothing(memory)
        assert [one.text for one in self.recall(memory, reader=build_reader("bo"))] == ["My blue lamp is fine."]
        assert self.forget(memory, user=USER) == 0

    def test_a_session_can_be_forgotten(self, memory: Memory) -> None:
        first = build_history(ADDRESS, REPLY, situation={"goal": "A blue lamp."})
        second = build_history("The blue lamp came broken.", scope=build_scope("second"))
        self.take(memory, first, second)
        assert self.forget(memory, scope=first.scope) >= 2
        assert {one.text for one in self.recall(memory)} == {"The blue lamp came broken."}
        assert self.forget(memory, scope=build_scope("second", actor="bo")) == 0
        assert self.forget(memory, scope=second.scope) == 1
        self.assert_nothing(memory)

    def test_messages_can_be_forgotten(self, memory: Memory) -> None:
        self.take(memory, build_history(ADDRESS, REPLY), build_history(ADDRESS, scope=build_scope("second")))
        assert self.forget(memory, scope=build_scope(), seqs=(2, 99)) == 1
        assert sorted(one.text for one in self.recall(memory)) == sorted([REPLY, ADDRESS])
        assert {one.session for one in self.recall(memory) if one.text == ADDRESS} == {"second"}

    @pytest.mark.parametrize(
        "query", ['"', "' OR 1=1 --", "blue* NEAR(lamp", "{}[]()", "a" * 5_000, "北京 🛋", "%_\\", "null", "."]
    )
    def test_any_question_is_answered(self, memory: Memory, query: str) -> None:
        self.take(memory, build_history(ADDRESS, query, REPLY))
        self.recall(memory, query)
        self.assert_nothing(memory, build_reader("bo"))
