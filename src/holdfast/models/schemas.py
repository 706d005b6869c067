"""Schemas of answers: what is sent to the server, and the check of what comes back.

Laws: an answer is a value of its schema, or AnswerInvalid is raised. Text around the JSON of an answer does not matter:
models like to explain, and to put JSON into code fences.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import InvalidArgument, describe_value

JsonSchema: TypeAlias = dict[str, Any]
AnswerSchema: TypeAlias = JsonSchema | type[Any]
"""A JSON schema, or a type that msgspec can decode: a Struct, a TypedDict, a dataclass."""

_FENCE = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n?\s*```", re.DOTALL)
_DEFINITIONS = "#/$defs/"
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class AnswerFault(ValueError):
    """Why an answer does not fit its schema; in words that help a model to repair it."""


class AnswerReader:
    """Reads the answers of one schema."""

    def __init__(self, schema: object) -> None:
        self._kind: Any = None
        if isinstance(schema, dict):
            self.schema: JsonSchema = schema
        else:
            try:
                self._kind, self.schema = schema, _build_schema(schema)
            except (TypeError, KeyError, RecursionError) as error:
                reason = f"{describe_value(schema)} is neither a JSON schema nor a type of msgspec: {error}"
                raise InvalidArgument(argument="schema", reason=reason) from error
        if self.schema.get("type") != "object":
            raise InvalidArgument(argument="schema", reason="an answer is an object: use a schema of type object")

    @property
    def is_strict(self) -> bool:
        """Whether a server can be asked to enforce the schema: every object names all its fields as required."""
        return all(
            node.get("additionalProperties") is False and {*node.get("required", ())} == {*node.get("properties", {})}
            for node in _objects(self.schema)
        )

    def read_text(self, text: str) -> Any:
        """The value in the text of an answer."""
        for candidate in _candidates(text):
            try:
                value = msgspec.json.decode(candidate)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            return self.read_value(value)
        raise AnswerFault("it is empty" if not text.strip() else "it is not JSON")

    def read_value(self, value: object) -> Any:
        """The value of an answer that came as JSON."""
        try:
            if self._kind is not None:
                return msgspec.convert(value, self._kind)
            _check(value, self.schema, self.schema.get("$defs", {}), "$")
        except (msgspec.ValidationError, RecursionError) as error:
            raise AnswerFault(str(error)) from error
        return value


def _candidates(text: str) -> list[str]:
    """The parts of a text that may be its JSON."""
    found = [text.strip(), *(fence.strip() for fence in _FENCE.findall(text))]
    start, end = text.find("{"), text.rfind("}")
    return [*found, text[start : end + 1]] if 0 <= start < end else found


def _build_schema(kind: Any) -> JsonSchema:
    schema = msgspec.json.schema(kind)
    reference = schema.get("$ref", "")
    if reference:  # servers want an object at the root
        return {**schema["$defs"][reference.removeprefix(_DEFINITIONS)], "$defs": schema["$defs"]}
    return schema


def _objects(node: Any) -> list[JsonSchema]:
    if isinstance(node, list):
        return [each for child in node for each in _objects(child)]
    if not isinstance(node, dict):
        return []
    own = [node] if node.get("type") == "object" else []
    return own + [each for child in node.values() for each in _objects(child)]


def _check(value: object, schema: Any, definitions: JsonSchema, where: str) -> None:
    """Check a value by the part of JSON Schema that servers enforce; other keywords are ignored."""
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        _check(value, definitions.get(reference.removeprefix(_DEFINITIONS), {}), definitions, where)
    if "anyOf" in schema and not any(_fits(value, each, definitions) for each in schema["anyOf"]):
        raise AnswerFault(f"{where} has none of the allowed forms")
    if "enum" in schema and value not in schema["enum"]:
        raise AnswerFault(f"{where} is not one of {', '.join(map(str, schema['enum']))}")
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else kinds
    if names and not any(_is_of(value, name) for name in names):
        raise AnswerFault(f"{where} is not of type {' or '.join(names)}")
    if isinstance(value, dict):
        _check_object(value, schema, definitions, where)
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            raise AnswerFault(f"{where} has more than {schema['maxItems']} items")
        for number, item in enumerate(value):
            _check(item, schema.get("items", {}), definitions, f"{where}[{number}]")


def _check_object(value: dict[str, Any], schema: JsonSchema, definitions: JsonSchema, where: str) -> None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise AnswerFault(f"{where}.{name} is missing")
    for name, inner in value.items():
        if name in properties:
            _check(inner, properties[name], definitions, f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            raise AnswerFault(f"{where} has a field that the schema does not name")


def _fits(value: object, schema: Any, definitions: JsonSchema) -> bool:
    try:
        _check(value, schema, definitions, "$")
    except AnswerFault:
        return False
    return True


def _is_of(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, (object,)))
