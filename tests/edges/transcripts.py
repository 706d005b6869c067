"""Transcripts for tests: lines as other systems write them, files of them, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import holdfast
from tests.edges.engines import log_of

Lines = list[dict[str, Any]]

HUGE = "long \u00e9\u2028" * 10_000
"""More than a message keeps."""


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def export_lines(engine: holdfast.Engine, path: Path, session: str = "s") -> Lines:
    count = engine.admin.export_transcript(path, session)
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert len(lines) == count
    return lines


def to_exact_json(lines: Iterable[object]) -> list[str]:
    """What tells 1 from 1.0 and from true, which Python takes for equal."""
    return [json.dumps(line, sort_keys=True) for line in lines]


def payloads(engine: holdfast.Engine) -> list[bytes | None]:
    return [event.payload for event in log_of(engine)]


def calls(*ids: object, **others: object) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": each, "name": "look", "args": {}} for each in ids], **others}


def results(*answers: tuple[object, object], is_error: object = False, **others: object) -> dict[str, Any]:
    told = [{"tool_call_id": call, "result": value, "is_error": is_error} for call, value in answers]
    return {"role": "tool", "tool_results": told, **others}


# Lines as other systems write them

huge = st.none().map(lambda _: HUGE)  # a strategy that shows its values would show this one
texts = st.text(st.characters(codec="utf-8"), max_size=8)
_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
_same_to_python = st.sampled_from([1, 1.0, True, 0, 0.0, -0.0, False, "", "1"])
values = st.recursive(
    _scalars | texts | _same_to_python,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
_ids = st.sampled_from(["a", "b", "a", "b", "c2_0", "c3_0", "c3_1", "c4_0", "line-1-0", "line-2-1", "unknown"]) | (
    st.sampled_from(["", "new\nline", "x" * 300, "unknown~2", 1, 1.0, True, None, ["a"], {"a": 1}])
)
_extras = {"at": values, "call_id": values, "role ": values, "\u2028": values}
_calls = st.fixed_dictionaries(
    {}, optional={"id": _ids, "name": st.sampled_from(["look", "buy"]) | values, "args": values, **_extras}
)
_results = st.fixed_dictionaries(
    {},
    optional={
        "tool_call_id": _ids,
        "result": values | huge | st.lists(huge | _scalars, max_size=2),
        "is_error": st.booleans() | _same_to_python | values,
        **_extras,
    },
)
_figures = st.integers(-5, 5_000) | values
USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_usages = st.sampled_from(
    [
        USAGE,
        ("prompt_tokens", "completion_tokens", "prompt_tokens_details"),
        ("input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details"),
        ("total",),
    ]
).flatmap(lambda names: st.fixed_dictionaries({}, optional=dict.fromkeys(names, _figures)))
lines = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system", "developer"])},
    optional={
        "content": texts | values | huge,
        "tool_calls": st.lists(_calls, max_size=3) | st.lists(_calls | values, max_size=2) | values,
        "tool_results": st.lists(_results, max_size=4) | st.lists(_results | values, max_size=2) | values,
        "usage": _usages | values,
        **_extras,
    },
)
