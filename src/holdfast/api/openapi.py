"""The OpenAPI document of the API, from the tables and the signatures.

Law: nothing in it is written by hand twice: paths come from the tables, parameters and answers from the signatures, texts
from the docstrings.
"""

from __future__ import annotations

import functools
import operator
import re
import types
from typing import Any, get_args, get_origin

import msgspec

import holdfast
from holdfast.api.examples import EXAMPLES
from holdfast.api.operations import LEDGER_PATH, OPERATIONS, SESSION_PATH, ApiOperation
from holdfast.api.packs import PackFormat
from holdfast.api.parts import BYTES, EVENTS, FEED_DATA, PARTS, Part
from holdfast.api.requests import (
    API,
    IDENTITY_HEADER,
    PAGE,
    RENDER_TO,
    STREAM_TYPE,
    STREAMED,
    STRUCT_SUFFIX,
    TURN_HEADER,
    takes_place,
    takes_struct,
)
from holdfast.api.signatures import ApiParameter, OperationSignature, is_union, read_field_texts, read_signature
from holdfast.api.wire import SessionAddress, answer_type, wire_type
from holdfast.render.pack import Pack
from holdfast.runtime.base import ContextHolder

VERSION = "3.1.0"
PROBLEM = "application/problem+json"
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
_BRACES = re.compile(r"{(\w+)}")
_HEADERS = {
    "key": "The idempotency key: the same request with the same key again changes nothing and has the same answer.",
    "expect": 'The version that the session or the ledger must have, as in its ETag: "12". Otherwise the answer is 412.',
    "cause": "What led to this event: the id of another event, for example.",
}
_PLACES = {
    "session": "The name of the session.",
    "frame": 'The id of the frame, or "top" for the one on top of the stack.',
    "kind": "user, project, organization or session.",
    "ledger": "The name of the ledger. That of a session has the name of the session.",
    "number": "The number of the turn.",
    "tool": "read_handle, recall_memory or update_situation.",
    "digest": "The SHA-256 of the body, in hexadecimal.",
}
_COMMON = {
    "actor": "The namespace of the session; the key of a user has its own.",
    "budget": "The most tokens.",
    "goal": "What is to be done.",
    "identity": "Who the user is, with authority and permissions.",
    "limit": "The most items of the answer.",
    "model": "The name of the model, for its context window and its prices.",
    "name": "The name, or the key of a fact.",
    "query": "The topic, or what to look for.",
    "reason": "Why. It is stored.",
    "session": "The name of the session, or its scope.",
    "thread": "A conversation of its own under the name of the session.",
    "ttl_s": "Seconds until it expires.",
    "user": "The id of the user. With the key of a user, it may be left out.",
    "value": "The value: any JSON.",
}
"""What parameters mean that are the same in all operations."""
_OUTSIDE = {
    "after": "Only what comes after this.",
    "before": "Only what comes before this.",
    "call": "The id of the tool call: c12_0.",
    "cursor": "The cursor of the answer before; empty for the beginning.",
    "handle": "The id of a handle: h12_0.",
    "job": "The id of the job.",
    "message_id": "The id of a message, an item, a part or a call.",
    "pack": "The id of a pack: p12.",
    "proposal": "The id of a proposal.",
    "reservation": "The id of a reservation.",
    "scope": "The scope of the facts.",
    "scope_id": "What the scope refers to: the id of a project, task or session.",
    "withdrawal": "The number of the withdrawal event.",
}
"""The same, for those of a path or a query."""
_PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A problem as in RFC 9457. `type` is the name of the error, `attributes` its data.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string", "description": "The id of the request, as in the log of the server."},
        "attributes": {"type": "object"},
    },
    "required": ["type", "title", "status", "detail", "instance"],
}
_ABOUT = """Every operation of Holdfast over HTTP. A name in a path is percent-encoded. A list is an object with `items`; if
it has `next`, send that as `page` for the next page. Bytes inside of JSON are {"$bytes": base64}."""


