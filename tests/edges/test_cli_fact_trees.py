"""The history of a key on the command line: a tree with every fact once, whatever happened to it."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast
from tests.edges.cli import CommandResult
from tests.edges.test_cli_facts import ADA, lines
from tests.edges.test_cli_frames import said
from tests.support import SHARED_MEMORY, figure

KEYS, VALUES, RUNGS = ["a", "b"], [1, 2, 3], ["tool", "peer", "manager"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assert", "assert", "assert", "derive", "retract", "reinstate", "supersede", "promote"]),
        st.integers(0, 8),
        st.sampled_from(KEYS),
        st.sampled_from(VALUES),
        st.sampled_from(RUNGS),
    ),
    max_size=14,
)


def live_through(ledger: holdfast.Ledger, steps: list[tuple[str, int, str, int, str]]) -> None:
    made: list[holdfast.Fact] = []
    for step, which, key, value, authority in steps:
        some = made[which % len(made)] if made else None
        try:
            if step == "assert" or some is None:
                made.append(ledger.set(key, value, authority=authority))
            elif step == "derive":
                made.append(ledger.set(f"from {key}", value, depends_on=some.id))
            elif step == "supersede":
                name = key if which % 2 else f"new {key}"
                made.append(ledger.set(name, value, supersedes=some.id, authority=authority))
            elif step == "promote":
                draft = ledger.set(key, value, scope="draft", authority=authority)
                made.append(ledger.review.promote(draft.id) if which % 2 else draft)
            else:
                (ledger.retract if step == "retract" else ledger.review.reinstate)(some.id)
        except holdfast.errors.Conflict:  # it is dead, or someone else has the say
            pass


@settings(max_examples=figure(10, 400), deadline=None)
@given(STEPS)
@example(
    [
        ("assert", 0, "a", 1, "tool"),
        ("derive", 0, "a", 1, "peer"),
        ("assert", 0, "a", 2, "peer"),
        ("assert", 0, "a", 3, "tool"),
    ]
)
@example([("assert", 0, "a", 1, "peer"), ("supersede", 0, "a", 2, "peer"), ("assert", 0, "a", 3, "peer")])
@example([("assert", 0, "a", 1, "peer"), ("derive", 0, "a", 1, "peer"), ("supersede", 1, "a", 3, "peer")])
@example([("assert", 0, "a", 1, "peer"), ("assert", 0, "a", 2, "peer"), ("reinstate", 0, "a", 1, "peer")])
def test_the_history_of_a_key_is_a_tree_with_every_fact_once_below_what_took_its_place(
    steps: list[tuple[str, int, str, int, str]],
) -> None:
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        path = Path(folder, "agent.db")
        with holdfast.open(path) as engine:
            ledger = engine.ledger(user="ada")
            live_through(ledger, steps)
            everything = {each.id: each for key in ("live", "dead") for each in ledger.items(status=cast("Any", key))}
            histories = {key: {each.id: each for each in ledger.history(key)} for key in KEYS}
            current = {key: ledger.get(key) for key in KEYS}
        shown = lines(said(path, "facts", "list", *ADA)) if everything else {}
        for key, history in histories.items():
            if history:
                check_tree(said(path, "facts", "history", key, *ADA), history)
            holds = [each for each, line in shown.items() if line.split()[1] in ("current", "review")]
            there = current[key]
            assert there is None or there.id in holds
            assert [each for each in holds if everything[each].key == key] == (
                [there.id] if there is not None and there.key == key else []
            )


def check_tree(ran: CommandResult, history: dict[str, holdfast.Fact]) -> None:
    drawn = [re.match(r"([|` -]*)(k\d+) +(\w+) ", line) for line in ran.out.splitlines()[1:]]
    seen: list[str] = []
    path: list[str] = []
    for match in drawn:
        assert match is not None
        depth, each, what = len(match[1]) // 3, match[2], match[3]
        above = path[depth - 1] if depth else None
        path[depth:] = [each]
        if each in history:
            fact = history[each]
            seen.append(each)
            linked = [one for one in (fact.superseded_by, fact.against) if one in history]
            assert above == (linked[0] if linked else None)
            assert (what in ("current", "claim", "review")) == fact.is_valid
            assert (what == "claim") == (fact.is_valid and fact.is_claim)
        else:
            assert above is not None
            assert each in history[above].derived_facts
    assert sorted(seen) == sorted(history)
    derived = {each for fact in history.values() for each in fact.derived_facts}
    assert derived <= {match[2] for match in drawn if match is not None}
