"""The event store contract, the index: what a search finds, what it never tells, and that it keeps step with the rows."""

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
from holdfast.model.facts import Search
from holdfast.model.names import StreamId
from holdfast.model.rows import FactRow, Row
from holdfast.ports import EventStore
from holdfast.testing.appends import LEDGER, LOOKALIKES, OTHER_LEDGER, append_of, fact_row, ledger_named, write_to
from holdfast.testing.contract_log import StoreFixtures

WORDS = ("meet", "meets", "cafe", "café", "budget", "budget0", "7", "北京", "𞤢𞤣", "𞤤𞤢𞤥", "σας", "σασ")
"""As they come from whoever stems them: to a store, what is not equal is another word."""

LEDGERS = (
    *(StreamId(tenant, "ledger", key) for tenant in ("t", "t2") for key in (("user", "a"), ("project", "a"))),
    StreamId("t", "ledger", ("session", "user", "a")),
)
SCOPES: Any = (("global", ""), ("task", "7"), ("task", "8"), ("draft", "7"))
PERMISSIONS = ("pay", "read", "plan")


def key_of(stream: StreamId) -> str:
    return encode_stream_key(stream)


def look(store: EventStore, *words: str, ledgers: Sequence[StreamId] = (LEDGER,), **bounds: Any) -> list[int]:
    """The numbers of the facts that these words find, best first, and their scores looked at."""
    keys = tuple(map(key_of, ledgers))
    found = store.search(Search(tenant=ledgers[0].tenant, ledgers=keys, words=words, **bounds))
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert not scores or scores[-1] > 0
    return [row.fact for row, _ in found]


def put(store: EventStore, *rows: FactRow, stream: StreamId = LEDGER) -> None:
    head = store.head(stream)
    store.append(append_of(write_to(stream, head.version if head else 0, rows=rows)))


def fill_ledgers(store: EventStore) -> list[FactRow]:
    """Facts that differ in all that bounds a search, and share their words."""
    filled: list[FactRow] = []
    for stream in LEDGERS:
        rows = [_some_fact(stream, number) for number in range(1, 41)]
        store.append(append_of(write_to(stream, 0, rows=rows)))
        filled += rows
    return filled


def _some_fact(stream: StreamId, number: int) -> FactRow:
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


def within(fact: FactRow, search: Search) -> bool:
    """What the bounds mean, in so many words."""
    if fact.tenant != search.tenant or fact.ledger not in search.ledgers or fact.live != search.live:
        return False
    if (fact.scope, fact.scope_id) not in search.scopes:
        return False
    if fact.expires_us is not None and fact.expires_us <= search.now_us:
        return False
    needed = json.loads(fact.requires) if fact.requires else []
    return search.permissions is None or all(each in search.permissions for each in needed)


def has_any(fact: FactRow, words: Sequence[str]) -> bool:
    return not {*fact.key_words.split(), *fact.words.split()}.isdisjoint(words)


searches: st.SearchStrategy[Search] = st.builds(
    Search,
    tenant=st.sampled_from(("t", "t", "t2", "t3")),
    ledgers=st.lists(st.sampled_from([*map(key_of, LEDGERS), '["user","none"]']), max_size=4).map(tuple),
    words=st.lists(st.sampled_from([*WORDS, "other", "nowhere"]), max_size=4).map(tuple),
    permissions=st.none() | st.lists(st.sampled_from(PERMISSIONS), max_size=3).map(tuple),
    scopes=st.lists(st.sampled_from(SCOPES), max_size=3).map(tuple),
    now_us=st.integers(0, 4),
    live=st.booleans(),
    limit=st.sampled_from((1, 3, limits.READ_EVENTS)),
)


