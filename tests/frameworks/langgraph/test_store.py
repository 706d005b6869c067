"""The store of LangGraph on ledgers: operations, history, authority, time to live, and graphs that use it."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    PutOp,
    SearchOp,
)

import holdfast
from holdfast.errors import FactNotFound, InvalidArgument, InvalidName, NotAuthorised, TooLarge
from holdfast.langgraph.store import HoldfastStore

MINUTE_S = 60.0


class ManualClock:
    """A clock that the test moves. Each reading is a microsecond later, as no two events have the same time."""

    def __init__(self, time_us: int) -> None:
        self._time_us = time_us

    def now_us(self) -> int:
        self._time_us += 1
        return self._time_us

    def advance(self, seconds: float) -> None:
        self._time_us += int(seconds * 1e6)


def test_items_are_put_read_replaced_and_deleted(engine: holdfast.Engine) -> None:
    store = HoldfastStore(engine)
    store.put(("docs", "a"), "one", {"text": "first", "n": 1})
    item = store.get(("docs", "a"), "one")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (("docs", "a"), "one", {"text": "first", "n": 1})
    store.put(("docs", "a"), "one", {"text": "second"})
    again = store.get(("docs", "a"), "one")
    assert again is not None
    assert again.value == {"text": "second"}
    assert again.created_at == item.created_at
    assert again.updated_at > item.updated_at
    store.delete(("docs", "a"), "one")
    assert store.get(("docs", "a"), "one") is None
    assert store.search(("docs",)) == []
    assert store.list_namespaces() == []
    store.put(("docs", "a"), "one", {"text": "second"})
    back = store.get(("docs", "a"), "one")
    assert back is not None
    assert back.created_at > item.created_at
    assert engine.admin.verify().ok


def test_what_is_in_the_store_is_there_after_a_restart(url: str) -> None:
    with holdfast.open(url) as engine:
        HoldfastStore(engine).put(("docs",), "k", {"a": 1})
    with holdfast.open(url) as engine:
        item = HoldfastStore(engine).get(("docs",), "k")
        assert item is not None
        assert item.value == {"a": 1}


def test_a_value_that_differs_only_in_type_is_another_value(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    for value in (1, 1.0, True, "1", None, [1], {"a": 1}):
        store.put(("n",), "k", {"v": value})
        item = store.get(("n",), "k")
        assert item is not None
        assert repr(item.value) == repr({"v": value})


def test_a_caller_may_change_what_a_read_returned(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    store.put(("n",), "k", {"v": [1]})
    item = store.get(("n",), "k")
    assert item is not None
    item.value["v"].append(2)
    same = store.get(("n",), "k")
    assert same is not None
    assert same.value == {"v": [1]}


def test_the_history_of_a_key_has_every_value_and_why_explains_it(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    store.put(("users", "ada"), "address", {"street": "123 Elm St"})
    store.put(("users", "ada"), "address", {"street": "456 Oak Ave"})
    store.delete(("users", "ada"), "address")
    store.put(("users", "ada"), "address", {"street": "789 Pine Rd"})
    facts = store.history(("users", "ada"), "address")
    assert [(fact.value["street"], fact.status) for fact in facts] == [  # type: ignore[index,call-overload]
        ("123 Elm St", "superseded"),
        ("456 Oak Ave", "retracted"),
        ("789 Pine Rd", "live"),
    ]
    explanation = store.why(("users", "ada"), "address")
    assert explanation.current is not None
    assert explanation.current.value == {"street": "789 Pine Rd"}
    assert any("langgraph store" in step.what for step in explanation.story)
    with pytest.raises(FactNotFound):
        store.why(("users", "ada"), "nothing")


def test_the_namespace_of_a_user_is_the_ledger_of_the_user(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    session = file_engine.create_session("s", user="ada")
    session.observe("My shipping address is 12 Elm Street, Springfield.")
    session.ledger(user="ada").set("plan", "pro")
    store.put(("users", "ada"), "pet", {"dog": "Rex"})
    assert store.get(("users", "ada"), "plan") is not None
    assert {item.key for item in store.search(("users",))} == {"plan", "pet"}
    plan = store.get(("users", "ada"), "plan")
    assert plan is not None
    assert plan.value == {"value": "pro"}
    session.record("user", "What is my dog called?")
    assert "Rex" in str(session.pack().anthropic())
    assert ("users", "ada") in store.list_namespaces()
    assert HoldfastStore(file_engine, users=None).search(()) == []


def test_packs_show_the_items_of_a_ledger_that_the_session_reads(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    store.put(("team", "blue"), "standup", {"time": "09:30"})
    session = file_engine.create_session("s", ledgers=[store.ledger_id(("team", "blue"))])
    session.record("user", "When is the standup?")
    assert "09:30" in str(session.pack().anthropic())
    store.put(("team", "blue"), "standup", {"time": "10:15"})
    shown = str(session.pack().anthropic())
    assert "10:15" in shown
    assert "09:30" not in shown


def test_a_put_that_authority_refuses_raises_and_the_fact_stays(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    file_engine.ledger(user="ada").set("limit", {"euros": 100}, authority="policy")
    with pytest.raises(NotAuthorised, match="'policy'"):
        store.put(("users", "ada"), "limit", {"euros": 9_000})
    with pytest.raises(NotAuthorised):
        store.delete(("users", "ada"), "limit")
    item = store.get(("users", "ada"), "limit")
    assert item is not None
    assert item.value == {"euros": 100}
    assert store.why(("users", "ada"), "limit").claims == ()
    admin = HoldfastStore(file_engine, authority="policy")
    admin.put(("users", "ada"), "limit", {"euros": 200})
    changed = store.get(("users", "ada"), "limit")
    assert changed is not None
    assert changed.value == {"euros": 200}
    agent = HoldfastStore(file_engine, authority="agent")
    store.put(("users", "ada"), "name", {"first": "Ada"})
    with pytest.raises(NotAuthorised):
        agent.put(("users", "ada"), "name", {"first": "Eve"})
    agent.put(("users", "ada"), "guess", {"likes": "tea"})
    store.put(("users", "ada"), "guess", {"likes": "coffee"})


def test_an_identity_reads_and_writes_what_it_may(file_engine: holdfast.Engine) -> None:
    file_engine.ledger(user="ada").set("salary", {"euros": 1}, requires=["hr"])
    guest = HoldfastStore(file_engine, identity=holdfast.Identity(user_id="guest", authority="guest"))
    assert guest.get(("users", "ada"), "salary") is None
    assert guest.search(("users",)) == []
    HoldfastStore(file_engine).put(("users", "ada"), "city", {"name": "Rome"})
    with pytest.raises(NotAuthorised):
        guest.put(("users", "ada"), "city", {"name": "Oslo"})
    with pytest.raises(NotAuthorised):
        guest.delete(("users", "ada"), "city")
    boss = HoldfastStore(file_engine, identity=holdfast.Identity(user_id="b", permissions=("hr",)))
    assert boss.get(("users", "ada"), "salary") is not None


def test_a_batch_reads_before_it_puts_and_the_last_put_counts(engine: holdfast.Engine) -> None:
    store = HoldfastStore(engine)
    store.put(("n",), "k", {"v": 0})
    answers = store.batch(
        [
            PutOp(("n",), "k", {"v": 1}),
            GetOp(("n",), "k"),
            PutOp(("n",), "k", {"v": 2}),
            SearchOp(("n",)),
            PutOp(("n",), "other", {"v": 3}),
            PutOp(("n",), "other", None),
            ListNamespacesOp(),
        ]
    )
    assert answers[0] is None
    assert answers[1].value == {"v": 0}  # type: ignore[union-attr]
    assert [item.value for item in answers[3]] == [{"v": 0}]  # type: ignore[union-attr]
    assert answers[6] == [("n",)]
    assert [(item.key, item.value) for item in store.search(("n",))] == [("k", {"v": 2})]
    assert len(store.history(("n",), "k")) == 2
    assert store.history(("n",), "other") == ()


def test_an_abatch_gives_the_same(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)

    async def work() -> list[Any]:
        await asyncio.gather(*(store.aput(("n",), f"k{number}", {"v": number}) for number in range(20)))
        assert await store.aget(("n",), "k7") is not None
        await store.adelete(("n",), "k7")
        return await store.asearch(("n",), limit=100)

    items = asyncio.run(work())
    assert {item.key for item in items} == {f"k{number}" for number in range(20) if number != 7}


def test_filters_compare_values(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    store.put(("f",), "a", {"n": 1, "at": "2026-01-05", "tag": {"x": 1, "y": 2}, "list": [1, 2]})
    store.put(("f",), "b", {"n": 5, "at": "2026-03-01", "tag": {"x": 2}})
    store.put(("f",), "c", {"text": "no number"})

    def keys(wanted: dict[str, Any]) -> set[str]:
        return {item.key for item in store.search(("f",), filter=wanted)}

    assert keys({"n": 1}) == {"a"}
    assert keys({"n": {"$eq": 5}}) == {"b"}
    assert keys({"n": {"$ne": 5}}) == {"a", "c"}
    assert keys({"n": {"$gt": 1}}) == {"b"}
    assert keys({"n": {"$gte": 1, "$lt": 5}}) == {"a"}
    assert keys({"n": {"$lte": 5}}) == {"a", "b"}
    assert keys({"at": {"$gt": "2026-02-01"}}) == {"b"}
    assert keys({"tag": {"x": 1}}) == {"a"}
    assert keys({"list": [1, 2]}) == {"a"}
    assert keys({"n": {"$gt": 0}, "tag": {"x": 2}}) == {"b"}
    assert keys({"absent": None}) == {"a", "b", "c"}
    with pytest.raises(ValueError, match="operator"):
        keys({"n": {"$near": 1}})


def test_a_search_gives_pages_the_newest_first(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    for number in range(25):
        store.put(("p", str(number % 3)), f"k{number:02}", {"n": number})
    assert [item.key for item in store.search(("p",))] == [f"k{number:02}" for number in range(24, 14, -1)]
    pages = [store.search(("p",), limit=10, offset=start) for start in (0, 10, 20)]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert len({item.key for page in pages for item in page}) == 25
    assert {item.key for item in store.search(("p", "1"), limit=100)} == {f"k{n:02}" for n in range(1, 25, 3)}
    assert store.search(("p",), limit=0) == []


def test_a_query_ranks_items_by_their_words(engine: holdfast.Engine) -> None:
    store = HoldfastStore(engine)
    store.put(("m", "ada"), "1", {"content": "Ada has a dog called Rex"})
    store.put(("m", "ada"), "2", {"content": "Ada drinks oat milk"})
    store.put(("m", "bob"), "3", {"content": "Bob has a cat"})
    found = store.search(("m",), query="what is the name of the dog?")
    assert found[0].key == "1"
    assert found[0].score is not None
    assert {item.key for item in found} == {"1", "2", "3"}
    assert [item.key for item in store.search(("m", "ada"), query="oat milk", limit=1)] == ["2"]
    assert len(store.search(("m",), query="the", limit=2)) == 2


def test_namespaces_are_listed_by_prefix_suffix_and_depth(engine: holdfast.Engine) -> None:
    store = HoldfastStore(engine)
    names = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("ab",)]
    for name in [*names, ("users", "ada"), ("users", "ada", "notes")]:
        store.put(name, "k", {"v": 1})
    assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
    assert store.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert store.list_namespaces(prefix=("a",), suffix=("*", "e")) == [("a", "b", "d", "e")]
    assert store.list_namespaces(prefix=("users",)) == [("users", "ada"), ("users", "ada", "notes")]
    assert store.list_namespaces(limit=2, offset=5) == [("ab",), ("users", "ada")]
    assert store.list_namespaces(limit=0) == []
    assert [item.namespace for item in store.search(("a", "c"))] == [("a", "c", "f")]
    assert {item.namespace for item in store.search(("a",), limit=100)} == {name for name in names if name[0] == "a"}


def test_names_that_cannot_be_are_refused(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    for namespace in [(), ("",), ("a.b",), ("a\x00",), ("langgraph", "x"), ("a" * 300,), ("\ud800",), (1,)]:
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {})  # type: ignore[arg-type]
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(namespace, "k", {})])  # type: ignore[arg-type]
    for key in ["", "a\x00b", "k" * 300, "\ud800"]:
        with pytest.raises(InvalidName):
            store.put(("n",), key, {})
    for value in [[1], "text", 5]:
        with pytest.raises(InvalidArgument):
            store.put(("n",), "k", value)  # type: ignore[arg-type]
    with pytest.raises(holdfast.errors.InvalidJson):
        store.put(("n",), "k", {"v": object()})
    with pytest.raises(TooLarge):
        store.put(("n",), "k", {"v": "x" * 70_000})
    with pytest.raises(InvalidArgument):
        store.put(("n",), "k", {}, ttl=-1)
    with pytest.raises(InvalidArgument):
        store.batch(["what?"])  # type: ignore[list-item]
    assert store.list_namespaces() == []
    store.put(("émoji 🙂", 'quo"te', "back\\slash", "a/b"), "clé 🙂", {"v": "\x00 🙂"})
    assert store.search(("émoji 🙂",))[0].value == {"v": "\x00 🙂"}
    assert store.search(("émoji 🙂", 'quo"te'))[0].key == "clé 🙂"
    assert store.get((), "k") is None
    assert store.get(("langgraph",), "k") is None
    assert store.search(("langgraph",)) == []
    store.delete(("langgraph",), "k")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000_000)


def test_items_expire_and_reads_give_them_time(clock: ManualClock, folder: Any) -> None:
    with holdfast.open(folder / "ttl.db", clock=clock) as engine:
        store = HoldfastStore(engine, ttl={"default_ttl": 10, "refresh_on_read": True})
        store.put(("n",), "k", {"v": 1})
        store.put(("n",), "stays", {"v": 2}, ttl=None)
        created = clock.now_us()
        clock.advance(8 * MINUTE_S)
        item = store.get(("n",), "k")
        assert item is not None
        assert abs(item.updated_at.timestamp() * 1e6 - created) < 1e6
        clock.advance(8 * MINUTE_S)  # 16 minutes after the put, 8 after the read
        assert [each.key for each in store.search(("n",), refresh_ttl=False)] == ["stays", "k"]
        clock.advance(1 * MINUTE_S)
        assert store.get(("n",), "k", refresh_ttl=False) is not None
        clock.advance(2 * MINUTE_S)
        assert store.get(("n",), "k") is None
        assert [each.key for each in store.search(("n",))] == ["stays"]
        assert [fact.value for fact in store.history(("n",), "k")] == [{"v": 1}]
        engine.admin.sweep()
        assert store.history(("n",), "k")[-1].status == "expired"
        store.put(("n",), "k", {"v": 1})
        assert store.get(("n",), "k") is not None


def test_a_put_without_a_time_to_live_stays(clock: ManualClock, folder: Any) -> None:
    with holdfast.open(folder / "ttl.db", clock=clock) as engine:
        store = HoldfastStore(engine)
        store.put(("n",), "k", {"v": 1}, ttl=5)
        store.put(("n",), "k", {"v": 1}, ttl=None)
        clock.advance(60 * MINUTE_S)
        assert store.get(("n",), "k") is not None


def test_many_reads_store_few_events(clock: ManualClock, folder: Any) -> None:
    with holdfast.open(folder / "ttl.db", clock=clock) as engine:
        store = HoldfastStore(engine)
        store.put(("users", "ada"), "k", {"dog": "Rex"}, ttl=10)
        for _ in range(600):
            clock.advance(1)
            assert store.get(("users", "ada"), "k") is not None
        assert engine.ledgers()[0].facts <= 22
        session = engine.create_session("s", user="ada")
        session.record("user", "My dog Rex is ill.")
        shown = str(session.pack().anthropic())
        assert "My dog Rex is ill." in shown  # an item that was only read again is not superseded
        assert engine.admin.verify().ok


def test_a_read_never_brings_back_a_value_that_was_replaced(clock: ManualClock, folder: Any) -> None:
    with holdfast.open(folder / "ttl.db", clock=clock) as engine:
        store, other = HoldfastStore(engine), HoldfastStore(engine)
        store.put(("n",), "k", {"v": 1}, ttl=10)
        stale = store.ledger(("n",)).get("k")
        assert stale is not None
        clock.advance(5 * MINUTE_S)
        other.put(("n",), "k", {"v": 2})
        store._refresh(store.ledger(("n",)), [stale])
        assert read_number(store) == 2
        store.put(("n",), "k", {"v": 3}, ttl=10)
        stale = store.ledger(("n",)).get("k")
        assert stale is not None
        clock.advance(5 * MINUTE_S)
        store._refresh(OvertakenLedger(other), [stale])  # type: ignore[arg-type]
        assert read_number(store) == 4


def read_number(store: HoldfastStore) -> Any:
    item = store.get(("n",), "k", refresh_ttl=False)
    assert item is not None
    return item.value["v"]


class OvertakenLedger:
    """A ledger to which another process writes between a read and a write."""

    def __init__(self, other: HoldfastStore) -> None:
        self._other = other
        self._ledger = other.ledger(("n",))

    def get(self, key: str) -> holdfast.Fact | None:
        fact = self._ledger.get(key)
        self._other.put(("n",), "k", {"v": 4})
        return fact

    def set(self, *args: Any, **options: Any) -> holdfast.Fact:
        return self._ledger.set(*args, **options)


def test_threads_that_put_the_same_key_leave_one_of_their_values(engine: holdfast.Engine) -> None:
    store = HoldfastStore(engine)

    def work(number: int) -> None:
        for each in range(10):
            store.put(("n",), "shared", {"by": number, "n": each})
            store.put(("n",), f"own-{number}", {"n": each})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {item.key: item.value["n"] for item in store.search(("n",), filter={"n": 9}, limit=100)} == {
        "shared": 9,
        **{f"own-{number}": 9 for number in range(4)},
    }
    assert len(store.history(("n",), "shared", limit=1_000)) == 40
    assert engine.admin.verify().ok


class Question(TypedDict):
    text: str
    answer: str


def test_a_graph_uses_the_store(engine: holdfast.Engine) -> None:
    def remember(state: Question, runtime: Runtime[None]) -> dict[str, Any]:
        assert runtime.store is not None
        runtime.store.put(("memories", "ada"), "last", {"text": state["text"]})
        return {}

    async def recall(state: Question, *, store: BaseStore) -> dict[str, Any]:
        found = await store.asearch(("memories", "ada"), query=state["text"])
        return {"answer": found[0].value["text"]}

    builder = StateGraph(Question)
    builder.add_node("remember", remember)
    builder.add_node("recall", recall)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "recall")
    builder.add_edge("recall", END)
    store = HoldfastStore(engine)
    graph = builder.compile(store=store)
    answer = asyncio.run(graph.ainvoke({"text": "Rex is a dog", "answer": ""}))
    assert answer["answer"] == "Rex is a dog"
    assert store.get(("memories", "ada"), "last") is not None


@tool
def save_memory(content: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Save a memory."""
    store.put(("users", "ada"), "note", {"content": content})
    return "saved"


