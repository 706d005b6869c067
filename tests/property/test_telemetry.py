"""Whatever agents do: with telemetry on, the same is stored and shown as without it, and nothing of contents is exported.

Laws: events differ in their cause alone, and rows do not differ; the counter of events counts each event once; every span
ends; every cause is the span of an operation.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.model.log import StoredEvent
from holdfast.runtime import telemetry_attributes as names
from tests.edges.telemetry_recorder import Recorder
from tests.property.agent_histories import SPOOLING, HistoryPlayer, find_marks
from tests.property.agent_steps import draw_day
from tests.property.session_model import CharCounter, ManualClock
from tests.property.store_tools import Kind, read_whole_feed, rows_dump, store_of_kind
from tests.support import CountingIds, figure

IN_MEMORY = figure(12, 2_000)
ON_SQLITE = figure(2, 200)


def play(kind: Kind, seed: int, telemetry: holdfast.Telemetry | None) -> tuple[list[StoredEvent], Any, set[str]]:
    """The log and the rows of a random day, and the marks in its texts."""
    clock = ManualClock()
    with ExitStack() as stack:
        url = stack.enter_context(store_of_kind(kind))
        engine = stack.enter_context(
            holdfast.open(
                url, clock=clock, ids=CountingIds(), counter=CharCounter(), spooling=SPOOLING, telemetry=telemetry
            )
        )
        player = HistoryPlayer(lambda: engine, clock)
        for step in draw_day(seed):
            player.give(step)
        player.check_all()
        marks = {mark for message in player.said.values() for mark in find_marks(message)}
        return list(read_whole_feed(engine.store)), rows_dump(engine), marks


def compare(kind: Kind, seed: int) -> None:
    recorder = Recorder()
    on, on_rows, marks = play(kind, seed, recorder.telemetry)
    off, off_rows, _ = play(kind, seed, None)
    assert [msgspec.structs.replace(event, cause=None, hash=b"") for event in on] == [
        msgspec.structs.replace(event, hash=b"") for event in off
    ]
    assert on_rows == off_rows
    spans = {f"{span.context.trace_id:032x}-{span.context.span_id:016x}" for span in recorder.spans}
    assert {str(event.cause)[3:-3] for event in on} <= spans
    assert recorder.sums()[names.APPENDED] == len(on)
    assert len(marks) > 0
    exported = recorder.export_all()
    assert not [mark for mark in marks if mark in exported]


@settings(max_examples=IN_MEMORY)
@given(st.integers(0, 1 << 32))
def test_telemetry_changes_only_the_cause_of_events(seed: int) -> None:
    compare("memory", seed)


@settings(max_examples=ON_SQLITE)
@given(st.integers(0, 1 << 32))
def test_telemetry_changes_only_the_cause_of_events_on_sqlite(seed: int) -> None:
    compare("sqlite", seed)
