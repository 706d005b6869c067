"""What a user said reaches nobody else through memory, and what was erased or forgotten does not come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Identity
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.model.facts.detection import Observation, Proposal
from holdfast.model.memory.recall import ForgetReport, SessionHistory
from holdfast.text.detect.own_statements import find_own_statements

SECRET = "xylophonist"
WORDS = f"I am a {SECRET}."
BOB = Identity(user_id="bob")


def start(engine: Engine, name: str = "s", **options: Any) -> holdfast.Session:
    return engine.create_session(name, user="ada", memory=True, **options)


def recall(engine: Engine, user: str, query: str = SECRET) -> list[str]:
    return [each.text for each in engine.memory.recall(query, user=user).passages]


def record_two_users(engine: Engine) -> None:
    """A conversation that passes from Ada to Bob, and waits for memory."""
    session = start(engine)
    session.record("user", WORDS)
    session.refresh_identity(BOB)
    session.record("user", "I am a plumber.")
    session.end()


# Two users in one session


@pytest.mark.parametrize("forgotten", ["ada", "bob"])
def test_a_forgotten_user_does_not_come_back_with_a_session_of_two(engine: Engine, forgotten: str) -> None:
    record_two_users(engine)
    assert engine.memory.forget(user=forgotten).residue == 0
    engine.memory.deliver()
    left = {user for user in ("ada", "bob") if engine.memory.totals(user=user).passages}
    assert left == {"ada", "bob"} - {forgotten}


@pytest.mark.parametrize("forgotten", ["ada", "bob"])
def test_a_memory_of_the_caller_gets_only_the_words_of_the_other_user(forgotten: str) -> None:
    class KeptParts:
        name = "parts"

        def __init__(self) -> None:
            self.users: list[str] = []

        def take(self, history: SessionHistory) -> None:
            self.users.append(history.identity.user_id)

        def recall(self, *_: Any, **__: Any) -> list[Any]:
            return []

        def bootstrap(self, *_: Any, **__: Any) -> list[Any]:
            return []

        def forget(self, _: Any) -> ForgetReport:
            return ForgetReport(passages=0)

    memory = KeptParts()
    with holdfast.open("memory:", memory=memory) as engine:
        record_two_users(engine)
        engine.memory.forget(user=forgotten)
        engine.memory.deliver()
    assert memory.users == ["bob" if forgotten == "ada" else "ada"]


def test_an_erased_identity_leaves_its_words_to_nobody(engine: Engine) -> None:
    session = start(engine)
    session.record("user", "Greetings.")
    session.refresh_identity(BOB)
    session.record("user", WORDS)
    session.reset("over")
    engine.memory.deliver()
    assert recall(engine, "bob") == [WORDS]
    session.erase([3], "the name of Bob")
    assert session.search("greetings") == ()  # it is indexed again
    session.end()
    engine.memory.deliver()
    assert recall(engine, "ada", f"{SECRET} greetings") == ["Greetings."]


def test_a_fork_that_passes_to_another_user_keeps_its_first_words(engine: Engine) -> None:
    session = start(engine)
    session.record("user", "Hello.")
    fork = session.fork(as_="fork")
    fork.record("user", WORDS)
    fork.refresh_identity(BOB)
    fork.record("user", "I am Bob.")
    fork.end()
    engine.memory.deliver()
    assert recall(engine, "ada") == [WORDS]
    assert recall(engine, "bob", f"{SECRET} bob") == ["I am Bob."]


def test_a_situation_belongs_to_the_user_of_its_time(engine: Engine) -> None:
    session = start(engine)
    session.record("user", "Hello.")
    session.situation.update({"progress": WORDS})
    session.reset("over")
    session.refresh_identity(BOB)
    session.record("user", "I am Bob.")
    assert len(session.search("bob")) == 1  # the index is beyond the end of the first conversation
    engine.memory.deliver()
    assert recall(engine, "bob") == []
    assert recall(engine, "ada")[0] == f"progress: {WORDS}"


def test_no_words_outlive_a_session_without_a_user(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "agent.db") as engine:
        session = engine.create_session("nobody")
        session.record("user", WORDS)
        assert len(session.search(SECRET)) == 1
        session.destroy("over")
        assert len(engine.memory.deliver().delivered) == 1
        files = [tmp_path / name for name in ("agent.db", "agent.db-wal")]
        assert not any(b"ylophoni" in file.read_bytes() for file in files if file.exists())


# Tenants and names


def test_a_tenant_cannot_forget_a_session_of_another_one(engine: Engine) -> None:
    other = engine.acting_as(tenant="other")
    session = start(other)
    session.record("user", WORDS)
    session.end()
    other.memory.deliver()
    with pytest.raises(SessionNotFound):
        engine.memory.forget(session=session.scope)
    assert recall(other, "ada") == [WORDS]


@pytest.mark.parametrize("wrong", ["s", 3, {}, ("default", "main", "s", None)])
def test_a_session_to_forget_is_a_scope(engine: Engine, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="session"):
        engine.memory.forget(session=wrong)


def test_passages_of_sessions_with_the_same_name_have_different_ids(engine: Engine) -> None:
    scopes = [("chat", "main", None), ("chat", "bot", None), ("a/b", "main", None), ("a", "main", "b")]
    scopes += [("a", "a", "b"), ("@bot", "main", "chat"), ("chat", "bot/chat", None), ("%2F", "main", None)]
    for name, actor, thread in scopes:
        session = start(engine, name, actor=actor, thread=thread)
        session.record("user", f"{WORDS} {actor} {thread}")
        session.end()
    engine.memory.deliver()
    ids = [each.id for each in engine.memory.recall(SECRET, user="ada").passages]
    assert len({*ids}) == len(ids) == len(scopes)
    assert "chat/m2" in ids


def test_a_long_name_of_a_speaker_hides_no_words(engine: Engine) -> None:
    session = start(engine)
    session.record("user", WORDS, metadata={"speaker": "Ada " * 10_000})
    session.end()
    engine.memory.deliver()
    assert recall(engine, "ada") == [WORDS]


# Erased words on their way from another store


@pytest.mark.parametrize("way", ["import", "copy"])
def test_erased_words_do_not_come_back_from_another_store(tmp_path: Path, way: str) -> None:
    engine = holdfast.open(tmp_path / "one.db")
    for name in ("here", "gone"):
        session = start(engine, name)
        session.record("user", WORDS)
        session.record("user", f"The {SECRET} plays.")
        session.end()
    engine.memory.deliver()
    engine.admin.export(tmp_path / "all.jsonl")
    with engine, holdfast.open(tmp_path / "other.db") as other:
        holdfast.copy(engine, other)
        for name in ("here", "gone"):
            other.session(name).erase([2], "asked for it")
        other.session("gone").destroy("over")
        other.memory.deliver()
        assert sorted(recall(other, "ada")) == [f"The {SECRET} plays."] * 2
        if way == "import":
            other.admin.import_(tmp_path / "all.jsonl")
        else:
            holdfast.copy(engine, other)
        assert sorted(recall(other, "ada")) == [f"The {SECRET} plays."] * 2
        assert other.admin.verify().ok


# What is withdrawn, shown or erased meanwhile


def recall_start(session: holdfast.Session) -> list[str]:
    session.record("user", "What about tomorrow?")
    return [line for line in str(session.pack(budget=3_000)).splitlines() if SECRET in line and line.startswith(">")]


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_a_fork_does_not_recall_what_it_shows_or_withdrew(engine: Engine, is_withdrawn: bool) -> None:
    session = start(engine)
    first = session.record("user", "Hello.")
    session.record("user", WORDS)
    fork = session.fork(as_="fork")
    if is_withdrawn:
        fork.withdraw(first)
    session.end()
    engine.memory.deliver()
    assert recall_start(fork) == []
    assert recall_start(start(engine, "other")) == [f"> ada: {WORDS}"]


def test_a_message_that_is_erased_while_it_is_read_teaches_nothing() -> None:
    class ErasingExtractor:
        name = "erasing"

        def extract(self, observation: Observation) -> tuple[Proposal, ...]:
            session.erase([2], "asked for it")
            return tuple(find_own_statements(observation))

    with holdfast.open("memory:", extractor=ErasingExtractor()) as engine:
        session = start(engine)
        session.record("user", "My name is Xylophonia.")
        session.end()
        assert engine.memory.deliver().facts == 0
        assert engine.memory.bootstrap(user="ada").facts == ()
