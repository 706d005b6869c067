"""The command line on facts: what holds, what it replaced, who disagrees, what needs a review, and who may see it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

import holdfast
from holdfast import Identity
from holdfast.cli import documents, output
from holdfast.cli import facts as facts_cli
from holdfast.cli.commands import root
from holdfast.cli.facts import facts
from holdfast.cli.options import SHARED_KINDS
from holdfast.cli.settings import Settings
from holdfast.model.events import EVENTS
from holdfast.types import Observation, Proposal
from tests.edges.cli import HOSTILE, CommandResult, CommandRunner
from tests.edges.test_cli_process import on_a_terminal
from tests.postgres import fresh_url
from tests.support import CountingIds, SteppingClock

ACME = ["--organization", "acme"]
ADA = ["--user", "ada"]
ODD = "the \u202ereversed\u202c key"
"""A name that every store takes, and that a terminal would turn around."""
SECRET = "pineapple"
"""What only finance may know."""

Facts = list[dict[str, Any]]


class Unsure:
    """A detector that sees something in everything, and is sure of nothing."""

    name = "unsure"

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        about = next(each for each in observation.facts if each.key == "seat")
        reason = f"a guess {output.escape(HOSTILE)[:9]}"
        seat = Proposal(
            change="supersede", rule="implicit", reason=reason, confidence=0.6, fact=about.fact, value="aisle"
        )
        gone = Proposal(change="retract", rule="explicit", reason="another", confidence=0.7, fact=about.fact)
        return (seat, gone)


def write_facts(path: Path | str) -> None:
    """One of everything that can happen to a fact, in several ledgers, and a session that may not know all of it."""
    clock, ids = SteppingClock(), CountingIds()
    with holdfast.open(path, principal="agent", clock=clock, ids=ids, detector=Unsure()) as engine:
        acme, ada = engine.ledger(organization="acme"), engine.ledger(user="ada")
        acme.set("budget", "3,000 euros", authority="manager", source="finance")
        acme.set("spent", 1_200, source="the bank", reason="as of today")
        acme.set("remaining", "1,800 euros", depends_on=["budget", "spent"])
        acme.set("budget", "2,500 euros", authority="manager", source="finance", reason=HOSTILE)
        acme.set("budget", "9,000 euros", source=ODD)
        acme.set("salary", f"{SECRET} a month", requires=["finance"])
        acme.set("tax", f"half of {SECRET}", depends_on="salary")
        acme.set("discount", "at most 15%", authority="policy", source=holdfast.types.FactSource(type="policy"))
        acme.set("offer", "Draft: 12 a seat", scope_id="q3")
        acme.set(ODD, HOSTILE)
        acme.set("price", 100, ttl_s=60)
        acme.set("wrong", 1)
        acme.retract("wrong", reason=HOSTILE)
        ada.set("seat", "window", ref="seat-1")
        ada.set("seat", "middle")
        ada.review.reinstate("seat-1")
        guest = Identity(user_name="Bo", authority="guest", permissions=("travel",))
        trip = engine.create_session("trip", actor="ada", identity=guest, ledgers=[ada.id, acme.id])
        trip.ledger().set("hotel", "Casa Flor")
        trip.working.set("step", 3)
        trip.environment.set("weather", "rain")
        trip.observe(HOSTILE)
        other = engine.acting_as(tenant="other")
        other.ledger(user="eve").set("their own", SECRET)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; who changes it takes a copy."""
    path = tmp_path_factory.mktemp("facts") / "agent.db"
    write_facts(path)
    return path


