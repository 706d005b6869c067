"""Every route of an OpenAPI document, asked by everybody who may not use what it is about.

Two servers get the same requests: one has the content of an owner, the other one has nothing. Callers who may not use that
content must get the same answers from both: no word of it, no count, no other error, no other status. Callers without a
valid key get the one answer that everybody without a key gets. Callers who may only read change nothing, whatever they ask
for.
"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx2

import holdfast
from holdfast.access.access import SYSTEM_TENANT
from holdfast.access.keys import create_key, revoke_key
from holdfast.access.records import KeyGrant, make_key
from tests.support import PATIENCE_S

TENANT, OTHER_TENANT = "acme", "globex"
OWNER = holdfast.Identity(user_id="ada", user_name="ada", permissions=("hr",), organization="desk")
STRANGER = holdfast.Identity(user_id="bob", user_name="bob")
MARKER = "zanzibar"
"""A word in everything that the owner stored."""
ANYTHING = "anything"
"""A text where a request needs one and the owner has none."""
FOREIGN = ("another tenant", "another user")
KEYLESS = ("no key", "unknown key", "expired key", "revoked key")
READERS = ("reading user", "reading program")
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
STREAM_S = 0.5
"""How long a stream is listened to."""
VOLATILE = (
    (re.compile(r"\bown-[\w-]{20,}"), "<cursor>"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "<hex>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b1[5-9]\d{8,14}(?:\.\d+)?\b"), "<time>"),
    (re.compile(r"\b((?:[a-z]+_)+)[A-Za-z0-9_-]{16,}\b"), r"\1<id>"),
    (re.compile(r'"[A-Za-z0-9+/]{22,}={0,2}"'), '"<base64>"'),
    (re.compile(r'("(?:ms|\w+_ms|seconds|duration\w*)": ?)[\d.]+'), r"\1<duration>"),
)
"""What may differ between two answers that say the same."""
QUIET_HEADERS = frozenset(("date", "x-request-id", "content-length", "etag", "server"))


class ApiRequest(NamedTuple):
    """One request for an operation of a document."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    media_type: str | None

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


class Side(NamedTuple):
    """One of the two servers."""

    url: str
    store: str
    keys: Mapping[str, dict[str, str]]
    """The headers of each caller."""


# Callers and content


def prepare_store(
    store: str, fill: Callable[[holdfast.AsyncEngine], Awaitable[None]] | None
) -> dict[str, dict[str, str]]:
    """Make the keys of all callers, and the content of the owner if this is the server that has it."""

    async def run() -> dict[str, dict[str, str]]:
        async with await holdfast.open_async(store, tenant=TENANT) as engine:
            if fill is not None:
                await fill(engine)
            return await make_keys(engine)

    return asyncio.run(run())


async def make_keys(engine: holdfast.AsyncEngine) -> dict[str, dict[str, str]]:
    rights: Any = ("read", "write", "model")
    owner = KeyGrant(name="owner", tenant=TENANT, identity=OWNER, rights=rights)
    grants = {
        "owner": owner,
        "another tenant": KeyGrant(name="stranger", tenant=OTHER_TENANT, rights=rights),
        "another user": KeyGrant(name="bob", tenant=TENANT, identity=STRANGER, rights=rights),
        "reading user": KeyGrant(name="reader", tenant=TENANT, identity=OWNER, rights=("read",)),
        "reading program": KeyGrant(name="reader", tenant=TENANT, rights=("read",)),
        "revoked key": owner,
    }
    secrets = {"unknown key": str(make_key()[1])}
    for caller, grant in grants.items():
        record, key = await create_key(engine, grant, by="root")
        secrets[caller] = str(key)
        if caller == "revoked key":
            await revoke_key(engine, record.id, by="root")
    past = KeyGrant(name="expired", tenant=TENANT, identity=OWNER, rights=rights, expires_us=2)
    secrets["expired key"] = str((await create_key(engine, past, by="root", clock=lambda: 1))[1])
    return {"no key": {}, **{caller: {"authorization": f"Bearer {key}"} for caller, key in secrets.items()}}


def read_log(store: str) -> list[Any]:
    """All events but those that servers store for themselves."""

    async def run() -> list[Any]:
        found: list[Any] = []
        async with await holdfast.open_async(store) as engine:
            cursor = ""
            while True:
                page = await engine.admin.feed(cursor, limit=1_000)
                found += [event for event in page.events if event.stream.tenant != SYSTEM_TENANT]
                if not page.events:
                    return found
                cursor = page.cursor

    return asyncio.run(run())


