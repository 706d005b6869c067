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
        _read_figure(prompt, "cache_write_tokens", "cache_creation_tokens"),
        _read_figure(output, "reasoning_tokens"),
    )


def read_anthropic_usage(value: object) -> Usage | None:
    """Read the usage of Anthropic, whose `input_tokens` do not include cached tokens."""
    figures = _read_figures(value)
    uncached = _read_figure(figures, "input_tokens")
    read = _read_figure(figures, "cache_read_input_tokens")
    written = _read_figure(figures, "cache_creation_input_tokens")
    output = _read_figure(figures, "output_tokens")
    thinking = _read_figure(_read_inner(figures, "output_tokens_details"), "thinking_tokens")
    return _build_usage(_add_figures([uncached, read, written]), output, read, written, thinking)


def read_gemini_usage(value: object) -> Usage | None:
    """Read the usage of Gemini, with names as in `snake_case`. Its output does not include thoughts."""
    figures = _read_figures(value)
    prompt = [_read_figure(figures, name) for name in ("prompt_token_count", "tool_use_prompt_token_count")]
    thoughts = _read_figure(figures, "thoughts_token_count")
    return _build_usage(
        _add_figures(prompt),
        _add_figures([_read_figure(figures, "candidates_token_count"), thoughts]),
        _read_figure(figures, "cached_content_token_count"),
        None,
        thoughts,
    )


def read_bedrock_usage(value: object) -> Usage | None:
    """Read the usage of Bedrock, whose `inputTokens` do not include cached tokens."""
    figures = _read_figures(value)
    read = _read_figure(figures, "cacheReadInputTokens")
    written = _read_figure(figures, "cacheWriteInputTokens")
    whole = _add_figures([_read_figure(figures, "inputTokens"), read, written])
    return _build_usage(whole, _read_figure(figures, "outputTokens"), read, written)


def _add_figures(figures: list[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


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
