"""The contract of a session service of ADK 2.13, behaviour by behaviour.

ADK tests its services against one list of behaviours, and records where they diverge. Here is that list, with the test
of this file for each, and where ADK's own services diverge.

| behaviour | test | who diverges in ADK |
|---|---|---|
| an unknown session is None | unknown | – |
| a created session is equal to the loaded one | created | – |
| list has the state of each session, and no events | listed | the docstring of the base class says that it has none |
| list of one user, of all users; the empty user is a user | listed | Redis lists all users for the empty one |
| list is ordered by the last update, oldest first | order | Redis: newest first |
| last_update_time is the timestamp of the last event | update time | Redis: its clock |
| state of app, user and session: who sees it | shared state | – |
| a dict replaces a dict; None is stored; booleans stay | values | – |
| a value without JSON becomes its description, the rest is stored | strange values | InMemory keeps the object |
| `temp:` is in the object, not in event or store | temporary state | – |
| the same id of another user is another session | other user | – |
| an id twice is AlreadyExistsError, also padded | existing id | Database and Redis take padded ids for others |
| a padded id is the id without padding, everywhere; a blank one is none | padding | Database and Redis |
| bytes, all fields, confirmations of tools come back equal | whole event | – |
| a partial event is returned, not stored | partial | – |
| append to a deleted or unknown session is SessionNotFoundError | deleted, never created | Redis creates it |
| a deletion is that of one session of one user | deletes one | – |
| a stale object is refused with StaleSessionError; nothing is stored | stale | InMemory takes it; Sqlite compares clocks |
| of two writers at once, one wins | two writers | InMemory |
| a change of last_update_time alone, or a lost marker, is not stale | drift | – |
| num_recent_events, 0, after_timestamp, both | config | – |
| negative num_recent_events is refused | config | – |
| the same event again changes nothing | again | Sqlite: IntegrityError |
| two events with one id are both stored | one id | Sqlite, Database: IntegrityError |
| get_user_state has no prefixes, and is {} for none; it has the last value that an event set | user state | – |
| events come back in the order of their appends, with their times | event order | Sqlite, Database: equal times by id |
| appends of one object at the same time are all stored | together | – |
| a session is deleted with all its events, and its id is free | deleted | – |
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

import holdfast
from holdfast.adk import SessionService
from tests.frameworks.adk.support import create, load, run, state_event, text_event


def test_unknown(service: SessionService) -> None:
    assert run(service.get_session(app_name="desk", user_id="ada", session_id="123")) is None
    assert run(service.get_session(app_name="desk", user_id="ada", session_id="")) is None


def test_created(service: SessionService) -> None:
    async def check() -> None:
        created = await service.create_session(app_name="desk", user_id="ada", state={"key": "value"})
        assert (created.app_name, created.user_id, created.state) == ("desk", "ada", {"key": "value"})
        assert created.id
        assert created.last_update_time <= time.time()
        assert await load(service, created.id) == created

    run(check())


def test_listed(service: SessionService) -> None:
    async def check() -> None:
        for user, name in (("ada", "a1"), ("ada", "a2"), ("bob", "b1"), ("", "n1")):
            session = await create(service, name, user, state={"key": f"value {name}", "user:u": user})
            await service.append_event(session, text_event("hello"))
        await service.create_session(app_name="other", user_id="ada", session_id="o1")

        async def listed(user: str | None) -> dict[str, dict[str, Any]]:
            found = await service.list_sessions(app_name="desk", user_id=user)
            assert not any(each.events for each in found.sessions)
            return {f"{each.user_id}/{each.id}": each.state for each in found.sessions}

        assert await listed("ada") == {
            "ada/a1": {"key": "value a1", "user:u": "ada"},
            "ada/a2": {"key": "value a2", "user:u": "ada"},
        }
        assert await listed("") == {"/n1": {"key": "value n1", "user:u": ""}}
        assert await listed("eve") == {}
        assert set(await listed(None)) == {"ada/a1", "ada/a2", "bob/b1", "/n1"}

    run(check())


def test_order(service: SessionService) -> None:
    async def check() -> None:
        for name in ("a", "b", "c"):
            await create(service, name)
        await service.append_event(await load(service, "a"), text_event("hello", timestamp=time.time() + 1))
        found = await service.list_sessions(app_name="desk", user_id="ada")
        assert [each.id for each in found.sessions] == ["b", "c", "a"]

    run(check())


def test_update_time(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        at = session.last_update_time + 10
        await service.append_event(session, text_event("hello", timestamp=at))
        assert session.last_update_time == at
        assert (await load(service)).last_update_time == at
        assert (await load(service, config=GetSessionConfig(num_recent_events=0))).last_update_time == at

    run(check())


def test_shared_state(service: SessionService) -> None:
    async def check() -> None:
        first = await create(service, "s1", "ada", state={"app:k1": 1, "user:k1": 2, "own": 3})
        await service.append_event(first, state_event({"app:k2": 4, "user:k2": 5, "more": 6}))
        assert first.state == {"app:k1": 1, "user:k1": 2, "own": 3, "app:k2": 4, "user:k2": 5, "more": 6}
        assert (await load(service, "s1", "ada")).state == first.state
        same_user = await create(service, "s2", "ada")
        assert same_user.state == {"app:k1": 1, "app:k2": 4, "user:k1": 2, "user:k2": 5}
        assert (await create(service, "s3", "bob")).state == {"app:k1": 1, "app:k2": 4}
        other_app = await service.create_session(app_name="other", user_id="ada")
        assert other_app.state == {}

    run(check())


def test_values(service: SessionService) -> None:
    async def check() -> None:
        old = {"profile": {"name": "ada", "role": "admin"}, "flag": True, "off": False}
        scoped = {f"{prefix}{key}": value for prefix in ("", "user:", "app:") for key, value in old.items()}
        session = await create(service, state=scoped)
        delta = {f"{prefix}{key}": value for prefix in ("", "user:", "app:") for key, value in
                 {"profile": {"name": "bob"}, "flag": None}.items()}  # fmt: skip
        await service.append_event(session, state_event(delta))
        expected = scoped | delta
        assert session.state == expected
        loaded = (await load(service)).state
        assert loaded == expected
        assert loaded["off"] is False

    run(check())


def test_strange_values(service: SessionService) -> None:
    """What has no JSON form is described, and what only Python's JSON has is stored all the same."""

    async def check() -> None:
        session = await create(service, state={"app:big": 2**70, "half": float("inf")})
        await service.append_event(session, state_event({"callback": print, "ok": 2, "text": "\ud800 x", "nul": "\0"}))
        assert session.state["callback"] is print
        loaded = (await load(service)).state
        assert isinstance(loaded["callback"], str)
        assert (loaded["ok"], loaded["text"], loaded["nul"]) == (2, "? x", "\0")
        assert (loaded["app:big"], loaded["half"]) == (2**70, float("inf"))

    run(check())


