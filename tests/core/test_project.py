"""From events to rows: what a rebuild makes is what was there."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import project, sessions
from holdfast.model.content import Body, Image, Text, blob_refs
from holdfast.model.events import Event, MessageRecorded
from holdfast.model.names import Scope
from holdfast.model.rows import BlobRow, Row, SessionRow
from holdfast.model.state import SessionState
from tests.core import strategies
from tests.support import figure

EXAMPLES = figure(60, 5_000)


def _key(row: Row) -> tuple[object, ...]:
    return (type(row), *(getattr(row, column) for column in type(row).key))


def _folded(events: list[Event | None], state: SessionState | None = None) -> SessionState:
    state = state or SessionState(version=1, status="open")
    for event in events:
        state = sessions.fold(state, event, event.name if event else "message.recorded", 7)
    return state


maybe_erased = st.lists(st.none() | strategies.messages, max_size=4)


@given(strategies.scopes, strategies.states, maybe_erased)
@settings(max_examples=EXAMPLES)
def test_the_session_row_repeats_the_state(scope: Scope, state: SessionState, events: list[Event | None]) -> None:
    rows = project.project(scope, state, enumerate(events, 1))
    session_rows = [row for row in rows if isinstance(row, SessionRow)]
    assert len(session_rows) == (state.status != "absent")
    for row in session_rows:
        assert (row.tenant, row.actor, row.session, row.thread or None) == (
            scope.tenant,
            scope.actor,
            scope.session,
            scope.thread,
        )
        shared = set(SessionRow.__struct_fields__) & set(SessionState.__struct_fields__)
        assert {name: getattr(row, name) for name in shared} == {name: getattr(state, name) for name in shared}


@given(strategies.scopes, maybe_erased)
@settings(max_examples=EXAMPLES)
def test_there_is_a_row_for_every_body_that_an_event_names(scope: Scope, events: list[Event | None]) -> None:
    rows = project.project(scope, _folded(events), enumerate(events, 2))
    named = {
        (ref.digest, seq)
        for seq, event in enumerate(events, 2)
        if isinstance(event, MessageRecorded)
        for ref in blob_refs(event.content)
    }
    assert {(row.digest, row.seq) for row in rows if isinstance(row, BlobRow)} == named


@given(strategies.scopes, maybe_erased, st.integers(0, 4))
@settings(max_examples=EXAMPLES)
def test_it_does_not_matter_where_the_events_are_cut_into_pages(
    scope: Scope, events: list[Event | None], cut: int
) -> None:
    numbered = list(enumerate(events, 2))
    whole = {_key(row): row for row in project.project(scope, _folded(events), numbered)}
    pages = {_key(row): row for row in project.project(scope, _folded(events[:cut]), numbered[:cut])}
    pages |= {_key(row): row for row in project.project(scope, _folded(events), numbered[cut:])}
    assert pages == whole


@given(strategies.scopes, strategies.scopes, maybe_erased, maybe_erased)
@settings(max_examples=EXAMPLES)
def test_two_streams_never_write_the_same_row(
    one: Scope, other: Scope, events: list[Event | None], others: list[Event | None]
) -> None:
    keys = [
        {_key(row) for row in project.project(scope, _folded(made), enumerate(made, 2))}
        for scope, made in ((one, events), (other, others))
    ]
    assert one == other or keys[0].isdisjoint(keys[1])


def test_a_part_without_a_body_names_none() -> None:
    assert blob_refs((Text("text"), Image(url="https://example.org"))) == ()


@given(strategies.refs, strategies.refs)
@settings(max_examples=EXAMPLES)
def test_bodies_are_named_in_order(one: object, other: object) -> None:
    assert blob_refs((Body(one), Text("x"), Image(ref=other))) == (one, other)  # type: ignore[arg-type]
