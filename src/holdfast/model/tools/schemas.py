"""Types as JSON schemas for the parameters of a tool, as providers accept them.

Laws: every object lists its properties and the required ones, and allows no others. Only recursive types are references;
all others are inlined where they are used. Returned schemas share nothing.
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
    """The schema of one parameter, with the definitions of recursive types under `$defs`."""
    try:
        components = msgspec.json.schema_components((kind,), schema_hook=_custom_schema, ref_template=f"{_REF}{{name}}")
    except (TypeError, RuntimeError, ValueError, RecursionError) as error:
        raise invalid_parameter(
            function, parameter, f"its type has no schema: {str(error).splitlines()[-1]}"
        ) from error
    root: Schema = msgspec.json.decode(msgspec.json.encode({"anyOf": components[0], "$defs": components[1]}))
    definitions: dict[str, Schema] = {}
    for each in _walk_schemas(root):
        definitions |= each.pop("$defs", {})
    (root,) = root["anyOf"]
    recursive = {name for name in definitions if name in _reachable_definitions(definitions, name)}
    schema = _inline(root, definitions, recursive)
    needed = {*_references(schema)}.union(
        *(_reachable_definitions(definitions, name) for name in _references(schema))
    ) & recursive
    if needed:
        schema["$defs"] = {name: _inline(definitions[name], definitions, recursive) for name in sorted(needed)}
    for each in _walk_schemas(schema):
        _tidy(each)
    return schema


def _custom_schema(kind: Any) -> Schema:
    """The schema of a type that msgspec does not know."""
    if hasattr(kind, "model_json_schema"):
        schema: Schema = kind.model_json_schema()
        return schema
    if isinstance(kind, type) and hasattr(kind, "__fspath__"):
        return {"type": "string"}
    raise TypeError(f"type {kind!r} is not supported")


def decode_custom(kind: Any, value: Any) -> Any:
    """The value of a type that msgspec does not know, from its JSON."""
    if hasattr(kind, "model_validate"):
        return _validate_model(kind, value)
    if isinstance(kind, type) and hasattr(kind, "__fspath__"):
        if type(value) is not str:
            raise ValueError("Expected `str`")
        return kind(value)
    raise TypeError(f"type {kind!r} is not supported")


def _validate_model(kind: Any, value: Any) -> Any:
    """A pydantic model of a value. Errors come without the URLs that pydantic adds."""
    try:
        return kind.model_validate(value)
    except ValueError as error:
        faults = getattr(error, "errors", None)
        if not callable(faults):
            raise
        messages = (f"{'.'.join(map(str, each['loc'])) or kind.__name__}: {each['msg']}" for each in faults())
        raise ValueError("; ".join(messages)) from error


def accepts_none(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Annotated:
        return accepts_none(get_args(kind)[0])
    if origin is Union or origin is types.UnionType:
        return any(accepts_none(each) for each in get_args(kind))
    return kind in (None, type(None), Any)


def description_of(kind: Any) -> str:
    """The text of an annotation: Annotated[int, "How many"], or an object with a description."""
    if get_origin(kind) is not Annotated:
        return ""
    for each in get_args(kind)[1:]:
        text = each if type(each) is str else getattr(each, "description", None)
        if type(text) is str and text:
            return text
    return ""


def annotate_schema(schema: Schema, text: str, default: object) -> None:
    """Add the description of a parameter, and its default if it is a JSON value."""
    if text:
        schema["description"] = text
    if default is not msgspec.UNSET:
        try:
            schema["default"] = msgspec.json.decode(msgspec.json.encode(default))
        except Exception:  # noqa: BLE001 - an object that is not JSON; the function has it
            return


def build_object_schema(function: str, properties: dict[str, Schema], required: list[str]) -> Schema:
    """The schema of all arguments together."""
    definitions: dict[str, Any] = {}
    for name, schema in properties.items():
        for each, definition in schema.pop("$defs", {}).items():
            if definitions.setdefault(each, definition) != definition:
                raise invalid_parameter(function, name, f"another parameter has another type that is called {each}")
    schema_of_all: Schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return schema_of_all | ({"$defs": definitions} if definitions else {})


def make_strict(function: str, schema: Schema, optional: frozenset[str]) -> Schema:
    """The schema for a strict tool of OpenAI: every property is required, and an optional parameter may be null."""
    for name, each in schema["properties"].items():
        for inner in _walk_schemas(each):
            if fault := _strict_obstacle(inner):
                raise invalid_parameter(function, name, f"a strict tool cannot have {fault}")
            for word in _IGNORED_WHEN_STRICT:
                inner.pop(word, None)
    for inner in _walk_schemas(schema):
        if "properties" in inner:
            inner["required"] = [*inner["properties"]]
    for name in optional:
        schema["properties"][name] = _make_nullable(schema["properties"][name])
    return schema


def _strict_obstacle(schema: Schema) -> str:
    if "prefixItems" in schema:
        return "a tuple of several types"
    if schema.get("type") == "object" and "properties" not in schema:
        return "an object of any keys"
    if not schema.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        return "a value of any type"
    return ""


def _make_nullable(schema: Schema) -> Schema:
    null = {"type": "null"}
    options = schema.get("anyOf", [{key: value for key, value in schema.items() if key != "description"}])
    description = {"description": schema["description"]} if "description" in schema else {}
    return {**description, "anyOf": options if null in options else [*options, null]}


def _child_schemas(schema: Schema) -> Iterator[Schema]:
    for word in _LISTS:
        yield from (each for each in schema.get(word, ()) if isinstance(each, dict))
    for word in _SINGLE:
        if isinstance(schema.get(word), dict):
            yield schema[word]
    for word in _NAMED:
        if isinstance(schema.get(word), dict):
            yield from (each for each in schema[word].values() if isinstance(each, dict))


def _walk_schemas(schema: Schema) -> Iterator[Schema]:
    """A schema and all schemas in it, outer ones first. They may be changed meanwhile."""
    waiting = [schema]
    while waiting:
        schema = waiting.pop()
        waiting.extend(_child_schemas(schema))
        yield schema


def _references(schema: Schema) -> Iterator[str]:
    for each in _walk_schemas(schema):
        if isinstance(each.get("$ref"), str):
            yield each["$ref"].removeprefix(_REF)


def _reachable_definitions(definitions: dict[str, Schema], start: str) -> set[str]:
    """The definitions that one refers to, directly or through others."""
    names: set[str] = set()
    waiting = [start]
    while waiting:
        for name in _references(definitions.get(waiting.pop(), {})):
            if name not in names:
                names.add(name)
                waiting.append(name)
    return names


def _inline(schema: Schema, definitions: dict[str, Schema], recursive: set[str]) -> Schema:
    """A copy of a schema with references replaced by their definitions, except recursive ones."""
    name = schema.get("$ref", "").removeprefix(_REF)
    if name in definitions and name not in recursive:
        schema = definitions[name] | {key: value for key, value in schema.items() if key != "$ref"}
    copy: Schema = {}
    for key, value in schema.items():
        if key in _LISTS:
            copy[key] = [_inline(each, definitions, recursive) if isinstance(each, dict) else each for each in value]
        elif key in _SINGLE and isinstance(value, dict):
            copy[key] = _inline(value, definitions, recursive)
        elif key in _NAMED:
            copy[key] = {name: _inline(each, definitions, recursive) for name, each in value.items()}
        else:
            copy[key] = value
    return copy


def _tidy(schema: Schema) -> None:
    """Remove titles; objects get exactly their properties, and enums of one type that type."""
    schema.pop("title", None)
    if "properties" in schema:
        schema["additionalProperties"] = False
        schema.setdefault("required", [])
    values = schema.get("enum")
    if values and "type" not in schema:
        kinds = {type(each) for each in values}
        type_names = {str: "string", int: "integer", bool: "boolean"}
        if len(kinds) == 1 and (kind := kinds.pop()) in type_names:
            schema["type"] = type_names[kind]
