"""The store does what LangGraph's own store in memory does: random operations on both give the same answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from langgraph.store.base import GetOp, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import holdfast
from holdfast.langgraph.store import HoldfastStore
from tests.support import SHARED_MEMORY

LABELS = st.sampled_from(["a", "b", "users", "ab", "é", "x y"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
PATHS = st.lists(LABELS | st.just("*"), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "k1", "k2", "key with words", "ключ"])
NUMBERS = st.sampled_from([0, 1, 2, 2.5, -1])
VALUES = st.fixed_dictionaries(
    {"n": NUMBERS},
    optional={
        "text": st.sampled_from(["", "one", "two three", "valid until 2020-01-01"]),
        "deep": st.fixed_dictionaries({"x": NUMBERS}, optional={"y": st.none() | st.booleans()}),
        "list": st.lists(NUMBERS, max_size=2),
    },
)
FILTERS = st.dictionaries(
    st.sampled_from(["n", "text", "deep", "list"]),
    NUMBERS | st.sampled_from(["one", [1], {"x": 1}, {"$eq": 1}, {"$ne": 2}]),
    max_size=2,
) | st.dictionaries(
    st.just("n"), st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne"]), NUMBERS, min_size=1)
)


def describe(answer: Any) -> Any:
    """An answer without its times and scores; searches promise no order."""
    if answer is None or isinstance(answer, tuple):
        return answer
    if isinstance(answer, list):
        return sorted((describe(each) for each in answer), key=repr)
    return answer.namespace, answer.key, json.dumps(answer.value, sort_keys=True)


class Stores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(dir=SHARED_MEMORY))
        self.engine = holdfast.open(self.folder / "agent.db")
        self.ours = HoldfastStore(self.engine)
        self.theirs = InMemoryStore()

    def both(self, ops: list[Op]) -> None:
        ours, theirs = self.ours.batch(ops), self.theirs.batch(ops)
        assert [describe(each) for each in ours] == [describe(each) for each in theirs]
        for name in [name for name, items in self.theirs._data.items() if not items]:
            del self.theirs._data[name]  # it lists namespaces that were only read, or are empty

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES | st.none())
    def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any] | None) -> None:
        self.both([PutOp(namespace, key, value)])
        self.both([GetOp(namespace, key)])

    @rule(ops=st.lists(st.tuples(NAMESPACES, KEYS, VALUES | st.none(), st.booleans()), max_size=6))
    def batch(self, ops: list[tuple[tuple[str, ...], str, dict[str, Any] | None, bool]]) -> None:
        self.both([PutOp(name, key, value) if is_put else GetOp(name, key) for name, key, value, is_put in ops])

    @rule(prefix=PREFIXES, wanted=FILTERS, query=st.none() | st.sampled_from(["one", "two k", ""]))
    def search(self, prefix: tuple[str, ...], wanted: dict[str, Any], query: str | None) -> None:
        self.both([SearchOp(prefix, wanted, 1_000, 0, query)])
        pages = [self.ours.search(prefix, filter=wanted, limit=3, offset=at, query=query) for at in range(0, 30, 3)]
        whole = self.ours.search(prefix, filter=wanted, limit=30, query=query)
        assert [describe(item) for page in pages for item in page] == [describe(item) for item in whole]

    @rule(
        prefix=st.none() | PATHS,
        suffix=st.none() | PATHS,
        depth=st.none() | st.integers(1, 3),
        limit=st.integers(0, 5),
        offset=st.integers(0, 3),
    )
    def list_namespaces(self, **options: Any) -> None:
        options["max_depth"] = options.pop("depth")
        assert self.ours.list_namespaces(**options) == self.theirs.list_namespaces(**options)

    @rule()
    def restart(self) -> None:
        self.engine.close()
        self.engine = holdfast.open(self.folder / "agent.db")
        self.ours = HoldfastStore(self.engine)

    def teardown(self) -> None:
        assert self.engine.admin.verify().ok
        self.engine.close()
        shutil.rmtree(self.folder)


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