def test_temporary_state(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service, state={"temp:start": 1})
        event = state_event({"temp:k1": "v1", "sk": "v2"})
        await service.append_event(session, event)
        assert session.state == {"temp:k1": "v1", "sk": "v2"}
        assert event.actions.state_delta == {"sk": "v2"}
        loaded = await load(service)
        assert loaded.state == {"sk": "v2"}
        assert loaded.events[0].actions.state_delta == {"sk": "v2"}

    run(check())


def test_other_user(service: SessionService) -> None:
    async def check() -> None:
        await service.append_event(await create(service, "s1", "ada"), text_event("hello"))
        await create(service, "s1", "bob")
        loaded = await load(service, "s1", "bob")
        assert (loaded.user_id, loaded.events) == ("bob", [])

    run(check())


def test_existing_id(service: SessionService) -> None:
    async def check() -> None:
        await create(service, "s1", state={"keep": "original"})
        for name in ("s1", "  s1 "):
            with pytest.raises(AlreadyExistsError):
                await create(service, name, state={"keep": "other", "user:leak": 1})
        assert (await load(service)).state == {"keep": "original"}
        results = await asyncio.gather(*(create(service, "race") for _ in range(5)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == ["AlreadyExistsError"] * 4 + ["Session"]

    run(check())


def test_padding(service: SessionService) -> None:
    async def check() -> None:
        created = await create(service, "order-42\n", state={"cart": "book"})
        assert created.id == "order-42"
        assert (await load(service, " order-42 ")).state == {"cart": "book"}
        await service.delete_session(app_name="desk", user_id="ada", session_id="order-42\t")
        assert await service.get_session(app_name="desk", user_id="ada", session_id="order-42") is None
        assert (await create(service, "   ")).id.strip()

    run(check())


def test_whole_event(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        event = Event(
            invocation_id="invocation",
            author="user",
            content=types.Content(
                role="user",
                parts=[
                    types.Part(text="text"),
                    types.Part.from_bytes(data=b"\x00\xff image", mime_type="image/png"),
                    types.Part(text="hm", thought=True, thought_signature=b"\x01\x02"),
                ],
            ),
            turn_complete=True,
            partial=False,
            actions=EventActions(
                artifact_delta={"file": 0},
                transfer_to_agent="agent",
                escalate=True,
                state_delta={"null": None},
                requested_tool_confirmations={
                    "call1": ToolConfirmation(hint="sure?", confirmed=False, payload={"name": "album"})
                },
            ),
            long_running_tool_ids={"tool1", "tool2"},
            error_code="error_code",
            error_message="error_message",
            interrupted=True,
            grounding_metadata=types.GroundingMetadata(
                web_search_queries=["query1"], search_entry_point=types.SearchEntryPoint(sdk_blob=b"blob")
            ),
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=2),
            citation_metadata=types.CitationMetadata(),
            custom_metadata={"key": "value"},
            timestamp=1700000000.123,
            input_transcription=types.Transcription(text="in", finished=True),
            output_transcription=types.Transcription(text="out", finished=True),
        )
        await service.append_event(session, event)
        loaded = await load(service)
        assert loaded.events == [event]
        assert loaded == session

    run(check())


def test_partial(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        event = text_event("half", partial=True, actions=EventActions(state_delta={"k": 1}))
        assert await service.append_event(session, event) is event
        assert (session.events, session.state) == ([], {})
        assert (await load(service)).events == []

    run(check())


def test_deleted(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service, state={"k": 1, "user:kept": 2})
        await service.append_event(session, text_event("a secret", branch="par.a"))
        for _ in range(2):
            await service.delete_session(app_name="desk", user_id="ada", session_id="s1")
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, text_event("too late"))
        assert (await service.list_sessions(app_name="desk")).sessions == []
        again = await create(service)
        assert (again.state, again.events) == ({"user:kept": 2}, [])
        with pytest.raises(StaleSessionError):
            await service.append_event(session, text_event("for the old one"))
        await service.append_event(again, text_event("new"))
        assert [each.id for each in (await service.list_sessions(app_name="desk")).sessions] == ["s1"]
        await service.delete_session(app_name="desk", user_id="ada", session_id="s1")
        assert await service.get_session(app_name="desk", user_id="ada", session_id="s1") is None
        assert not [row for row in service.engine.sessions() if not row.thread.startswith("#state")]
        assert service.engine.admin.verify().ok

    run(check())


def test_never_created(service: SessionService) -> None:
    session = Session(app_name="desk", user_id="ada", id="never")
    with pytest.raises(SessionNotFoundError):
        run(service.append_event(session, text_event("hello")))
    assert run(service.list_sessions(app_name="desk")).sessions == []
    assert not service.engine.sessions()


def test_deletes_one(service: SessionService) -> None:
    async def check() -> None:
        for user in ("ada", "bob"):
            await service.append_event(await create(service, "s1", user), text_event(f"hello {user}"))
        for app, user, name in (("other", "ada", "s1"), ("desk", "eve", "s1"), ("desk", "ada", "s2")):
            await service.delete_session(app_name=app, user_id=user, session_id=name)
        await service.delete_session(app_name="desk", user_id="ada", session_id="s1")
        assert len((await load(service, "s1", "bob")).events) == 1
        assert [each.user_id for each in (await service.list_sessions(app_name="desk")).sessions] == ["bob"]

    run(check())


def test_stale(service: SessionService) -> None:
    """Whatever the clocks say: the winner's event is older here than what the loser has."""

    async def check() -> None:
        old = await create(service)
        await service.append_event(old, state_event({"k1": 1}, invocation_id="i1", timestamp=time.time() + 9_000))
        new = await load(service)
        await service.append_event(new, state_event({"k2": 2}, invocation_id="i2", timestamp=1.0))
        with pytest.raises(StaleSessionError, match="modified in storage") as caught:
            await service.append_event(old, state_event({"k3": 3, "user:k3": 3}, timestamp=time.time() + 99_000))
        assert isinstance(caught.value, ValueError)
        assert [each.invocation_id for each in old.events] == ["i1"]
        loaded = await load(service)
        assert [each.invocation_id for each in loaded.events] == ["i1", "i2"]
        assert loaded.state == {"k1": 1, "k2": 2}

    run(check())


def test_two_writers(service: SessionService) -> None:
    async def check() -> None:
        await create(service)
        for number in range(4):
            latest = await load(service)
            copies = [latest.model_copy(deep=True) for _ in range(3)]
            results = await asyncio.gather(
                *(
                    SessionService(service.engine).append_event(copy, state_event({f"k{number}-{at}": at}))
                    for at, copy in enumerate(copies)
                ),
                return_exceptions=True,
            )
            assert sorted(type(each).__name__ for each in results) == ["Event", *["StaleSessionError"] * 2]
        loaded = await load(service)
        assert len(loaded.events) == len(loaded.state) == 4

    run(check())


def test_drift(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        await service.append_event(session, text_event("one", timestamp=session.last_update_time + 10))
        session.last_update_time -= 0.0001
        await service.append_event(session, text_event("two"))
        session._storage_update_marker = None
        session.last_update_time -= 5
        await service.append_event(session, text_event("three"))
        stale = (await load(service)).model_copy(update={"events": session.events[:1]})
        stale._storage_update_marker = None
        with pytest.raises(StaleSessionError):
            await service.append_event(stale, text_event("four"))
        assert len((await load(service)).events) == 3

    run(check())


def test_config(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        for number in range(1, 6):
            await service.append_event(session, text_event(f"text {number}", timestamp=float(number)))

        async def times(**config: Any) -> list[float]:
            loaded = await load(service, config=GetSessionConfig(**config))
            assert loaded._storage_update_marker == session._storage_update_marker
            return [event.timestamp for event in loaded.events]

        assert await times() == [1, 2, 3, 4, 5]
        assert await times(num_recent_events=0) == []
        assert await times(num_recent_events=3) == [3, 4, 5]
        assert await times(num_recent_events=300) == [1, 2, 3, 4, 5]
        assert await times(after_timestamp=4.0) == [4, 5]
        assert await times(after_timestamp=50.0) == []
        assert await times(num_recent_events=3, after_timestamp=4.0) == [4, 5]
        assert await times(num_recent_events=1, after_timestamp=4.0) == [5]

    run(check())
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        GetSessionConfig(num_recent_events=-1)


def test_again(service: SessionService) -> None:
    """A caller that does not know whether its event was stored sends it again, with the object that it has."""

    async def check() -> None:
        session = await create(service)
        before = session.model_copy(deep=True)
        event = text_event("hello", actions=EventActions(state_delta={"n": 1, "user:n": 1}))
        await service.append_event(session, event)
        version = service.session(app_name="desk", user_id="ada", session_id="s1").state().version
        for target in (session, before):
            await service.append_event(target, event.model_copy(deep=True))
            assert [each.id for each in target.events] == [event.id]
        opened = service.session(app_name="desk", user_id="ada", session_id="s1")
        assert opened.state().version == version
        assert len((await load(service)).events) == 1
        assert [each.text for each in opened.messages()] == ["hello"]

    run(check())


def test_one_id(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        for text in ("one", "two", "two"):
            await service.append_event(session, text_event(text, id="fixed", timestamp=5.0))
        texts = [each.content.parts[0].text for each in (await load(service)).events if each.content]  # type: ignore[index]  # it has parts
        assert texts == ["one", "two"]

    run(check())


def test_user_state(service: SessionService) -> None:
    async def check() -> None:
        assert await service.get_user_state(app_name="desk", user_id="ada") == {}
        await create(service, state={"user:theme": "dark", "other": 1, "app:x": 2})
        assert await service.get_user_state(app_name="desk", user_id="ada") == {"theme": "dark"}
        assert await service.get_user_state(app_name="desk", user_id="bob") == {}
        assert await service.get_user_state(app_name="other", user_id="ada") == {}
        session = await create(service, "s2")
        for theme in ("light", {"name": "blue"}):
            await service.append_event(session, state_event({"user:theme": theme, "own": 3}))
        assert await service.get_user_state(app_name="desk", user_id="ada") == {"theme": {"name": "blue"}}

    run(check())


def test_event_order(service: SessionService) -> None:
    """Whatever their ids and times are: here equal ones, and those of an hour that a local clock shows twice."""
    appended = [("z", 100.0), ("m", 100.0), ("a", 100.0), ("later", 1730615400.000001), ("earlier", 1730613600.0)]

    async def check() -> None:
        session = await create(service)
        for name, at in appended:
            await service.append_event(session, text_event(name, id=name, timestamp=at))
        assert [(event.id, event.timestamp) for event in (await load(service)).events] == appended
        newest = await load(service, config=GetSessionConfig(num_recent_events=3))
        assert [event.id for event in newest.events] == ["a", "later", "earlier"]

    run(check())


def test_together(service: SessionService) -> None:
    """Parallel agents append to one object."""

    async def check() -> None:
        session = await create(service)
        events = [state_event({f"k{number}": number}) for number in range(8)]
        await asyncio.gather(*(service.append_event(session, event) for event in events))
        await service.flush()
        loaded = await load(service)
        assert len(loaded.events) == len(session.events) == 8
        assert loaded.state == session.state == {f"k{number}": number for number in range(8)}

    run(check())


def test_a_cancelled_caller_leaves_the_object_as_it_is_stored(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        task = asyncio.ensure_future(service.append_event(session, text_event("one")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await service.append_event(session, text_event("two"))
        loaded = await load(service)
        texts = [event.content.parts[0].text for event in loaded.events if event.content]  # type: ignore[index]  # it has parts
        assert texts == ["one", "two"]
        assert loaded == session

    run(check())


def test_state_is_read_and_written_in_steps(file_service: SessionService) -> None:
    """After many changes the state is whole, in another process too, and for user and app."""

    async def check() -> None:
        session = await create(file_service)
        for number in range(100):
            delta = {f"k{number % 7}": number, f"user:k{number % 5}": number, f"app:k{number % 3}": number}
            await file_service.append_event(session, state_event(delta))
        other = SessionService(file_service.engine)
        assert (await load(other)).state == session.state
        assert session.state["k1"] == 99
        opened = other.session(app_name="desk", user_id="ada", session_id="s1")
        whole = [entry for entry in opened.entries.list(kind="state", limit=1_000) if not entry.body["since_whole"]]  # type: ignore[call-overload,index]  # an object
        assert len(whole) == 4

    run(check())


@pytest.mark.parametrize(
    "name", ["a/b", "ümlaut 🙂", "x" * 3_000, "a%2Fb", "line\nbreak", "\ud800", "#2", "~" + "0" * 64]
)
def test_any_name_is_taken_and_stays_distinct(file_service: SessionService, name: str) -> None:
    async def check() -> None:
        session = await file_service.create_session(app_name=name, user_id=name, session_id=name, state={"a": 1})
        await file_service.append_event(session, text_event("hello"))
        loaded = await file_service.get_session(app_name=name, user_id=name, session_id=name)
        assert loaded is not None
        assert loaded.state == {"a": 1}
        assert len(loaded.events) == 1
        for other in ("a", "a%252Fb", name + "x"):
            assert await file_service.get_session(app_name=name, user_id=name, session_id=other) is None
            assert await file_service.get_session(app_name=other, user_id=name, session_id=name) is None

    run(check())


def test_the_conversation_is_a_transcript(service: SessionService) -> None:
    async def check() -> None:
        session = await create(service)
        await service.append_event(session, text_event("My name is Ada."))
        await service.append_event(session, text_event("Hello Ada.", "desk_agent"))

    run(check())
    opened = service.session(app_name="desk", user_id="ada", session_id="s1")
    assert "Hello Ada." in opened.pack().text
    assert [message.role for message in opened.messages()] == ["user", "assistant"]
    assert service.engine.admin.verify().ok
    assert isinstance(opened, holdfast.Session)
