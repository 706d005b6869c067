"""The contract of event stores, part 6: passages that can be recalled, and their vectors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import TooLarge, VersionConflict
from holdfast.model import limits
from holdfast.model.memory.passages import (
    IndexedPassage,
    IndexMark,
    MemorySubject,
    NeighbourSpan,
    Passage,
    PassageBatch,
    PassageFilter,
    PassageKey,
    PassageQuery,
    StreamSpan,
    VectorQuery,
)
from holdfast.model.names import Scope, StreamId
from holdfast.testing.appends import LOOKALIKES, ONE, TWO, append_of, run_in_threads, session_stream, write_to
from holdfast.testing.contract_log import StoreFixtures
from holdfast.testing.contract_search import ODD_WORDS

TERMS = ("lion", "zebra", "sleep", "run", "café", "北京", "7", "lions")
USERS = ("ada", "bo", "")
ROLES: Any = ("user", "assistant", "tool")
NEEDS = ((), ("pay",), ("pay", "read"))
STREAMS = (ONE, TWO, session_stream("one", actor="bo"), session_stream("one", tenant="other"))
EVENTS = 12
LAST = limits.WHOLE_NUMBER


def passage_of(stream: StreamId, seq: int, terms: str = "lion", **changes: Any) -> IndexedPassage:
    """Build a passage whose text is its terms."""
    passage = Passage(
        scope=Scope.from_stream(stream), seq=seq, role="user", user="ada", time_us=seq, place=seq, text=terms
    )
    return IndexedPassage(msgspec.structs.replace(passage, **changes), tuple(terms.split()))


def put_events(store: Any, stream: StreamId, count: int = EVENTS) -> None:
    store.append(append_of(write_to(stream, 0, *[b"{}"] * count)))


def put_passages(store: Any, *passages: IndexedPassage, is_taken: bool = True) -> None:
    """Store passages of any streams, with events for them, and take them."""
    streams = dict.fromkeys(each.passage.scope.stream for each in passages)
    for stream in streams:
        own = tuple(each for each in passages if each.passage.scope.stream == stream)
        head = store.head(stream)
        last = max(each.passage.seq for each in own)
        if head is None or head.version < last:
            version = head.version if head else 0
            store.append(append_of(write_to(stream, version, *[b"{}"] * (last - version))))
        before = store.index_marks([stream]).get(stream)
        mark = IndexMark(version=max(last, before.version if before else 0), places=last)
        assert store.index_passages(PassageBatch(stream=stream, before=before, mark=mark, passages=own))
        if is_taken:
            store.take_passages(StreamSpan(stream, 1, LAST))


def ada(**changes: Any) -> PassageFilter:
    return msgspec.structs.replace(PassageFilter(tenant="acme", user="ada"), **changes)


def match(store: Any, visible: PassageFilter, *terms: str, limit: int = 100) -> list[tuple[StreamId, int, int]]:
    found = store.match_passages(PassageQuery(visible=visible, terms=terms, limit=limit))
    keys = [each.key for each in found.passages]
    assert len(set(keys)) == len(keys) <= limit
    return [tuple(key) for key in keys]


def seqs_of(store: Any, visible: PassageFilter, *terms: str, limit: int = 100) -> list[int]:
    return [seq for _, seq, _ in match(store, visible, *terms, limit=limit)]


def fill_index(store: Any) -> list[IndexedPassage]:
    """Store passages that differ in everything that a filter can select; some of them are taken."""
    filled: list[IndexedPassage] = []
    for stream in STREAMS:
        put_events(store, stream)
        own = [_build_passage(stream, seq, part) for seq in range(1, EVENTS + 1) for part in range(1 + seq % 2)]
        batch = PassageBatch(stream=stream, before=None, mark=IndexMark(version=EVENTS), passages=tuple(own))
        assert store.index_passages(batch)
        store.take_passages(StreamSpan(stream, 1, 8), [StreamSpan(stream, 3, 4)])
        filled += (
            msgspec.structs.replace(
                each,
                passage=msgspec.structs.replace(
                    each.passage, is_taken=each.passage.seq <= 8 and each.passage.seq not in (3, 4)
                ),
            )
            for each in own
        )
    return filled


def _build_passage(stream: StreamId, seq: int, part: int) -> IndexedPassage:
    dice = hashlib.sha256(f"{stream} {seq} {part}".encode()).digest()
    return passage_of(
        stream,
        seq,
        " ".join(TERMS[die % len(TERMS)] for die in dice[: 1 + dice[9] % 5]),
        part=part,
        kind="situation" if dice[10] % 5 == 0 else "message",
        role=ROLES[dice[11] % len(ROLES)],
        user=USERS[dice[12] % len(USERS)],
        requires=NEEDS[dice[13] % len(NEEDS)],
        time_us=1 + dice[14] % 9,
        speaker="Ada" if dice[15] % 2 else "",
        frame="f1" if dice[16] % 3 == 0 else "",
        handle="h1" if dice[17] % 3 == 0 else "",
        start=dice[18],
    )


def is_within(passage: Passage, visible: PassageFilter) -> bool:
    """The meaning of a filter."""
    if passage.scope.tenant != visible.tenant:
        return False
    stream = passage.scope.stream
    is_own = passage.is_taken and visible.user and passage.user == visible.user
    if not is_own and not any(
        stream == span.stream and span.first <= passage.seq <= span.last for span in visible.spans
    ):
        return False
    if any(stream == span.stream and span.first <= passage.seq <= span.last for span in visible.hidden):
        return False
    if visible.permissions is not None and not {*passage.requires} <= {*visible.permissions}:
        return False
    bounds = (
        (visible.roles, passage.role),
        (visible.kinds, passage.kind),
        (visible.sessions, passage.scope.session),
    )
    if any(wanted and value not in wanted for wanted, value in bounds):
        return False
    low, high = visible.since_us, visible.until_us
    return (low is None or low <= passage.time_us) and (high is None or passage.time_us <= high)


_spans = st.lists(
    st.builds(StreamSpan, st.sampled_from(STREAMS), st.integers(0, 9), st.sampled_from((3, 6, 12, LAST))), max_size=2
).map(tuple)
filters: st.SearchStrategy[PassageFilter] = st.builds(
    PassageFilter,
    tenant=st.sampled_from(("acme", "acme", "other", "none")),
    user=st.sampled_from(USERS),
    spans=_spans,
    hidden=_spans,
    permissions=st.sampled_from((None, None, (), ("pay",), ("read", "pay"))),
    roles=st.lists(st.sampled_from(ROLES), max_size=2).map(tuple),
    kinds=st.sampled_from(((), (), ("message",), ("situation",))),
    sessions=st.sampled_from(((), (), ("one",), ("two", "none"))),
    since_us=st.none() | st.integers(0, 9),
    until_us=st.none() | st.integers(0, 9),
)
term_lists = st.lists(st.sampled_from((*TERMS, "nowhere")), max_size=4).map(tuple)


class PassageContract(StoreFixtures):
    """Passages and vectors. For stores that are a `ports.PassageIndex` too."""

    filters = 60

    def test_exactly_the_visible_passages_are_found_counted_and_listed(self, store: Any) -> None:
        every = fill_index(store)

        @settings(max_examples=self.filters, deadline=None)
        @given(filters, term_lists)
        def check(visible: PassageFilter, terms: tuple[str, ...]) -> None:
            seen = [each for each in every if is_within(each.passage, visible)]
            found = store.match_passages(PassageQuery(visible=visible, terms=terms, limit=limits.READ_EVENTS))
            wanted = [each.passage for each in seen if {*each.terms} & {*terms}]
            assert sorted(found.passages, key=repr) == sorted(wanted, key=repr)
            counts = {term: sum(term in each.terms for each in seen) for term in terms}
            assert found.counts == {term: count for term, count in counts.items() if count}
            newest = store.recent_passages(visible, limits.READ_EVENTS)
            assert sorted(newest, key=repr) == sorted((each.passage for each in seen), key=repr)
            times = [each.time_us for each in newest]
            assert times == sorted(times, reverse=True)
            assert [each.time_us for each in store.recent_passages(visible, 3)] == times[:3]
            totals = store.passage_totals(visible)
            assert totals.passages == len(seen)
            assert totals.sessions == len({each.passage.scope for each in seen})
            assert totals.text_bytes == sum(len(each.passage.text.encode()) for each in seen)
            assert (totals.oldest_us, totals.newest_us) == (min(times, default=None), max(times, default=None))
            keys = [each.passage.key for each in every]
            assert store.read_passages(visible, [*keys, PassageKey(ONE, 99, 0)]) == tuple(each.passage for each in seen)
            places = [NeighbourSpan(stream, 2, 5) for stream in STREAMS]
            near = tuple(each.passage for each in seen if 2 <= each.passage.place <= 5)
            assert store.passages_at(visible, places, limits.READ_EVENTS) == near
            assert store.passages_at(visible, places, 2) == near[:2]

        check()
        assert store.check() == ()

    def test_a_passage_is_read_back_unchanged(self, store: Any) -> None:
        long = passage_of(
            *(ONE, 1, "lion 北京"),
            text="“Lions”\n\n\ttell 👍🏽 no \\u0000 lies; -- ' \"" + "x" * 5_000,
            part=3,
            kind="situation",
            role="tool",
            speaker="Ada 👍",
            frame="f12",
            time_us=1 << 50,
            place=1 << 30,
            requires=("a b", '"', "é"),
            handle="h7",
            start=1 << 30,
            user='ada"x',
        )
        put_passages(store, long)
        (found,) = store.match_passages(PassageQuery(visible=ada(user='ada"x'), terms=("北京",), limit=1)).passages
        assert found == msgspec.structs.replace(long.passage, is_taken=True)

    def test_rare_terms_come_first_and_more_of_them(self, store: Any) -> None:
        put_passages(store, *(passage_of(ONE, seq, "run day") for seq in range(1, 20)), passage_of(ONE, 20, "zebra"))
        put_passages(store, passage_of(TWO, 1, "zebra run"), passage_of(TWO, 2, "day"))
        assert match(store, ada(), "zebra", "run", limit=3)[:2] == [(TWO, 1, 0), (ONE, 20, 0)]
        assert len(match(store, ada(), "zebra", "run", limit=3)) == 3
        assert match(store, ada(), "nowhere") == match(store, ada()) == []

    def test_replies_do_not_displace_the_words_of_the_user(self, store: Any) -> None:
        replies = [passage_of(ONE, seq, "lion zebra sleep", role="assistant") for seq in range(1, 30)]
        put_passages(store, *replies, passage_of(ONE, 30, "lion"), passage_of(ONE, 31, "zebra"))
        found = seqs_of(store, ada(), "lion", "zebra", "sleep", limit=10)
        assert len(found) == 10
        assert {30, 31} <= {*found}
        assert len(seqs_of(store, ada(roles=("user",)), "lion", "zebra", limit=10)) == 2

    def test_what_may_not_be_seen_is_not_counted(self, store: Any) -> None:
        secret = [passage_of(ONE, seq, "lion", requires=("pay",)) for seq in range(1, 9)]
        put_passages(store, *secret, passage_of(ONE, 9, "lion"), passage_of(TWO, 1, "lion", user="bo"))
        for permissions, count in (((), 1), (("pay",), 9), (None, 9)):
            visible = ada(permissions=permissions)
            found = store.match_passages(PassageQuery(visible=visible, terms=("lion",), limit=99))
            assert (found.counts, found.total, len(found.passages)) == ({"lion": count}, count, count)

    def test_a_term_matches_equal_terms_only_and_is_never_syntax(self, store: Any) -> None:
        put_passages(store, passage_of(ONE, 1, "word secret"), passage_of(TWO, 1, "secret", user="bo"))
        for word in (*ODD_WORDS, "wor", "words", "secre", "1xsecret"):
            assert seqs_of(store, ada(), word) == [], word
            assert seqs_of(store, ada(), word, "secret") == [1], word
        hostile = IndexedPassage(passage_of(ONE, 2).passage, ODD_WORDS)
        put_passages(store, hostile)
        assert seqs_of(store, ada(), "secret") == [1]

    def test_terms_are_counted_without_candidates(self, store: Any) -> None:
        """A limit of 0 finds no passages; the counts are those of a search, whatever is hidden or not taken."""
        put_passages(store, *(passage_of(ONE, 1, "lion zebra", part=part) for part in range(3)), passage_of(ONE, 2))
        put_passages(store, passage_of(TWO, 1, "zebra"), passage_of(TWO, 2, "lion", user="bo"))
        hidden = ada(hidden=(StreamSpan(ONE, 2, 2),))
        for visible in (ada(), ada(user="bo"), hidden, ada(since_us=1), ada(user="", spans=(StreamSpan(ONE, 1, 1),))):
            query = PassageQuery(visible=visible, terms=("lion", "zebra", "teapot"), limit=0)
            counted = store.match_passages(query)
            found = store.match_passages(msgspec.structs.replace(query, limit=9))
            assert (counted.passages, counted.counts, counted.total) == ((), found.counts, found.total), visible

    def test_limits_are_checked(self, store: Any) -> None:
        for limit in (-1, limits.READ_EVENTS + 1):
            with pytest.raises(TooLarge):
                match(store, ada(), "lion", limit=limit)
        for limit in (0, limits.READ_EVENTS + 1):
            with pytest.raises(TooLarge):
                store.recent_passages(ada(), limit)
        with pytest.raises(TooLarge):
            match(store, ada(), *(f"t{number}" for number in range(limits.SEARCH_WORDS + 1)))

    def test_similar_users_and_tenants_are_separate(self, store: Any) -> None:
        names = sorted({name for pair in LOOKALIKES for name in pair})
        for name in names:
            put_passages(store, passage_of(session_stream(name), 1, user=name))
            put_passages(store, passage_of(session_stream("s", tenant=name), 1, user="ada"))
        for name in names:
            assert match(store, ada(user=name), "lion") == [(session_stream(name), 1, 0)]
            visible = PassageFilter(tenant=name, user="ada")
            assert match(store, visible, "lion") == [(session_stream("s", tenant=name), 1, 0)]

    def test_common_terms_find_the_newest_if_there_is_nothing_else(self, store: Any) -> None:
        many = 2_300
        terms = ("day", "day run")
        put_passages(
            store, *(passage_of(ONE, 1, terms[at % 2], part=at, time_us=at, place=at) for at in range(1, many + 1))
        )
        found = store.match_passages(PassageQuery(visible=ada(), terms=("day",), limit=20))
        assert len(found.passages) == 20
        assert min(each.part for each in found.passages) > many - 1_000
        assert found.counts["day"] > 1_000
        put_passages(store, passage_of(TWO, 1, "zebra day"), passage_of(TWO, 2, "zebra"))
        assert match(store, ada(), "day", "zebra")[:2] == [(TWO, 1, 0), (TWO, 2, 0)]
        # One session among many passages, and a stretch of time among many, are found all the same.
        assert match(store, ada(sessions=("two",)), "day") == [(TWO, 1, 0)]
        assert sorted(match(store, ada(since_us=7, until_us=8), "day")) == [(ONE, 1, 7), (ONE, 1, 8)]

    def test_a_batch_continues_the_mark_or_nothing_is_stored(self, store: Any) -> None:
        put_events(store, ONE)
        first, second = IndexMark(version=2, places=2, user="ada", permissions=("pay",)), IndexMark(version=4)

        def batch(before: IndexMark | None, mark: IndexMark, seq: int) -> PassageBatch:
            return PassageBatch(stream=ONE, before=before, mark=mark, passages=(passage_of(ONE, seq),))

        assert store.index_marks([ONE]) == {}
        assert not store.index_passages(batch(first, second, 3))
        assert store.index_passages(batch(None, first, 1))
        assert not store.index_passages(batch(None, first, 2))
        assert store.index_marks([ONE, TWO]) == {ONE: first}
        assert store.index_passages(batch(first, second, 3))
        with pytest.raises(VersionConflict):
            store.index_passages(batch(second, IndexMark(version=EVENTS + 1), 5))
        with pytest.raises(VersionConflict):
            store.index_passages(PassageBatch(stream=TWO, before=None, mark=first, passages=(passage_of(TWO, 1),)))
        assert store.index_marks([ONE]) == {ONE: second}
        own = PassageFilter(tenant="acme", spans=(StreamSpan(ONE, 1, LAST),))
        assert sorted(seqs_of(store, own, "lion")) == [1, 3]

    def test_one_of_several_indexers_stores_a_batch(self, store: Any) -> None:
        put_events(store, ONE)
        batch = PassageBatch(stream=ONE, before=None, mark=IndexMark(version=3), passages=(passage_of(ONE, 1),))
        assert sorted(run_in_threads(6, lambda _: store.index_passages(batch))) == [False] * 5 + [True]
        assert store.check() == ()

    def test_indexing_again_replaces_and_what_was_taken_stays_taken(self, store: Any) -> None:
        put_passages(store, passage_of(ONE, 1, "lion"), passage_of(ONE, 1, "zebra", part=1), passage_of(ONE, 2, "run"))
        put_passages(store, passage_of(ONE, 3, "sleep"), is_taken=False)
        before = store.index_marks([ONE])[ONE]
        new = (passage_of(ONE, 1, "tiger"), passage_of(ONE, 3, "sleep soon"))
        mark = IndexMark(version=3, format=before.format + 1)
        assert store.index_passages(PassageBatch(stream=ONE, before=before, mark=mark, passages=new))
        assert seqs_of(store, ada(), "lion", "zebra", "run", "sleep") == []
        assert seqs_of(store, ada(), "tiger") == [1]
        own = PassageFilter(tenant="acme", spans=(StreamSpan(ONE, 1, LAST),))
        assert [(each.seq, each.is_taken) for each in store.recent_passages(own, 9)] == [(3, False), (1, True)]
        assert store.check() == ()

    def test_taking_is_repeatable_and_leaves_out_hidden_events(self, store: Any) -> None:
        put_passages(store, *(passage_of(ONE, seq) for seq in range(1, 7)), is_taken=False)
        assert seqs_of(store, ada(), "lion") == []
        for _ in range(2):
            assert store.take_passages(StreamSpan(ONE, 2, 5), [StreamSpan(ONE, 3, 3), StreamSpan(TWO, 1, 9)]) == 3
            assert sorted(seqs_of(store, ada(), "lion")) == [2, 4, 5]
        own = PassageFilter(tenant="acme", spans=(StreamSpan(ONE, 1, 4),))
        assert sorted(seqs_of(store, own, "lion")) == [1, 2, 3, 4]
        assert store.take_passages(StreamSpan(TWO, 1, 9)) == 0
        assert store.check() == ()

    def test_a_passage_may_require_as_many_permissions_as_an_identity_has(self, store: Any) -> None:
        names = [hashlib.sha512(b"%d" % each).hexdigest() for each in range(limits.PERMISSIONS)]
        requires = tuple(sorted(names))
        put_passages(store, passage_of(ONE, 1, requires=requires), passage_of(ONE, 2, requires=requires[1:]))
        assert sorted(seqs_of(store, ada(permissions=requires), "lion")) == [1, 2]
        assert seqs_of(store, ada(permissions=requires[1:]), "lion") == [2]
        assert store.check() == ()

    @pytest.mark.parametrize("keeps_taken", [False, True])
    @pytest.mark.parametrize("how", ["appended", "adopted"])
    def test_erased_events_have_no_passages(self, store: Any, how: str, keeps_taken: bool) -> None:
        put_passages(store, *(passage_of(ONE, seq) for seq in range(1, 4)))
        put_passages(store, *(passage_of(ONE, seq) for seq in range(4, 7)), is_taken=False)
        put_passages(store, passage_of(TWO, 1))
        store.put_vectors("e", [(PassageKey(ONE, seq, 0), (1.0, 0.0)) for seq in range(1, 7)])
        erase = (2, 3, 5, 6)
        if how == "appended":
            write = msgspec.structs.replace(write_to(ONE, 6, erase=erase), keeps_taken=keeps_taken)
            store.append(append_of(write))
        else:
            kept = {"keep_taken": {ONE: erase}} if keeps_taken else {}
            store.adopt((), {ONE: []}, {ONE: erase}, **kept)
        visible = ada(spans=(StreamSpan(ONE, 1, LAST),))
        left = [1, 2, 3, 4] if keeps_taken else [1, 4]
        assert sorted(seqs_of(store, visible, "lion")) == sorted([*left, 1])
        found = store.match_vectors(VectorQuery(visible=visible, embedder="e", vector=(1.0, 0.0), limit=9))
        assert sorted(each.seq for each, _ in found) == left
        assert store.index_marks([ONE]) == {}, "it has the identity after the event"
        # A slow indexer that read the events before they were erased stores nothing of them.
        late = tuple(passage_of(ONE, seq, "late") for seq in range(1, 7))
        assert store.index_passages(PassageBatch(stream=ONE, before=None, mark=IndexMark(version=6), passages=late))
        assert sorted(seqs_of(store, visible, "late")) == [1, 4]
        assert store.check() == ()

    def test_adopted_passages_need_no_events(self, store: Any) -> None:
        put_events(store, ONE, 3)
        store.append(append_of(write_to(ONE, 3, erase=(1, 2))))
        for _ in range(2):
            store.adopt_passages([passage_of(ONE, 1, "lion"), passage_of(ONE, 2, "zebra", role="assistant")])
        assert seqs_of(store, ada(), "lion") == [1]
        assert seqs_of(store, ada(), "zebra") == [2]
        assert store.index_marks([ONE]) == {}
        with pytest.raises(VersionConflict):
            store.adopt_passages([passage_of(TWO, 1)])
        store.index_passages(PassageBatch(stream=ONE, before=None, mark=IndexMark(version=4), passages=()))
        assert seqs_of(store, ada(), "lion") == [1], "its event is erased: no index can make it again"

    def test_forgetting_leaves_nothing_of_the_subject(self, store: Any) -> None:
        def fill() -> None:
            for stream in (ONE, TWO):
                put_passages(store, *(passage_of(stream, seq, user="bo" if seq == 3 else "ada") for seq in (1, 2, 3)))
            store.put_vectors("e", [(PassageKey(ONE, seq, 0), (1.0,)) for seq in (1, 2, 3)])

        fill()
        of_one = MemorySubject(tenant="acme", scope=Scope.from_stream(ONE))
        report = store.forget_passages(msgspec.structs.replace(of_one, seqs=(1, 3)))
        assert (report.passages, report.residue) == (2, 0)
        assert sorted(match(store, ada(), "lion")) == [(ONE, 2, 0), (TWO, 1, 0), (TWO, 2, 0)]
        assert store.forget_passages(of_one).passages == 1
        assert sorted(match(store, ada(), "lion")) == [(TWO, 1, 0), (TWO, 2, 0)]
        fill()
        for count in (4, 0):
            assert store.forget_passages(MemorySubject(tenant="acme", user="ada")).passages == count
        assert store.forget_passages(MemorySubject(tenant="other", user="bo")).passages == 0
        assert match(store, ada(), "lion") == []
        assert sorted(match(store, ada(user="bo"), "lion")) == [(ONE, 3, 0), (TWO, 3, 0)]
        assert len(store.match_vectors(_near(ada(user="bo"), (1.0,)))) == 1
        assert store.check() == ()

    def test_vectors_are_compared_exactly(self, store: Any) -> None:
        vectors = {seq: _vector(seq) for seq in range(1, 41)}
        put_passages(store, *(passage_of(ONE, seq, requires=("pay",) if seq % 5 == 0 else ()) for seq in vectors))
        assert [each.seq for each in store.unembedded_passages("acme", "e", 3)] == [1, 2, 3]
        keys = {seq: PassageKey(ONE, seq, 0) for seq in vectors}
        store.put_vectors("e", [(keys[seq], vector) for seq, vector in vectors.items() if seq < 39])
        store.put_vectors("e", [(PassageKey(ONE, 99, 0), _vector(99)), (PassageKey(TWO, 1, 0), _vector(1))])
        store.put_vectors("other", [(keys[40], _vector(7))])
        assert [each.seq for each in store.unembedded_passages("acme", "e", 9)] == [39, 40]
        assert store.unembedded_passages("none", "e", 9) == ()
        asked = _vector(1_000)
        wanted = {seq: _cosine(asked, vector) for seq, vector in vectors.items() if seq < 39 and seq % 5}
        found = store.match_vectors(_near(ada(permissions=()), asked, limit=6))
        best = sorted(wanted, key=lambda seq: -wanted[seq])[:6]
        assert [each.seq for each, _ in found] == best
        assert [cosine for _, cosine in found] == pytest.approx([wanted[seq] for seq in best], abs=1e-5)
        assert len(store.match_vectors(_near(ada(), asked, limit=99))) == 38
        assert store.match_vectors(_near(ada(), asked[:2])) == (), "another embedder's length"
        store.put_vectors("e", [(keys[1], asked)])
        ((nearest, cosine),) = store.match_vectors(_near(ada(), [number * 3 for number in asked], limit=1))
        assert (nearest.seq, cosine) == (1, pytest.approx(1.0, abs=1e-5))
        assert store.match_vectors(msgspec.structs.replace(_near(ada(), asked), embedder="none")) == ()


def _near(visible: PassageFilter, vector: Sequence[float], limit: int = 9) -> VectorQuery:
    return VectorQuery(visible=visible, embedder="e", vector=tuple(vector), limit=limit)


def _vector(number: int) -> tuple[float, ...]:
    return tuple(die / 128 - 1 for die in hashlib.sha256(b"%d" % number).digest())


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)
