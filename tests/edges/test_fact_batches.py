"""Several facts at once: all or none, each on what those before it made."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Engine, Identity, Ledger
from holdfast.errors import AuthorityExceeded, FactNotFound, InvalidContent, KeyConflict, TooLarge
from holdfast.model import limits


def test_a_batch_is_as_good_as_one_at_a_time(engine: Engine) -> None:
    several, singly = engine.ledger(user="ada"), engine.ledger(user="bob")
    facts: list[dict[str, Any]] = [
        {"key": "status_v1", "value": "approved", "ref": "A"},
        {"key": "budget", "value": 5},
        {"key": "left", "value": 3, "depends_on": "budget"},
        {"key": "status_v2", "value": "cancelled", "supersedes": "A"},
        {"key": "budget", "value": 6},
        {"key": "budget", "value": 6},
    ]
    made = several.assert_all(facts)
    for each in facts:
        rest = {name: said for name, said in each.items() if name not in ("key", "value")}
        singly.assert_(each["key"], each["value"], **rest)
    assert [each.key for each in made] == ["status_v1", "budget", "left", "status_v2", "budget"]

    def told(ledger: Ledger) -> list[tuple[object, ...]]:
        found = [*ledger.facts(), *ledger.facts(status="dead")]
        return [(f.id, f.key, f.value, f.status, f.supersedes, f.superseded_by, f.depends_on, f.review) for f in found]

    assert told(several) == told(singly)
    assert told(several)[0][0] == "k3"
    assert several.get("status_v2").supersedes == ("k1",)
    assert several.current("status_v1") == several.get("status_v2")


def test_a_batch_with_one_that_is_refused_changes_nothing(engine: Engine) -> None:
    ledger = engine.ledger(user="ada", identity=Identity(user_id="g", authority="guest"))
    ledger.assert_("a", 1)
    before = engine.totals().events
    for bad, error in (
        ({"key": "z", "value": 1, "depends_on": "nobody"}, FactNotFound),
        ({"key": "z", "value": 1, "authority": "policy"}, AuthorityExceeded),
        ({"key": "z"}, InvalidContent),
        ({"key": "z", "value": 1, "id": "k1"}, InvalidContent),
    ):
        with pytest.raises(error):
            ledger.assert_all([{"key": "a", "value": 2}, bad])
    with pytest.raises(TooLarge):
        ledger.assert_all([{"key": "a", "value": at} for at in range(limits.BATCH_FACTS + 1)])
    assert engine.totals().events == before
    assert [each.value for each in ledger.history("a")] == [1]


def test_a_batch_is_retried_under_its_key(engine: Engine) -> None:
    ledger = engine.ledger(project="p")
    facts = [{"key": "a", "value": 1}, {"key": "a", "value": 2}]
    first = ledger.assert_all(facts, key="once")
    ledger.assert_("a", 3)
    assert [each.id for each in ledger.assert_all(facts, key="once")] == [each.id for each in first]
    assert [each.value for each in ledger.facts()] == [3]
    with pytest.raises(KeyConflict):
        ledger.assert_all(facts[:1], key="once")