@pytest.fixture
def cli(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(Path(shutil.copy(written, tmp_path / "agent.db")), capsys)


def lines(ran: CommandResult) -> dict[str, str]:
    """The lines of a table of facts by the facts' ids."""
    assert (ran.code, ran.err) == (0, "")
    assert output.escape(ran.out.replace("\n", "")) == ran.out.replace("\n", "")
    return {match[1]: line for line in ran.out.splitlines() if (match := re.search(r"\b(k\d+) ", line))}


# Ledgers


def test_ledgers_are_listed_with_what_was_asserted_in_them(cli: CommandRunner) -> None:
    rows = [line.split() for line in cli("facts", "ledgers").out.splitlines()]
    assert rows[0] == ["LEDGER", "NAME", "ASSERTED", "EVENTS", "UPDATED"]
    assert [row[:3] for row in rows[1:]] == [
        ["organization", "acme", "12"],
        ["session", "ada", "/"],
        ["user", "ada", "2"],
    ]
    listed = cli("facts", "ledgers", "--json").documents
    assert [(row["ledger"], row["names"], row["facts"]) for row in listed] == [
        ("organization", ["acme"], 12),
        ("session", ["ada", "trip"], 1),
        ("user", ["ada"], 2),
    ]
    assert len(cli("facts", "ledgers", "--kind", "user", "--json").documents) == 1
    assert [row["ledger"] for row in cli("facts", "ledgers", "--actor", "ada", "--json").documents] == ["session"]
    ran = cli("facts", "ledgers", "-n", "1")
    assert len(ran.out.splitlines()) == 2
    assert "--limit 0" in ran.err
    assert cli("facts", "ledgers", "--tenant", "nobody").out == "No ledgers in the tenant 'nobody'.\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "Name a ledger. There are: --organization 'acme'; --session 'trip' --actor 'ada'; --user 'ada'"),
        (["--tenant", "nobody"], "There is no ledger in the tenant 'nobody' yet."),
        (["--user", "ada", "--project", "x"], "Name one ledger: --user or --project."),
        (["--thread", "x"], "--thread needs --session."),
        ([*ADA, "--within", "moon:1"], "'moon' is not one of global, project, task"),
        ([*ADA, "--status", "undead"], "'undead' is not one of 'live', 'dead'"),
    ],
)
def test_a_ledger_that_is_not_named_is_asked_for(cli: CommandRunner, args: list[str], told: str) -> None:
    ran = cli("facts", "list", *args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_an_empty_ledger_says_so_and_an_unknown_one_where_to_look(cli: CommandRunner) -> None:
    assert cli("facts", "review", *ADA).out == "No facts that need a review in the ledger user ada.\n"
    ran = cli("facts", "list", "--user", "adda")
    assert ran.out.startswith("No facts in the ledger user adda. There are: --organization 'acme'")
    assert cli("facts", "list", "--user", "adda", "--json").out == ""
    assert cli("facts", "history", "no such key", *ADA, "--json").out == ""
    for command in ("history", "why"):
        ran = cli("facts", command, "no such key", *ADA)
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("Error: There is no fact 'no such key' in the ledger user ada.")


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_the_names_of_ledgers_complete(cli: CommandRunner, kind: str) -> None:
    command = facts.commands["list"]
    (option,) = (each for each in command.params if each.name == kind)
    context = root.make_context("holdfast", ["-f", str(cli.path), "stats"], obj=Settings())
    found = [item.value for item in option.shell_complete(context, "a")]
    assert found == {"user": ["ada"], "organization": ["acme"]}.get(kind, [])
    assert option.shell_complete(context, "zzz") == []


# What holds


def test_what_holds_is_listed_with_claims_reviews_constraints_and_scopes_marked(cli: CommandRunner) -> None:
    found = lines(cli("facts", "list", *ACME))
    assert re.search(r"^k4 +current +budget +2,500 euros +manager +finance", found["k4"])
    assert re.search(r"^k3 +review +remaining +1,800 euros .* k1 has ended; from k1, k2$", found["k3"])
    assert re.search(r"^k2 +current +spent +1200 +peer +the bank .* as of today$", found["k2"])
    assert re.search(r"^k7 +claim +budget +9,000 euros +peer .* against k4$", found["k7"])
    assert re.search(r"constraint \(budget\)$", found["k10"])
    assert output.shorten(HOSTILE, 80) in found["k12"]
    assert found["k8"].endswith("for finance")
    assert "k1" not in found
    assert "k11" not in found, "a draft is for who asks for it"
    assert "k13" not in found, "it has run out, though nobody swept"
    assert re.search(r"^k13 +expired ", lines(cli("facts", "history", "price", *ACME))["k13"])
    for scopes in (["draft:q3"], ["task:x", "--within", "any"]):
        assert " draft q3 " in lines(cli("facts", "list", *ACME, "--within", *scopes))["k11"]
    dead = lines(cli("facts", "list", *ACME, "--status", "dead"))
    assert re.search(rf"superseded .* by k4 \(implicit\): {re.escape(output.shorten(HOSTILE, 40))[:30]}", dead["k1"])
    assert set(dead) == {"k1", "k14"}


def test_one_kind_of_memory_is_listed(cli: CommandRunner) -> None:
    assert set(lines(cli("facts", "list", *ACME, "--memory-type", "organizational"))) == {"k4", "k10"}
    assert "k10" not in lines(cli("facts", "list", *ACME, "--memory-type", "user"))
    assert cli("facts", "list", *ACME, "--memory-type", "capability").out.startswith(
        "No capability facts in the ledger"
    )
    assert cli("facts", "list", *ACME, "--memory-type", "episodic").code == 2


def test_a_short_list_says_that_there_is_more(cli: CommandRunner) -> None:
    ran = cli("facts", "list", *ACME, "-n", "2")
    assert len(ran.out.splitlines()) == 3
    assert "the first 2" in ran.err
    assert len(cli("facts", "list", *ACME, "-n", "0", "--json").documents) == 8


def test_a_list_on_a_terminal_fits_and_is_coloured(cli: CommandRunner) -> None:
    shown, code = on_a_terminal("-f", cli.path, "facts", "history", "budget", *ACME)
    assert code == 0
    assert "\x1b[32m" in shown
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert all(len(line) <= 100 for line in plain.splitlines())
    assert "superseded" in plain


def test_json_has_all_that_the_library_tells(cli: CommandRunner) -> None:
    with holdfast.open(cli.path) as engine:
        acme = engine.ledger(organization="acme")
        listed = [documents.fact(acme.id, fact) for fact in acme.items()]
        dead = [documents.fact(acme.id, fact) for fact in acme.items(status="dead")]
        told = documents.explanation(acme.id, acme.why("budget"))
        hits = [{**documents.fact(acme.id, known.fact), "score": known.score} for known in acme.search("the budget")]
        old = [documents.fact(acme.id, fact) for fact in acme.history("budget")]
        waiting = [documents.fact(acme.id, fact) for fact in acme.review.list()]
    assert cli("facts", "list", *ACME, "--json").documents == json.loads(json.dumps(listed))
    assert cli("facts", "list", *ACME, "--json", "--status", "dead").documents == json.loads(json.dumps(dead))
    assert cli("facts", "why", "budget", *ACME, "--json").document == json.loads(json.dumps(told))
    assert cli("facts", "search", "the budget", *ACME, "--json").documents == json.loads(json.dumps(hits))
    assert cli("facts", "history", "budget", *ACME, "--json").documents == json.loads(json.dumps(old))
    assert cli("facts", "review", *ACME, "--json").documents == json.loads(json.dumps(waiting))
    assert {"ledger", "names", "value", "claim", "is_valid", "needs_review", "ended", "rule", "at"} <= set(listed[0])


def test_why_tells_what_came_before_who_disagrees_and_what_rests_on_it(cli: CommandRunner) -> None:
    ran = cli("facts", "why", "budget", *ACME)
    assert ran.out.startswith("budget = 2,500 euros\n  k4  current  manager, ")
    groups = re.split(r"^(\S[^\n]*):\n", ran.out, flags=re.MULTILINE)
    told = dict(zip(groups[1::2], groups[2::2], strict=True))
    assert list(told) == ["It superseded", "Claims against it", "History"]
    assert told["It superseded"].startswith("  k1  3,000 euros  superseded  manager")
    assert told["Claims against it"].startswith("  k7  9,000 euros  claim  peer")
    assert "k7  claimed by the \\u202ereversed\\u202c key, against k4 (peer)" in told["History"]
    remaining = cli("facts", "why", "remaining", *ACME).out
    assert "It was derived from:\n  k1  budget = 3,000 euros  superseded" in remaining
    assert "Derived from it:\n  k9  tax = half of pineapple" in cli("facts", "why", "salary", *ACME).out
    assert cli("facts", "why", "wrong", *ACME).out.startswith("wrong has no value now.\n")
    assert cli("facts", "why", "offer", *ACME).out.startswith("offer has no value now.\n")
    assert cli("facts", "why", "offer", *ACME, "--scope", "draft", "--scope-id", "q3").out.startswith(
        "offer = Draft: 12"
    )


def test_a_search_goes_through_one_ledger_or_all_that_a_session_reads(cli: CommandRunner) -> None:
    assert set(lines(cli("facts", "search", "budget", *ACME))) == {"k4", "k7"}
    ran = cli("facts", "search", "budget seat hotel", "--session", "trip")
    found = {line.split()[3]: line for line in ran.out.splitlines()[1:]}
    assert "session ada/trip" in found["hotel"]
    assert "user ada" in found["seat"]
    assert "organization acme" in found["budget"]
    assert cli("facts", "search", "zebra", *ADA).out == "No fact in the ledger user ada matches.\n"
    assert (
        cli("facts", "search", "zebra", "--session", "trip").out
        == "No fact in the ledgers of the session 'trip' matches.\n"
    )


# What was


def test_the_tree_shows_the_chain_with_its_rule_and_reason_the_claim_and_what_depends_on_it(cli: CommandRunner) -> None:
    ran = cli("facts", "history", "budget", *ACME)
    _, top, claim, old, derived = ran.out.splitlines()
    assert re.match(r"k4 +current +budget +2,500 euros", top)
    assert re.match(r"├─ k7 +claim +budget +9,000 euros .* against k4$", claim)
    assert re.match(r"└─ k1 +superseded +budget +3,000 euros .* by k4 \(implicit\): red \\x1b\[31malert", old)
    assert re.match(r"   └─ k3 +review +remaining +1,800 euros .* k1 has ended; from k1, k2$", derived)
    assert list(lines(cli("facts", "history", "budget", *ACME, "-n", "1"))) == ["k7"]


# Changing something


def test_an_assertion_supersedes_or_is_a_claim_and_what_rests_on_it_is_marked_until_it_is_confirmed(
    cli: CommandRunner,
) -> None:
    made = lines(
        cli("facts", "assert", "spent", "1300", "--as-json", *ACME, "--source", "the bank", "--reason", "a refund")
    )
    (new,) = made
    assert re.match(rf"{new} +current +spent +1300 +peer +the bank", made[new])
    assert cli("facts", "why", "spent", *ACME, "--json").document["current"]["value"] == 1300
    (waiting,) = cli("facts", "review", *ACME, "--json").documents
    assert waiting["key"] == "remaining"
    assert "current" in lines(cli("facts", "confirm", "remaining", *ACME, "--principal", "boss"))["k3"]
    assert cli("facts", "review", *ACME, "--json").documents == []
    event = cli("log", *ACME, "--type", "fact.confirmed", "--json").document
    assert (event["principal"], event["payload"]["by"]) == ("boss", "boss")
    claim = cli("facts", "assert", "budget", "1", *ACME, "--json").document
    assert (claim["value"], claim["claim"], claim["against"]) == ("1", True, "k4")
    assert cli("facts", "assert", "budget", "1", *ACME, "--authority", "executive", "--json").document["claim"] is False


def test_an_assertion_takes_its_links_its_scope_its_permissions_and_its_time(cli: CommandRunner) -> None:
    options = ["--depends-on", "spent", "--depends-on", "k4", "--supersedes", "remaining", "--requires", "finance"]
    fact = cli("facts", "assert", "left", "1,300 euros", *ACME, *options, "--json").document
    assert fact["depends_on"] == ["k2", "k4"]
    assert fact["supersedes"] == ["k3"]
    assert fact["requires"] == ["finance"]
    fact = cli(
        "facts", "assert", "step", "3", *ACME, "--scope", "task", "--scope-id", "t1", "--ttl", "60", "--json"
    ).document
    assert (fact["scope"], fact["scope_id"]) == ("task", "t1")
    assert fact["expires_us"] - fact["at_us"] == 60_000_000


def test_what_is_retracted_takes_along_what_was_derived_from_it(cli: CommandRunner) -> None:
    ran = cli("facts", "retract", "salary", *ACME, "--reason", "not ours to know")
    assert ran.out.splitlines()[-1] == "2 facts retracted."
    assert all("not ours to know" in line for line in lines(ran).values())
    assert set(lines(ran)) == {"k8", "k9"}
    dead = cli("facts", "retract", "spent", *ACME, "--json").document["retracted"]
    assert [(each["id"], each["status"]) for each in dead] == [("k2", "retracted"), ("k3", "retracted")]
    assert cli("facts", "retract", "spent", *ACME, "--json").code == 0, "once more is the same"


def test_through_a_session_one_writes_with_the_authority_of_who_speaks_in_it(cli: CommandRunner) -> None:
    through = ["--session", "trip", *ACME]
    assert cli("facts", "assert", "spent", "0", *through, "--json").document["against"] == "k2"
    assert (
        cli("facts", "assert", "spent", "0", *through, "--authority", "policy", "--json").error["type"]
        == "AuthorityExceeded"
    )
    assert cli("facts", "retract", "spent", *through, "--json").document["retracted"] == []
    assert cli("facts", "retract", "spent", *through).out.startswith(
        "Nothing was retracted: the fact has a higher authority"
    )
    assert "disputed by Bo, not confirmed" in cli("facts", "list", *ACME).out
    own = cli("facts", "assert", "hotel", "Lux", "--session", "trip", "--json").document
    assert (own["ledger"], own["names"], own["source"]["identity"]) == ("session", ["ada", "trip"], "Bo")
    assert cli("facts", "list", "--session", "trip", "--project", "x", "--json").error["type"] == "InvalidLedger"


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["assert", "a", "{", "--as-json"], 2, "VALUE is not JSON"),
        (["assert", "a", "[" * 100_000, "--as-json"], 2, "VALUE is not JSON"),
        (["assert", "a", "NaN", "--as-json"], 3, ""),
        (["assert", "a", "b", "--policy", "{bad}"], 2, "is not a policy"),
        (["assert", "a", "b", "--policy", "{absent}"], 2, "does not exist"),
        (["assert", "", "b"], 3, "it is empty"),
        (["assert", "a\x1b[31m", "b"], 3, "control character"),
        (["assert", "a", "b", "--depends-on", "nothing"], 3, "There is no fact 'nothing'"),
        (["retract", "nothing"], 3, "There is no fact 'nothing'"),
        (["retract", "k1"], 3, "is superseded, so it cannot be retracted"),
        (["confirm", "wrong"], 3, "is retracted, so it cannot be confirmed"),
        (["search", "\ud800"], 3, ""),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_changes_nothing(
    cli: CommandRunner, tmp_path: Path, command: list[str], code: int, told: str
) -> None:
    (tmp_path / "bad.json").write_text('{"ladder": 3}')
    names = {"{bad}": str(tmp_path / "bad.json"), "{absent}": str(tmp_path / "absent.json")}
    before = cli("log", "-n", "0", "--json").out
    ran = cli("facts", *(names.get(each, each) for each in command), *ACME)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert output.escape(ran.err.replace("\n", "")) == ran.err.replace("\n", "")
    assert cli("log", "-n", "0", "--json").out == before


