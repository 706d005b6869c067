"""The parameters and the answer of an operation, read from the signature of its method."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from holdfast.api.operations import ApiOperation

IDEMPOTENCY_HEADER = "Idempotency-Key"
VERSION_HEADER = "If-Match"
CAUSE_HEADER = "Holdfast-Cause"
_HEADERS = {"key": IDEMPOTENCY_HEADER, "expect": VERSION_HEADER, "cause": CAUSE_HEADER}
_NO_HEADER = frozenset({"EntriesFacet.append"})
"""Methods whose `key` is no idempotency key."""
_JSON_WORDS = {"True": "true", "False": "false", "None": "null"}
_PYTHON_WORDS = re.compile(r"\b(?:True|False|None)\b")
_BRACES = re.compile(r"{(\w+)}")
REQUIRED: Any = inspect.Parameter.empty
"""The default of a parameter that has none."""


class ApiParameter(NamedTuple):
    """A parameter of an operation."""

    name: str
    annotation: Any
    place: Literal["path", "query", "body", "header"]
    default: Any = REQUIRED
    is_list: bool = False
    """The method takes the elements of the list one by one."""
    is_positional: bool = False
    """The method takes it by its position alone."""
    options: type | None = None
    """The typed dict that it is an option of; None for a parameter of its own."""

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def header(self) -> str:
        return _HEADERS[self.name]


class OperationSignature(NamedTuple):
    """The parameters and the answer of an operation."""

    parameters: tuple[ApiParameter, ...]
    answer: Any
    """The annotation of the answer; None for an operation without one."""
    summary: str
    """The first sentence of the docstring of the method."""
    description: str

    @property
    def is_optional(self) -> bool:
        """Whether the answer may be None."""
        return is_union(self.answer) and types.NoneType in get_args(self.answer)


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


@functools.cache
def read_signature(operation: ApiOperation) -> OperationSignature:
    """Read the signature of the method of an operation."""
    method = getattr(operation.owner, operation.method)
    hints = get_type_hints(method)
    in_path = set(_BRACES.findall(operation.path))
    place: Literal["query", "body"] = "query" if operation.verb in ("GET", "DELETE") else "body"
    parameters: list[ApiParameter] = []
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        hint = hints.get(name, Any)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            parameters += _read_options(operation, hint, place)
            continue
        is_list = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        where: Any = "path" if name in in_path else place
        where = "header" if _is_header(operation, name) else where
        parameters.append(
            ApiParameter(
                name,
                list[hint] if is_list else hint,  # type: ignore[valid-type]
                where,
                () if is_list else parameter.default,
                is_list,
                parameter.kind is inspect.Parameter.POSITIONAL_ONLY,
            )
        )
    answer = hints.get("return")
    summary, description = _read_docstring(method)
    return OperationSignature(tuple(parameters), None if answer is types.NoneType else answer, summary, description)


def _read_options(operation: ApiOperation, unpacked: Any, place: Literal["query", "body"]) -> list[ApiParameter]:
    """The options of a typed dict that a method takes as keywords."""
    (options,) = get_args(unpacked)
    return [
        ApiParameter(name, hint, "header" if _is_header(operation, name) else place, None, options=options)
        for name, hint in get_type_hints(options).items()
    ]


@functools.cache
def read_field_texts(options: type) -> dict[str, str]:
    """The texts below the fields of a class, and of the classes that it extends. Python keeps none of them: they
    are read from the source; empty without one. Not for calls: Python 3.11 cannot read sources in several threads."""
    try:
        (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(parsed, ast.ClassDef), "it is the source of a class"
    texts: dict[str, str] = {}
    for base in parsed.bases:  # a typed dict does not know what it extends
        extended = getattr(sys.modules[options.__module__], base.id, None) if isinstance(base, ast.Name) else None
        if isinstance(extended, type):
            texts |= read_field_texts(extended)
    for field, text in itertools.pairwise(parsed.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                texts[name] = _PYTHON_WORDS.sub(lambda found: _JSON_WORDS[found[0]], " ".join(words.split()))
    return texts


def _is_header(operation: ApiOperation, name: str) -> bool:
    return (
        name in _HEADERS
        and f"{operation.owner.__name__}.{operation.method}" not in _NO_HEADER
        and ("{" + name + "}" not in operation.path)
    )


def _read_docstring(method: Callable[..., Any]) -> tuple[str, str]:
    text = inspect.cleandoc(method.__doc__ or "")
    first, _, rest = text.partition("\n\n")
    return " ".join(first.split()), rest