class Calls(TypedDict):
    messages: list[Any]


def test_a_tool_gets_the_store(file_engine: holdfast.Engine) -> None:
    from langchain_core.messages import AIMessage

    builder = StateGraph(Calls)
    builder.add_node("tools", ToolNode([save_memory]))
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    store = HoldfastStore(file_engine)
    graph = builder.compile(store=store)
    call = {"name": "save_memory", "args": {"content": "likes tea"}, "id": "c1", "type": "tool_call"}
    graph.invoke({"messages": [AIMessage("", tool_calls=[call])]})
    assert file_engine.ledger(user="ada").get("note") is not None


def test_filters_compare_numbers_exactly_and_nothing_with_what_is_no_number(file_engine: holdfast.Engine) -> None:
    store = HoldfastStore(file_engine)
    store.put(("f",), "k", {"big": 2**60, "small": 1.5, "text": "nan", "digits": "10", "yes": True})

    def matches(**wanted: Any) -> bool:
        return bool(store.search(("f",), filter=wanted))

    assert matches(big={"$gt": 2**60 - 1})
    assert not matches(big={"$gt": 2**60})
    assert matches(big={"$lt": 10**400})
    assert matches(small={"$lt": 10**400})
    assert matches(big={"$gt": -(10**400)})
    assert matches(big={"$gt": "5"})
    assert matches(digits={"$gt": 9})
    assert matches(digits={"$gt": "9"})
    assert matches(yes={"$gte": 1})
    for operator in ("$gt", "$gte", "$lt", "$lte"):
        assert not matches(small={operator: float("nan")})
        assert not matches(text={operator: 5})
    assert matches(text={"$gt": "nam"})
