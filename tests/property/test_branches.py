"""Ephemeral forks, the difference of two sessions, and facts that are merged back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.types import SessionDiff
from tests.property.fork_player import KEYS, WEIGHTS, World, draw_steps, read_all
from tests.property.store_tools import all_events, rows_dump
from tests.support import figure

HISTORIES = figure(5, 300)
STEPS = 25
STILL = {name: weight for name, weight in WEIGHTS.items() if name not in ("wait", "delete", "pack")}
"""Steps without time: an ephemeral fork and a stored one are played one after the other."""


def dump_of(world: World) -> list[Any]:
    """All that a store has: its events, rows and bodies."""
    return [[*all_events(world.engine)], rows_dump(world.engine), [*world.blobs.stored()]]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_an_ephemeral_fork_is_as_a_stored_one_and_leaves_nothing(seed: int) -> None:
    world, chance = World(), Random(seed)
    session = world.create("talk-0")
    for step in draw_steps(chance, STEPS):
        world.play(session, step)
    world.engine.ledger(user="ada").set("city", "Lisbon")
    at = chance.choice([None, chance.randint(1, session.state().version)])
    steps = draw_steps(chance, STEPS, STILL)
    before = dump_of(world)
    ephemeral = session.fork(at, as_="talk-1", ephemeral=True)
    outcomes = [world.play(ephemeral, step) for step in steps]
    ephemeral.ledger(user="ada").set("city", "Porto")
    read = read_all(ephemeral)
    assert dump_of(world) == before
    assert [row.session for row in world.engine.sessions()] == ["talk-0"]
    stored = session.fork(at, as_="talk-1")
    assert [world.play(stored, step) for step in steps] == outcomes
    stored.ledger(user="ada").set("city", "Porto")
    for name, value in read_all(stored).items():
        assert read[name] == value, name


def values_of(session: holdfast.Session) -> dict[str, Any]:
    return {fact.key: fact.value for fact in session.ledger().items(limit=1_000) if fact.key in KEYS}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_difference_is_what_only_one_side_has(seed: int) -> None:
    world, chance = World(), Random(seed)
    session = world.create("talk-0")
    for step in draw_steps(chance, STEPS, STILL):
        world.play(session, step)
    branches = [session.fork(chance.randint(1, session.state().version), as_="talk-1"), session]
    branches.append(branches[0].fork(as_="talk-2", ephemeral=bool(seed % 2)))
    for step in draw_steps(chance, STEPS, STILL):
        world.play(chance.choice(branches), step)
    for ours, theirs in ((branches[0], session), (session, branches[2]), (branches[2], branches[0])):
        diff = ours.diff(theirs)
        check_difference(diff, ours, theirs)
        mirror = theirs.diff(ours)
        assert (mirror.ours, mirror.theirs, mirror.shared) == (diff.theirs, diff.ours, diff.shared)


def check_difference(diff: SessionDiff, ours: holdfast.Session, theirs: holdfast.Session) -> None:
    sides = [[message for message in side.messages(limit=1_000) if not message.withdrawn] for side in (ours, theirs)]
    events = [side.events(limit=1_000) for side in (ours, theirs)]
    common = [one.seq for one, other in zip(*events, strict=False) if one.hash == other.hash]
    assert diff.shared == (common[-1] if common else 0) == len(common)
    assert [list(diff.ours), list(diff.theirs)] == [[each for each in side if each.seq > diff.shared] for side in sides]
    one, other = values_of(ours), values_of(theirs)
    assert {each.key for each in diff.facts if each.key in KEYS} == {
        key for key in {*one, *other} if one.get(key) != other.get(key)
    }


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_merge_brings_back_what_the_branch_changed_and_nothing_else(seed: int, ephemeral: bool) -> None:
    world, chance = World(), Random(seed)
    session = world.create("talk-0")
    for key in KEYS:
        session.ledger().set(key, f"{key} of before")
    branch = session.fork(as_="talk-1", ephemeral=ephemeral)
    changed: set[str] = set()
    for key in (*KEYS, "new"):
        match chance.randrange(3):
            case 0:
                branch.ledger().set(key, f"{key} of the branch")
                changed.add(key)
            case 1 if key in KEYS:
                branch.ledger().retract(key)
                changed.add(key)
    theirs = {key for key in KEYS if chance.random() < 0.4}
    for key in theirs:
        session.ledger().set(key, f"{key} of the session")
    before = {fact.key: fact.value for fact in session.ledger().items()}
    merged = branch.facts.merge(session)
    assert {each.proposal.key for each in merged} == changed
    assert {fact.key: fact.value for fact in session.ledger().items()} == before
    assert {each.proposal.key for each in merged if each.why} == changed & theirs
    for each in merged:
        assert each.outcome == "asked"
        session.facts.accept(each.id)
    wanted = {fact.key: fact.value for fact in branch.ledger().items()}
    after = {fact.key: fact.value for fact in session.ledger().items()}
    assert {key: after.get(key) for key in changed} == {key: wanted.get(key) for key in changed}
    assert {key: after.get(key) for key in {*before} - changed} == {key: before[key] for key in {*before} - changed}
    assert all(fact.provenance[0].startswith("talk-1:k") for fact in session.ledger().items() if fact.key in changed)
    assert branch.facts.merge(session) == ()
    assert world.engine.admin.verify().problems == ()