def test_a_store_with_a_ladder_of_its_own_is_written_to_by_its_own_rules(cli: CommandRunner, tmp_path: Path) -> None:
    ladder = holdfast.types.AuthorityLadder(rungs=("queen", "bee"), aliases={}, titles={})
    policy = holdfast.Policy(ladder=ladder, channel="bee", speakers={"assistant": "bee"}, source_types={})
    with holdfast.open(cli.path, policy=policy) as engine:
        engine.ledger(project="hive").set("flower", "rose", authority="queen")
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(documents.to_plain(policy)))
    command = ["facts", "assert", "flower", "lily", "--project", "hive", "--json"]
    assert cli(*command, "--policy", file).document["claim"] is True
    assert cli(*command[:-1], "--authority", "queen", "--policy", file, "--json").document["claim"] is False


# Who may see it


def test_whoever_may_not_know_of_a_fact_finds_no_trace_of_it(cli: CommandRunner) -> None:
    through = ["--session", "trip", *ACME]
    told = ""
    for command in (
        ["list"],
        ["list", "--status", "dead"],
        ["review"],
        ["search", f"{SECRET} salary tax"],
        ["history", "budget"],
        ["why", "spent"],
    ):
        for form in ([], ["--json"]):
            ran = cli("facts", *command, *through, *form)
            assert ran.code == 0
            told += ran.out + ran.err
    for command in (["history", "salary"], ["why", "tax"], ["retract", "k8"], ["confirm", "tax"]):
        ran = cli("facts", *command, *through)
        assert (ran.code, ran.out) == (3, "")
        told += ran.err.replace(command[1], "")
    told += cli("facts", "assert", "x", "y", "--depends-on", "k8", *through).err.replace("k8", "")
    assert not re.search(rf"{SECRET}|salary|tax\b|k8\b|k9\b", told.replace(f"{SECRET} salary tax", ""))
    assert SECRET in cli("facts", "list", *ACME).out, "there is something to hide"


