"""The contract of long-term memories: the built-in memory keeps it, and so does the example of the documentation."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.flows.memory import bootstrap, index, recall
from holdfast.model.memory.passages import MemorySubject
from holdfast.model.memory.recall import ForgetReport, MemoryRange, MemoryReader, RecalledPassage, SessionHistory
from holdfast.model.sessions.messages import Offload
from holdfast.testing import MemoryContract
from tests.docs.pages import BLOCK, ROOT
from tests.postgres import empty_url


class HistoryClock:
    """The time of the message that is recorded next."""

    now: int = 0

    def now_us(self) -> int:
        return self.now


class BuiltInMemory:
    """The built-in memory behind the port: each history is recorded as a session that ends, and is taken twice."""

    name = "holdfast"

    def __init__(self, address: str) -> None:
        self.clock = HistoryClock()
        self._address = address
        self._engines: dict[str, holdfast.Engine] = {}
        self._taken: dict[str, Offload] = {}
        self._open("default")  # a server that is lent has a schema when it is given back

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _open(self, tenant: str) -> holdfast.Engine:
        if tenant not in self._engines:
            self._engines[tenant] = holdfast.open(self._address, tenant=tenant, clock=self.clock)
        return self._engines[tenant]

    def take(self, history: SessionHistory) -> None:
        engine = self._open(history.scope.tenant)
        offload = self._taken.get(history.key) or self._record(engine, history)
        self._taken[history.key] = offload
        for _ in range(2):
            engine.memory._drive(index.take_history(engine.memory._context, offload))

    def _record(self, engine: holdfast.Engine, history: SessionHistory) -> Offload:
        scope = history.scope
        session = engine.session(scope.session, actor=scope.actor, identity=history.identity, create=True)
        for message in history.messages:
            self.clock.now = message.time_us
            session.record(message.role, message.text)
        if history.situation:
            session.situation.update(history.situation)
        session.reset()
        return next(each for each in reversed(engine.admin.outbox()) if each.scope == scope)

    def recall(
        self, query: str, *, budget: int, reader: MemoryReader, within: MemoryRange
    ) -> Sequence[RecalledPassage]:
        engine = self._open(reader.tenant)
        flow = recall.recall_for_program(engine.memory._context, query, budget, reader, within)
        answer: holdfast.types.MemoryAnswer = engine.memory._drive(flow)
        assert not answer.error
        return answer.passages

    def bootstrap(self, reader: MemoryReader, budget: int) -> Sequence[RecalledPassage]:
        engine = self._open(reader.tenant)
        known: holdfast.types.UserKnowledge = engine.memory._drive(
            bootstrap.bootstrap(engine.memory._context, reader, budget)
        )
        assert not known.error
        return known.passages

    def forget(self, subject: MemorySubject) -> ForgetReport:
        engine = self._open(subject.tenant)
        if subject.seqs:
            store: Any = engine.store
            report: ForgetReport = store.forget_passages(subject)
            return report
        return engine.memory.forget(user=subject.user or None, session=subject.scope)


class TestBuiltInMemory(MemoryContract):
    @pytest.fixture
    def memory(self, tmp_path: Path) -> Iterator[BuiltInMemory]:
        memory = BuiltInMemory(str(tmp_path / "memory.db"))
        yield memory
        memory.close()


class TestBuiltInMemoryOnPostgres(MemoryContract):
    @pytest.fixture
    def memory(self) -> Iterator[BuiltInMemory]:
        with empty_url() as url:
            memory = BuiltInMemory(url)
            yield memory
            memory.close()


@functools.cache
def load_example() -> dict[str, Any]:
    """What the page about an own memory defines."""
    names: dict[str, Any] = {"__name__": "example"}
    page = ROOT / "docs" / "howto" / "own-memory.md"
    code, _ = BLOCK.findall(page.read_text())[0]
    exec(compile(code, str(page), "exec"), names)
    return names


class TestExampleMemory(MemoryContract):
    @pytest.fixture
    def memory(self) -> Any:
        example = load_example()
        return example["QdrantMemory"](example["QdrantClient"](":memory:"))

    def test_the_situation_goes_with_a_forgotten_message(self, memory: Any) -> None:
        history = SessionHistory(
            key="k",
            scope=holdfast.types.Scope("t", "a", "s"),
            identity=holdfast.Identity(user_id="ada"),
            why="closed",
            messages=(),
            situation={"goal": "A blue lamp."},
        )
        memory.take(history)
        assert memory.forget(MemorySubject(tenant="t", scope=history.scope, seqs=(7,))).passages == 1
        assert (
            memory.forget(MemorySubject(tenant="t", scope=msgspec.structs.replace(history.scope, thread="x"))).passages
            == 0
        )
