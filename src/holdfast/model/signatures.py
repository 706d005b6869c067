"""What a function says of itself: its name, its words and its parameters, as a model is to be told of them.

Laws: a description is made from annotations and the docstring alone, and the same function gives the same bytes; what
cannot be described is an InvalidTool that names the parameter; no function is called.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Union, get_type_hints

import msgspec

from holdfast.errors import InvalidTool, shown
from holdfast.model import schemas
from holdfast.model.docstrings import read_docstring

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider takes for the name of a tool."""


class Parameter(NamedTuple):
    name: str
    type: Any
    required: bool
    default: object
    nullable: bool
    """None is one of its values."""


class Signature(NamedTuple):
    """A function as a tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    accepted: tuple[Parameter, ...]
    decode: Callable[[bytes], Any]
    """The arguments as values of the annotated types. Raises msgspec.ValidationError, in words for a model."""


def read_signature(
    function: Any,
    name: str | None,
    description: str | None,
    exclude: Iterable[str],
    strict: bool,
    local_names: Mapping[str, Any],
) -> Signature:
    """`local_names` are those that annotations may mean beside the function's globals."""
    if not callable(function) or isinstance(function, type):
        raise InvalidTool(function=shown(function), parameter="", reason="it is not a function")
    inner, fixed = _unwrapped(function)
    called = name if name is not None else getattr(inner, "__name__", "")
    if type(called) is not str or not _NAME.fullmatch(called):
        reason = f"its name, {shown(called)}, is not 1 to 64 letters, digits, underscores or hyphens: pass name="
        raise InvalidTool(function=shown(called), parameter="", reason=reason)
    document = read_docstring(getattr(inner, "__doc__", None) or "")
    accepted = _parameters(function, inner, called, frozenset((*exclude, *fixed)), local_names)
    described = {each.name: schemas.schema_of(called, each.name, each.type) for each in accepted}
    for each in accepted:
        text = schemas.described_by(each.type) or document.parameters.get(each.name, "")
        schemas.annotate(described[each.name], text, each.default)
    required = [each.name for each in accepted if each.required]
    parameters = schemas.object_of(called, described, required)
    if strict:
        optional = frozenset(each.name for each in accepted if not each.required)
        parameters = schemas.strict(called, parameters, optional)
    return Signature(
        name=called,
        description=document.text if description is None else description,
        parameters=parameters,
        accepted=accepted,
        decode=_decoder(called, accepted),
    )


def _unwrapped(function: Any) -> tuple[Any, tuple[str, ...]]:
    """The function that has the name and the docstring, and the parameters that were given already."""
    import functools  # noqa: PLC0415 - with what follows, a good part of the time of an import

    fixed: list[str] = []
    while isinstance(function, functools.partial):
        fixed += function.keywords
        function = function.func
    return function, tuple(fixed)


def _parameters(
    function: Any, inner: Any, called: str, exclude: frozenset[str], local_names: Mapping[str, Any]
) -> tuple[Parameter, ...]:
    import inspect  # noqa: PLC0415 - a good part of the time of an import

    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise InvalidTool(function=called, parameter="", reason="it has no signature that can be read") from error
    hints = _hints(inner, called, local_names)
    parameters: list[Parameter] = []
    for each in found.values():
        if each.name in exclude:
            continue
        reason = _refusal(each, each.name in hints, inspect.Parameter)
        if reason:
            raise schemas.invalid_parameter(called, each.name, reason)
        kind = hints[each.name]
        required = each.default is inspect.Parameter.empty
        default = msgspec.UNSET if required else each.default
        parameters.append(Parameter(each.name, kind, required, default, schemas.accepts_none(kind)))
    return tuple(parameters)


def _refusal(parameter: Any, annotated: bool, kinds: Any) -> str:
    """Why a model cannot be told of a parameter."""
    if parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
        return "it stands for any number of arguments: name each one, or take a dict"
    if parameter.kind is kinds.POSITIONAL_ONLY:
        return "it is positional-only, and the arguments of a call have names"
    if annotated:
        return ""
    if parameter.name in ("self", "cls"):
        return "it is the object of a method: pass the bound method"
    return "it has no annotation: say what type it is, or typing.Any for any value"


def _hints(inner: Any, called: str, local_names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations, texts resolved."""
    import inspect  # noqa: PLC0415 - a good part of the time of an import

    holder = inner if inspect.isroutine(inner) else type(inner).__call__
    closure = getattr(inspect.unwrap(holder), "__closure__", None) or ()
    names = getattr(getattr(inspect.unwrap(holder), "__code__", None), "co_freevars", ())
    inside: dict[str, Any] = dict(local_names)
    for name, cell in zip(names, closure, strict=False):
        try:
            inside[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    try:
        return get_type_hints(holder, localns=inside, include_extras=True)
    except Exception as error:
        missing = getattr(error, "name", None) or str(error)
        reason = f"an annotation cannot be resolved: {missing}"
        raise schemas.invalid_parameter(called, _blamed(holder, missing), reason) from error


def _blamed(holder: Any, missing: str) -> str:
    """The parameter whose annotation names what is missing."""
    notes = getattr(holder, "__annotations__", {})
    return next((name for name, note in notes.items() if type(note) is str and missing in note), "")


def _decoder(called: str, accepted: tuple[Parameter, ...]) -> Callable[[bytes], Any]:
    fields: list[Any] = [
        (each.name, each.type) if each.required else (each.name, Union[each.type, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007 - a type made at run time
        for each in accepted
    ]
    try:
        kind = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind, dec_hook=schemas.from_json).decode
    except (TypeError, RuntimeError, ValueError) as error:
        raise InvalidTool(function=called, parameter="", reason=str(error)) from error
    return decode


def caller_names(depth: int) -> Mapping[str, Any]:
    """The local names of whoever called, so many calls up: a class that was defined there may stand in an annotation."""
    return sys._getframe(depth + 1).f_locals