# What waits for someone's word


def test_what_was_proposed_is_listed_and_decided_on(cli: CommandRunner) -> None:
    ran = cli("facts", "proposals", "trip")
    assert (ran.code, ran.err) == (0, "")
    header, first, second = ran.out.splitlines()
    assert header.split() == ["PROPOSAL", "CHANGE", "KEY", "VALUE", "FACT", "SURE", "LEDGER", "REASON"]
    assert re.match(r"p\d+\.0 +supersede +seat +aisle +k1 +60% +user ada +a guess", first)
    assert re.match(r"p\d+\.1 +retract +seat +k1 +70% +user ada +another", second)
    names = [each["id"] for each in cli("facts", "proposals", "trip", "--json").documents]
    assert "2 proposals to decide on" in cli("sessions", "show", "trip").out
    assert cli("facts", "decline", "trip", names[1]).out == f"{names[1]} declined.\n"
    assert cli("facts", "accept", "trip", names[0]).out == f"{names[0]} accepted.\n"
    told = cli("facts", "why", "seat", *ADA, "--json").document
    assert told["current"]["value"] == "window", "a guest does not outrank who said so"
    assert [claim["value"] for claim in told["claims"]] == ["aisle"]
    ran = cli("facts", "decline", "trip", names[1], "--json")
    assert (ran.code, ran.error["type"]) == (3, "ProposalNotFound")


