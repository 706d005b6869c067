"""Errors as problem documents: every error of the tree comes back as it was, and nothing of the inside gets out."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.api.problems import (
    STATUSES,
    build_http_problem,
    build_problem,
    headers_of,
    raise_problem,
    read_problem,
    status_of,
)
from holdfast.errors import HoldfastError
from holdfast.model.names import LedgerId, Scope, StreamId

TREE = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HoldfastError)]
STREAM = StreamId("acme", "session", ("ada", "order-1"))
VALUES: list[object] = [7, 2**100, 1.5, float("nan"), None, True, "a text", "\ud800 half", "long " * 500, STREAM]
VALUES += [Scope("acme", "ada", "order-1"), LedgerId("acme", "user", ("ada",)), holdfast.Usage(5, 6)]


def make(kind: type[HoldfastError], values: list[Any] | None = None) -> HoldfastError:
    """An error of this kind, with these values in turn for its data."""
    names = [name for _, name, _, _ in string.Formatter().parse(kind.__doc__ or "") if name]
    names += [name for name in kind.__annotations__ if name not in names]
    chosen = values or [7]
    return kind(**{name: chosen[number % len(chosen)] for number, name in enumerate(names)})


def through_json(document: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(document, allow_nan=False).encode()))


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_error_comes_back_as_it_was(kind: type[HoldfastError]) -> None:
    for start in range(len(VALUES)):
        error = make(kind, VALUES[start:] + VALUES[:start])
        document = through_json(build_problem(error, "req-1"))
        assert document["status"] == status_of(error)
        assert document["instance"] == "req-1"
        assert document["title"]
        again = read_problem(document)
        assert str(again) == document["detail"]
        if document["status"] == 500 and kind is not errors.StorageCorrupt:
            assert type(again) is errors.ServerFailed
            continue
        assert type(again) is kind
        assert document["type"] == kind.__name__
        if not isinstance(error, errors.StorageError | errors.StorageCorrupt):
            assert set(vars(again)) == set(vars(error))
    plain = make(kind, ["a text", 5, "\ud800 half", "long " * 500, STREAM])
    if status_of(plain) < 500:
        assert str(read_problem(through_json(build_problem(plain, "r")))) == str(plain)


def test_names_of_the_engine_come_back_as_objects() -> None:
    error = errors.VersionConflict(stream=STREAM, expected=3, actual=5)
    with pytest.raises(errors.VersionConflict) as raised:
        raise_problem(through_json(build_problem(error, "r")))
    assert vars(raised.value) == vars(error)


STATUS_OF = [
    (errors.InvalidArgument, 422),
    (errors.InvalidJson, 400),
    (errors.TooLarge, 413),
    (errors.SessionDestroyedError, 404),
    (errors.FrameEnded, 404),
    (errors.KeyConflict, 409),
    (errors.Contended, 409),
    (errors.PermissionMissing, 403),
    (errors.KeyRefused, 401),
    (errors.RightMissing, 403),
    (errors.RateExceeded, 429),
    (errors.SpendExceeded, 429),
    (errors.QueueFull, 503),
    (errors.PoolExhausted, 503),
    (errors.StorageFull, 507),
    (errors.StorageReadOnly, 503),
    (errors.StorageCorrupt, 500),
    (errors.SchemaTooNew, 500),
    (errors.ModelRefused, 502),
    (errors.ModelTimeout, 504),
    (errors.ServerBusy, 503),
    (errors.RequestTimeout, 504),
    (HoldfastError, 500),
]


@pytest.mark.parametrize(("kind", "status"), STATUS_OF, ids=lambda value: getattr(value, "__name__", value))
def test_statuses(kind: type[HoldfastError], status: int) -> None:
    assert status_of(make(kind)) == status


def test_every_row_of_the_table_is_an_error_of_the_tree() -> None:
    assert set(STATUSES) <= set(TREE)
    assert {status_of(make(each)) for each in TREE if issubclass(each, errors.Conflict)} == {409, 403}


def test_a_version_in_if_match_is_a_precondition() -> None:
    error = errors.VersionConflict(stream=STREAM, expected=3, actual=5)
    assert status_of(error, if_match=True) == build_problem(error, "r", if_match=True)["status"] == 412
    assert status_of(make(errors.KeyConflict), if_match=True) == 409


@pytest.mark.parametrize("error", [ValueError("secret"), RuntimeError("/srv/agent.db"), MemoryError("secret")])
def test_an_unexpected_error_says_nothing_of_itself(error: Exception) -> None:
    document = build_problem(error, "req-9")
    assert document["status"] == 500
    assert document["type"] == "ServerFailed"
    assert str(error) not in json.dumps(document)
    assert type(error).__name__ not in json.dumps(document)


@pytest.mark.parametrize(
    "kind",
    [
        each
        for each in TREE
        if issubclass(each, errors.StorageError | errors.DataError) and each is not errors.ImportRefused
    ],
    ids=lambda kind: kind.__name__,
)
def test_no_path_address_or_message_of_a_driver_gets_out(kind: type[HoldfastError]) -> None:
    inside = {"what", "path", "store", "reason", "role"} & set(vars(make(kind)))
    error = kind(**{**vars(make(kind)), **dict.fromkeys(inside, "/srv/secret/agent.db on db.internal")})
    text = json.dumps(build_problem(error, "r"))
    assert "/srv" not in text
    assert "internal" not in text


def test_damage_is_told_without_its_place() -> None:
    document = build_problem(errors.StorageCorrupt(what="/srv/agent.db", reason="page 7: secret"), "r")
    assert (document["status"], document["type"]) == (500, "StorageCorrupt")
    assert document["detail"].startswith("the store is damaged: see the log of the server.")
    assert isinstance(read_problem(through_json(document)), errors.StorageCorrupt)


def test_a_session_that_is_not_there_is_named_without_a_thread_that_nobody_named() -> None:
    place = {"tenant": "acme", "actor": "ada", "session": "s"}
    assert "thread" not in str(errors.SessionNotFound(**place, thread=None))
    assert "(thread 't')" in str(errors.SessionNotFound(**place, thread="t"))


def test_when_to_try_again() -> None:
    assert headers_of(make(errors.RateExceeded, [9])) == {"Retry-After": "9"}
    assert headers_of(make(errors.ServerBusy, [4])) == {"Retry-After": "4"}
    for kind in (errors.StorageBusy, errors.QueueFull, errors.PoolExhausted, errors.StorageUnavailable):
        assert int(headers_of(make(kind))["Retry-After"]) >= 1
    assert headers_of(make(errors.KeyRefused)) == {"WWW-Authenticate": "Bearer"}
    assert headers_of(make(errors.KeyConflict)) == {}


def test_the_client_names_its_server() -> None:
    document = build_problem(make(errors.ServerBusy), "r")
    assert read_problem(document, "127.0.0.1:8787").server == "127.0.0.1:8787"  # type: ignore[attr-defined]


def test_what_is_no_error_of_holdfast_is_a_failed_server() -> None:
    error = read_problem(build_http_problem(405, "Method Not Allowed", "Use GET.", "r"), "127.0.0.1:1")
    assert type(error) is errors.ServerFailed
    assert "405 Method Not Allowed Use GET." in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from([each.__name__ for each in TREE] + ["describe_value", "__class__", "base"]) | JSON,
        "status": JSON,
        "detail": JSON,
        "attributes": st.dictionaries(
            st.sampled_from(["what", "reason", "session", "args", "__class__", "_x", "struct", "limit"]) | st.text(),
            st.fixed_dictionaries({"struct": st.sampled_from(["StreamId", "Usage", "Thread"]) | JSON}) | JSON,
        )
        | JSON,
    },
)


@given(HOSTILE | JSON)
def test_any_document_gives_an_error(document: object) -> None:
    error = read_problem(document, "127.0.0.1:1")
    assert isinstance(error, HoldfastError)
    assert str(error)
