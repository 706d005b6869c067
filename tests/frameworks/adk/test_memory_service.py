"""The memory service: ADK's contract, and what it has beyond it: stems, supersession, erasure.

| behaviour of ADK's services | test | who diverges |
|---|---|---|
| events with text are added, others are not | added | – |
| events can be added one by one, also without a session | added | – |
| an id is added once; the first content stays | added | InMemory replaces the events of a session that is added again |
| words match in any case; the best match first, at most ten | words | InMemory: oldest of equals first, here newest |
| nothing matches a part of a word | words | – |
| scripts without spaces; composed and decomposed text | scripts | here by the index of Holdfast |
| memories of another user or app are not seen; no alias by slashes | apart | – |
| a deleted memory is gone, also when its session is added again | deleted | InMemory until the process ends |
| memories are searched while other threads add some | threads | – |
| a memory is a copy: neither its event nor what a search returned changes it | own copy | – |
| id, author, time and metadata come back | described | InMemory: local time without a zone, no metadata |
"""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

import holdfast
from holdfast.adk import MemoryService, SessionService
from tests.frameworks.adk.support import create, run, text_event


@pytest.fixture
def memory(engine: holdfast.Engine) -> MemoryService:
    return MemoryService(engine)


@pytest.fixture
def file_memory(file_engine: holdfast.Engine) -> MemoryService:
    return MemoryService(file_engine)


def session_of(*texts: str, name: str = "s1", user: str = "ada", app: str = "desk") -> Session:
    events = [text_event(text, id=f"{name}-{number}", timestamp=1_000.0) for number, text in enumerate(texts)]
    return Session(app_name=app, user_id=user, id=name, events=events)


def search(memory: MemoryService, query: str, user: str = "ada", app: str = "desk") -> list[str]:
    found = run(memory.search_memory(app_name=app, user_id=user, query=query)).memories
    return [each.content.parts[0].text or "" for each in found if each.content.parts]


def test_added(memory: MemoryService) -> None:
    session = session_of("The kit is great.", "")
    session.events.append(text_event("I agree, the kit rocks.", "desk_agent", id="s1-9"))
    session.events.append(text_event("a hidden thought", "desk_agent"))
    session.events[-1].content.parts[0].thought = True  # type: ignore[union-attr,index]  # it has one part
    run(memory.add_session_to_memory(session))
    run(memory.add_session_to_memory(Session(app_name="desk", user_id="ada", id="none")))
    assert sorted(search(memory, "How about the kit?")) == ["I agree, the kit rocks.", "The kit is great."]
    assert search(memory, "hidden thought") == []
    more = [text_event("The kit has a lamp.", id="m1"), text_event("The kit is another one.", id="s1-0")]
    run(memory.add_events_to_memory(app_name="desk", user_id="ada", events=more))
    run(memory.add_session_to_memory(session))
    assert sorted(search(memory, "kit")) == ["I agree, the kit rocks.", "The kit has a lamp.", "The kit is great."]
    assert memory.engine.admin.verify().ok


def test_words(memory: MemoryService) -> None:
    run(memory.add_session_to_memory(session_of("The deploy is ready.", "Ready.", "The deploy status is ready.")))
    assert search(memory, "DEPLOY status")[0] == "The deploy status is ready."
    assert set(search(memory, "deploys")) == {"The deploy status is ready.", "The deploy is ready."}
    assert search(memory, "deploy status ready") == ["The deploy status is ready.", "The deploy is ready.", "Ready."]
    assert search(memory, "eplo") == search(memory, "nonexistent") == search(memory, "  ") == []
    run(memory.add_session_to_memory(session_of(*(f"note {number} about work" for number in range(20)), name="n")))
    assert len(search(memory, "work notes")) == 10
    run(memory.add_session_to_memory(session_of("the backlog note about work", name="b")))
    assert search(memory, "work backlog note") == [
        "the backlog note about work",
        *(f"note {number} about work" for number in range(19, 10, -1)),
    ]


@pytest.mark.parametrize(
    ("text", "query", "count"),
    [
        ("私の名前は太郎です", "太郎", 1),
        ("私の名前は太郎です", "天気", 0),
        ("我喜欢机器学习", "机器学习", 1),
        ("제 이름은 민수입니다", "민수입니다", 1),
        ("Меня зовут Алексей", "Алексей", 1),
        ("太郎 works at ABC Corp", "ABC", 1),
        ("私はPythonでADKを使っています", "python", 1),
        ("私はPythonでADKを使っています", "adk", 1),
        ("私はPythonでADKを使っています", "使って", 1),
        ("私はPythonでADKを使っています", "Java", 0),
        ("私はPythonでADKを使っています", "thon", 0),
        ("我喜欢机器学习", "天气预报", 0),
        ("太郎 works at ABC Corp", "太郎", 1),
        (unicodedata.normalize("NFD", "私はCaféでADKを使っています"), "café", 1),
        (unicodedata.normalize("NFD", "プログラミングを学ぶ"), "プログラミング", 1),
        (unicodedata.normalize("NFD", "제 이름은 민수입니다"), "민수입니다", 1),
        ("Meet at the Café", unicodedata.normalize("NFD", "Café"), 1),
        (unicodedata.normalize("NFD", "Meet at the Café"), "Café", 1),
    ],
)
def test_scripts(file_memory: MemoryService, text: str, query: str, count: int) -> None:
    run(file_memory.add_session_to_memory(session_of(text)))
    assert len(search(file_memory, query)) == count