def test_what_is_accepted_is_done(cli: CommandRunner) -> None:
    with holdfast.open(cli.path, detector=Unsure()) as engine:
        ada = engine.ledger(user="ada")
        session = engine.create_session("mine", actor="eve", ledgers=[ada.id])
        session.observe("hm")
    first, second = (each["id"] for each in cli("facts", "proposals", "mine", "--json").documents)
    assert cli("facts", "accept", "mine", first, "--json").document == {"proposal": first, "decision": "accepted"}
    assert cli("facts", "why", "seat", *ADA, "--json").document["current"]["value"] == "aisle"
    assert cli("facts", "decline", "mine", second).code == 0
    assert cli("facts", "proposals", "mine").out == "No proposal waits for a decision in the session 'mine'.\n"
    log = cli("log", "mine", "--type", "proposal.decided").out
    assert f"{first} accepted" in log
    assert f"{second} declined" in log


# The other commands


def happen(path: Path) -> None:
    """What else can happen to facts."""
    with holdfast.open(path, principal="agent", detector=Unsure()) as engine:
        acme = engine.ledger(organization="acme")
        acme.review.endorse("spent", "executive", reason="seen")
        acme.review.promote("offer", reason="sent")
        acme.review.confirm("remaining")
        guest = holdfast.Identity(user_id="g1", authority="guest")
        engine.ledger(organization="acme", identity=guest).retract("spent", reason="too much")
        engine.admin.sweep()
        trip = engine.session("trip", actor="ada")
        trip.facts.decline(trip.facts.proposals()[0].id)
        trip.working.clear()
        trip.environment.clear()
        trip.facts.set("seat", "12A", provenance=trip.record("user", "I sit in 12A.").id)
        withdrawal = trip.withdraw()
        assert withdrawal is not None
        trip.restore(withdrawal)


