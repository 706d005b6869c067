"""The list of mutants stays true as the code changes: each of them still applies, once, and its nearest tests are there."""

from __future__ import annotations

import pytest

from tests.mutants import trees
from tests.mutants.catalogue import MUTANTS, Mutant

ROOMS = ("core", "flows", "providers", "render", "runtime", "storage", "text")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_applies_to_the_code_as_it_is(mutant: Mutant) -> None:
    assert trees.find_fault(mutant) == ""
    assert mutant.old != mutant.new
    assert mutant.near


def test_there_are_at_least_forty_mutants_in_all_rooms_that_do_something() -> None:
    assert len(MUTANTS) == len({mutant.id for mutant in MUTANTS}) >= 40
    assert len({(mutant.file, mutant.old) for mutant in MUTANTS}) >= 40
    for room in ROOMS:
        assert any(mutant.file.startswith(f"src/holdfast/{room}/") for mutant in MUTANTS), room


def test_a_snippet_that_is_not_there_once_is_an_error_that_says_where_to_look() -> None:
    known = MUTANTS[0]
    line = known.old.splitlines()[0]
    for old, told in ((f"{line} # elsewhere", line.strip()), ("\n", "times")):
        fault = trees.find_fault(known._replace(old=old))
        assert "not once" in fault
        assert told in fault
    assert known.file in trees.find_fault(known._replace(file="src/holdfast/elsewhere.py"))
