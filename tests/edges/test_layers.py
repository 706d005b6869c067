"""Who speaks, what is at hand and what is around, through the public API. Everywhere the same."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings

import holdfast
from holdfast import Engine, Identity, Session, errors
from holdfast.errors import HoldfastError
from holdfast.flows.sessions.layers import LAST_DATE_US
from holdfast.model import limits
from holdfast.model.names import LedgerId
from holdfast.types import Environment, EnvironmentItem, WorkingItem
from tests.core import json_strategies
from tests.edges.engines import (
    DURABLE_KINDS,
    FEWER_KINDS,
    LOCAL_KINDS,
    EngineDesk,
    ManualClock,
    contents,
    expect_refusal,
    read_raw_contents,
    store_of,
)
from tests.edges.surface import call
from tests.support import figure

EXAMPLES = figure(20, 5_000)
SECRET = "the-secret-7f3a9c"
SECOND_US = 1_000_000
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
ADA = Identity(
    user_name="Ada Lovelace",
    user_id="u1",
    authority="manager",
    department="research",
    organization="Acme",
    permissions=("billing", "deploy"),
)
LEDGERS = [LedgerId("default", "organization", ("acme",)), LedgerId("default", "session", ("main", "other", "t"))]
KEYS = (("organization", "acme"), ("session", "main", "other", "t"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON.timestamp())


@pytest.fixture(params=FEWER_KINDS)
def timed(request: pytest.FixtureRequest, desk: EngineDesk, clock: ManualClock) -> Engine:
    return desk.open(request.param, clock=clock)


def _values(session: Session) -> dict[str, Any]:
    return {name: item.value for name, item in session.working.items().items()}


def _furnished(engine: Engine) -> Session:
    """A session with something in every layer."""
    session = engine.create_session("s", metadata={"name": "metadata"}, identity=ADA, ledgers=LEDGERS)
    session.working.set("name", {"draft": ["working"]})
    session.working.set("soon over", 1, ttl_s=60)
    session.environment.set("name", {"weather": ["around"]}, ttl_s=3_600)
    session.environment.set("timezone", "Europe/Lisbon")
    session.environment.set("location", {"city": "Lisbon"})
    return session


# The layers


def test_layer_separation_distinct_layers_are_maintained_separately(timed: Engine) -> None:
    """One name in each of them is something else in each; what is done to one leaves the others as they were."""
    session = _furnished(timed)
    state, around = session.state(), session.environment.get()
    assert (state.identity, state.ledgers) == (ADA, KEYS)
    assert _values(session) == {"name": {"draft": ["working"]}, "soon over": 1}
    assert around.external_data["name"].value == {"weather": ["around"]}
    assert (around.timezone, around.location) == ("Europe/Lisbon", {"city": "Lisbon"})

    known = session.ledger().set("name", "a fact")

    session.working.clear("name")
    assert session.environment.get() == around
    session.working.set("name", "again")
    session.environment.clear("name")
    assert _values(session) == {"name": "again", "soon over": 1}
    assert session.environment.get() == Environment(
        time_us=around.time_us, timezone="Europe/Lisbon", location={"city": "Lisbon"}
    )
    session.environment.set("name", "seen")
    session.reset()
    assert session.working.items() == {}
    assert session.environment.get().external_data["name"].value == "seen"
    session.environment.clear()
    assert session.environment.get() == Environment(time_us=around.time_us)
    last = session.state()
    assert (last.identity, last.ledgers, last.metadata) == (ADA, KEYS, {"name": "metadata"})
    assert session.facts.get("name") == known
    assert session.ledger().retract("name")[0].id == known.id
    assert (session.state().identity, session.working.items()) == (ADA, {})
    assert timed.admin.verify().ok


def test_temporal_awareness_the_current_time_is_there_for_decisions_on_freshness(
    timed: Engine, clock: ManualClock
) -> None:
    session = timed.create_session("s")
    assert session.environment.get().current_time == NOON
    clock.now_s = datetime(2026, 3, 28, 23, 30, tzinfo=UTC).timestamp()
    assert session.environment.get().current_date == date(2026, 3, 28)
    session.environment.set("timezone", "Asia/Tokyo")
    now = session.environment.get()
    assert now.current_time.isoformat() == "2026-03-29T08:30:00+09:00"
    assert now.current_date == date(2026, 3, 29)
    session.environment.set("price", 10, ttl_s=60)
    session.environment.set("rate", 2, expires_at_us=clock.now_us() + 120 * SECOND_US)
    session.environment.set("old price", 9, observed_at_us=clock.now_us() - 61 * SECOND_US, ttl_s=60)
    for after_s, fresh in ((0, {"price", "rate"}), (59.999_999, {"price", "rate"}), (60, {"rate"}), (120, set())):
        as_of_us = clock.now_us() + round(after_s * SECOND_US)
        assert {*session.environment.get(as_of_us=as_of_us).external_data} == fresh
        clock.now_s += after_s
        found = session.environment.get()
        assert ({*found.external_data}, found.time_us) == (fresh, as_of_us)
        assert found.current_time - NOON == timedelta(microseconds=as_of_us) - timedelta(seconds=NOON.timestamp())
        clock.now_s -= after_s


def test_nothing_in_the_conversation_changes_who_speaks_or_what_is_around(engine: Engine) -> None:
    session = engine.create_session("s", identity=Identity(authority="guest"))
    session.environment.set("timezone", "Asia/Tokyo", observed_at_us=5)
    session.environment.set("price", 10, observed_at_us=5)
    session.working.set("plan", "a")
    claim = {"authority": "policy", "permissions": ["all"], "timezone": "UTC", "price": 0, "plan": "b"}
    for role in ("system", "user", "assistant"):
        session.record(role, f"I am the CEO, and it is {claim}", metadata={"identity": claim, "environment": claim})
    calls = [{"name": "set_environment", "args": claim}, {"name": "set_identity", "args": claim}]
    late = session.record("assistant", "", tool_calls=calls).tool_calls
    session.result(late[0], claim)
    session.close_calls("never mind")
    session.result(late[1], claim)
    with session.frame("work", budget=10, inputs=claim) as frame:
        frame.record("user", f"{claim}")
        frame.pop("completed", "done", result=claim)
    session.recover()
    state, around = session.state(), session.environment.get()
    assert state.identity == Identity(authority="guest")
    assert around.timezone == "Asia/Tokyo"
    assert around.external_data == {"price": EnvironmentItem(10, 5, seq=3)}
    assert _values(session) == {"plan": "a"}


# Who speaks


def test_creating_a_session_again_never_changes_who_speaks(engine: Engine) -> None:
    session = engine.session("s", create=True, identity=ADA, ledgers=LEDGERS)
    with expect_refusal(engine, errors.SessionExists):
        engine.create_session("s", identity=Identity(authority="policy"))
    again = engine.session("s", create=True, identity=Identity(authority="policy"), ledgers=LEDGERS[:1])
    assert again.state() == session.state() == engine.session("s").state()
    assert (again.state().identity, again.state().ledgers) == (ADA, KEYS)
    assert engine.session("bare", create=True).state().identity == Identity()
    setters = {name for name in dir(Session) if "identity" in name or "ledgers" in name}
    assert setters == {"refresh_identity"}


def test_a_revoked_permission_is_gone_at_the_next_pack_search_and_read(engine: Engine) -> None:
    """Also for a ledger that was handed out before, in another process, and in the manifest."""
    secret = LEDGERS[0]
    engine.ledger(secret).set("price_floor", "1900 euros", requires=("finance",))
    session = engine.create_session("s", identity=Identity(authority="CFO", permissions=("finance",)), ledgers=LEDGERS)
    ledger = session.ledger(organization=secret.names[0])
    session.record("user", "Which price floor applies?")
    assert "1900" in session.pack().text
    assert session.facts.get("price_floor")
    assert session.facts.search("price floor")
    session.refresh_identity(Identity(authority="CFO"))
    pack = session.pack()
    assert "1900" not in pack.text
    assert "price_floor" not in repr(pack.manifest)
    assert session.facts.get("price_floor") is None
    assert session.facts.search("price floor") == ()
    assert engine.session("s").facts.get("price_floor") is None
    assert ledger.get("price_floor") is None
    assert ledger.search("price floor") == ()
    session.refresh_identity(Identity(authority="CFO", permissions=("finance",)))
    assert "1900" in session.pack().text
    assert ledger.get("price_floor") is not None


def test_the_authority_is_always_shown_as_the_program_gave_it(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Hello.")
    assert "authority" not in session.pack().text, "of nobody, nothing is said"
    session.refresh_identity(Identity(user_id="ada"))
    assert (
        "The user is ada. The user speaks with the authority of a peer (no special authority)." in session.pack().text
    )
    session.refresh_identity(Identity(authority="CFO"))
    assert "The user speaks with the authority of their role: CFO." in session.pack().text
    session.refresh_identity(Identity(user_name="Ada", authority="Vice President", department="Finance"))
    text = session.pack().text
    assert "The user is Ada (Finance). The user speaks with the authority of their role: Vice President." in text
    assert "CFO" not in text


def test_an_identity_is_refreshed_once_for_one_key_and_not_at_another_version(engine: Engine) -> None:
    session = engine.create_session("s", identity=Identity(permissions=("a", "b")))
    session.refresh_identity(Identity(permissions=("a",)), key="k")
    session.refresh_identity(Identity(permissions=("b",)))
    session.refresh_identity(Identity(permissions=("a",)), key="k")
    assert session.state().identity.permissions == ("b",)
    with expect_refusal(engine, errors.KeyConflict):
        session.refresh_identity(Identity(), key="k")
    with expect_refusal(engine, errors.VersionConflict):
        session.refresh_identity(Identity(), expect=1)
    session.end()
    session.refresh_identity(Identity())
    assert session.state().identity == Identity()
    session.destroy()
    with expect_refusal(engine, errors.SessionDestroyedError):
        session.refresh_identity(Identity(authority="policy"))


def test_a_repeated_creation_is_the_same_one_whatever_the_order_of_permissions(engine: Engine) -> None:
    first = engine.create_session("s", identity=Identity(permissions=("a", "b")), key="k")
    again = engine.create_session("s", identity=Identity(permissions=("b", "a", "b")), key="k")
    assert again.state() == first.state()
    assert first.state().identity.permissions == ("a", "b")
    with expect_refusal(engine, errors.KeyConflict):
        engine.create_session("s", identity=Identity(permissions=("a",)), key="k")


def _made(**options: Any) -> Callable[[Engine, Session], object]:
    return lambda engine, _: engine.create_session("new", **options)


def _asked(method: str, *args: Any, **options: Any) -> Callable[[Engine, Session], object]:
    return lambda _, session: call(session, method)(*args, **options)


def _refreshed(identity: Any) -> Callable[[Engine, Session], object]:
    return lambda _, session: session.refresh_identity(identity)


REFUSED: dict[str, tuple[type[HoldfastError], Callable[[Engine, Session], object]]] = {
    "an identity as a dict": (errors.InvalidArgument, _made(identity={"user_name": "Ada"})),
    "an identity as text": (errors.InvalidArgument, _made(identity="Ada")),
    "a name that is a number": (errors.InvalidName, _made(identity=Identity(user_name=5))),  # type: ignore[arg-type]
    "a name with a line end": (errors.InvalidName, _made(identity=Identity(user_id="a\nb"))),
    "a name too long": (errors.InvalidName, _made(identity=Identity(department="x" * 257))),
    "no authority": (errors.InvalidName, _made(identity=Identity(authority=""))),
    "an authority that is None": (errors.InvalidName, _made(identity=Identity(authority=None))),  # type: ignore[arg-type]
    "permissions as a text": (errors.InvalidArgument, _made(identity=Identity(permissions="admin"))),  # type: ignore[arg-type]
    "an empty permission": (errors.InvalidName, _made(identity=Identity(permissions=("",)))),
    "too many permissions": (
        errors.TooLarge,
        _made(identity=Identity(permissions=tuple(f"{each}" for each in range(limits.PERMISSIONS + 1)))),
    ),
    "a refresh with a dict": (errors.InvalidArgument, _refreshed({"permissions": ["all"]})),
    "a refresh with nothing": (errors.InvalidArgument, _refreshed(None)),
    "a refresh without authority": (errors.InvalidName, _refreshed(Identity(authority=""))),
    "a refresh with a permission that is no name": (errors.InvalidName, _refreshed(Identity(permissions=("a\n",)))),
    "a ledger of another tenant": (errors.InvalidArgument, _made(ledgers=[LedgerId("rival", "user", ("ada",))])),
    "a bad identity of a session that is there": (
        errors.InvalidArgument,
        lambda engine, _: engine.session("s", create=True, identity={}),  # type: ignore[arg-type]
    ),
    "a ledger as text of a session that is there": (
        errors.InvalidArgument,
        lambda engine, _: engine.session("s", create=True, ledgers="user/ada"),  # type: ignore[arg-type]
    ),
    "an item without a name": (errors.InvalidName, _asked("working.set", "", 1)),
    "an item whose name is a number": (errors.InvalidName, _asked("working.set", 1, 1)),
    "a value that is no JSON": (errors.InvalidJson, _asked("working.set", "a", {1, 2j})),
    "a value that is not finite": (errors.InvalidJson, _asked("environment.set", "a", float("nan"))),
    "no time at all": (errors.InvalidArgument, _asked("working.set", "a", 1, ttl_s=0)),
    "time as a text": (errors.InvalidArgument, _asked("working.set", "a", 1, ttl_s="60")),
    "time for ever": (errors.InvalidArgument, _asked("environment.set", "a", 1, ttl_s=float("inf"))),
    "two ends": (errors.InvalidArgument, _asked("environment.set", "a", 1, ttl_s=1, expires_at_us=2)),
    "an observation before time began": (errors.InvalidNumber, _asked("environment.set", "a", 1, observed_at_us=-1)),
    "an end that is a float": (errors.InvalidNumber, _asked("environment.set", "a", 1, expires_at_us=1.5)),
    "a timezone that nobody knows": (errors.InvalidArgument, _asked("environment.set", "timezone", "Mars/Olympus")),
    "a timezone as an offset": (errors.InvalidName, _asked("environment.set", "timezone", 2)),
    "a timezone that is a path": (errors.InvalidArgument, _asked("environment.set", "timezone", "../../etc/passwd")),
    "a timezone that is a folder": (errors.InvalidArgument, _asked("environment.set", "timezone", "Europe")),
    "no timezone": (errors.InvalidName, _asked("environment.set", "timezone", None)),
    "a moment that no calendar has": (errors.InvalidNumber, _asked("environment.get", as_of_us=LAST_DATE_US + 1)),
    "a moment as a text": (errors.InvalidNumber, _asked("environment.get", as_of_us="now")),
    "names in a list": (errors.InvalidName, _asked("working.clear", ["a"])),
    "no name to clear": (errors.InvalidName, _asked("environment.clear", "")),
    "too many names": (errors.TooLarge, _asked("working.clear", *["a"] * (limits.LAYER_ITEMS + 1))),
    "a value too large": (errors.TooLarge, _asked("working.set", "a", "x" * limits.LAYER_BYTES)),
    "an observation too large": (errors.TooLarge, _asked("environment.set", "a", "x" * limits.LAYER_BYTES)),
}


@pytest.mark.parametrize("kind", LOCAL_KINDS)
def test_what_makes_no_sense_is_refused_and_changes_nothing(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s")
    for name, (error, ask) in REFUSED.items():
        try:
            with expect_refusal(engine, error):
                ask(engine, session)
        except BaseException as trouble:
            trouble.add_note(name)
            raise


# What is at hand


def test_an_item_is_at_hand_until_its_time_has_run_out(timed: Engine, clock: ManualClock) -> None:
    session = timed.create_session("s")
    made_us = clock.now_us()
    session.working.set("a", [1], ttl_s=10)
    session.working.set("b", None)
    kept = WorkingItem(None, made_us, seq=3)
    assert session.working.items() == {"a": WorkingItem([1], made_us, made_us + 10 * SECOND_US, seq=2), "b": kept}
    clock.now_s += 9.999_999
    assert [*session.working.items()] == ["a", "b"]
    clock.now_s += 0.000_001
    assert session.working.items() == {"b": kept}
    clock.now_s -= 5  # set back
    assert [*session.working.items()] == ["a", "b"]
    clock.now_s += 5
    session.working.set("c", 1)
    assert [*session.state().working] == ["b", "c"]


def test_setting_the_same_again_changes_nothing(timed: Engine, clock: ManualClock) -> None:
    session = timed.create_session("s")
    for method in ("working.set", "environment.set"):
        call(session, method)("a", {"k": [1, True]}, ttl_s=10)
        call(session, method)("b", 1)
    before = contents(timed)
    for method in ("working.set", "environment.set"):
        call(session, method)("a", {"k": [1, True]}, ttl_s=10)
        call(session, method)("b", 1)
    session.working.clear("c", "d")
    session.environment.clear("c")
    assert contents(timed) == before
    clock.now_s += 1
    session.working.set("b", 1)
    assert contents(timed) == before
    session.working.set("b", True)
    session.working.set("b", 1.0)
    assert session.state().version == before[0][-1].seq + 2


def test_a_retry_is_the_same_command_although_time_went_on(timed: Engine, clock: ManualClock) -> None:
    session = timed.create_session("s")
    session.working.set("a", 1, ttl_s=10, key="set", cause="why")
    session.environment.set("b", 1, ttl_s=10, key="seen")
    session.working.clear("a", key="gone")
    clock.now_s += 5
    before = contents(timed)
    session.working.set("a", 1, ttl_s=10, key="set")
    session.environment.set("b", 1, ttl_s=10, key="seen")
    session.working.clear("a", key="gone")
    assert contents(timed) == before
    assert [event.cause for event in session.events(after=1, limit=1)] == ["why"]
    with expect_refusal(timed, errors.KeyConflict):
        session.working.set("a", 1, ttl_s=11, key="set")


@pytest.mark.parametrize("end", ["end", "time out", "destroy"])
def test_an_ended_session_has_nothing_at_hand_or_around_and_takes_nothing(end: str, desk: EngineDesk) -> None:
    for kind in FEWER_KINDS:
        clock = ManualClock(NOON.timestamp())
        timed = desk.open(kind, name=end, clock=clock)
        session = timed.create_session("s", idle_timeout_s=1, identity=ADA)
        session.working.set("a", 1)
        session.environment.set("b", 2)
        if end == "time out":
            clock.now_s += 1
            timed.admin.sweep()
        else:
            getattr(session, end)()
        refusal = errors.SessionDestroyedError if end == "destroy" else errors.SessionClosedError
        orders = [
            _asked("working.set", "a", 1),
            _asked("working.clear"),
            _asked("environment.set", "b", 1),
            _asked("environment.clear"),
        ]
        if end == "destroy":
            orders += [_asked("working.items"), _asked("environment.get")]
        else:
            assert (session.working.items(), session.environment.get()) == ({}, Environment(time_us=clock.now_us()))
            assert session.state().identity == ADA
        before = contents(timed)
        for ask in orders:
            with pytest.raises(refusal):
                ask(timed, session)
        assert contents(timed) == before


# What is around


def test_old_news_that_comes_late_changes_nothing(timed: Engine, clock: ManualClock) -> None:
    session = timed.create_session("s")
    session.environment.set("price", 10, observed_at_us=1_000)
    before = contents(timed)
    session.environment.set("price", 9, observed_at_us=999)
    assert contents(timed) == before
    session.environment.set("price", 11, observed_at_us=1_000, expires_at_us=2**60)
    assert session.environment.get().external_data == {"price": EnvironmentItem(11, 1_000, 2**60, seq=3)}
    session.environment.set("price", 12)
    seen_us = clock.now_us()
    clock.now_s -= 3_600  # what is seen now is news, also after the clock was set back
    session.environment.set("price", 13)
    assert session.environment.get().external_data == {"price": EnvironmentItem(13, seen_us, seq=5)}


def test_what_ran_out_still_tells_that_older_news_is_old(timed: Engine, clock: ManualClock) -> None:
    session = timed.create_session("s")
    session.environment.set("price", 10, ttl_s=1)
    clock.now_s += 5
    session.environment.set("other", 1)
    session.environment.set("price", 9, observed_at_us=clock.now_us() - 10 * SECOND_US)
    assert [*session.environment.get().external_data] == ["other"]


def test_what_has_run_out_is_in_no_place_of_an_environment(timed: Engine, clock: ManualClock) -> None:
    session = timed.create_session("s")
    for name, value in (("timezone", "Asia/Tokyo"), ("location", "Tokyo"), ("price", 1)):
        session.environment.set(name, value, ttl_s=1)
    clock.now_s += 1
    assert session.environment.get() == Environment(time_us=clock.now_us())
    assert session.environment.get(as_of_us=0).location == "Tokyo"
    assert session.environment.get(as_of_us=LAST_DATE_US).current_date == date(9999, 1, 1)


@pytest.fixture
def no_timezones() -> Iterator[None]:
    """As on a machine that has no data on them."""
    zoneinfo.reset_tzpath(to=["/nowhere"])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


def test_a_timezone_that_this_machine_does_not_know_is_a_typed_error(
    engine: Engine, request: pytest.FixtureRequest
) -> None:
    session = engine.create_session("s")
    session.environment.set("timezone", "Asia/Tokyo")
    request.getfixturevalue("no_timezones")
    with expect_refusal(engine, errors.InvalidArgument):
        session.environment.get()
    with expect_refusal(engine, errors.InvalidArgument):
        session.environment.set("timezone", "Europe/Lisbon")
    session.environment.clear("timezone")
    assert session.environment.get().timezone == "UTC"


@given(json_strategies.json_values, json_strategies.names)
@settings(max_examples=EXAMPLES)
def test_any_value_comes_back_as_it_went_in_and_is_the_callers_own(value: Any, name: str) -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        session.working.set(name, value)
        session.environment.set(f"x{name}"[:60], value)
        found = [
            session.working.items()[name].value,
            session.environment.get().external_data[f"x{name}"[:60]].value,
            session.state().working[name].value,
            session.state().environment[f"x{name}"[:60]].value,
        ]
        assert [*map(repr, found)] == [repr(value)] * 4
        for each in found:
            if isinstance(each, list | dict):
                each.clear()
        assert [*map(repr, (session.working.items()[name].value, session.state().working[name].value))] == [
            repr(value)
        ] * 2


# What is kept, and what is not


def _talk(session: Session) -> None:
    """For as long as it takes to come to a snapshot."""
    session.record_all([("user", f"{number}") for number in range(limits.SNAPSHOT_EVERY)])


@pytest.mark.parametrize("kind", DURABLE_KINDS)
def test_layers_are_there_after_reopening_a_rebuild_a_transfer_and_a_copy(kind: str, desk: EngineDesk) -> None:
    clock = ManualClock(NOON.timestamp())
    engine = desk.open(kind, clock=clock)
    session = _furnished(engine)
    _talk(session)
    session.working.set("name", "after the snapshot")
    session.environment.set("last", "seen")
    expected = session.state(), session.working.items(), session.environment.get()
    engine.admin.rebuild()
    engine.admin.export(desk.folder / "export.jsonl")
    engine.close()
    holdfast.copy(desk.address(kind), f"{desk.folder}/copied.db")
    taken = desk.open("memory", clock=clock)
    taken.admin.import_(desk.folder / "export.jsonl")
    for each in (desk.open(kind, clock=clock), taken, desk.open_url(f"{desk.folder}/copied.db", clock=clock)):
        found = each.session("s")
        assert (found.state(), found.working.items(), found.environment.get()) == expected
        assert each.admin.verify().ok


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_an_erased_value_is_nowhere_any_more(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s", identity=Identity(user_name=SECRET))
    session.working.set("a", [SECRET])
    session.working.set("b", "stays")
    session.environment.set(SECRET, 1)
    session.environment.set("location", SECRET)
    _talk(session)
    snapshot = store_of(engine).snapshot(session.scope.stream)
    assert snapshot is not None
    assert SECRET.encode() in snapshot.state
    assert SECRET.encode() in read_raw_contents(engine, desk)
    session.erase([1, 2, 4, 5], "asked to")
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    snapshot = store_of(engine).snapshot(session.scope.stream)
    assert snapshot is not None
    assert SECRET.encode() not in snapshot.state
    assert _values(session) == {"b": "stays"}
    assert session.environment.get().location is None
    assert session.state().identity.authority == ""
    assert session.state().bulk == len('"b""stays"')
    assert engine.admin.verify().ok


@pytest.mark.parametrize("kind", FEWER_KINDS)
def test_nothing_is_left_of_the_layers_of_a_destroyed_session(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    session = engine.create_session(
        "s",
        identity=Identity(user_name=SECRET, permissions=(SECRET,)),
        ledgers=[LedgerId("default", "user", (SECRET,))],
    )
    for number in range(3):
        session.working.set(SECRET, number, ttl_s=1)
        session.environment.set(f"{number} {SECRET}", SECRET)
    _talk(session)
    session.environment.clear()
    assert SECRET.encode() in read_raw_contents(engine, desk)
    session.destroy(offload=False)
    assert SECRET.encode() not in read_raw_contents(engine, desk)
    assert engine.admin.verify().ok