@pytest.mark.parametrize(
    "kind", [name for name in EVENTS if name.startswith(("fact", "proposal", "working", "environment"))]
)
def test_the_log_tells_every_event_of_facts_and_layers_in_words_and_no_raw_json(cli: CommandRunner, kind: str) -> None:
    happen(cli.path)
    found = cli("log", "--type", kind, "-n", "0").out.splitlines()
    assert found, "the history has none of these"
    for line in found:
        told = line.split(kind, 1)[1]
        assert "{" not in told
        assert re.search(r"\b(k|p)[1-9]|step|weather|1 proposal|2 proposals", told)


def test_the_log_of_a_ledger_is_shown_alone_and_an_actor_is_no_kind_of_ledger(cli: CommandRunner) -> None:
    log = cli("log", *ACME, "-n", "0").out
    assert "fact.asserted         k1, budget: 3,000 euros\n" in log
    assert "k7, a claim against k4, budget: 9,000 euros" in log
    assert "k1, by k4, implicit: red \\x1b[31malert" in log
    assert "fact.marked           k3, since k1 has ended" in log
    seqs = [event["seq"] for event in cli("log", *ACME, "-n", "3", "--json").documents]
    everything = [event["seq"] for event in cli("log", *ACME, "-n", "0", "--json").documents]
    assert everything == [*range(1, len(everything) + 1)]
    assert seqs == everything[-3:]
    assert [event["seq"] for event in cli("log", *ACME, "--after", "2", "-n", "2", "--json").documents] == [3, 4]
    own = cli("log", "trip", "--facts", "--json").document
    assert own["stream"]["key"] == ["session", "ada", "trip"]
    assert "default/ledger/user/ada  k1, seat: window" in cli("log", "-n", "0").out
    of_ada = cli("log", "--actor", "ada", "-n", "0", "--json").documents
    assert {tuple(event["stream"]["key"]) for event in of_ada} == {("ada", "trip"), ("session", "ada", "trip")}
    assert cli("log", "--actor", "user", "-n", "0").out == ""
    assert cli("log", "--user", "nobody").out == ""
    for args in (["--facts"], ["trip", *ACME], ["--user", "a", "--project", "b"]):
        assert cli("log", *args).code == 2


