"""Branches of a conversation for users: compare, merge, the command line, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Identity, errors
from holdfast.model import limits
from tests.edges.cli import HOSTILE, CommandRunner


@pytest.fixture
def engine() -> Iterator[holdfast.Engine]:
    with holdfast.open("memory:") as engine:
        session = engine.session("order-1", user="ada", create=True)
        session.record("user", "Suggest a lamp.")
        session.facts.set("room", "hall")
        yield engine


def test_merged_facts_keep_their_terms_and_are_not_proposed_without_them(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    session.refresh_identity(Identity(user_id="ada", permissions=("money",)))
    branch = session.fork()
    secret = branch.facts.set("budget", 50, requires=["money"], ttl_s=3_600)
    branch.facts.set("room", "cellar", is_constraint=True)
    proposed = {each.proposal.key: each for each in branch.facts.merge(session)}
    assert {key: each.outcome for key, each in proposed.items()} == {"budget": "ignored", "room": "ignored"}
    assert proposed["budget"].proposal.value is None
    applied = {each.proposal.key: each.outcome for each in branch.facts.merge(session, apply=True)}
    assert applied == {"budget": "applied", "room": "applied"}
    budget, room = session.facts.get("budget"), session.facts.get("room")
    assert budget is not None
    assert room is not None
    assert (budget.requires, budget.expires_us, room.is_constraint) == (("money",), secret.expires_us, True)
    assert budget.source.name == budget.provenance[0] == f"{branch.id}:{secret.id}"


def test_a_fact_that_the_session_may_not_know_is_neither_compared_nor_merged(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    branch = session.fork()
    engine.ledger(branch.ledger().id).set("salary", 100, requires=["money"])
    assert session.diff(branch).facts == ()
    assert branch.facts.merge(session, apply=True) == ()


def test_a_fact_of_higher_authority_stays_when_another_is_merged(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    branch = session.fork()
    branch.facts.set("room", "cellar")
    engine.ledger(session.ledger().id).set("room", "attic", authority="policy")
    branch.facts.merge(session, apply=True)
    fact = session.facts.get("room")
    assert fact is not None
    assert fact.value == "attic"
    assert [claim.value for claim in session.ledger().why("room").claims] == ["cellar"]


def test_a_repeated_merge_has_one_effect(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    branch = session.fork()
    branch.facts.set("room", "cellar")
    first = branch.facts.merge(session, key="merge-1")
    assert branch.facts.merge(session, key="merge-1") == first
    assert len(session.facts.proposals()) == 1
    with pytest.raises(errors.KeyConflict):
        branch.facts.merge(session, apply=True, key="merge-1")


def test_a_change_that_waits_for_a_decision_is_not_proposed_again(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    branch = session.fork()
    branch.facts.set("room", "cellar")
    (first,) = branch.facts.merge(session)
    branch.facts.set("lamp", "brass")
    again = {each.proposal.key: each for each in branch.facts.merge(session)}
    assert {key: each.outcome for key, each in again.items()} == {"room": "ignored", "lamp": "asked"}
    assert again["room"].why == f"it is proposed already, as {first.id}"
    session.facts.decline(first.id)
    assert {each.proposal.key: each.outcome for each in branch.facts.merge(session)} == {
        "room": "asked",
        "lamp": "ignored",
    }


def test_a_fact_that_is_valid_in_the_branch_alone_is_not_merged(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    branch = session.fork(ephemeral=True)
    branch.facts.set("budget", 50, scope="hypothetical", scope_id=branch.id)
    branch.facts.set("budget", 60, scope="hypothetical", scope_id="if we win")
    assert [each.proposal.value for each in branch.facts.merge(session)] == [60]


def test_what_cannot_be_merged_is_refused(engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    session = engine.session("order-1")
    branch = session.fork()
    with pytest.raises(errors.InvalidArgument, match="itself"):
        branch.facts.merge(branch)
    with pytest.raises(errors.InvalidArgument, match="apply"):
        branch.facts.merge(session, apply=1)  # type: ignore[arg-type]
    branch.facts.set_all([{"key": f"k{number}", "value": number} for number in range(4)])
    monkeypatch.setattr(limits, "OPEN_PROPOSALS", 3)
    with pytest.raises(errors.TooLarge):
        branch.facts.merge(session)
    assert session.facts.proposals() == ()
    assert len(branch.facts.merge(session, apply=True)) == 4


def test_merged_proposals_stay_when_the_last_shared_message_is_withdrawn_or_erased(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    question = session.record("user", "And a chair.")
    branch = session.fork(question)
    branch.facts.set("color", "red")
    branch.facts.merge(session)
    session.withdraw()
    assert [each.proposal.key for each in session.facts.proposals()] == ["color"]
    session.erase([question.seq], "asked to")
    assert [each.proposal.key for each in session.facts.proposals()] == ["color"]


def test_sessions_without_a_common_origin_share_nothing(engine: holdfast.Engine) -> None:
    other = engine.session("other", create=True)
    other.record("user", "Something else.")
    diff = engine.session("order-1").diff(other)
    assert (diff.shared, [message.text for message in diff.ours]) == (0, ["Suggest a lamp."])
    assert [message.text for message in diff.theirs] == ["Something else."]


def test_a_long_difference_has_the_newest_messages(engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIFF_MESSAGES", 3)
    monkeypatch.setattr(limits, "READ_EVENTS", 2)
    session = engine.session("order-1")
    branch = session.fork()
    branch.record_all([("user", f"line {number}") for number in range(5)])
    diff = session.diff(branch)
    assert ([message.text for message in diff.theirs], diff.is_complete) == (["line 2", "line 3", "line 4"], False)


def test_forks_are_listed_parents_first_without_destroyed_ones(engine: holdfast.Engine) -> None:
    session = engine.session("order-1")
    first, gone = session.fork(as_="first"), session.fork(as_="gone")
    first.fork(as_="second")
    gone.destroy(offload=False)
    assert [(row.session, row.cut) for row in session.forks()] == [("first", 2), ("second", 3)]


def test_branches_can_be_awaited(tmp_path: Path) -> None:
    async def run() -> None:
        async with await holdfast.open_async(tmp_path / "agent.db") as engine:
            session = await engine.session("talk", user="ada", create=True)
            await session.record("user", "Suggest a lamp.")
            branch = await session.fork(as_="branch")
            what_if = await branch.fork(ephemeral=True)
            await what_if.facts.set("room", "cellar")
            assert [each.outcome for each in await what_if.facts.merge(session)] == ["asked"]
            assert [row.session for row in await session.forks()] == ["branch"]
            diff = await session.diff(what_if)
            assert [(each.key, each.theirs and each.theirs.value) for each in diff.facts] == [("room", "cellar")]

    asyncio.run(run())


# The command line


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine:
        session = engine.session("trip", user="ada", create=True)
        session.record("user", "Where to?")
        session.facts.set("city", HOSTILE)
        session.record("assistant", HOSTILE)
    return CommandRunner(path, capsys)


def test_the_command_line_forks_compares_and_merges(cli: CommandRunner) -> None:
    assert cli("fork", "trip", "--at", "2", "--as", "b").out == "b continues trip after event 2.\n"
    assert cli("facts", "assert", "city", "Porto", "--session", "b").code == 0
    assert cli("fork", "b", "--as", "c", "--json").document["origin"]["cut"] == 3
    listed = cli("forks", "trip")
    assert [line.split() for line in listed.out.splitlines()[1:]] == [
        ["b", "trip", "2", "2", "open"],
        ["c", "b", "3", "1", "open"],
    ]
    assert [(row["parent"], row["cut"]) for row in cli("forks", "trip", "--json").documents] == [("trip", 2), ("b", 3)]
    assert "\ncontinues trip after event 2\n" in cli("sessions", "show", "b").out
    compared = cli("compare", "trip", "b")
    assert "Both share the first 2 events.\n\nOnly in trip: 1 message" in compared.out
    assert "Only in b: 0 messages" in compared.out
    assert "\x1b" not in compared.out
    document = cli("compare", "trip", "b", "--json").document
    assert (document["shared"], len(document["ours"]), document["facts"][0]["key"]) == (2, 1, "city")
    merged = cli("merge", "b", "--into", "trip")
    assert "city  supersede" in merged.out
    assert "1 proposal, by merge\n" in cli("log", "trip").out
    proposal = cli("facts", "proposals", "trip", "--json").document["id"]
    assert cli("facts", "accept", "trip", proposal).code == 0
    assert cli("facts", "list", "--session", "trip", "--json").document["value"] == "Porto"
    assert cli("merge", "b", "--into", "trip", "--apply", "--json").documents == []


def test_the_command_line_says_what_it_refuses(cli: CommandRunner) -> None:
    assert cli("fork", "nowhere", "--json").error["type"] == "SessionNotFound"
    assert cli("fork", "trip", "--at", "99", "--json").error["type"] == "InvalidNumber"
    assert cli("fork", "trip", "--as", "trip", "--json").error["type"] == "SessionExists"
    assert cli("merge", "trip", "--into", "trip", "--json").error["type"] == "InvalidArgument"
    assert cli("forks", "trip").out == ""
