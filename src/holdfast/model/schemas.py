"""Types as JSON schemas that providers take for the parameters of a tool.

Laws: every object says which properties it has, which are required, and that it has no others; what is no recursive type
stands where it is used, so that no reader has to follow references; nothing is shared with what is returned.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from holdfast.errors import InvalidTool

_REF = "#/$defs/"
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames")
_NAMED = ("properties", "patternProperties", "$defs")
_IGNORED_WHEN_STRICT = ("default", "uniqueItems", "contentEncoding")

Schema = dict[str, Any]


def invalid_parameter(function: str, parameter: str, reason: str) -> InvalidTool:
    return InvalidTool(function=function, parameter=parameter, reason=f"parameter {parameter!r}: {reason}")


def schema_of(function: str, parameter: str, kind: Any) -> Schema:
    """The schema of one parameter; of types that refer to themselves, with their definitions under `$defs`."""
    try:
        made = msgspec.json.schema_components((kind,), schema_hook=_of_custom, ref_template=f"{_REF}{{name}}")
    except (TypeError, RuntimeError, ValueError, RecursionError) as error:
        raise invalid_parameter(
            function, parameter, f"its type has no schema: {str(error).splitlines()[-1]}"
        ) from error
    whole: Schema = msgspec.json.decode(msgspec.json.encode({"anyOf": made[0], "$defs": made[1]}))
    definitions: dict[str, Schema] = {}
    for each in _schemas(whole):
        definitions |= each.pop("$defs", {})
    (whole,) = whole["anyOf"]
    recursive = {name for name in definitions if name in _reached(definitions, name)}
    found = _inlined(whole, definitions, recursive)
    needed = {*_referred(found)}.union(*(_reached(definitions, name) for name in _referred(found))) & recursive
    kept = {name: _inlined(definitions[name], definitions, recursive) for name in sorted(needed)}
    if kept:
        found["$defs"] = kept
    for each in _schemas(found):
        _tidied(each)
    return found


def _of_custom(kind: Any) -> Schema:
    """For types that msgspec does not know."""
    if hasattr(kind, "model_json_schema"):
        schema: Schema = kind.model_json_schema()
        return schema
    if isinstance(kind, type) and hasattr(kind, "__fspath__"):
        return {"type": "string"}
    raise TypeError(f"type {kind!r} is not supported")


def from_json(kind: Any, value: Any) -> Any:
    """The value of a type that msgspec does not know, from its JSON."""
    if hasattr(kind, "model_validate"):
        return _validated(kind, value)
    if isinstance(kind, type) and hasattr(kind, "__fspath__"):
        if type(value) is not str:
            raise ValueError("Expected `str`")
        return kind(value)
    raise TypeError(f"type {kind!r} is not supported")


def _validated(kind: Any, value: Any) -> Any:
    """A pydantic model of a value. What is wrong with it is told without the addresses that pydantic adds."""
    try:
        return kind.model_validate(value)
    except ValueError as error:
        faults = getattr(error, "errors", None)
        if not callable(faults):
            raise
        told = (f"{'.'.join(map(str, each['loc'])) or kind.__name__}: {each['msg']}" for each in faults())
        raise ValueError("; ".join(told)) from error


def accepts_none(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Annotated:
        return accepts_none(get_args(kind)[0])
    if origin is Union or origin is types.UnionType:
        return any(accepts_none(each) for each in get_args(kind))
    return kind in (None, type(None), Any)


def described_by(kind: Any) -> str:
    """What an annotation says in words: Annotated[int, "How many"], or something with a description."""
    if get_origin(kind) is not Annotated:
        return ""
    for each in get_args(kind)[1:]:
        text = each if type(each) is str else getattr(each, "description", None)
        if type(text) is str and text:
            return text
    return ""


def annotate(schema: Schema, text: str, default: object) -> None:
    """Say what a parameter is for, and what it is when it is not given, if JSON can say it."""
    if text:
        schema["description"] = text
    if default is not msgspec.UNSET:
        try:
            schema["default"] = msgspec.json.decode(msgspec.json.encode(default))
        except Exception:  # noqa: BLE001 - an object of somebody's; the function knows it
            return


def object_of(function: str, properties: dict[str, Schema], required: list[str]) -> Schema:
    """The schema of all arguments together."""
    definitions: dict[str, Any] = {}
    for name, schema in properties.items():
        for each, definition in schema.pop("$defs", {}).items():
            if definitions.setdefault(each, definition) != definition:
                raise invalid_parameter(function, name, f"another parameter has another type that is called {each}")
    whole: Schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return whole | ({"$defs": definitions} if definitions else {})


def strict(function: str, schema: Schema, optional: frozenset[str]) -> Schema:
    """As OpenAI wants it of strict tools: every property is required. A parameter that may be left out may be null."""
    for name, each in schema["properties"].items():
        for inner in _schemas(each):
            if fault := _not_strict(inner):
                raise invalid_parameter(function, name, f"a strict tool cannot have {fault}")
            for word in _IGNORED_WHEN_STRICT:
                inner.pop(word, None)
    for inner in _schemas(schema):
        if "properties" in inner:
            inner["required"] = [*inner["properties"]]
    for name in optional:
        schema["properties"][name] = _nullable(schema["properties"][name])
    return schema


def _not_strict(schema: Schema) -> str:
    if "prefixItems" in schema:
        return "a tuple of several types"
    if schema.get("type") == "object" and "properties" not in schema:
        return "an object of any keys"
    if not schema.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        return "a value of any type"
    return ""


def _nullable(schema: Schema) -> Schema:
    null = {"type": "null"}
    options = schema.get("anyOf", [{key: value for key, value in schema.items() if key != "description"}])
    said = {"description": schema["description"]} if "description" in schema else {}
    return {**said, "anyOf": options if null in options else [*options, null]}


# Walking


def _children(schema: Schema) -> Iterator[Schema]:
    for word in _LISTS:
        yield from (each for each in schema.get(word, ()) if isinstance(each, dict))
    for word in _SINGLE:
        if isinstance(schema.get(word), dict):
            yield schema[word]
    for word in _NAMED:
        if isinstance(schema.get(word), dict):
            yield from (each for each in schema[word].values() if isinstance(each, dict))


def _schemas(schema: Schema) -> Iterator[Schema]:
    """A schema and all schemas in it, inner ones last. They may be changed on the way."""
    waiting = [schema]
    while waiting:
        schema = waiting.pop()
        waiting.extend(_children(schema))
        yield schema


def _referred(schema: Schema) -> Iterator[str]:
    for each in _schemas(schema):
        if isinstance(each.get("$ref"), str):
            yield each["$ref"].removeprefix(_REF)


def _reached(definitions: dict[str, Schema], start: str) -> set[str]:
    """The definitions that one refers to, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in _referred(definitions.get(waiting.pop(), {})):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _inlined(schema: Schema, definitions: dict[str, Schema], recursive: set[str]) -> Schema:
    """A copy, with definitions in the place of what refers to them."""
    name = schema.get("$ref", "").removeprefix(_REF)
    if name in definitions and name not in recursive:
        schema = definitions[name] | {key: value for key, value in schema.items() if key != "$ref"}
    made: Schema = {}
    for key, value in schema.items():
        if key in _LISTS:
            made[key] = [_inlined(each, definitions, recursive) if isinstance(each, dict) else each for each in value]
        elif key in _SINGLE and isinstance(value, dict):
            made[key] = _inlined(value, definitions, recursive)
        elif key in _NAMED:
            made[key] = {name: _inlined(each, definitions, recursive) for name, each in value.items()}
        else:
            made[key] = value
    return made


def _tidied(schema: Schema) -> None:
    """What says nothing to a model goes; objects have the properties that they name and no others."""
    schema.pop("title", None)
    if "properties" in schema:
        schema["additionalProperties"] = False
        schema.setdefault("required", [])
    values = schema.get("enum")
    if values and "type" not in schema:
        kinds = {type(each) for each in values}
        named = {str: "string", int: "integer", bool: "boolean"}
        if len(kinds) == 1 and (kind := kinds.pop()) in named:
            schema["type"] = named[kind]