def test_stats_count_ledgers_and_facts(cli: CommandRunner) -> None:
    found = cli("stats", "--json").document
    assert found["ledgers"] == {"user": 1, "project": 0, "organization": 1, "session": 1}
    assert found["facts"] == 15
    assert cli("stats", "--json", "--actor", "ada").document["facts"] == 1
    shown = cli("stats").out
    assert re.search(r"ledgers +3  1 organization, 1 session, 1 user\n", shown)
    assert re.search(r"facts +15  asserted in all\n", shown)


def test_the_doctor_sees_facts_that_ran_out_and_those_in_need_of_a_review(cli: CommandRunner) -> None:
    def verdicts() -> dict[str, tuple[str, str]]:
        checks = cli("doctor", "--json").document["checks"]
        return {check["name"]: (check["verdict"], check["found"]) for check in checks}

    found = verdicts()
    assert found["contents"][0] == "ok"
    assert found["facts"] == ("warn", "1 fact expired since the last sweep in 1 ledger: organization acme")
    assert found["reviews"] == ("warn", "1 fact to review in 1 ledger: organization acme")
    assert cli("sweep").out.endswith("1 fact expired.\n")
    assert cli("sweep", "--json").document["facts"] == 0
    assert cli("facts", "confirm", "remaining", *ACME).code == 0
    found = verdicts()
    assert found["facts"][0] == found["reviews"][0] == "ok"


