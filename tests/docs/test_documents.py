"""The table of the five documents is true: each name in it stands for something, and each example is run by a test."""

from __future__ import annotations

import pytest

from holdfast.model.events import EVENTS
from tests.docs import documents

ROWS = documents.read_rows()
DOCUMENTS = ("000", "001", "002", "003", "004")
EXAMPLES = "Examples"
"""How the parts begin whose rows are run by tests."""


def test_every_document_has_rows() -> None:
    assert {row.document for row in ROWS} == {*DOCUMENTS}
    assert len(ROWS) > 400


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_stands_for_something(document: str) -> None:
    rows = [row for row in ROWS if row.document == document]
    assert [
        (row.theirs, name, fault) for row in rows for name in row.names if (fault := documents.find_fault(name))
    ] == []


def test_every_row_says_where_it_is_or_why_it_is_not() -> None:
    assert [row for row in ROWS if not row.theirs or not row.difference] == []
    assert [row for row in ROWS if not row.names and row.ours != "—" and "](" not in row.ours] == []


def test_no_row_is_there_twice() -> None:
    found = [(row.document, row.heading, row.theirs) for row in ROWS]
    assert sorted({*found}) == sorted(found)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_example_names_the_test_that_runs_it(document: str) -> None:
    examples = [row for row in ROWS if row.document == document and row.heading.startswith(EXAMPLES)]
    assert examples
    assert [row.theirs for row in examples if not any("::" in name for name in row.names)] == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Budget.total", ""),
        ("Budget.totals", "no such name"),
        ("Session.pack(budget, role)", ""),
        ("Session.facts.search(query)", ""),
        ("Session.facts.recall", "no such name"),
        ("Session.pack(budgets)", "no parameter budgets"),
        ("Budget.total(budget)", "no parameter budget"),
        ('Priority["critical"]', ""),
        ('Priority["urgent"]', "urgent is none of its values"),
        ("errors.InsufficientTokens.requested", ""),
        ("errors.InsufficientTokens.wanted", "no such name"),
        ("holdfast.core.history.planner.pressure", ""),
        ("holdfast.context.nowhere.plan", "no such name"),
        (next(iter(EVENTS)), ""),
        ("frame.vanished", "no such name"),
        ("holdfast facts why", ""),
        ("holdfast facts whence", "no such command"),
        ("tests/docs/test_documents.py::test_every_document_has_rows", ""),
        ("tests/docs/test_documents.py::test_nothing", "no such test"),
        ("tests/docs/test_nothing.py::test_nothing", "no such test"),
        ("total = 3", "not a name"),
    ],
)
def test_a_name_that_stands_for_nothing_is_found(name: str, fault: str) -> None:
    assert documents.find_fault(name) == fault
