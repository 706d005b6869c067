"""What a model call consumed, in one set of words. Figures that make no sense are left out: they cost no message."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidContent
from holdfast.model.content import Usage
from holdfast.providers.plain import fields

CALL_TOKENS = 1 << 40
"""More than any model call consumes."""


def openai_usage(value: object) -> Usage | None:
    """Chat speaks of prompt and completion, responses of input and output. Both count cached tokens as input."""
    figures = _fields(value)
    sent = _inner(figures, "prompt_tokens_details", "input_tokens_details")
    made = _inner(figures, "completion_tokens_details", "output_tokens_details")
    return _usage(
        _figure(figures, "prompt_tokens", "input_tokens"),
        _figure(figures, "completion_tokens", "output_tokens"),
        _figure(sent, "cached_tokens"),
        _figure(sent, "cache_write_tokens"),
        _figure(made, "reasoning_tokens"),
    )


def anthropic_usage(value: object) -> Usage | None:
    """Its input_tokens are those that the cache had no part in."""
    figures = _fields(value)
    fresh = _figure(figures, "input_tokens")
    read = _figure(figures, "cache_read_input_tokens")
    written = _figure(figures, "cache_creation_input_tokens")
    parts = [part for part in (fresh, read, written) if part is not None]
    thought = _figure(_inner(figures, "output_tokens_details"), "thinking_tokens")
    return _usage(sum(parts) if parts else None, _figure(figures, "output_tokens"), read, written, thought)


def own_usage(value: object) -> Usage | None:
    if type(value) is Usage:
        return value
    figures = _fields(value)
    return _usage(*(_figure(figures, name) for name in Usage.__struct_fields__))


def _usage(*figures: int | None) -> Usage | None:
    if all(figure is None for figure in figures):
        return None
    return Usage(*(figure or 0 for figure in figures))


def _fields(value: object) -> dict[str, Any]:
    try:
        return fields(value) or {}
    except InvalidContent:
        return {}


def _inner(figures: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if figures.get(name) is not None:
            return _fields(figures[name])
    return {}


def _figure(figures: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = figures.get(name)
        if type(value) is int and 0 <= value <= CALL_TOKENS:
            return value
    return None
