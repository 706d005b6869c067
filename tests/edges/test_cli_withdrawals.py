"""`holdfast withdraw` and `restore`: what they print is what the library did."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import Policy, codec
from tests.edges.cli import HOSTILE, CommandRunner


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    path = tmp_path / "agent.db"
    with holdfast.open(path) as engine:
        session = engine.session("trip", user="ada", create=True)
        session.record("user", "Where is the lamp?")
        session.record("assistant", "", tool_calls=[{"name": "look", "args": {}, "id": "a"}])
        session.result("a", HOSTILE)
        said = session.record("user", HOSTILE)
        session.facts.set("color", "green", provenance=said.id)
        frame = session.frame("find it", budget=100)
        frame.record("user", "in the frame")
    return CommandRunner(path, capsys)


def shown(cli: CommandRunner, frame: str | None = None) -> list[int]:
    with holdfast.open(cli.path) as engine:
        session = engine.session("trip", user="ada")
        view = (session if frame is None else session.frames.get(frame)).context.view()
        return [message.seq for message in view.messages]


def test_the_newest_message_is_withdrawn_and_restored(cli: CommandRunner) -> None:
    ran = cli("withdraw", "trip", "--reason", "asked to", "--principal", "support")
    assert ran.code == 0
    assert "1 message withdrawn at event 8.\nStated only by them: k1 of the ledger session" in ran.out
    assert "\x1b" not in ran.out
    assert ran.err == "holdfast restore trip 8  undoes it.\n"
    assert shown(cli) == [2, 3, 4]
    assert cli("facts", "review", "--session", "trip", "--json").document["key"] == "color"
    assert "[withdrawn at event 8]" in cli("sessions", "show", "trip").out
    event = cli("log", "trip", "--type", "messages.withdrawn", "--json").document
    assert (event["seq"], event["principal"], event["payload"]["reason"]) == (8, "support", "asked to")
    ran = cli("restore", "trip", "8")
    assert "1 message restored at event 9.\nAs before: k1 of the ledger session" in ran.out
    assert shown(cli) == [2, 3, 4, 5]
    assert cli("facts", "review", "--session", "trip", "--json").documents == []


def test_json_has_all_that_the_library_returns(cli: CommandRunner) -> None:
    withdrawal = cli("withdraw", "trip", "--after", "3", "--json").document
    scope = [withdrawal[name] for name in ("session", "frame", "seq", "grown")]
    assert scope == ["trip", None, 8, True]
    assert [(each["seq"], each["withdrawn"]) for each in withdrawal["messages"]] == [(3, 8), (4, 8), (5, 8)]
    assert [each["facts"] for each in withdrawal["facts"]] == [["k1"]]
    assert "a call and its results are withdrawn together" not in cli("withdraw", "trip", "--after", "1").out
    restoration = cli("restore", "trip", "8", "--json").document
    assert (restoration["seq"], restoration["withdrawal"]) == (10, 8)
    assert [each["seq"] for each in restoration["messages"]] == [3, 4, 5]


def test_more_than_was_named_is_explained(cli: CommandRunner) -> None:
    ran = cli("withdraw", "trip", "--after", "3")
    assert "3 messages withdrawn" in ran.out
    assert "more than --after names: a call and its results are withdrawn together" in ran.out


def test_a_frame_has_its_own_conversation(cli: CommandRunner) -> None:
    ran = cli("withdraw", "trip", "--frame", "top")
    assert ran.err == "holdfast restore trip 8 --frame f6  undoes it.\n"
    assert (shown(cli), shown(cli, "f6")) == ([2, 3, 4, 5], [])
    refused = cli("restore", "trip", "8", "--json")
    assert (refused.code, refused.error["type"]) == (3, "RestoreRefused")
    assert cli("restore", "trip", "8", "--frame", "f6").code == 0
    assert shown(cli, "f6") == [7]


def test_nothing_to_withdraw_changes_nothing(cli: CommandRunner) -> None:
    assert cli("withdraw", "trip", "--after", "99").out == "There is no message to withdraw. Nothing was changed.\n"
    document = cli("withdraw", "trip", "--after", "99", "--json").document
    assert (document["session"], document["seq"], document["messages"]) == ("trip", None, [])
    assert cli("log", "trip", "--type", "messages.withdrawn", "--json").documents == []


def test_a_policy_retracts_the_facts(cli: CommandRunner, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_bytes(codec.encode(Policy(withdrawal="retract")))
    cli("withdraw", "trip", "--policy", str(policy))
    assert cli("facts", "list", "--session", "trip", "--json").documents == []
    cli("restore", "trip", "8", "--policy", str(policy))
    assert [each["key"] for each in cli("facts", "list", "--session", "trip", "--json").documents] == ["color"]