def test_own_copy(memory: MemoryService) -> None:
    session = session_of("I prefer jasmine tea.")
    run(memory.add_session_to_memory(session))
    session.events[0].content.parts[0].text = "I prefer coffee."  # type: ignore[union-attr,index]  # it has one part
    found = run(memory.search_memory(app_name="desk", user_id="ada", query="jasmine")).memories
    assert found[0].content.parts
    found[0].content.parts.clear()
    assert search(memory, "jasmine") == ["I prefer jasmine tea."]


def test_threads(memory: MemoryService) -> None:
    """Each with an event loop of its own."""

    def add(user: int) -> None:
        for number in range(8):
            run(memory.add_session_to_memory(session_of(f"a fact of {user}", name=f"s{user}-{number}")))

    with ThreadPoolExecutor(4) as pool:
        added = [pool.submit(add, user) for user in range(2)]
        found = [pool.submit(search, memory, "fact") for _ in range(16)]
        assert all(len(each.result()) <= 10 for each in found)
        assert [each.result() for each in added] == [None, None]
    assert len(search(memory, "fact")) == 10
    assert memory.engine.admin.verify().ok


def test_apart(memory: MemoryService) -> None:
    run(memory.add_session_to_memory(session_of("a secret", user="bob")))
    run(memory.add_session_to_memory(session_of("a secret", app="desk/ada", user="bob")))
    assert search(memory, "secret") == search(memory, "secret", app="desk", user="ada/bob") == []
    assert search(memory, "secret", user="bob") == ["a secret"]


def test_deleted(memory: MemoryService) -> None:
    session = session_of("The code is plover.", "The code is on the door.")
    run(memory.add_session_to_memory(session))

    async def delete(name: str | None) -> None:
        await memory.delete_memory(app_name="desk", user_id="ada", memory_id=name)

    for name in ("s1-0", "s1-0", "unknown", None, ""):
        run(delete(name))
    again = MemoryService(memory.engine)
    run(again.add_session_to_memory(session))
    assert search(again, "code") == ["The code is on the door."]
    stored = [row for row in memory.engine.sessions() if row.thread == "#memory"]
    opened = memory.engine.session(stored[0].session, actor=stored[0].actor, thread="#memory")
    assert not any(b"plover" in (event.payload or b"") for event in opened.events(limit=1_000))
    assert memory.engine.admin.verify().ok


def test_described(memory: MemoryService) -> None:
    entries = [
        MemoryEntry(content=types.Content(parts=[types.Part(text="Likes tea.")]), custom_metadata={"own": 1}),
        MemoryEntry(
            id="x",
            author="desk_agent",
            timestamp="2026-01-01",
            content=types.Content(parts=[types.Part(text="No tea.")]),
        ),
    ]
    custom: dict[str, Any] = {"ttl": 5}
    for _ in range(2):
        run(memory.add_memory(app_name="desk", user_id="ada", memories=entries, custom_metadata=custom))
    run(
        memory.add_events_to_memory(
            app_name="desk", user_id="ada", events=[text_event("Green tea.", id="e", timestamp=0.0)], session_id="s1"
        )
    )
    found = run(memory.search_memory(app_name="desk", user_id="ada", query="tea")).memories
    assert len(found) == 3
    by_text = {each.content.parts[0].text: each for each in found if each.content.parts}
    assert (by_text["Likes tea."].author, by_text["Likes tea."].custom_metadata) == (None, {"own": 1, "ttl": 5})
    assert (by_text["No tea."].id, by_text["No tea."].timestamp) == ("x", "2026-01-01")
    assert (by_text["Green tea."].id, by_text["Green tea."].author) == ("e", "user")
    assert by_text["Green tea."].timestamp == "1970-01-01T00:00:00+00:00"


@pytest.mark.parametrize("before", [False, True])
def test_a_superseded_value_is_not_recalled_as_current(engine: holdfast.Engine, before: bool) -> None:
    """Whether it was superseded before the session was added to memory, or later."""
    service, memory = SessionService(engine), MemoryService(engine)

    async def talk() -> None:
        session = await create(service)
        await service.append_event(session, text_event("Please ship to 12 Main Street."))
        opened = service.session(app_name="desk", user_id="ada", session_id="s1")
        ledger = opened.ledger(user="desk/ada")
        ledger.set("shipping_address", "12 Main Street")
        if before:
            ledger.set("shipping_address", "456 Oak Ave")
        await memory.add_session_to_memory(session)
        if not before:
            ledger.set("shipping_address", "456 Oak Ave")

    run(talk())
    assert search(memory, "Where to ship?") == ["Please ship to [outdated: shipping_address]."]


def test_facts_are_read_from_sessions_of_others(file_engine: holdfast.Engine) -> None:
    memory = MemoryService(file_engine, observe=True)
    ledger = file_engine.ledger(user="desk/ada")
    ledger.set("shipping_address", "12 Main Street")
    run(memory.add_session_to_memory(session_of("Actually, my shipping address is now 456 Oak Ave.")))
    fact = ledger.get("shipping_address")
    assert fact is not None
    assert fact.value == "456 Oak Ave"


def test_strange_memories(memory: MemoryService) -> None:
    run(memory.add_session_to_memory(session_of("zebra \ud800 \0 lamp", "lorem ipsum " * 15_000 + " giraffe")))
    assert "zebra" in search(memory, "zebra")[0]
    assert len(search(memory, "giraffe")) == 1
    assert search(memory, "\ud800") == []
