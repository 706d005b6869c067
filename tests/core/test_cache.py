"""The states of the streams used last: so many, of so much weight, and never an older one for a newer."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.flows.load import StateCache
from holdfast.model.names import Scope, StreamId
from holdfast.model.state import SessionState
from tests.support import figure

STREAMS = [Scope("t", "a", name).stream for name in "abcdef"]
EMPTY = SessionState().weight

steps = st.tuples(
    st.sampled_from(["put", "get", "drop"]), st.sampled_from(STREAMS), st.integers(1, 5), st.integers(0, 1_000)
)


@given(st.integers(1, 6), st.integers(0, 8 * EMPTY), st.lists(steps, max_size=60))
@settings(max_examples=figure(100, 20_000))
def test_it_holds_what_was_used_last_within_both_bounds(
    size: int, most: int, does: list[tuple[str, StreamId, int, int]]
) -> None:
    cache = StateCache(size, most)
    model: OrderedDict[StreamId, SessionState] = OrderedDict()
    for what, stream, version, bulk in does:
        if what == "get" and stream in model:
            model.move_to_end(stream)
        elif what == "drop":
            cache.drop(stream)
            model.pop(stream, None)
        elif what == "put":
            state = SessionState(version=version, status="open", bulk=bulk)
            cache.put(stream, state)
            if stream not in model or model[stream].version <= version:
                model[stream] = state
                model.move_to_end(stream)
            while len(model) > 1 and (len(model) > size or sum(each.weight for each in model.values()) > most):
                model.popitem(last=False)
        if what == "get":
            assert cache.get(stream) == model.get(stream)
    kept = {stream: found for stream in STREAMS if (found := cache.get(stream)) is not None}
    assert kept == dict(model)
    assert len(kept) <= size
    assert len(kept) <= 1 or sum(state.weight for state in kept.values()) <= most