ODD = (
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
"""What another language might take for more than a word."""


class Searching(StoreFixtures):
    searches = 80

    def test_a_search_finds_what_is_within_its_bounds_and_nothing_else(self, store: EventStore) -> None:
        facts = fill_ledgers(store)

        @settings(max_examples=self.searches, deadline=None)
        @given(searches)
        def check(search: Search) -> None:
            wanted = [fact for fact in facts if within(fact, search) and has_any(fact, search.words)]
            found = store.search(msgspec.structs.replace(search, limit=limits.READ_EVENTS))
            assert sorted((row for row, _ in found), key=repr) == sorted(wanted, key=repr)
            scores = [score for _, score in found]
            assert scores == sorted(scores, reverse=True)
            assert not scores or scores[-1] > 0
            best = store.search(search)
            assert [score for _, score in best] == scores[: search.limit]
            assert set(best) <= set(found)

        check()

    def test_a_word_finds_what_is_equal_and_no_other_form_of_it(self, store: EventStore) -> None:
        """Whoever asks has stemmed it; a store that did so again would find other facts than the next one."""
        put(store, *(fact_row(LEDGER, number, "other", word) for number, word in enumerate(WORDS, 1)))
        assert {word: look(store, word) for word in WORDS} == {word: [at] for at, word in enumerate(WORDS, 1)}
        others = ("meeting", "meeted", "budgets", "cafes", "CAFÉS", "北", "ς")
        assert {word: look(store, word) for word in others} == {word: [] for word in others}

    def test_a_word_in_the_key_counts_for_more_than_one_in_the_value(self, store: EventStore) -> None:
        put(store, fact_row(LEDGER, 1, "city", "rome"), fact_row(LEDGER, 2, "rome", "city"))
        put(store, *(fact_row(LEDGER, number, "other", "paris") for number in range(3, 9)))
        assert look(store, "rome") == [2, 1]
        assert look(store, "city") == [1, 2]

    def test_more_words_are_better_than_fewer_and_more_often_than_once(self, store: EventStore) -> None:
        put(
            store,
            fact_row(LEDGER, 1, "a", "red green blue"),
            fact_row(LEDGER, 2, "b", "red green grey"),
            fact_row(LEDGER, 3, "c", "grey grey red"),
            fact_row(LEDGER, 4, "d", "grey black white"),
        )
        assert look(store, "red", "green", "blue") == [1, 2, 3]
        assert look(store, "grey")[0] == 3

    def test_a_rare_word_counts_for_more_than_a_common_one(self, store: EventStore) -> None:
        put(store, *(fact_row(LEDGER, number, "plan", "weekly") for number in range(1, 10)))
        put(store, fact_row(LEDGER, 10, "other", "monthly"), fact_row(LEDGER, 11, "other", "yearly"))
        assert look(store, "weekly", "monthly")[0] == 10

    def test_a_small_ledger_is_not_better_for_being_small(self, store: EventStore) -> None:
        put(store, *(fact_row(LEDGER, number, "plan", "weekly report") for number in range(1, 20)))
        put(store, fact_row(OTHER_LEDGER, 1, "other", "weekly grind and much else besides"), stream=OTHER_LEDGER)
        found = look(store, "weekly", "report", ledgers=(LEDGER, OTHER_LEDGER))
        assert len(found) == 20
        keys = (key_of(LEDGER), key_of(OTHER_LEDGER))
        best = store.search(Search(tenant="acme", ledgers=keys, words=("weekly", "report"), limit=5))
        assert {row.ledger for row, _ in best} == {key_of(LEDGER)}

    def test_a_word_is_a_word_whatever_is_in_it(self, store: EventStore) -> None:
        put(store, fact_row(LEDGER, 1, "subject", "word secret"), fact_row(LEDGER, 2, "other", "nothing"))
        put(store, fact_row(OTHER_LEDGER, 1, "subject", "word secret"), stream=OTHER_LEDGER)
        assert {word: (look(store, word), look(store, word, "secret")) for word in ODD} == dict.fromkeys(ODD, ([], [1]))

    def test_no_words_find_nothing_and_too_many_are_refused(self, store: EventStore) -> None:
        put(store, fact_row(LEDGER, 1, "subject", "word"))
        assert look(store) == []
        assert look(store, *(f"w{number}" for number in range(limits.SEARCH_WORDS - 1)), "word") == [1]
        for count in (limits.SEARCH_WORDS + 1, 10_000):
            with pytest.raises(TooLarge):
                look(store, *(f"w{number}" for number in range(count)))
        for limit in (0, limits.READ_EVENTS + 1):
            with pytest.raises(TooLarge):
                look(store, "word", limit=limit)

    def test_many_words_of_a_fact_are_found_each(self, store: EventStore) -> None:
        words = [hashlib.sha256(b"%d" % number).hexdigest()[:12] for number in range(limits.FACT_WORDS)]
        put(store, fact_row(LEDGER, 1, "long", " ".join(words)), fact_row(LEDGER, 2, "short", words[-1]))
        assert look(store, words[0]) == [1]
        assert look(store, words[-1]) == [2, 1]
        assert look(store, *words[: limits.SEARCH_WORDS]) == [1]

    def test_what_a_fact_no_longer_says_no_longer_finds_it(self, store: EventStore) -> None:
        fact = fact_row(LEDGER, 1, "city", "rome")
        put(store, fact)
        for change, finds in (
            ({"words": "paris"}, {"rome": [], "paris": [1], "city": [1]}),
            ({"key_words": "town"}, {"rome": [1], "town": [1], "city": []}),
            ({"live": 0}, {"rome": [], "city": []}),
            ({"state": '{"new":1}', "review": 1}, {"rome": [1], "city": [1]}),
            ({"words": ""}, {"rome": [], "city": [1]}),
        ):
            put(store, msgspec.structs.replace(fact, **change))
            assert {word: look(store, word) for word in finds} == finds
            assert look(store, "rome", live=False) == ([1] if change.get("live") == 0 else [])
            put(store, fact)
            assert look(store, "rome") == look(store, "city") == [1]

    @pytest.mark.parametrize("how", ["erased", "replaced", "adopted"])
    def test_what_is_forgotten_is_found_no_more(self, store: EventStore, how: str) -> None:
        for stream in (LEDGER, OTHER_LEDGER):
            dead = fact_row(stream, 2, "city", "rome", live=0)
            put(store, fact_row(stream, 1, "city", "rome"), dead, stream=stream)
        left: list[Row] = [fact_row(LEDGER, 1, "city")]
        if how == "erased":
            store.append(append_of(write_to(LEDGER, 1, rows=left, erase=[1])))
        elif how == "replaced":
            store.replace_rows(LEDGER, 1, left)
        else:
            store.adopt((), {LEDGER: left}, {LEDGER: [1]})
        assert (look(store, "rome"), look(store, "rome", live=False)) == ([], [])
        assert look(store, "city") == [1]
        assert look(store, "rome", ledgers=[OTHER_LEDGER]) == [1]
        assert look(store, "rome", ledgers=[OTHER_LEDGER], live=False) == [2]

    def test_ledgers_and_tenants_that_look_alike_never_meet(self, store: EventStore) -> None:
        names = sorted({name for pair in LOOKALIKES for name in pair})
        streams = [*map(ledger_named, names), *(ledger_named(tenant=name) for name in names)]
        for number, stream in enumerate(streams):
            put(store, fact_row(stream, number, "city", "rome"), stream=stream)
        assert [look(store, "rome", ledgers=[stream]) for stream in streams] == [[n] for n in range(len(streams))]

    def test_what_is_elsewhere_changes_nothing(self, store: EventStore) -> None:
        """Neither what is found nor its order, however common a word is in another ledger, or among the dead."""
        put(store, *(fact_row(LEDGER, number, "note", f"rome {'x ' * number}") for number in range(1, 6)))
        put(store, fact_row(LEDGER, 6, "note", "paris"), fact_row(LEDGER, 7, "paris", "plan"))
        before = look(store, "rome", "paris")
        others = [fact_row(OTHER_LEDGER, number, "paris", "paris paris") for number in range(1, 60)]
        put(store, *others, stream=OTHER_LEDGER)
        put(store, *(fact_row(LEDGER, number, "paris", "paris", live=0) for number in range(60, 90)))
        assert look(store, "rome", "paris") == before

    def test_a_fact_is_there_as_soon_as_it_is_stored(self, make_store: Callable[[], EventStore]) -> None:
        store = make_store()
        for number in range(1, 30):
            put(store, fact_row(LEDGER, number, f"key {number}", f"word{number} all"))
            assert look(store, f"word{number}") == [number]
            assert sorted(look(store, "all")) == list(range(1, number + 1))
        reopened = self.reopen(store) or store
        assert sorted(look(reopened, "all")) == list(range(1, 30))
        reopened.close()

    @pytest.mark.parametrize("column", ["anchor", "fact"])
    def test_facts_are_found_among_thousands(self, store: EventStore, column: str) -> None:
        """Few of which are there; what is of another kind is nowhere."""
        facts = [fact_row(LEDGER, number, live=number % 2) for number in range(1, 9)]
        put(store, *facts)
        put(store, *(fact_row(OTHER_LEDGER, number, live=0) for number in range(3, 9)), stream=OTHER_LEDGER)
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

    def test_an_anchor_leads_to_its_fact_until_it_has_another(self, store: EventStore) -> None:
        home = {"tenant": LEDGER.tenant, "ledger": key_of(LEDGER)}
        put(
            store,
            fact_row(LEDGER, 1, anchor="rome"),
            fact_row(LEDGER, 2, anchor="rome"),
            fact_row(LEDGER, 3, anchor=""),
        )
        put(store, fact_row(LEDGER, 2, anchor="paris", live=0))
        for anchor, facts in (("rome", [1]), ("paris", [2]), ("", [3]), ("oslo", [])):
            assert [row.fact for row in store.rows(FactRow, home, limit=9, among={"anchor": [anchor]})] == facts
        store.replace_rows(LEDGER, 2, [fact_row(LEDGER, 1, anchor="oslo")])
        found = store.rows(FactRow, home, limit=9, among={"anchor": ["rome", "paris", "", "oslo"]})
        assert found == (fact_row(LEDGER, 1, anchor="oslo"),)
