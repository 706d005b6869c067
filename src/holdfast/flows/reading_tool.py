"""The tool that a model reads stored bodies with, as a flow: what it returns is for the model, and so is what is wrong with
its arguments."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.previews import describe_binary
from holdfast.errors import (
    HandleNotFound,
    HoldfastError,
    InvalidContent,
    InvalidInput,
    InvalidName,
    InvalidNumber,
    TooLarge,
    shown,
)
from holdfast.flows import reading
from holdfast.flows.effects import Flow
from holdfast.flows.guard import show_text
from holdfast.flows.place import Place
from holdfast.flows.reading import Reading
from holdfast.model import limits
from holdfast.model.handles import handle_seq, piece_of
from holdfast.model.tools import READ_HANDLE

_ROOM = 512
"""Bytes for what is said about a reading."""
_DIGITS = 20
"""Digits of a number that may be meant."""
_NUMBERS = ("start", "stop", "first_line", "last_line")


def answer(place: Place, arguments: dict[str, object]) -> Flow[str]:
    """What a call with these arguments reads, in a form that is not spooled in its turn."""
    threshold = place.context.spooling.threshold
    limit = reading.LIMIT_BYTES if not threshold else min(reading.LIMIT_BYTES, threshold - _ROOM)
    try:
        known = _checked(arguments)
        found = yield from reading.read_for_model(place, known["handle"], known, max(reading.LEAST_BYTES, limit))
    except (InvalidInput, HandleNotFound) as error:
        return f"Error: {_explain(error)}."
    return told((yield from _guarded(place, found)))


_SHOWN = "use one that a marker in this conversation names, such as h12_0"


def _explain(error: HoldfastError) -> str:
    """What is wrong with the arguments, for a model: it knows nothing of the library."""
    match error:
        case HandleNotFound(handle=handle):
            return f"there is no handle {handle}; {_SHOWN}"
        case InvalidName(value=value):
            return f"{shown(value)} is not a handle; {_SHOWN}"
        case InvalidNumber(what=what, value=value, low=low, high=high):
            most = f" from {low} to {high}" if high < limits.WHOLE_NUMBER else f" of at least {low}"
            return f"{what} is {value}; it must be a whole number{most if low > -limits.WHOLE_NUMBER else ''}"
        case InvalidContent(reason=reason):
            return reason
        case TooLarge():
            return "the text to search for is too long; search for a few words of it"
    return "search must be text"


def _guarded(place: Place, found: Reading) -> Flow[Reading]:
    """What was read, without superseded values: it is shown again, and after their end. Its range is that of the body."""
    if found.binary:
        return found
    seq = handle_seq(found.handle) or (piece_of(found.handle) or (0,))[0]
    return msgspec.structs.replace(found, text=(yield from show_text(place, found.text, seq)))


def _checked(arguments: dict[str, object]) -> dict[str, Any]:
    """What a model wrote, as it was meant: a number may be in quotes, and what is null is not there."""
    known = READ_HANDLE.parameters["properties"]
    given = {name: value for name, value in arguments.items() if value is not None and not _is_blank(value)}
    for name in given:
        if name not in known:
            raise InvalidContent(reason=f"there is no argument {shown(name)}: use {', '.join(known)}")
    if "handle" not in given:
        raise InvalidContent(reason=f"the handle is missing; {_SHOWN}")
    read = {name: _whole_number(value) if name in _NUMBERS else value for name, value in given.items()}
    if type(read["handle"]) is str:
        read["handle"] = read["handle"].strip(" \t\r\n\"'`")
    return read


def _is_blank(value: object) -> bool:
    return type(value) is str and not value


def _whole_number(value: object) -> object:
    if type(value) is str and value.strip().removeprefix("-").isdecimal() and len(value) <= _DIGITS:
        return int(value)
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def told(found: Reading) -> str:
    """A reading in words: what it shows, and a line on what that is of what."""
    if found.binary:
        what = describe_binary(found.size, found.media_type)
    elif found.found is not None:
        what = f"{found.found} lines have it" if found.found != 1 else "1 line has it"
        what = f"{what}; {found.size} bytes in all{'' if found.found else '; search looks for literal text'}"
    else:
        lines = "" if found.lines is None else "lines {} to {}, ".format(*found.lines)
        what = f"{lines}bytes {found.start} to {found.stop} of {found.size}"
    line = f"[{found.handle}: {what}{'; ' if found.more else ''}{found.more}]"
    return f"{found.text}{'' if found.text.endswith(chr(10)) else chr(10)}{line}" if found.text else line
