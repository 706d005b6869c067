"""What changed from one pack to another: of entries that may be anything, each is told of once."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.packs.explanations import DiffEvidence, HistoryChange, compare_manifests, find_changed_facts
from holdfast.core.packs.records import join_stretches, pack_faults
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.names import LedgerId, Scope
from holdfast.model.packs.events import PackRecorded
from holdfast.model.packs.pack import (
    PREFIX_SECTIONS,
    TAIL_SECTIONS,
    Manifest,
    ManifestEntry,
    PackChange,
    PackRequest,
    Profile,
    TokenSummary,
)
from holdfast.model.state import SessionState
from tests.support import figure

EXAMPLES = figure(30, 5_000)


SHOWN = ("included", "reduced")


LEDGER = LedgerId("t", "user", ("ada",))


SUMMARY = TokenSummary(budget=1_000, used=10, breakdown={})


LONG = 30


fates: st.SearchStrategy[Any] = st.sampled_from(["included", "reduced", "omitted", "missing"])


digests = st.sampled_from(["a", "b"])


names = st.sampled_from(["k1", "k2", "k3", "time", "brief"])


beside = st.builds(
    ManifestEntry,
    id=names,
    section=st.sampled_from([each for each in (*PREFIX_SECTIONS, *TAIL_SECTIONS) if each != "history"]),
    fate=fates,
    reason=st.just("because"),
    digest=digests,
)


@st.composite
def histories(draw: st.DrawFn) -> list[ManifestEntry]:
    """Stretches of messages side by side, with holes."""
    cuts = sorted(draw(st.sets(st.integers(2, LONG), max_size=8)))
    found: list[ManifestEntry] = []
    for first, stop in itertools.pairwise(cuts):
        if draw(st.booleans()):
            fate = draw(fates)
            last = draw(st.integers(first, stop - 1))
            mark = draw(digests) if fate == "reduced" else ""
            entry = ManifestEntry(
                id=f"m{first}", section="history", fate=fate, reason="r", at=first, to=last, digest=mark
            )
            found.append(entry)
    return found


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    others = {(each.section, each.id): each for each in draw(st.lists(beside, max_size=6))}
    query = draw(st.sampled_from(["one?", "two?"]))
    profile = Profile(name="balanced")
    return Manifest(
        scope=Scope("t", "ada", "s"),
        version=draw(st.integers(LONG, LONG + 9)),
        ledgers=((LEDGER, draw(st.integers(1, 3))),),
        request=PackRequest(query=query, budget=1_000, effective=1_000, fact_share=0.7, profile=profile, as_of_us=1),
        entries=(*others.values(), *draw(histories())),
        tokens=SUMMARY,
        counter="c",
        renderer="r",
        policy="p",
        context_hash="0" * 64,
    )


happened = st.builds(
    HistoryChange,
    st.integers(LONG, LONG + 9),
    st.sampled_from(["fold", "cut", "guard", "reset"]),
    st.just(1),
    st.integers(1, LONG),
    st.integers(1, 9),
)


grounds = st.builds(DiffEvidence, events=st.lists(happened, max_size=3).map(tuple))


def _beside(manifest: Manifest) -> dict[tuple[str, str], ManifestEntry]:
    return {(each.section, each.id): each for each in manifest.entries if each.section != "history"}


def _at(manifest: Manifest, seq: int) -> ManifestEntry | None:
    own = [each for each in manifest.entries if each.section == "history" and each.at <= seq <= each.to]
    return own[0] if own else None


def _looks(entry: ManifestEntry | None) -> Any:
    return None if entry is None else (entry.fate, entry.digest)


def _told_of(changes: tuple[PackChange, ...], seq: int) -> list[PackChange]:
    return [each for each in changes if each.entry.section == "history" and each.entry.at <= seq <= each.entry.to]


@settings(max_examples=EXAMPLES)
@given(manifests(), manifests(), grounds)
def test_every_candidate_is_told_of_once_or_is_as_it_was(
    first: Manifest, second: Manifest, known: DiffEvidence
) -> None:
    found = compare_manifests(first, second, known)
    before, after = _beside(first), _beside(second)
    told = [(each.entry.section, each.entry.id) for each in found.changes if each.entry.section != "history"]
    assert len(told) == len({*told})
    # what is out of both packs may differ in why: what is told of is what is shown
    as_they_were = {key for key in before.keys() & after.keys() if _looks(before[key]) == _looks(after[key])}
    assert {*told} == (before.keys() | after.keys()) - as_they_were
    for each in found.changes:
        assert each.why
        assert each.what != "added" or each.before is None
        assert (each.what in ("changed", "in", "out")) == (each.before is not None)


@settings(max_examples=EXAMPLES)
@given(manifests(), manifests(), grounds)
def test_every_message_that_both_tell_of_is_told_of_rightly(
    first: Manifest, second: Manifest, known: DiffEvidence
) -> None:
    changes = compare_manifests(first, second, known).changes
    for seq in range(LONG + 1):
        before, after, said = _at(first, seq), _at(second, seq), _told_of(changes, seq)
        assert len(said) <= 1
        if before is not None and after is not None:
            assert bool(said) == (_looks(before) != _looks(after))
        for each in said:
            was, is_now = before is not None and before.fate in SHOWN, after is not None and after.fate in SHOWN
            assert each.what != "in" or (is_now and not was)
            assert each.what != "out" or (was and not is_now)


@settings(max_examples=EXAMPLES)
@given(manifests(), grounds)
def test_a_pack_differs_in_nothing_from_itself(manifest: Manifest, known: DiffEvidence) -> None:
    found = compare_manifests(manifest, manifest, known)
    assert (found.changes, found.prefix_kept) == ((), True)
    assert found.same == len(manifest.entries)
    assert find_changed_facts(manifest, manifest) == []


@settings(max_examples=EXAMPLES)
@given(manifests(), manifests(), grounds)
def test_a_prefix_is_kept_only_if_nothing_in_it_changed(first: Manifest, second: Manifest, known: DiffEvidence) -> None:
    if not compare_manifests(first, second, known).prefix_kept:
        return
    prefix = [[each for each in one.entries if each.section in PREFIX_SECTIONS] for one in (first, second)]
    assert [(each.id, each.digest) for each in prefix[0]] == [(each.id, each.digest) for each in prefix[1]]
    last = max((each.to for each in first.entries if each.section == "history" and each.fate in SHOWN), default=0)
    for seq in range(last + 1):
        before, after = _at(first, seq), _at(second, seq)
        if before is not None and after is not None:
            assert _looks(before) == _looks(after)


def test_what_is_new_is_named_by_its_messages() -> None:
    """What else was recorded meanwhile is no message."""
    entry = ManifestEntry(id="m2-m5", section="history", fate="included", reason="in view", at=2, to=5)
    profile = Profile(name="balanced")
    first = Manifest(
        scope=Scope("t", "ada", "s"),
        version=6,
        request=PackRequest(budget=1_000, effective=1_000, fact_share=0.7, profile=profile, as_of_us=1),
        entries=(entry,),
        tokens=SUMMARY,
        counter="c",
        renderer="r",
        policy="p",
        context_hash="0" * 64,
    )
    longer = msgspec.structs.replace(entry, id="m2-m12", to=12)
    second = msgspec.structs.replace(first, version=14, entries=(longer,))
    (change,) = compare_manifests(first, second, DiffEvidence(messages=(8, 10, 12))).changes
    assert (change.entry.id, change.what, change.why) == ("m8-m12", "added", "is new")
    assert compare_manifests(first, second, DiffEvidence()).changes == (), "nothing was said"


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 5)).map(lambda each: (each[0], sum(each))), max_size=90))
def test_stretches_are_few_and_hold_all(shown: list[tuple[int, int]]) -> None:
    found = join_stretches(shown)
    held = {seq for first, last in found for seq in range(first, last + 1)}
    asked = {seq for first, last in shown for seq in range(first, last + 1)}
    assert asked <= held
    assert len(found) <= limits.PACK_STRETCHES
    if len(found) < limits.PACK_STRETCHES:
        assert asked == held
    ref = BlobRef("0" * 64, 1)
    event = PackRecorded(at=500, context_hash="0" * 64, budget=1, used=1, shown=found, manifest=ref)
    assert list(pack_faults(SessionState(version=500, status="open"), event)) == []
