"""The signature of a function as a tool: its name, description and parameters.

Laws: a description comes from annotations and the docstring alone, and the same function gives the same bytes. A parameter
that cannot be described raises InvalidTool, which names it. No function is called.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Union, get_type_hints

import msgspec

from holdfast.errors import InvalidTool, describe_value
from holdfast.model.tools import schemas
from holdfast.model.tools.docstrings import read_docstring

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names of tools that every provider accepts."""


class ToolParameter(NamedTuple):
    name: str
    type: Any
    required: bool
    default: object
    nullable: bool
    """Whether None is one of its values."""


class Signature(NamedTuple):
    """A function as a tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    accepted: tuple[ToolParameter, ...]
    decode: Callable[[bytes], Any]
    """Decodes arguments to the annotated types. Raises msgspec.ValidationError with a text for the model."""


def read_signature(
    function: Any,
    name: str | None,
    description: str | None,
    exclude: Iterable[str],
    strict: bool,
    local_names: Mapping[str, Any],
) -> Signature:
    """Read a function. `local_names` are names that annotations may use beside the globals of the function."""
    if not callable(function) or isinstance(function, type):
        raise InvalidTool(function=describe_value(function), parameter="", reason="it is not a function")
    inner, fixed = _unwrap(function)
    tool_name = name if name is not None else getattr(inner, "__name__", "")
    if type(tool_name) is not str or not _TOOL_NAME.fullmatch(tool_name):
        reason = (
            f"its name, {describe_value(tool_name)}, is not 1 to 64 letters, digits, underscores or hyphens: pass name="
        )
        raise InvalidTool(function=describe_value(tool_name), parameter="", reason=reason)
    document = read_docstring(getattr(inner, "__doc__", None) or "")
    accepted = _read_parameters(function, inner, tool_name, frozenset((*exclude, *fixed)), local_names)
    described = {each.name: schemas.schema_of(tool_name, each.name, each.type) for each in accepted}
    for each in accepted:
        text = schemas.description_of(each.type) or document.parameters.get(each.name, "")
        schemas.annotate_schema(described[each.name], text, each.default)
    required = [each.name for each in accepted if each.required]
    parameters = schemas.build_object_schema(tool_name, described, required)
    if strict:
        optional = frozenset(each.name for each in accepted if not each.required)
        parameters = schemas.make_strict(tool_name, parameters, optional)
    return Signature(
        name=tool_name,
        description=document.text if description is None else description,
        parameters=parameters,
        accepted=accepted,
        decode=_build_decoder(tool_name, accepted),
    )


def _unwrap(function: Any) -> tuple[Any, tuple[str, ...]]:
    """The inner function of partials, with its name and docstring, and the parameters that are already bound."""
    import functools  # noqa: PLC0415 - with what follows, a good part of the time of an import

    fixed: list[str] = []
    while isinstance(function, functools.partial):
        fixed += function.keywords
        function = function.func
    return function, tuple(fixed)


def _read_parameters(
    function: Any, inner: Any, tool_name: str, exclude: frozenset[str], local_names: Mapping[str, Any]
) -> tuple[ToolParameter, ...]:
    import inspect  # noqa: PLC0415 - a good part of the time of an import

    try:
        signature = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise InvalidTool(function=tool_name, parameter="", reason="it has no signature that can be read") from error
    hints = _resolve_hints(inner, tool_name, local_names)
    parameters: list[ToolParameter] = []
    for each in signature.values():
        if each.name in exclude:
            continue
        reason = _refusal_reason(each, each.name in hints, inspect.Parameter)
        if reason:
            raise schemas.invalid_parameter(tool_name, each.name, reason)
        kind = hints[each.name]
        required = each.default is inspect.Parameter.empty
        default = msgspec.UNSET if required else each.default
        parameters.append(ToolParameter(each.name, kind, required, default, schemas.accepts_none(kind)))
    return tuple(parameters)


def _refusal_reason(parameter: Any, annotated: bool, kinds: Any) -> str:
    """Why a parameter cannot be described; empty if it can."""
    if parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
        return "it takes any number of arguments: name each one, or take a dict"
    if parameter.kind is kinds.POSITIONAL_ONLY:
        return "it is positional-only, and the arguments of a call have names"
    if annotated:
        return ""
    if parameter.name in ("self", "cls"):
        return "it is the object of a method: pass the bound method"
    return "it has no annotation: say what type it is, or typing.Any for any value"


def _resolve_hints(inner: Any, tool_name: str, local_names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations, with texts resolved to types."""
    import inspect  # noqa: PLC0415 - a good part of the time of an import

    holder = inner if inspect.isroutine(inner) else type(inner).__call__
    closure = getattr(inspect.unwrap(holder), "__closure__", None) or ()
    names = getattr(getattr(inspect.unwrap(holder), "__code__", None), "co_freevars", ())
    scope: dict[str, Any] = dict(local_names)
    for name, cell in zip(names, closure, strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    try:
        return get_type_hints(holder, localns=scope, include_extras=True)
    except Exception as error:
        missing = getattr(error, "name", None) or str(error)
        reason = f"an annotation cannot be resolved: {missing}"
        raise schemas.invalid_parameter(tool_name, _find_parameter(holder, missing), reason) from error


def _find_parameter(holder: Any, missing: str) -> str:
    """The parameter whose annotation uses the missing name."""
    notes = getattr(holder, "__annotations__", {})
    return next((name for name, note in notes.items() if type(note) is str and missing in note), "")


def _build_decoder(tool_name: str, accepted: tuple[ToolParameter, ...]) -> Callable[[bytes], Any]:
    fields: list[Any] = [
        (each.name, each.type) if each.required else (each.name, Union[each.type, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007 - a type made at run time
        for each in accepted
    ]
    try:
        kind = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind, dec_hook=schemas.decode_custom).decode
    except (TypeError, RuntimeError, ValueError) as error:
        raise InvalidTool(function=tool_name, parameter="", reason=str(error)) from error
    return decode


def read_caller_locals(depth: int) -> Mapping[str, Any]:
    """The local names of the caller, `depth` calls up: an annotation may use a class that is defined there."""
    return sys._getframe(depth + 1).f_locals