@functools.cache
def build_document() -> dict[str, Any]:
    """Build the document."""
    schemas = _SchemaBook()
    paths: dict[str, dict[str, Any]] = {}
    names: dict[str, str] = {}
    entries = [(each.path, each.verb, _describe_operation(each, schemas)) for each in OPERATIONS]
    entries += [(each.path, each.verb, _describe_part(each, schemas)) for each in PARTS]
    for path, verb, entry in entries:
        shape = _BRACES.sub("{}", path)
        shown = names.setdefault(shape, path)  # one name for a parameter, whatever the methods call it
        _rename_path(entry, path, shown)
        paths.setdefault(shown, {})[verb.lower()] = entry
    return {
        "openapi": VERSION,
        "info": {"title": "Holdfast", "version": holdfast.__version__, "description": _ABOUT},
        "servers": [{"url": API}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of the server."}},
            "schemas": {"Problem": _PROBLEM_SCHEMA, **schemas.build()},
        },
    }


class _SchemaBook:
    """Collects the types, and gives each its schema when all are known."""

    def __init__(self) -> None:
        self._types: dict[int, tuple[Any, dict[str, Any]]] = {}

    def use(self, kind: Any, description: str = "") -> dict[str, Any]:
        """A schema that is filled in by build()."""
        schema: dict[str, Any] = {"description": description} if description else {}
        self._types[id(schema)] = (kind, schema)
        return schema

    def build(self) -> dict[str, Any]:
        """Fill in all schemas, and return those that they refer to."""
        kinds = [kind for kind, _ in self._types.values()]
        built, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
        for (_, schema), filled in zip(self._types.values(), built, strict=True):
            schema.update(filled)
        return components


def _rename_path(entry: dict[str, Any], path: str, shown: str) -> None:
    renamed = dict(zip(_BRACES.findall(path), _BRACES.findall(shown), strict=True))
    for parameter in entry["parameters"]:
        if parameter["in"] == "path":
            parameter["name"] = renamed[parameter["name"]]


# Operations


def _describe_operation(operation: ApiOperation, schemas: _SchemaBook) -> dict[str, Any]:
    signature = read_signature(operation)
    is_versioned = operation.verb == "GET" and takes_place(operation.path)
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.name.partition(".")[0]],
        "summary": signature.summary,
        "description": signature.description,
        "parameters": _describe_places(operation.path, {each.name for each in _outside(signature)}),
        "responses": _describe_answers(operation, signature, schemas),
        "x-right": operation.need,
    }
    for parameter in signature.parameters:
        entry["parameters"] += _describe_parameter(parameter, schemas)
    if operation.need == "write" and operation.path.startswith(SESSION_PATH) and operation.name != "Engine.session":
        entry["parameters"].append(_header(TURN_HEADER, "The turn under which to write, from the answer to /turns."))
    if signature.answer is Pack:
        described = "Render the pack as well: the answer has it under `rendered`."
        entry["parameters"].append(_query(RENDER_TO, schemas.use(PackFormat), described))
    if operation.path.startswith(LEDGER_PATH):
        entry["parameters"].append(_header(IDENTITY_HEADER, "For a program: the identity to act with, as JSON."))
    if is_versioned:
        entry["parameters"].append(_header("If-None-Match", 'The version that you have: "12". 304 if nothing changed.'))
    if is_list_answer(signature.answer) and {"after", "before"} & {each.name for each in signature.parameters}:
        entry["parameters"].append(_query(PAGE, {"type": "string"}, "The `next` of the page before."))
    body = _describe_body(operation, signature, schemas)
    if body is not None:
        entry["requestBody"] = body
    return entry


def _outside(signature: OperationSignature) -> list[ApiParameter]:
    """The parameters in the path and the query."""
    return [each for each in signature.parameters if each.place in ("path", "query")]


def is_list_answer(answer: Any) -> bool:
    """Whether an annotation is that of a list."""
    members = get_args(answer) if is_union(answer) else (answer,)
    return any(get_origin(each) in (list, tuple) for each in members)


