"""From events to rows: what a rebuild makes is what was there."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import project
from holdfast.model.content import Body, Image, Text, blob_refs
from holdfast.model.events import Event, event_parts
from holdfast.model.frames.events import FramePushed
from holdfast.model.frames.frames import FrameLimits
from holdfast.model.names import Scope
from holdfast.model.rows import BlobRow, Row, SessionRow
from holdfast.model.state import SessionState
from tests.core import json_strategies, strategies
from tests.support import figure

EXAMPLES = figure(30, 5_000)


def _key(row: Row) -> tuple[object, ...]:
    return (type(row), *(getattr(row, column) for column in type(row).key))


OPEN = SessionState(version=1, status="open")


def _projected(
    scope: Scope, events: list[Event | None], state: SessionState = OPEN
) -> tuple[SessionState, dict[tuple[object, ...], Row]]:
    """The state after these events and the rows that they make, by key."""
    fold = project.SessionFold(scope, state)
    for event in events:
        fold.add(event, event.name if event else "message.recorded", 7)
    return fold.state, {_key(row): row for row in fold.build_rows()}


pushed = st.builds(FramePushed, goal=json_strategies.names, budget=strategies.tokens, limits=st.just(FrameLimits()))
maybe_erased = st.lists(st.none() | strategies.messages | strategies.frame_events, max_size=4).flatmap(
    lambda events: st.just(events) | pushed.map(lambda first: [first, *events])
)


@given(strategies.scopes, strategies.states)
@settings(max_examples=EXAMPLES)
def test_the_session_row_repeats_the_state(scope: Scope, state: SessionState) -> None:
    row = project.session_row(scope, state)
    assert (row is None) == (state.status == "absent")
    if row is not None:
        assert (row.tenant, row.actor, row.session, row.thread or None) == (
            scope.tenant,
            scope.actor,
            scope.session,
            scope.thread,
        )
        shared = set(SessionRow.__struct_fields__) & set(SessionState.__struct_fields__) - {"open_calls"}
        assert {name: getattr(row, name) for name in shared} == {name: getattr(state, name) for name in shared}


@given(strategies.scopes, maybe_erased)
@settings(max_examples=EXAMPLES)
def test_there_is_a_row_for_every_body_that_an_event_names(scope: Scope, events: list[Event | None]) -> None:
    _, rows = _projected(scope, events)
    named = {(ref.digest, seq) for seq, event in enumerate(events, 2) for ref in blob_refs(event_parts(event))}
    assert {(row.digest, row.seq) for row in rows.values() if isinstance(row, BlobRow)} == named


@given(strategies.scopes, maybe_erased, st.integers(0, 4))
@settings(max_examples=EXAMPLES)
def test_it_does_not_matter_where_the_events_are_cut_into_pages(
    scope: Scope, events: list[Event | None], cut: int
) -> None:
    _, whole = _projected(scope, events)
    between, pages = _projected(scope, events[:cut])
    _, rest = _projected(scope, events[cut:], between)
    assert pages | rest == whole


@given(strategies.scopes, strategies.scopes, maybe_erased, maybe_erased)
@settings(max_examples=EXAMPLES)
def test_two_streams_never_write_the_same_row(
    one: Scope, other: Scope, events: list[Event | None], others: list[Event | None]
) -> None:
    keys = [{*_projected(scope, made)[1]} for scope, made in ((one, events), (other, others))]
    assert one == other or keys[0].isdisjoint(keys[1])


def test_a_part_without_a_body_names_none() -> None:
    assert blob_refs((Text("text"), Image(url="https://example.org"))) == ()


@given(strategies.refs, strategies.refs)
@settings(max_examples=EXAMPLES)
def test_bodies_are_named_in_order(one: object, other: object) -> None:
    assert blob_refs((Body(one), Text("x"), Image(ref=other))) == (one, other)  # type: ignore[arg-type]
