"""The contract of event stores, part 3: the search for facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.codec import encode_stream_key
from holdfast.errors import TooLarge
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.names import StreamId
from holdfast.model.rows import FactRow, Row
from holdfast.ports import EventStore
from holdfast.testing.appends import LEDGER, LOOKALIKES, OTHER_LEDGER, append_of, fact_row, ledger_stream, write_to
from holdfast.testing.contract_log import StoreFixtures

WORDS = ("meet", "meets", "cafe", "café", "budget", "budget0", "7", "北京", "𞤢𞤣", "𞤤𞤢𞤥", "σας", "σασ")
"""Stemmed words. For a store, words that are not equal are different words."""

LEDGERS = (
    *(StreamId(tenant, "ledger", key) for tenant in ("t", "t2") for key in (("user", "a"), ("project", "a"))),
    StreamId("t", "ledger", ("session", "user", "a")),
)
SCOPES: Any = (("global", ""), ("task", "7"), ("task", "8"), ("draft", "7"))
PERMISSIONS = ("pay", "read", "plan")


def key_of(stream: StreamId) -> str:
    return encode_stream_key(stream)


def search_facts(store: EventStore, *words: str, ledgers: Sequence[StreamId] = (LEDGER,), **bounds: Any) -> list[int]:
    """Return the numbers of the matching facts, best first, and check the scores."""
    keys = tuple(map(key_of, ledgers))
    found = store.search(FactQuery(tenant=ledgers[0].tenant, ledgers=keys, words=words, **bounds))
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert not scores or scores[-1] > 0
    return [row.fact for row, _ in found]


def put_facts(store: EventStore, *rows: FactRow, stream: StreamId = LEDGER) -> None:
    head = store.head(stream)
    store.append(append_of(write_to(stream, head.version if head else 0, rows=rows)))


def fill_ledgers(store: EventStore) -> list[FactRow]:
    """Store facts that share their words and differ in everything that a query can select."""
    filled: list[FactRow] = []
    for stream in LEDGERS:
        rows = [_build_fact(stream, number) for number in range(1, 41)]
        store.append(append_of(write_to(stream, 0, rows=rows)))
        filled += rows
    return filled


def _build_fact(stream: StreamId, number: int) -> FactRow:
    dice = hashlib.sha256(f"{stream} {number}".encode()).digest()
    scope, scope_id = SCOPES[dice[0] % len(SCOPES)]
    needed = sorted(name for at, name in enumerate(PERMISSIONS) if dice[1] % 8 >> at & 1 and dice[2] % 2)
    words = [WORDS[die % len(WORDS)] for die in dice[3 : 4 + dice[4] % 4]]
    return fact_row(
        stream,
        number,
        subject=words[0] if dice[5] % 2 else "other",
        words=" ".join(words[1:]),
        scope=scope,
        scope_id=scope_id,
        live=dice[6] % 2,
        expires_us=(None, 1, 3)[dice[7] % 3],
        requires=json.dumps(needed) if needed else "",
    )


def is_within(fact: FactRow, search: FactQuery) -> bool:
    """The meaning of the bounds of a query."""
    if fact.tenant != search.tenant or fact.ledger not in search.ledgers or fact.live != search.live:
        return False
    if (fact.scope, fact.scope_id) not in search.scopes:
        return False
    if fact.expires_us is not None and fact.expires_us <= search.now_us:
        return False
    needed = json.loads(fact.requires) if fact.requires else []
    return search.permissions is None or all(name in search.permissions for name in needed)


def has_any(fact: FactRow, words: Sequence[str]) -> bool:
    return not {*fact.key_words.split(), *fact.words.split()}.isdisjoint(words)


searches: st.SearchStrategy[FactQuery] = st.builds(
    FactQuery,
    tenant=st.sampled_from(("t", "t", "t2", "t3")),
    ledgers=st.lists(st.sampled_from([*map(key_of, LEDGERS), '["user","none"]']), max_size=4).map(tuple),
    words=st.lists(st.sampled_from([*WORDS, "other", "nowhere"]), max_size=4).map(tuple),
    permissions=st.none() | st.lists(st.sampled_from(PERMISSIONS), max_size=3).map(tuple),
    scopes=st.lists(st.sampled_from(SCOPES), max_size=3).map(tuple),
    now_us=st.integers(0, 4),
    live=st.booleans(),
    limit=st.sampled_from((1, 3, limits.READ_EVENTS)),
)


ODD_WORDS = (
    *('"', '""', "'", "word'", '"word"', 'word" OR "secret', "word*", "^word", "wor*", "+word", "-word", "NOT", "near"),
    *(
        "OR",
        "AND",
        "NEAR(word secret)",
        "words:secret",
        "{words key_words}:secret",
        "(secret",
        "secret)",
        "word secret",
    ),
    *("word & secret", "word | secret", "!word", "secret:*", "word <-> secret", "%", "_", "%secret%", "\\", "$1", "?"),
    *(
        "word'); DROP TABLE fact_rows; --",
        "word\0",
        "\0",
        "\ud800",
        "word\udfff",
        "",
        " ",
        "\n",
        "\t",
        "\u200b",
        "👍🏽",
    ),
    *("𞤢𞤣𞤤𞤢𞤥", "हिन्दी", "ﬁ", "ß", "İ", "e\u0301", "l1xsecret", "l2xsecret", "d1xsecret", "x" * 100_000, "é" * 40_000),
)
"""Texts that a query language could treat as syntax."""


class SearchContract(StoreFixtures):
    """Searches for facts."""

    searches = 80

    def test_a_search_finds_exactly_the_facts_within_its_bounds(self, store: EventStore) -> None:
        facts = fill_ledgers(store)

        @settings(max_examples=self.searches, deadline=None)
        @given(searches)
        def check(search: FactQuery) -> None:
            wanted = [fact for fact in facts if is_within(fact, search) and has_any(fact, search.words)]
            found = store.search(msgspec.structs.replace(search, limit=limits.READ_EVENTS))
            assert sorted((row for row, _ in found), key=repr) == sorted(wanted, key=repr)
            scores = [score for _, score in found]
            assert scores == sorted(scores, reverse=True)
            assert not scores or scores[-1] > 0
            best = store.search(search)
            assert [score for _, score in best] == scores[: search.limit]
            assert set(best) <= set(found)

        check()

    def test_a_word_matches_equal_words_only(self, store: EventStore) -> None:
        """The caller has stemmed the words; a store that stemmed again would find other facts than another store."""
        put_facts(store, *(fact_row(LEDGER, number, "other", word) for number, word in enumerate(WORDS, 1)))
        assert {word: search_facts(store, word) for word in WORDS} == {word: [at] for at, word in enumerate(WORDS, 1)}
        others = ("meeting", "meeted", "budgets", "cafes", "CAFÉS", "北", "ς")
        assert {word: search_facts(store, word) for word in others} == {word: [] for word in others}

    def test_a_word_in_the_key_counts_for_more_than_one_in_the_value(self, store: EventStore) -> None:
        put_facts(store, fact_row(LEDGER, 1, "city", "rome"), fact_row(LEDGER, 2, "rome", "city"))
        put_facts(store, *(fact_row(LEDGER, number, "other", "paris") for number in range(3, 9)))
        assert search_facts(store, "rome") == [2, 1]
        assert search_facts(store, "city") == [1, 2]

    def test_more_matches_score_higher(self, store: EventStore) -> None:
        put_facts(
            store,
            fact_row(LEDGER, 1, "a", "red green blue"),
            fact_row(LEDGER, 2, "b", "red green grey"),
            fact_row(LEDGER, 3, "c", "grey grey red"),
            fact_row(LEDGER, 4, "d", "grey black white"),
        )
        assert search_facts(store, "red", "green", "blue") == [1, 2, 3]
        assert search_facts(store, "grey")[0] == 3

    def test_a_rare_word_counts_for_more_than_a_common_one(self, store: EventStore) -> None:
        put_facts(store, *(fact_row(LEDGER, number, "plan", "weekly") for number in range(1, 10)))
        put_facts(store, fact_row(LEDGER, 10, "other", "monthly"), fact_row(LEDGER, 11, "other", "yearly"))
        assert search_facts(store, "weekly", "monthly")[0] == 10

    def test_the_size_of_a_ledger_does_not_raise_the_score(self, store: EventStore) -> None:
        put_facts(store, *(fact_row(LEDGER, number, "plan", "weekly report") for number in range(1, 20)))
        put_facts(store, fact_row(OTHER_LEDGER, 1, "other", "weekly grind and much else besides"), stream=OTHER_LEDGER)
        found = search_facts(store, "weekly", "report", ledgers=(LEDGER, OTHER_LEDGER))
        assert len(found) == 20
        keys = (key_of(LEDGER), key_of(OTHER_LEDGER))
        best = store.search(FactQuery(tenant="acme", ledgers=keys, words=("weekly", "report"), limit=5))
        assert {row.ledger for row, _ in best} == {key_of(LEDGER)}

    def test_a_word_is_never_query_syntax(self, store: EventStore) -> None:
        put_facts(store, fact_row(LEDGER, 1, "subject", "word secret"), fact_row(LEDGER, 2, "other", "nothing"))
        put_facts(store, fact_row(OTHER_LEDGER, 1, "subject", "word secret"), stream=OTHER_LEDGER)
        assert {
            word: (search_facts(store, word), search_facts(store, word, "secret")) for word in ODD_WORDS
        } == dict.fromkeys(ODD_WORDS, ([], [1]))

    def test_no_words_find_nothing_and_too_many_are_refused(self, store: EventStore) -> None:
        put_facts(store, fact_row(LEDGER, 1, "subject", "word"))
        assert search_facts(store) == []
        assert search_facts(store, *(f"w{number}" for number in range(limits.SEARCH_WORDS - 1)), "word") == [1]
        for count in (limits.SEARCH_WORDS + 1, 10_000):
            with pytest.raises(TooLarge):
                search_facts(store, *(f"w{number}" for number in range(count)))
        for limit in (0, limits.READ_EVENTS + 1):
            with pytest.raises(TooLarge):
                search_facts(store, "word", limit=limit)

    def test_each_word_of_a_long_fact_is_found(self, store: EventStore) -> None:
        words = [hashlib.sha256(b"%d" % number).hexdigest()[:12] for number in range(limits.FACT_WORDS)]
        put_facts(store, fact_row(LEDGER, 1, "long", " ".join(words)), fact_row(LEDGER, 2, "short", words[-1]))
        assert search_facts(store, words[0]) == [1]
        assert search_facts(store, words[-1]) == [2, 1]
        assert search_facts(store, *words[: limits.SEARCH_WORDS]) == [1]

    def test_removed_words_no_longer_match(self, store: EventStore) -> None:
        fact = fact_row(LEDGER, 1, "city", "rome")
        put_facts(store, fact)
        for change, finds in (
            ({"words": "paris"}, {"rome": [], "paris": [1], "city": [1]}),
            ({"key_words": "town"}, {"rome": [1], "town": [1], "city": []}),
            ({"live": 0}, {"rome": [], "city": []}),
            ({"state": '{"new":1}', "review": 1}, {"rome": [1], "city": [1]}),
            ({"words": ""}, {"rome": [], "city": [1]}),
        ):
            put_facts(store, msgspec.structs.replace(fact, **change))
            assert {word: search_facts(store, word) for word in finds} == finds
            assert search_facts(store, "rome", live=False) == ([1] if change.get("live") == 0 else [])
            put_facts(store, fact)
            assert search_facts(store, "rome") == search_facts(store, "city") == [1]

    @pytest.mark.parametrize("how", ["erased", "replaced", "adopted"])
    def test_removed_facts_no_longer_match(self, store: EventStore, how: str) -> None:
        for stream in (LEDGER, OTHER_LEDGER):
            dead = fact_row(stream, 2, "city", "rome", live=0)
            put_facts(store, fact_row(stream, 1, "city", "rome"), dead, stream=stream)
        left: list[Row] = [fact_row(LEDGER, 1, "city")]
        if how == "erased":
            store.append(append_of(write_to(LEDGER, 1, rows=left, erase=[1])))
        elif how == "replaced":
            store.replace_rows(LEDGER, 1, left)
        else:
            store.adopt((), {LEDGER: left}, {LEDGER: [1]})
        assert (search_facts(store, "rome"), search_facts(store, "rome", live=False)) == ([], [])
        assert search_facts(store, "city") == [1]
        assert search_facts(store, "rome", ledgers=[OTHER_LEDGER]) == [1]
        assert search_facts(store, "rome", ledgers=[OTHER_LEDGER], live=False) == [2]

    def test_similar_ledgers_and_tenants_are_separate(self, store: EventStore) -> None:
        names = sorted({name for pair in LOOKALIKES for name in pair})
        streams = [*map(ledger_stream, names), *(ledger_stream(tenant=name) for name in names)]
        for number, stream in enumerate(streams):
            put_facts(store, fact_row(stream, number, "city", "rome"), stream=stream)
        assert [search_facts(store, "rome", ledgers=[stream]) for stream in streams] == [
            [n] for n in range(len(streams))
        ]

    def test_other_ledgers_change_nothing(self, store: EventStore) -> None:
        """Other ledgers and dead facts change neither the matches nor their order."""
        put_facts(store, *(fact_row(LEDGER, number, "note", f"rome {'x ' * number}") for number in range(1, 6)))
        put_facts(store, fact_row(LEDGER, 6, "note", "paris"), fact_row(LEDGER, 7, "paris", "plan"))
        before = search_facts(store, "rome", "paris")
        others = [fact_row(OTHER_LEDGER, number, "paris", "paris paris") for number in range(1, 60)]
        put_facts(store, *others, stream=OTHER_LEDGER)
        put_facts(store, *(fact_row(LEDGER, number, "paris", "paris", live=0) for number in range(60, 90)))
        assert search_facts(store, "rome", "paris") == before

    def test_a_fact_is_found_as_soon_as_it_is_stored(self, make_store: Callable[[], EventStore]) -> None:
        store = make_store()
        for number in range(1, 30):
            put_facts(store, fact_row(LEDGER, number, f"key {number}", f"word{number} all"))
            assert search_facts(store, f"word{number}") == [number]
            assert sorted(search_facts(store, "all")) == list(range(1, number + 1))
        reopened = self.reopen(store) or store
        assert sorted(search_facts(reopened, "all")) == list(range(1, 30))
        reopened.close()

    @pytest.mark.parametrize("column", ["anchor", "fact"])
    def test_facts_are_found_by_thousands_of_values(self, store: EventStore, column: str) -> None:
        """Most of the values do not exist; values of another type match nothing."""
        facts = [fact_row(LEDGER, number, live=number % 2) for number in range(1, 9)]
        put_facts(store, *facts)
        put_facts(store, *(fact_row(OTHER_LEDGER, number, live=0) for number in range(3, 9)), stream=OTHER_LEDGER)
        many: list[Any] = [getattr(fact_row(LEDGER, number), column) for number in range(3, 5_000)]
        among, home = (
            {column: [None, 4.5, True, "\0", *many, *many]},
            {"tenant": LEDGER.tenant, "ledger": key_of(LEDGER)},
        )
        assert store.rows(FactRow, home, limit=99, among=among) == tuple(facts[2:])
        assert store.rows(FactRow, home | {"live": 1}, limit=2, among=among) == (facts[2], facts[4])
        assert store.rows(FactRow, home, after=facts[4], limit=99, among=among) == tuple(facts[5:])
        assert store.rows(FactRow, home, limit=99, among={**among, "live": [0]}) == (facts[3], facts[5], facts[7])
        none: Any = ([], [None], ["not there"], [-1])
        for nothing in none:
            assert store.rows(FactRow, home, limit=99, among={column: nothing}) == ()
        assert store.rows(FactRow, home | {"tenant": "another"}, limit=99, among=among) == ()

    def test_a_fact_is_found_by_its_current_anchor(self, store: EventStore) -> None:
        home = {"tenant": LEDGER.tenant, "ledger": key_of(LEDGER)}
        put_facts(
            store,
            fact_row(LEDGER, 1, anchor="rome"),
            fact_row(LEDGER, 2, anchor="rome"),
            fact_row(LEDGER, 3, anchor=""),
        )
        put_facts(store, fact_row(LEDGER, 2, anchor="paris", live=0))
        for anchor, facts in (("rome", [1]), ("paris", [2]), ("", [3]), ("oslo", [])):
            assert [row.fact for row in store.rows(FactRow, home, limit=9, among={"anchor": [anchor]})] == facts
        store.replace_rows(LEDGER, 2, [fact_row(LEDGER, 1, anchor="oslo")])
        found = store.rows(FactRow, home, limit=9, among={"anchor": ["rome", "paris", "", "oslo"]})
        assert found == (fact_row(LEDGER, 1, anchor="oslo"),)
