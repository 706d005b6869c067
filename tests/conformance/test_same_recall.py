"""A question has the same answer on both databases: the same passages, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model.memory.passages import IndexedPassage, IndexMark, Passage, PassageBatch, StreamSpan
from holdfast.model.names import Scope
from holdfast.storage.memory import MemoryBlobs
from holdfast.storage.passages import COMMON_ROWS
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import append_of, write_to
from holdfast.text.recall.terms import passage_terms
from tests.postgres import empty_url

TENANT, USER = "shop", "ada"
SESSION_TURNS = 125
COMMON = "harbour window".split()
RARE = [f"{first}{last}" for first in "balo meri tuno kasi".split() for last in "bar ven dol sim tak gor".split()]
QUESTIONS = (
    "What about the harbour?",
    "Which window did balobar and merive see at the harbour?",
    "Who met tunodol, kasisim or kasitak in the evening?",
    "What did the assistant say about merigor?",
    "Where is merisim?",
    "When did nobody see the teapot?",
)


def build_sessions() -> Iterator[tuple[Scope, list[IndexedPassage]]]:
    """Sessions with two words that are common on both sides, and many that are rare."""
    dice = random.Random(3)
    for number in range(2 * (COMMON_ROWS + 250) // SESSION_TURNS):
        scope = Scope(TENANT, "agent", f"s{number}")
        own = []
        for at in range(1, SESSION_TURNS + 1):
            text = " ".join([*COMMON[: dice.choice((1, 2, 2, 2, 2, 2, 2, 2, 2))], *dice.sample(RARE, 2), f"no{at}"])
            passage = Passage(
                scope=scope,
                seq=at,
                role="user" if at % 2 else "assistant",
                user=USER,
                time_us=1_700_000_000_000_000 + (number * SESSION_TURNS + at) * 60_000_000,
                place=at,
                text=text,
            )
            own.append(IndexedPassage(passage, passage_terms(text)))
        yield scope, own


def fill(store: Any) -> None:
    """All but the last session are taken."""
    sessions = list(build_sessions())
    for number, (scope, own) in enumerate(sessions, 1):
        stream = scope.stream
        store.append(append_of(write_to(stream, 0, *[b"{}"] * len(own))))
        mark = IndexMark(version=len(own), places=len(own), user=USER)
        assert store.index_passages(PassageBatch(stream=stream, before=None, mark=mark, passages=tuple(own)))
        if number < len(sessions):
            store.take_passages(StreamSpan(stream, 1, len(own)), [StreamSpan(stream, 5, 9)])


def answer(store: Any) -> list[list[tuple[str, float, str]]]:
    with holdfast.open(store, tenant=TENANT, blobs=MemoryBlobs()) as engine:
        fill(store)
        recalled = (engine.memory.recall(question, user=USER, budget=2_000) for question in QUESTIONS)
        return [[(each.id, each.score, each.reason) for each in one.passages] for one in recalled]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[list[list[tuple[str, float, str]]]]:
    path: Path = tmp_path_factory.mktemp("recall") / "agent.db"
    with empty_url() as url:
        return [answer(SqliteStore(path)), answer(PostgresStore(url))]


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_both_databases_recall_the_same(answers: list[list[list[tuple[str, float, str]]]], number: int) -> None:
    on_file, on_server = (each[number] for each in answers)
    assert on_file == on_server
    assert bool(on_file) == (number < len(QUESTIONS) - 1)
