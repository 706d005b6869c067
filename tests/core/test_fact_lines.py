"""Facts as lines: what stands behind a value, and in which order lines come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.packs.candidates import describe_dispute, describe_validity, format_fact, order_claims
from holdfast.model.facts.detection import Proposal
from holdfast.model.facts.fact import Dispute, Fact, FactSource

DAY_US = 86_400_000_000


_facts = st.lists(
    st.builds(
        Fact,
        id=st.integers(1, 99).map(lambda seq: f"k{seq}"),
        key=st.sampled_from(["a", "b", "c"]),
        value=st.text(max_size=5),
        against=st.sampled_from(["", "", "k1"]),
    ),
    max_size=8,
)


@given(_facts)
def test_each_line_comes_once_and_claims_follow_their_facts(facts: list[Fact]) -> None:
    order = order_claims(facts)
    assert sorted(order) == [*range(len(facts))]
    firm = [at for at in order if not facts[at].is_claim]
    assert firm == sorted(firm), "what is no claim stays in its order"
    for place, at in enumerate(order):
        if facts[at].is_claim and any(each.key == facts[at].key and not each.is_claim for each in facts):
            before = facts[order[place - 1]]
            assert before.key == facts[at].key


@given(st.integers(1, 4_000_000), st.integers(0, 1 << 60), st.none() | st.integers(0, 1 << 60))
def test_any_times_can_be_told(now_us: int, since_us: int, expires_us: int | None) -> None:
    fact = Fact(id="k1", key="a", value="b", valid_from_us=since_us, expires_us=expires_us)
    told = describe_validity(fact, now_us)
    assert ("not valid before" in told) == (since_us > now_us)
    assert ("valid through" in told or "valid until" in told) == (expires_us is not None)


def test_a_line_keeps_its_value_and_tells_both_sides() -> None:
    fact = Fact(id="k1", key="price", value="20\n euros", disputes=(Dispute("g1", "guest"), Dispute("g2", "guest")))
    proposal = Proposal(change="supersede", rule="explicit", reason="r", confidence=0.6, fact="k1", value={"n": 1})
    line = format_fact(fact, 0, describe_dispute(fact, proposal))
    assert line == (
        "- price: 20 euros (stated by peer; withdrawn by guest, not confirmed: ask before relying on it)"
        ' (disputed: the conversation says that it may now be {"n":1}; ask before relying on it)'
    )
    assert describe_dispute(Fact(id="k1", key="price", value=1), None) == ""


def test_the_end_of_a_day_is_told_as_the_day() -> None:
    def told(expires_us: int) -> str:
        return describe_validity(Fact(id="k1", key="a", value="b", expires_us=expires_us), 0)

    assert told(DAY_US) == " (valid through 1970-01-01)"
    assert told(DAY_US + 61_000_000) == " (valid until 1970-01-02 00:01 UTC)"


def test_a_constraint_tells_its_kind_and_who_states_it() -> None:
    def line(kind: str | None, authority: str) -> str:
        source = FactSource(authority=authority)
        return format_fact(
            Fact(id="k1", key="a", value="b", is_constraint=True, constraint_type=kind, source=source), 0
        )

    assert line("budget", "manager") == "- CONSTRAINT (budget, stated by manager) a: b"
    assert line("policy", "policy") == line(None, "policy") == "- CONSTRAINT (policy) a: b"
