"""Read the usage of a model call in the format of any provider. Invalid figures are ignored: the message is stored."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput
from holdfast.model.content import Usage
from holdfast.providers.fields import read_fields

CALL_TOKENS = 1 << 40
"""More than any model call consumes."""


def read_openai_usage(value: object) -> Usage | None:
    """Read the usage of chat (prompt, completion) or responses (input, output). Both count cached tokens as input."""
    figures = _read_figures(value)
    prompt = _read_inner(figures, "prompt_tokens_details", "input_tokens_details")
    output = _read_inner(figures, "completion_tokens_details", "output_tokens_details")
    return _build_usage(
        _read_figure(figures, "prompt_tokens", "input_tokens"),
        _read_figure(figures, "completion_tokens", "output_tokens"),
        _read_figure(prompt, "cached_tokens"),
        _read_figure(prompt, "cache_write_tokens"),
        _read_figure(output, "reasoning_tokens"),
    )


def read_anthropic_usage(value: object) -> Usage | None:
    """Read the usage of Anthropic, whose `input_tokens` do not include cached tokens."""
    figures = _read_figures(value)
    uncached = _read_figure(figures, "input_tokens")
    read = _read_figure(figures, "cache_read_input_tokens")
    written = _read_figure(figures, "cache_creation_input_tokens")
    parts = [part for part in (uncached, read, written) if part is not None]
    output = _read_figure(figures, "output_tokens")
    thinking = _read_figure(_read_inner(figures, "output_tokens_details"), "thinking_tokens")
    return _build_usage(sum(parts) if parts else None, output, read, written, thinking)


def read_own_usage(value: object) -> Usage | None:
    """Read a Usage, or a dict with its fields."""
    if value is None or type(value) is Usage:
        return value
    figures = _read_figures(value)
    return _build_usage(*(_read_figure(figures, name) for name in Usage.__struct_fields__))


def _build_usage(*figures: int | None) -> Usage | None:
    if all(figure is None for figure in figures):
        return None
    return Usage(*(figure or 0 for figure in figures))


def _read_figures(value: object) -> dict[str, Any]:
    try:
        return read_fields(value) or {}
    except InvalidInput:
        return {}


def _read_inner(figures: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if figures.get(name) is not None:
            return _read_figures(figures[name])
    return {}


def _read_figure(figures: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = figures.get(name)
        if type(value) is int and 0 <= value <= CALL_TOKENS:
            return value
    return None