def _describe_places(path: str, known: set[str]) -> list[dict[str, Any]]:
    places = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PLACES.get(name) or _OUTSIDE.get(name, ""),
            "schema": {"type": "string"},
        }
        for name in _BRACES.findall(path)
        if name not in known
    ]
    if takes_place(path) and "actor" not in known:
        places.append(_query("actor", {"type": "string"}, "The agent that the session belongs to."))
        places.append(_query("thread", {"type": "string"}, "A conversation of its own under the name of the session."))
    return places


def _query(name: str, schema: dict[str, Any], description: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


def _describe_parameter(parameter: ApiParameter, schemas: _SchemaBook) -> list[dict[str, Any]]:
    match parameter.place:
        case "path":
            schema = schemas.use(int if wire_type(parameter.annotation) is int else str)
            described = _PLACES.get(parameter.name, describe(parameter))
            return [
                {"name": parameter.name, "in": "path", "required": True, "description": described, "schema": schema}
            ]
        case "header":
            return [_header(parameter.header, _HEADERS[parameter.name])]
        case "query":
            return _describe_query(parameter, schemas)
    return []


def describe(parameter: ApiParameter) -> str:
    """What a parameter means, as its typed dict says, or as it does in all operations."""
    common = _COMMON if parameter.place == "body" else _COMMON | _OUTSIDE
    texts = {} if parameter.options is None else read_field_texts(parameter.options)
    return texts.get(parameter.name) or common.get(parameter.name, "")


def _describe_query(parameter: ApiParameter, schemas: _SchemaBook) -> list[dict[str, Any]]:
    wanted = wire_type(parameter.annotation)
    form, required, meaning = takes_struct(parameter), parameter.is_required, describe(parameter)
    members = [each for each in (get_args(wanted) if is_union(wanted) else (wanted,)) if each is not types.NoneType]
    structs = [each for each in members if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    others = [each for each in members if each not in structs]
    described: list[dict[str, Any]] = []
    if others:
        if any(get_origin(each) in (list, tuple) for each in others):
            text = {"type": "string", "contentMediaType": JSON, "contentSchema": schemas.use(wanted)}
            described.append(_query(parameter.name, text, f"{meaning} As JSON.".strip(), required=required))
        else:
            kind = _join(others)
            described.append(_query(parameter.name, schemas.use(kind), meaning, required=required and form == "no"))
    if structs:
        token = {
            "type": "string",
            "contentEncoding": "base64url",
            "contentMediaType": JSON,
            "contentSchema": schemas.use(_join(structs)),
        }
        name = parameter.name + (STRUCT_SUFFIX if form == "too" else "")
        described.append(
            _query(name, token, f"{meaning} As base64url of JSON.".strip(), required=required and form == "only")
        )
    return described


def _join(kinds: list[Any]) -> Any:
    return functools.reduce(operator.or_, kinds)


def _describe_body(
    operation: ApiOperation, signature: OperationSignature, schemas: _SchemaBook
) -> dict[str, Any] | None:
    if operation.verb in ("GET", "DELETE"):
        return None
    fields = [each for each in signature.parameters if each.place == "body"]
    content: dict[str, Any] = {
        JSON: {
            "schema": {
                "type": "object",
                "properties": {each.name: schemas.use(wire_type(each.annotation), describe(each)) for each in fields},
                "required": [each.name for each in fields if each.is_required],
                "additionalProperties": False,
            }
        }
    }
    if operation.name in EXAMPLES:
        content[JSON]["example"] = EXAMPLES[operation.name]
    if operation.method in STREAMED and STREAMED[operation.method] in {each.name for each in fields}:
        content[STREAM_TYPE] = {}
    return {"required": any(each.is_required for each in fields), "content": content}


def _describe_answers(operation: ApiOperation, signature: OperationSignature, schemas: _SchemaBook) -> dict[str, Any]:
    responses: dict[str, Any] = {"default": _problem("Something else: the type says what.")}
    answer = signature.answer
    if answer is None:
        return {"204": {"description": "Done."}, **responses}
    if signature.is_optional:
        if operation.verb == "GET":
            responses["404"] = _problem("There is none: the type is Absent.")
        else:
            responses["204"] = {"description": "There was nothing to do."}
    members = [each for each in (get_args(answer) if is_union(answer) else (answer,)) if each is not types.NoneType]
    schema = _describe_answer(members[0], schemas)
    is_new = operation.verb == "POST" and _is_place(members[0]) and operation.method != "resume"
    success: dict[str, Any] = {"description": "The answer.", "content": {JSON: {"schema": schema}}}
    if operation.verb == "GET" and takes_place(operation.path):
        success["headers"] = {"ETag": {"description": "The version of the stream.", "schema": {"type": "string"}}}
    if is_new:
        success["headers"] = {"Location": {"description": "Its path.", "schema": {"type": "string"}}}
    return {"201" if is_new else "200": success, **responses}


def _is_place(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, ContextHolder)


def _describe_answer(annotation: Any, schemas: _SchemaBook) -> dict[str, Any]:
    if _is_place(annotation):
        return schemas.use(SessionAddress)
    if not is_list_answer(annotation):
        return schemas.use(answer_type(annotation))
    item = get_args(annotation)[0]
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": schemas.use(answer_type(item))},
            "next": {"type": "string", "description": "If the page is full: send it as `page`."},
        },
        "required": ["items"],
    }