def test_a_session_is_shown_with_who_speaks_and_what_it_reads(cli: CommandRunner) -> None:
    shown = cli("sessions", "show", "trip").out
    assert "identity Bo, with the authority of guest; may travel\n" in shown
    assert "reads the ledgers of this session and of user ada, organization acme\n" in shown
    state = cli("sessions", "show", "trip", "--json").document["session"]
    assert state["identity"]["user_name"] == "Bo"
    assert state["ledgers"] == [["user", "ada"], ["organization", "acme"]]
    assert state["working"]["step"]["value"] == 3
    assert state["environment"]["weather"]["value"] == "rain"
    assert len(state["proposals"]) == 2


def test_every_command_about_facts_says_what_it_is_for() -> None:
    for name, command in facts.commands.items():
        assert command.help, name
        assert all(each.help for each in command.params if each.param_type_name == "option"), name
        assert facts_cli.facts.get_command(cast("Any", None), name) is command


# On a server as on a file

ALIKE = [
    ["facts", "ledgers", "--json"],
    ["facts", "list", *ACME],
    ["facts", "list", *ACME, "--within", "draft:q3", "--json"],
    ["facts", "list", "--session", "trip", *ACME],
    ["facts", "history", "budget", *ACME],
    ["facts", "why", "budget", *ACME],
    ["facts", "search", "hotel", "--session", "trip"],
    ["facts", "proposals", "trip"],
    ["facts", "assert", "budget", "7", *ACME, "--authority", "manager"],
    ["facts", "review", *ACME],
    ["facts", "confirm", "remaining", *ACME, "--json"],
    ["facts", "retract", "budget", *ACME],
    ["sweep"],
    ["log", *ACME, "-n", "0"],
    ["verify"],
]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def test_the_commands_answer_on_a_server_as_on_a_file(cli: CommandRunner) -> None:
    url = fresh_url()
    write_facts(url)
    for command in ALIKE:
        here, there = (Answer(*steady(cli._replace(path=cast("Path", path))(*command))) for path in (cli.path, url))
        assert here == there
        assert here.code == 0
        assert here.out


def steady(ran: CommandResult) -> tuple[int, str, str]:
    """Without what depends on the moment at which it was said."""
    out = re.sub(r"just now|\d+ (ms|s|min) ago|\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d(\.\d+Z)?", "0", ran.out)
    out = re.sub(r'(?<=_us": )\d+|\b[0-9a-f]{12,64}\b', "0", out)
    return ran.code, re.sub(r" {2,}", "  ", out), ran.err
