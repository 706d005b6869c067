"""Several facts at once: all or none, each on what those before it made."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Engine, Fact, Identity, Ledger
from holdfast import open as open_engine
from holdfast.errors import AuthorityExceeded, FactNotFound, HoldfastError, InvalidArgument, KeyConflict, TooLarge
from holdfast.model import limits
from tests.support import CountingIds, figure


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
    made = several.set_all(facts)
    for each in facts:
        rest = {name: said for name, said in each.items() if name not in ("key", "value")}
        singly.set(each["key"], each["value"], **rest)
    assert [each.key for each in made] == ["status_v1", "budget", "left", "status_v2", "budget"]

    def told(ledger: Ledger) -> list[tuple[object, ...]]:
        found = [*ledger.items(), *ledger.items(status="dead")]
        return [(f.id, f.key, f.value, f.status, f.supersedes, f.superseded_by, f.depends_on, f.review) for f in found]

    assert told(several) == told(singly)
    assert told(several)[0][0] == "k3"
    assert several.fact("status_v2").supersedes == ("k1",)
    assert several.get("status_v1") == several.fact("status_v2")


def test_a_batch_with_one_that_is_refused_changes_nothing(engine: Engine) -> None:
    ledger = engine.ledger(user="ada", identity=Identity(user_id="g", authority="guest"))
    ledger.set("a", 1)
    before = engine.admin.totals().events
    for bad, error in (
        ({"key": "z", "value": 1, "depends_on": "nobody"}, FactNotFound),
        ({"key": "z", "value": 1, "authority": "policy"}, AuthorityExceeded),
        ({"key": "z"}, InvalidArgument),
        ({"key": "z", "value": 1, "id": "k1"}, InvalidArgument),
    ):
        with pytest.raises(error):
            ledger.set_all([{"key": "a", "value": 2}, bad])
    with pytest.raises(TooLarge):
        ledger.set_all([{"key": "a", "value": at} for at in range(limits.BATCH_FACTS + 1)])
    assert engine.admin.totals().events == before
    assert [each.value for each in ledger.history("a")] == [1]


def test_a_batch_is_retried_under_its_key(engine: Engine) -> None:
    ledger = engine.ledger(project="p")
    facts = [{"key": "a", "value": 1}, {"key": "a", "value": 2}]
    first = ledger.set_all(facts, key="once")
    ledger.set("a", 3)
    assert [each.id for each in ledger.set_all(facts, key="once")] == [each.id for each in first]
    assert [each.value for each in ledger.items()] == [3]
    with pytest.raises(KeyConflict):
        ledger.set_all(facts[:1], key="once")


class _Standing:
    """A clock that stands still: when something was asserted makes no difference then."""

    def now_us(self) -> int:
        return 1_700_000_000_000_000


_keys = st.sampled_from(["a", "b", "c"])
_names = st.lists(st.sampled_from(["a", "b", "c", "R", "S"]), max_size=2, unique=True)
_facts = st.fixed_dictionaries(
    {"key": _keys, "value": st.integers(0, 2)},
    optional={
        "ref": st.sampled_from(["R", "S"]),
        "supersedes": _names,
        "depends_on": _names,
        "scope": st.sampled_from(["global", "draft"]),
        "authority": st.sampled_from(["policy", "peer", "guest"]),
        "ttl_s": st.sampled_from([1, 100]),
        "valid_from_us": st.integers(0, 5),
        "time_sensitive": st.just(True),
    },
)


@given(st.lists(_facts, max_size=6), st.lists(_facts, min_size=1, max_size=5))
@settings(max_examples=figure(40, 5_000))
def test_a_batch_of_anything_is_as_good_as_one_at_a_time(
    known: list[dict[str, Any]], batch: list[dict[str, Any]]
) -> None:
    """On whatever is there before; a batch with one that is refused changes nothing at all."""
    with open_engine("memory:", clock=_Standing(), ids=CountingIds()) as engine:
        several, singly = engine.ledger(user="ada"), engine.ledger(user="bob")
        for each in known:
            for ledger in (several, singly):
                with suppress(HoldfastError):
                    ledger.set_all([each])
        before = _told(several)
        refused: type[HoldfastError] | None = None
        for each in batch:
            try:
                singly.set_all([each])
            except HoldfastError as error:
                refused = type(error)
                break
        if refused is None:
            several.set_all(batch)
            assert _told(several) == _told(singly)
        else:
            with pytest.raises(refused):
                several.set_all(batch)
            assert _told(several) == before
        assert engine.admin.verify().ok


def _told(ledger: Ledger) -> list[Fact]:
    """All that a ledger says, so that two ledgers can be compared."""
    found = [*ledger.items(within="any"), *ledger.items(within="any", status="dead")]
    assert {fact.ledger for fact in found} <= {ledger.id}
    return [msgspec.structs.replace(fact, ledger=None) for fact in found]