def _problem(description: str) -> dict[str, Any]:
    return {"description": description, "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


# Parts


def _describe_part(part: Part, schemas: _SchemaBook) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "operationId": part.name,
        "tags": [part.name.partition(".")[0]],
        "summary": part.summary,
        "description": part.description,
        "parameters": _describe_places(part.path, set()),
        "responses": {str(part.status): _describe_part_answer(part, schemas), **_more_answers(part, schemas)},
    }
    if part.need is not None:
        entry["x-right"] = part.need
    for name, (kind, meaning) in part.query.items():
        entry["parameters"].append(_query(name, schemas.use(kind), meaning))
    if part.answer == BYTES:
        entry["parameters"].append(_header("Range", "The bytes to read: bytes=0-99."))
    if part.answer == EVENTS:
        entry["parameters"].append(_header("Last-Event-ID", "The cursor of the last event that you have."))
    if part.name == "Jobs.start":
        entry["parameters"].append(_header("Idempotency-Key", _HEADERS["key"]))
    if part.is_open:
        entry["security"] = []
    if part.body is not None:
        entry["requestBody"] = {"required": True, "content": _describe_part_body(part, schemas)}
    return entry


def _describe_part_body(part: Part, schemas: _SchemaBook) -> dict[str, Any]:
    if part.body == BYTES:
        return {STREAM_TYPE: {}}
    content: dict[str, Any] = {"schema": schemas.use(part.body)}
    if part.name in EXAMPLES:
        content["example"] = EXAMPLES[part.name]
    return {JSON: content}


def _describe_part_answer(part: Part, schemas: _SchemaBook) -> dict[str, Any]:
    if part.answer is None:
        return {"description": "Done."}
    if part.answer == BYTES:
        return {"description": "The bytes.", "content": {STREAM_TYPE: {}}}
    if part.answer == EVENTS:
        return {
            "description": "Events, each with this data.",
            "content": {EVENT_STREAM: {"schema": schemas.use(FEED_DATA)}},
        }
    return {"description": "The answer.", "content": {JSON: {"schema": _describe_answer(part.answer, schemas)}}}


def _more_answers(part: Part, schemas: _SchemaBook) -> dict[str, Any]:
    more: dict[str, Any] = {"default": _problem("Something else: the type says what.")}
    if part.answer == BYTES:
        more["206"] = {"description": "The range.", "content": {STREAM_TYPE: {}}}
        more["416"] = {"description": "The range is behind the end."}
    if part.name.endswith(".take_turn"):
        more["202"] = {
            "description": "The place in the queue.",
            "content": {JSON: {"schema": schemas.use(part.answer)}},
        }
    return more