# Requests of a document


def build_requests(
    document: Mapping[str, Any], samples: Mapping[str, Any], variants: Sequence[bool] = (True, False)
) -> Iterator[ApiRequest]:
    """Requests for every operation: with all that `samples` has a value for, and with no more than it requires.

    `samples` has the values that name the owner's content, by the name of the parameter or of the field."""
    root = document.get("servers", [{}])[0].get("url", "").rstrip("/")
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            parameters = [
                resolve(document, each) for each in (*item.get("parameters", ()), *operation.get("parameters", ()))
            ]
            for is_full in variants:
                yield _build_request(document, root + path, method, operation, parameters, samples, is_full=is_full)


def _build_request(
    document: Mapping[str, Any],
    path: str,
    method: str,
    operation: Mapping[str, Any],
    parameters: list[Any],
    samples: Mapping[str, Any],
    *,
    is_full: bool,
) -> ApiRequest:
    query = {}
    for each in parameters:
        value = samples.get(each["name"], build_value(document, each.get("schema", {}), samples, each["name"]))
        if each["in"] == "path":
            path = path.replace("{" + each["name"] + "}", urllib.parse.quote(str(value), safe=""))
        elif each["in"] == "query" and (each.get("required") or (is_full and each["name"] in samples)):
            query[each["name"]] = str(value)
    content = resolve(document, operation.get("requestBody", {})).get("content", {})
    media_type = next((each for each in content if "json" in each), next(iter(content), None))
    body = None
    if media_type is not None:
        body = build_value(document, content[media_type].get("schema", {}), samples, "", is_full=is_full)
    return ApiRequest(method, path, query, body, media_type)


def resolve(document: Mapping[str, Any], schema: Any) -> Any:
    while isinstance(schema, Mapping) and "$ref" in schema:
        target: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        schema = target
    return schema


def build_value(
    document: Mapping[str, Any],
    schema: Any,
    samples: Mapping[str, Any],
    name: str,
    *,
    is_full: bool = False,
    depth: int = 0,
) -> Any:
    """A small value of a schema."""
    if name in samples:
        return samples[name]
    schema = resolve(document, schema) or {}
    for fixed in ("const", "default", "example"):
        if schema.get(fixed) is not None:
            return schema[fixed]
    for several in ("enum", "examples"):
        if schema.get(several):
            return schema[several][0]
    for union in ("oneOf", "anyOf", "allOf"):
        options = [each for each in schema.get(union, ()) if resolve(document, each).get("type") != "null"]
        if options:
            return build_value(document, options[0], samples, name, is_full=is_full, depth=depth)
    kind = schema.get("type")
    kind = next((each for each in kind if each != "null"), None) if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        required = set(schema.get("required", ()))
        wanted = {key for key in schema.get("properties", {}) if key in required or (is_full and key in samples)}
        return {
            key: build_value(document, schema["properties"][key], samples, key, is_full=is_full, depth=depth + 1)
            for key in sorted(wanted)
            if depth < 8
        }
    simple: dict[Any, Any] = {"array": [], "integer": schema.get("minimum", 1), "number": 1.0, "boolean": False}
    if kind == "array" and schema.get("minItems", 0):
        return [build_value(document, schema.get("items", {}), samples, name, is_full=is_full, depth=depth + 1)]
    return simple.get(kind, ANYTHING)


# The check


