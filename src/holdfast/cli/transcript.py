"""A message as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast
from holdfast import Body, File, Image, Opaque, Part, Text
from holdfast.cli.screen import ROLES, Styled, block, json_text, say
from holdfast.cli.words import clean, clean_lines, count, cut, size

MESSAGE_CHARS = 2_000
"""Of one text, unless all of it was asked for."""
ARGS_CHARS = 400
_INDENT = " " * 8


def show_message(message: holdfast.Message, when: str, *, full: bool) -> None:
    """A headline, then what was said, indented."""
    role = message.role or "erased"
    model = f"  {clean(message.source.model)}" if message.source and message.source.model else ""
    say(
        Styled(f"{message.seq:>6}  ", "dim"),
        Styled(f"{role:<9}", f"bold {ROLES.get(role, 'dim')}"),
        Styled(f"  {when}  {count(message.tokens, 'token')}{model}", "dim"),
    )
    if message.skipped:
        say(_INDENT, Styled(f"[not shown to models: {message.skipped}]", "yellow"))
    for part in message.content:
        _show_part(part, full)
    for call in (*message.tool_calls, *message.dropped_calls):
        args = json_text(call.args)
        say(_INDENT, Styled("→ ", "yellow"), Styled(clean(call.name), "bold"), " ", _shortened(args, full, ARGS_CHARS))
        say(_INDENT, Styled(f"  {clean(call.id)}", "dim"))
    for result in message.tool_results:
        mark = Styled("✗ ", "red") if result.is_error else Styled("← ", "yellow")
        say(_INDENT, mark, Styled(clean(result.tool_call_id), "dim"))
        for part in result.content:
            _show_part(part, full)


def _show_part(part: Part, full: bool) -> None:
    for text in _texts(part):
        block(clean_lines(text if full else cut(text, MESSAGE_CHARS)), len(_INDENT))
    if note := _note(part):
        say(_INDENT, Styled(f"[{clean(note)}]", "dim"))


def _texts(part: Part) -> Iterator[str]:
    match part:
        case Text(text):
            yield text
        case Body(preview=preview) if preview:
            yield preview
        case holdfast.Data(value):
            yield json_text(value)


def _note(part: Part) -> str:
    """What stands for a part that is no text."""
    match part:
        case Body(ref=ref):
            return f"the text goes on, {size(ref.size)} in all, blob {ref.digest[:12]}"
        case File(ref=ref, name=name):
            return f"file {name or ''} {ref.media_type or ''} {size(ref.size)}, blob {ref.digest[:12]}"
        case Image(ref=None, url=url):
            return f"image at {url}"
        case Image(ref=holdfast.BlobRef() as ref):
            return f"image {ref.media_type or ''} {size(ref.size)}, blob {ref.digest[:12]}"
        case Opaque(issuer=issuer):
            return f"a part that only {issuer} reads"
    return ""


def _shortened(text: str, full: bool, chars: int) -> str:
    return text if full else cut(text, chars)
