"""Wrong requests to every operation: a typed refusal with nothing stored, or an honest success; never a failure."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import httpx2
import msgspec
import pytest

import holdfast
from holdfast.api.operations import OPERATIONS, ApiOperation
from holdfast.api.requests import quote_name, read_arguments, takes_struct, write_token
from holdfast.api.signatures import ApiParameter, is_union, read_signature
from holdfast.api.wire import wire_type
from tests import hostile
from tests.server.native.serving import ApiClient, serving
from tests.support import SOAK

LONG = "x" * 5_000
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    LONG,
    "a\0b",
    "top",
    [],
    {},
    [[1]],
    {"$bytes": "?"},
    {"scope": {"tenant": "other", "actor": "a", "session": "s"}},
    [{"kind": 1}],
)
"""Values that are wrong for most parameters."""
SPARE = {"Session.destroy": "spare-1", "Session.end": "spare-2", "Frame.pop": "spare-3"}
"""The sessions of operations that end what they work on."""
NOT_POSSIBLE = {"LocalOnly"}
"""Refusals with a status of 500 or more that are no failures."""


class ServedStore(NamedTuple):
    """A server with something in it, and a look into its store."""

    api: ApiClient
    engine: holdfast.Engine

    def count_events(self) -> int:
        """How many events the tenant has."""
        rows = [*self.engine.sessions(limit=1_000), *self.engine.sessions(status="destroyed", limit=1_000)]
        return sum(row.version for row in rows) + sum(row.version for row in self.engine.ledgers(limit=1_000))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    folder = tmp_path_factory.mktemp("wrong")
    with serving(folder) as api, holdfast.open(folder / "agent.db") as engine:
        session = engine.create_session("s", user="ada")
        session.record("user", "Ship the lamp.")
        session.frame("work", budget=10_000)
        session.facts.set("plan", "pro")
        for spare in SPARE.values():
            engine.create_session(spare).frame("work", budget=10_000)
        engine.ledger(user="ada").set("address", "123 Main St")
        yield ServedStore(api, engine)


def build_value(annotation: Any, name: str) -> Any:
    """A plausible value of a type."""
    wanted = wire_type(annotation)
    if is_union(wanted):
        wanted = next(each for each in get_args(wanted) if each is not types.NoneType)
    if get_origin(wanted) is Literal:
        return get_args(wanted)[0]
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        fields = msgspec.structs.fields(wanted)
        config = wanted.__struct_config__
        value = {field.encode_name: build_value(field.type, field.name) for field in fields if field.required}
        return {**value, config.tag_field: config.tag} if config.tag_field else value
    if get_origin(wanted) in (list, tuple):
        return []
    if get_origin(wanted) is dict or wanted is dict:
        return {}
    known: dict[Any, Any] = {str: "s", int: 1, float: 1.0, bool: False}
    return {"tenant": "default", "actor": "main", "kind": "document"}.get(name, known.get(wanted, "s"))


class Draft:
    """A request that can be made wrong in one place."""

    def __init__(self, operation: ApiOperation) -> None:
        self.operation = operation
        self.parameters = [each for each in read_signature(operation).parameters if each.place != "header"]
        self.values = {
            each.name: build_value(each.annotation, each.name) for each in self.parameters if each.is_required
        }
        self.names = {"session": "s", "frame": "top", "kind": "user", "ledger": "ada"}

    def send(self, api: ApiClient, change: dict[str, Any], extra: dict[str, str] | None = None) -> httpx2.Response:
        values = {**self.values, **change}
        in_path = {each.name for each in self.parameters if each.place == "path"}
        names = (
            {name: str(values.get(name, text)) for name, text in self.names.items()}
            if "session" in in_path
            else self.names
        )
        path = self.operation.path.format_map(
            {
                **{name: quote_name(text) or "%20" for name, text in names.items()},
                **{name: quote_name(str(values[name])) or "%20" for name in in_path},
            }
        )
        body = {
            each.name: values[each.name] for each in self.parameters if each.place == "body" and each.name in values
        }
        query = dict(extra or {})
        for each in self.parameters:
            if each.place == "query" and each.name in values:
                query[each.name] = write_query_value(each, values[each.name])
        has_body = self.operation.verb not in ("GET", "DELETE")
        return api.send(self.operation.verb, path, body if has_body else None, params=query)


def write_query_value(parameter: ApiParameter, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and takes_struct(parameter) == "only":
        return write_token(value)
    return msgspec.json.encode(value).decode()


def check(place: ServedStore, before: int, answer: httpx2.Response) -> None:
    """An answer that is no success has a type, and nothing was stored."""
    where = f"{answer.request.method} {answer.request.url} {answer.request.content[:300]!r}: {answer.text[:300]}"
    if answer.status_code < 300:
        return
    problem = answer.json()
    assert answer.status_code < 500 or problem["type"] in NOT_POSSIBLE, where
    assert problem["type"] != "about:blank", where
    assert place.count_events() == before, where


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_wrong_values_are_refused_and_nothing_is_stored(place: ServedStore, operation: ApiOperation) -> None:
    draft = Draft(operation)
    draft.names["session"] = SPARE.get(operation.name, "s")
    before = place.count_events()
    for number, parameter in enumerate(draft.parameters):
        values = WRONG if SOAK else itertools.islice(itertools.cycle(WRONG), number, number + 4)
        for value in values:
            check(place, before, draft.send(place.api, {parameter.name: value}))
            before = place.count_events()
    for parameter in draft.parameters:
        if parameter.is_required and parameter.place != "path":
            missing = {name: value for name, value in draft.values.items() if name != parameter.name}
            spared, draft.values = draft.values, missing
            answer = draft.send(place.api, {})
            draft.values = spared
            assert answer.status_code in (404, 422), answer.text
            check(place, before, answer)
    unknown = draft.send(place.api, {}, {"no_such_parameter": "1"})
    assert unknown.json()["attributes"].get("argument") == "no_such_parameter", unknown.text
    check(place, before, unknown)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_field_that_belongs_elsewhere_is_refused_and_not_ignored(operation: ApiOperation) -> None:
    for parameter in read_signature(operation).parameters:
        if parameter.place != "body":
            names = dict.fromkeys(("session", "frame", "kind", "ledger", parameter.name), "s")
            with pytest.raises(holdfast.errors.InvalidArgument) as raised:
                read_arguments(operation, names, {}, lambda _name: None, {parameter.name: "1"})
            assert raised.value.argument == parameter.name
            if parameter.place == "header":
                assert parameter.header in str(raised.value)


def test_a_refused_field_is_named_with_those_that_exist(place: ServedStore) -> None:
    _, _, problem = place.api.problem("POST", "/sessions/s/messages", {"role": "user", "content": "Hello."})
    assert "`role`: Session.record has no such parameter; its body has message, content, " in problem["detail"]
    _, _, problem = place.api.problem("POST", "/sessions/s/messages", {"message": "user", "key": "a"})
    assert "header Idempotency-Key" in problem["detail"]
    _, _, problem = place.api.problem("GET", "/sessions/s/messages?limits=1")
    assert "its query has actor, before" in problem["detail"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_unknown_names_are_not_found(place: ServedStore, operation: ApiOperation) -> None:
    if "{session}" not in operation.path or operation.name == "Engine.session":
        return
    draft = Draft(operation)
    before = place.count_events()
    draft.names = {**draft.names, "session": "nobody knows / it"}
    answer = draft.send(place.api, {})
    assert answer.status_code in (404, 422), answer.text
    check(place, before, answer)


BODIES = {
    "not JSON": b"{",
    "a list": b"[]",
    "a text": b'"x"',
    "deep": b'{"message":' * 3_000 + b"1" + b"}" * 3_000,
    "deep lists": b'{"message":"user","content":' + b"[" * 900 + b"]" * 900 + b"}",
    "a name twice": b'{"message":"user","content":"a","content":"b"}',
    "a name twice, inside": b'{"message":"user","content":"a","metadata":{"x":1,"x":2}}',
    "NaN": b'{"message":"user","content":"a","metadata":{"x":NaN}}',
    "infinite": b'{"message":"user","content":"a","metadata":{"x":1e999}}',
    "a lone surrogate": b'{"message":"user","content":"\\ud800"}',
    "half a pair": b'{"message":"user","content":"a\\udc00b"}',
    "not UTF-8": b'{"message":"user","content":"\xff"}',
    "CESU": b'{"message":"user","content":"\xed\xa0\x80"}',
    "a large number": b'{"message":"user","content":"a","metadata":{"x":' + b"9" * 40 + b"}}",
    "a control character": b'{"message":"user","content":"a\x00"}',
    "two values": b'{"message":"user","content":"a"} {}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_hostile_body_is_refused(place: ServedStore, body: bytes) -> None:
    before = place.count_events()
    answer = place.api.http.post("/sessions/s/messages", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413, 422), answer.text
    check(place, before, answer)


def test_hostile_texts_come_back_or_are_refused(place: ServedStore) -> None:
    for case in hostile.CASES:
        value = case.make()
        if type(value) is not str:
            continue
        try:
            value.encode()
        except UnicodeEncodeError:
            continue  # it cannot be sent
        before = place.count_events()
        answer = place.api.send("POST", "/sessions/s/messages", {"message": "user", "content": value})
        check(place, before, answer)
        if answer.status_code == 200:
            [*parts] = answer.json()["content"]
            assert parts in ([{"type": "text", "text": value}], []) or parts[0]["type"] == "body", case.name


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/%FF",
        "/sessions/a%00b",
        "/sessions/" + "x" * 300,
        "/sessions/s/frames/%E2%80%A8",
        "/sessions/s/messages?limit=1&limit=2",
        "/sessions/s/messages?limit=%FF",
        "/sessions?page=zzz",
        "/sessions?page=" + write_token({"after": 1}),
        "/sessions/s/messages?page=" + write_token([1]),
        "/sessions/s/messages?" + "&".join(f"x{number}=1" for number in range(100)),
        "/ledgers/planet/earth/facts",
        "/ledgers/user/%20/facts/keys/a%00",
    ],
)
def test_a_hostile_path_is_refused(place: ServedStore, path: str) -> None:
    answer = place.api.http.get(path)
    assert answer.status_code in (400, 404, 422), answer.text
    assert answer.json()["type"] != "ServerFailed"


@pytest.mark.parametrize(
    "headers",
    [
        {"If-Match": "twelve"},
        {"If-Match": "*"},
        {"Idempotency-Key": ""},
        {"Idempotency-Key": "%00"},
        {"Idempotency-Key": "%FF"},
        {"Idempotency-Key": "k" * 300},
        {"Holdfast-Turn": "12"},
        {"Holdfast-Turn": "12; lease=60000000"},
        {"Holdfast-Cause": "c" * 300},
    ],
)
def test_a_wrong_header_is_refused(place: ServedStore, headers: dict[str, str]) -> None:
    before = place.count_events()
    body = {"message": "user", "content": "Hello"}
    answer = place.api.send("POST", "/sessions/s/messages", body, headers=headers)
    assert answer.status_code in (400, 409, 422), answer.text
    check(place, before, answer)


def test_a_number_that_no_store_can_hold(place: ServedStore) -> None:
    scope = {"tenant": "default", "actor": "main", "session": "s"}
    offload = {"scope": scope, "first": 2**70, "last": 2**70, "at_us": 0, "reason": "reset", "id": "x", "number": 2**70}
    answer = place.api.send("POST", "/memory/requeue", {"failed": {"offload": offload, "next_us": 2**70}})
    assert answer.status_code == 422, answer.text


def test_a_verb_that_a_path_does_not_have(place: ServedStore) -> None:
    answer = place.api.http.patch("/sessions/s/messages")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert place.api.http.get("/sessions/s/nothing").status_code == 404
    assert place.api.http.get("/sessions//messages").status_code == 404
    head = place.api.http.head("/sessions/s")
    assert (head.status_code, head.content) == (200, b"")


def test_a_body_that_is_too_large(tmp_path: Path) -> None:
    with serving(tmp_path, body_bytes=10_000) as api:
        status, kind, _ = api.problem("POST", "/sessions", {"session": "s", "metadata": {"x": "y" * 20_000}})
        assert (status, kind) == (413, "TooLarge")