def find_faults(
    document: Mapping[str, Any],
    full: Side,
    empty: Side,
    samples: Mapping[str, Any],
    *,
    is_late: Callable[[ApiRequest], bool] = lambda _request: False,
    is_thorough: bool = True,
) -> list[str]:
    """What callers learn or change that they may not. An empty list is what one wants.

    Requests that are late come last: those that let a stranger make something of their own under the names of the owner.
    If it is thorough, everybody sends every request, and all come again after that. Otherwise callers of a kind take
    turns."""
    faults: list[str] = []
    variants = (True, False) if is_thorough else (True,)
    requests = sorted(dict.fromkeys(map(_freeze, build_requests(document, samples, variants))), key=is_late)
    with httpx2.Client(timeout=PATIENCE_S) as client:
        before = read_log(full.store)
        for number, request in enumerate(requests):
            for caller in READERS if is_thorough else READERS[number % 2 :][:1]:
                _send(client, full, request, caller)
        faults += _describe_changes(before, read_log(full.store))
        for number, request in enumerate(requests):
            callers = KEYLESS if is_thorough else KEYLESS[number % 4 :][:1]
            faults += _compare_keyless(client, (full, empty) if is_thorough else (full,), request, callers)
        for _ in range(2 if is_thorough else 1):
            for number, request in enumerate(requests):
                for caller in FOREIGN if is_thorough or is_late(request) else FOREIGN[number % 2 :][:1]:
                    faults += _compare_foreign(client, full, empty, request, caller)
    return faults + _describe_foreign_changes(before, read_log(full.store))


def ask_as_owner(document: Mapping[str, Any], full: Side, samples: Mapping[str, Any]) -> dict[str, int]:
    """The status of every request that reads if the owner sends it: whether the matrix asks for what is there."""
    with httpx2.Client(timeout=PATIENCE_S) as client:
        requests = [each for each in map(_freeze, build_requests(document, samples, (True,))) if each.method == "get"]
        return {f"{request} {request.query}": _send(client, full, request, "owner")[0] for request in requests}


def _freeze(request: ApiRequest) -> ApiRequest:
    """Requests are compared by what is sent."""
    body = None if request.body is None else json.dumps(request.body, sort_keys=True)
    return request._replace(query=tuple(sorted(request.query.items())), body=body)  # type: ignore[arg-type]


def _describe_changes(before: list[Any], after: list[Any]) -> list[str]:
    return [f"a reader stored {event.type} in {event.stream}" for event in after[len(before) :]]


def _describe_foreign_changes(before: list[Any], after: list[Any]) -> list[str]:
    """Strangers may store in their own place: another tenant, and what has the name of the other user."""
    own = [f" {OTHER_TENANT}/", f"{TENANT}/{STRANGER.user_id}/", f"{TENANT}/user/{STRANGER.user_id}"]
    own.append(f"{TENANT}/session/{STRANGER.user_id}/")
    return [
        f"a stranger stored {event.type} in {event.stream}"
        for event in after[len(before) :]
        if not any(place in f"{event.stream}" for place in own)
    ]


def _compare_keyless(
    client: httpx2.Client, sides: Sequence[Side], request: ApiRequest, callers: Sequence[str]
) -> Iterator[str]:
    answers = [_send(client, side, request, caller) for caller in callers for side in sides]
    if len(set(answers)) != 1:
        yield f"{request}: callers without a valid key get different answers: {sorted(set(answers))}"
    if any(status != 401 for status, _, _ in answers):
        yield f"{request}: a caller without a valid key gets {sorted({status for status, _, _ in answers})}"


def _compare_foreign(client: httpx2.Client, full: Side, empty: Side, request: ApiRequest, caller: str) -> Iterator[str]:
    here, there = _send(client, full, request, caller), _send(client, empty, request, caller)
    if here != there:
        yield f"{request}: {caller} gets {here} where there is content, and {there} where there is none"
    if MARKER in here[1] and MARKER not in f"{request.path} {request.query} {request.body}":
        yield f"{request}: {caller} reads content: {here[1][:200]}"


def _send(client: httpx2.Client, side: Side, request: ApiRequest, caller: str) -> tuple[int, str, str]:
    """Status, text and headers of an answer, without what may differ."""
    headers = dict(side.keys[caller])
    if request.media_type is not None:
        headers["content-type"] = request.media_type
    with client.stream(
        request.method.upper(),
        side.url + request.path,
        params=dict(request.query),
        content=request.body,
        headers=headers,
    ) as response:
        text = _read_text(response)
    shown = sorted(f"{name}: {value}" for name, value in response.headers.items() if name not in QUIET_HEADERS)
    return response.status_code, _normalize(text), _normalize("\n".join(shown))


def _read_text(response: httpx2.Response) -> str:
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        return response.read().decode("utf-8", "replace")
    response.request.extensions["timeout"] = {"read": STREAM_S}
    text = ""
    try:
        for piece in response.iter_text():
            text += piece
    except httpx2.ReadTimeout:
        pass
    return text


def _normalize(text: str) -> str:
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    return text
