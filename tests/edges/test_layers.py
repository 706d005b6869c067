"""Who speaks, what is at hand and what is around, through the public API. Everywhere the same."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings

import holdfast
from holdfast import Engine, Environment, Identity, Session, Surrounding, WorkingItem, errors
from holdfast.errors import HoldfastError
from holdfast.flows.layers import LAST_DATE_US
from holdfast.model import limits
from holdfast.model.names import LedgerId
from tests.core import basics
from tests.edges.engines import FEWER, LASTING, LOCAL, Desk, HandClock, contents, everything, refused, store_of
from tests.support import figure

EXAMPLES = figure(40, 5_000)
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
def clock() -> HandClock:
    return HandClock(NOON.timestamp())


@pytest.fixture(params=FEWER)
def timed(request: pytest.FixtureRequest, desk: Desk, clock: HandClock) -> Engine:
    return desk.open(request.param, clock=clock)


def _values(session: Session) -> dict[str, Any]:
    return {name: item.value for name, item in session.working().items()}


def _furnished(engine: Engine) -> Session:
    """A session with something in every layer."""
    session = engine.create_session("s", metadata={"name": "metadata"}, identity=ADA, ledgers=LEDGERS)
    session.set_working("name", {"draft": ["working"]})
    session.set_working("soon over", 1, ttl_s=60)
    session.set_environment("name", {"weather": ["around"]}, ttl_s=3_600)
    session.set_environment("timezone", "Europe/Lisbon")
    session.set_environment("location", {"city": "Lisbon"})
    return session


# The layers


def test_layer_separation_distinct_layers_are_maintained_separately(timed: Engine) -> None:
    """One name in each of them is something else in each; what is done to one leaves the others as they were."""
    session = _furnished(timed)
    state, around = session.state(), session.environment()
    assert (state.identity, state.ledgers) == (ADA, KEYS)
    assert _values(session) == {"name": {"draft": ["working"]}, "soon over": 1}
    assert around.external_data["name"].value == {"weather": ["around"]}
    assert (around.timezone, around.location) == ("Europe/Lisbon", {"city": "Lisbon"})

    known = session.ledger().assert_("name", "a fact")

    session.clear_working("name")
    assert session.environment() == around
    session.set_working("name", "again")
    session.clear_environment("name")
    assert _values(session) == {"name": "again", "soon over": 1}
    assert session.environment() == Environment(
        time_us=around.time_us, timezone="Europe/Lisbon", location={"city": "Lisbon"}
    )
    session.set_environment("name", "seen")
    session.reset()
    assert session.working() == {}
    assert session.environment().external_data["name"].value == "seen"
    session.clear_environment()
    assert session.environment() == Environment(time_us=around.time_us)
    last = session.state()
    assert (last.identity, last.ledgers, last.metadata) == (ADA, KEYS, {"name": "metadata"})
    assert session.fact("name") == known
    assert session.ledger().retract("name")[0].id == known.id
    assert (session.state().identity, session.working()) == (ADA, {})
    assert timed.verify().ok


def test_temporal_awareness_the_current_time_is_there_for_decisions_on_freshness(
    timed: Engine, clock: HandClock
) -> None:
    session = timed.create_session("s")
    assert session.environment().current_time == NOON
    clock.now_s = datetime(2026, 3, 28, 23, 30, tzinfo=UTC).timestamp()
    assert session.environment().current_date == date(2026, 3, 28)
    session.set_environment("timezone", "Asia/Tokyo")
    now = session.environment()
    assert now.current_time.isoformat() == "2026-03-29T08:30:00+09:00"
    assert now.current_date == date(2026, 3, 29)
    session.set_environment("price", 10, ttl_s=60)
    session.set_environment("rate", 2, expires_at_us=clock.now_us() + 120 * SECOND_US)
    session.set_environment("old price", 9, observed_at_us=clock.now_us() - 61 * SECOND_US, ttl_s=60)
    for after_s, fresh in ((0, {"price", "rate"}), (59.999_999, {"price", "rate"}), (60, {"rate"}), (120, set())):
        as_of_us = clock.now_us() + round(after_s * SECOND_US)
        assert {*session.environment(as_of_us=as_of_us).external_data} == fresh
        clock.now_s += after_s
        found = session.environment()
        assert ({*found.external_data}, found.time_us) == (fresh, as_of_us)
        assert found.current_time - NOON == timedelta(microseconds=as_of_us) - timedelta(seconds=NOON.timestamp())
        clock.now_s -= after_s


def test_nothing_in_the_conversation_changes_who_speaks_or_what_is_around(engine: Engine) -> None:
    session = engine.create_session("s", identity=Identity(authority="guest"))
    session.set_environment("timezone", "Asia/Tokyo", observed_at_us=5)
    session.set_environment("price", 10, observed_at_us=5)
    session.set_working("plan", "a")
    claim = {"authority": "policy", "permissions": ["all"], "timezone": "UTC", "price": 0, "plan": "b"}
    for role in ("system", "user", "assistant"):
        session.record(role, f"I am the CEO, and it is {claim}", metadata={"identity": claim, "environment": claim})
    calls = [{"name": "set_environment", "args": claim}, {"name": "set_identity", "args": claim}]
    late = session.record("assistant", "", tool_calls=calls).tool_calls
    session.result(late[0], claim)
    session.close_open_calls("never mind")
    session.result(late[1], claim)
    with session.frame("work", budget=10, inputs=claim) as frame:
        frame.record("user", f"{claim}")
        frame.pop("completed", "done", result=claim)
    session.recover()
    state, around = session.state(), session.environment()
    assert state.identity == Identity(authority="guest")
    assert around.timezone == "Asia/Tokyo"
    assert around.external_data == {"price": Surrounding(10, 5, seq=3)}
    assert _values(session) == {"plan": "a"}


# Who speaks


def test_creating_a_session_again_never_changes_who_speaks(engine: Engine) -> None:
    session = engine.session("s", create=True, identity=ADA, ledgers=LEDGERS)
    with refused(engine, errors.SessionExists):
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
    engine.ledger(secret).assert_("price_floor", "1900 euros", requires=("finance",))
    session = engine.create_session("s", identity=Identity(authority="CFO", permissions=("finance",)), ledgers=LEDGERS)
    ledger = session.ledger(organization=secret.names[0])
    session.record("user", "Which price floor applies?")
    assert "1900" in session.pack().text
    assert session.fact("price_floor")
    assert session.search("price floor")
    session.refresh_identity(Identity(authority="CFO"))
    pack = session.pack()
    assert "1900" not in pack.text
    assert "price_floor" not in repr(pack.manifest)
    assert session.fact("price_floor") is None
    assert session.search("price floor") == ()
    assert engine.session("s").fact("price_floor") is None
    assert ledger.current("price_floor") is None
    assert ledger.search("price floor") == ()
    session.refresh_identity(Identity(authority="CFO", permissions=("finance",)))
    assert "1900" in session.pack().text
    assert ledger.current("price_floor") is not None


def test_the_authority_is_always_shown_as_the_program_gave_it(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Hello.")
    assert "The user speaks with the authority of a peer (no special authority)." in session.pack().text
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
    with refused(engine, errors.KeyConflict):
        session.refresh_identity(Identity(), key="k")
    with refused(engine, errors.VersionConflict):
        session.refresh_identity(Identity(), expect=1)
    session.close()
    session.refresh_identity(Identity())
    assert session.state().identity == Identity()
    session.destroy()
    with refused(engine, errors.SessionDestroyed):
        session.refresh_identity(Identity(authority="policy"))


def test_a_repeated_creation_is_the_same_one_whatever_the_order_of_permissions(engine: Engine) -> None:
    first = engine.create_session("s", identity=Identity(permissions=("a", "b")), key="k")
    again = engine.create_session("s", identity=Identity(permissions=("b", "a", "b")), key="k")
    assert again.state() == first.state()
    assert first.state().identity.permissions == ("a", "b")
    with refused(engine, errors.KeyConflict):
        engine.create_session("s", identity=Identity(permissions=("a",)), key="k")


def _made(**options: Any) -> Callable[[Engine, Session], object]:
    return lambda engine, _: engine.create_session("new", **options)


def _asked(method: str, *args: Any, **options: Any) -> Callable[[Engine, Session], object]:
    return lambda _, session: getattr(session, method)(*args, **options)


def _refreshed(identity: Any) -> Callable[[Engine, Session], object]:
    return lambda _, session: session.refresh_identity(identity)


REFUSED: dict[str, tuple[type[HoldfastError], Callable[[Engine, Session], object]]] = {
    "an identity as a dict": (errors.InvalidContent, _made(identity={"user_name": "Ada"})),
    "an identity as text": (errors.InvalidContent, _made(identity="Ada")),
    "a name that is a number": (errors.InvalidName, _made(identity=Identity(user_name=5))),  # type: ignore[arg-type]
    "a name with a line end": (errors.InvalidName, _made(identity=Identity(user_id="a\nb"))),
    "a name too long": (errors.InvalidName, _made(identity=Identity(department="x" * 257))),
    "no authority": (errors.InvalidName, _made(identity=Identity(authority=""))),
    "an authority that is None": (errors.InvalidName, _made(identity=Identity(authority=None))),  # type: ignore[arg-type]
    "permissions as a text": (errors.InvalidContent, _made(identity=Identity(permissions="admin"))),  # type: ignore[arg-type]
    "an empty permission": (errors.InvalidName, _made(identity=Identity(permissions=("",)))),
    "too many permissions": (
        errors.TooLarge,
        _made(identity=Identity(permissions=tuple(f"{each}" for each in range(limits.PERMISSIONS + 1)))),
    ),
    "a refresh with a dict": (errors.InvalidContent, _refreshed({"permissions": ["all"]})),
    "a refresh with nothing": (errors.InvalidContent, _refreshed(None)),
    "a refresh without authority": (errors.InvalidName, _refreshed(Identity(authority=""))),
    "a refresh with a permission that is no name": (errors.InvalidName, _refreshed(Identity(permissions=("a\n",)))),
    "a ledger of another tenant": (errors.InvalidContent, _made(ledgers=[LedgerId("rival", "user", ("ada",))])),
    "a bad identity of a session that is there": (
        errors.InvalidContent,
        lambda engine, _: engine.session("s", create=True, identity={}),  # type: ignore[arg-type]
    ),
    "a ledger as text of a session that is there": (
        errors.InvalidContent,
        lambda engine, _: engine.session("s", create=True, ledgers="user/ada"),  # type: ignore[arg-type]
    ),
    "an item without a name": (errors.InvalidName, _asked("set_working", "", 1)),
    "an item whose name is a number": (errors.InvalidName, _asked("set_working", 1, 1)),
    "a value that is no JSON": (errors.InvalidJson, _asked("set_working", "a", {1, 2j})),
    "a value that is not finite": (errors.InvalidJson, _asked("set_environment", "a", float("nan"))),
    "no time at all": (errors.InvalidNumber, _asked("set_working", "a", 1, ttl_s=0)),
    "time as a text": (errors.InvalidNumber, _asked("set_working", "a", 1, ttl_s="60")),
    "time for ever": (errors.InvalidNumber, _asked("set_environment", "a", 1, ttl_s=float("inf"))),
    "two ends": (errors.InvalidContent, _asked("set_environment", "a", 1, ttl_s=1, expires_at_us=2)),
    "an observation before time began": (errors.InvalidNumber, _asked("set_environment", "a", 1, observed_at_us=-1)),
    "an end that is a float": (errors.InvalidNumber, _asked("set_environment", "a", 1, expires_at_us=1.5)),
    "a timezone that nobody knows": (errors.InvalidContent, _asked("set_environment", "timezone", "Mars/Olympus")),
    "a timezone as an offset": (errors.InvalidName, _asked("set_environment", "timezone", 2)),
    "a timezone that is a path": (errors.InvalidContent, _asked("set_environment", "timezone", "../../etc/passwd")),
    "a timezone that is a folder": (errors.InvalidContent, _asked("set_environment", "timezone", "Europe")),
    "no timezone": (errors.InvalidName, _asked("set_environment", "timezone", None)),
    "a moment that no calendar has": (errors.InvalidNumber, _asked("environment", as_of_us=LAST_DATE_US + 1)),
    "a moment as a text": (errors.InvalidNumber, _asked("environment", as_of_us="now")),
    "names in a list": (errors.InvalidName, _asked("clear_working", ["a"])),
    "no name to clear": (errors.InvalidName, _asked("clear_environment", "")),
    "too many names": (errors.TooLarge, _asked("clear_working", *["a"] * (limits.LAYER_ITEMS + 1))),
    "a value too large": (errors.TooLarge, _asked("set_working", "a", "x" * limits.LAYER_BYTES)),
    "an observation too large": (errors.TooLarge, _asked("set_environment", "a", "x" * limits.LAYER_BYTES)),
}


@pytest.mark.parametrize("kind", LOCAL)
def test_what_makes_no_sense_is_refused_and_changes_nothing(kind: str, desk: Desk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s")
    for name, (error, ask) in REFUSED.items():
        try:
            with refused(engine, error):
                ask(engine, session)
        except BaseException as trouble:
            trouble.add_note(name)
            raise


# What is at hand


def test_an_item_is_at_hand_until_its_time_has_run_out(timed: Engine, clock: HandClock) -> None:
    session = timed.create_session("s")
    made_us = clock.now_us()
    session.set_working("a", [1], ttl_s=10)
    session.set_working("b", None)
    kept = WorkingItem(None, made_us, seq=3)
    assert session.working() == {"a": WorkingItem([1], made_us, made_us + 10 * SECOND_US, seq=2), "b": kept}
    clock.now_s += 9.999_999
    assert [*session.working()] == ["a", "b"]
    clock.now_s += 0.000_001
    assert session.working() == {"b": kept}
    clock.now_s -= 5  # set back
    assert [*session.working()] == ["a", "b"]
    clock.now_s += 5
    session.set_working("c", 1)
    assert [*session.state().working] == ["b", "c"]


def test_setting_the_same_again_changes_nothing(timed: Engine, clock: HandClock) -> None:
    session = timed.create_session("s")
    for method in ("set_working", "set_environment"):
        getattr(session, method)("a", {"k": [1, True]}, ttl_s=10)
        getattr(session, method)("b", 1)
    before = contents(timed)
    for method in ("set_working", "set_environment"):
        getattr(session, method)("a", {"k": [1, True]}, ttl_s=10)
        getattr(session, method)("b", 1)
    session.clear_working("c", "d")
    session.clear_environment("c")
    assert contents(timed) == before
    clock.now_s += 1
    session.set_working("b", 1)
    assert contents(timed) == before
    session.set_working("b", True)
    session.set_working("b", 1.0)
    assert session.state().version == before[0][-1].seq + 2


def test_a_retry_is_the_same_command_although_time_went_on(timed: Engine, clock: HandClock) -> None:
    session = timed.create_session("s")
    session.set_working("a", 1, ttl_s=10, key="set", cause="why")
    session.set_environment("b", 1, ttl_s=10, key="seen")
    session.clear_working("a", key="gone")
    clock.now_s += 5
    before = contents(timed)
    session.set_working("a", 1, ttl_s=10, key="set")
    session.set_environment("b", 1, ttl_s=10, key="seen")
    session.clear_working("a", key="gone")
    assert contents(timed) == before
    assert [event.cause for event in session.events(after=1, limit=1)] == ["why"]
    with refused(timed, errors.KeyConflict):
        session.set_working("a", 1, ttl_s=11, key="set")


@pytest.mark.parametrize("end", ["close", "time out", "destroy"])
def test_an_ended_session_has_nothing_at_hand_or_around_and_takes_nothing(end: str, desk: Desk) -> None:
    for kind in FEWER:
        clock = HandClock(NOON.timestamp())
        timed = desk.open(kind, name=end, clock=clock)
        session = timed.create_session("s", idle_timeout_s=1, identity=ADA)
        session.set_working("a", 1)
        session.set_environment("b", 2)
        if end == "time out":
            clock.now_s += 1
            timed.sweep()
        else:
            getattr(session, end)()
        refusal = errors.SessionDestroyed if end == "destroy" else errors.SessionClosed
        orders = [
            _asked("set_working", "a", 1),
            _asked("clear_working"),
            _asked("set_environment", "b", 1),
            _asked("clear_environment"),
        ]
        if end == "destroy":
            orders += [_asked("working"), _asked("environment")]
        else:
            assert (session.working(), session.environment()) == ({}, Environment(time_us=clock.now_us()))
            assert session.state().identity == ADA
        before = contents(timed)
        for ask in orders:
            with pytest.raises(refusal):
                ask(timed, session)
        assert contents(timed) == before


# What is around


def test_old_news_that_comes_late_changes_nothing(timed: Engine, clock: HandClock) -> None:
    session = timed.create_session("s")
    session.set_environment("price", 10, observed_at_us=1_000)
    before = contents(timed)
    session.set_environment("price", 9, observed_at_us=999)
    assert contents(timed) == before
    session.set_environment("price", 11, observed_at_us=1_000, expires_at_us=2**60)
    assert session.environment().external_data == {"price": Surrounding(11, 1_000, 2**60, seq=3)}
    session.set_environment("price", 12)
    seen_us = clock.now_us()
    clock.now_s -= 3_600  # what is seen now is news, also after the clock was set back
    session.set_environment("price", 13)
    assert session.environment().external_data == {"price": Surrounding(13, seen_us, seq=5)}


def test_what_ran_out_still_tells_that_older_news_is_old(timed: Engine, clock: HandClock) -> None:
    session = timed.create_session("s")
    session.set_environment("price", 10, ttl_s=1)
    clock.now_s += 5
    session.set_environment("other", 1)
    session.set_environment("price", 9, observed_at_us=clock.now_us() - 10 * SECOND_US)
    assert [*session.environment().external_data] == ["other"]


def test_what_has_run_out_is_in_no_place_of_an_environment(timed: Engine, clock: HandClock) -> None:
    session = timed.create_session("s")
    for name, value in (("timezone", "Asia/Tokyo"), ("location", "Tokyo"), ("price", 1)):
        session.set_environment(name, value, ttl_s=1)
    clock.now_s += 1
    assert session.environment() == Environment(time_us=clock.now_us())
    assert session.environment(as_of_us=0).location == "Tokyo"
    assert session.environment(as_of_us=LAST_DATE_US).current_date == date(9999, 1, 1)


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
    session.set_environment("timezone", "Asia/Tokyo")
    request.getfixturevalue("no_timezones")
    with refused(engine, errors.InvalidContent):
        session.environment()
    with refused(engine, errors.InvalidContent):
        session.set_environment("timezone", "Europe/Lisbon")
    session.clear_environment("timezone")
    assert session.environment().timezone == "UTC"


@given(basics.json_values, basics.names)
@settings(max_examples=EXAMPLES)
def test_any_value_comes_back_as_it_went_in_and_is_the_callers_own(value: Any, name: str) -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        session.set_working(name, value)
        session.set_environment(f"x{name}"[:60], value)
        found = [
            session.working()[name].value,
            session.environment().external_data[f"x{name}"[:60]].value,
            session.state().working[name].value,
            session.state().environment[f"x{name}"[:60]].value,
        ]
        assert [*map(repr, found)] == [repr(value)] * 4
        for each in found:
            if isinstance(each, list | dict):
                each.clear()
        assert [*map(repr, (session.working()[name].value, session.state().working[name].value))] == [repr(value)] * 2


# What is kept, and what is not


def _talk(session: Session) -> None:
    """For as long as it takes to come to a snapshot."""
    session.record_all([("user", f"{number}") for number in range(limits.SNAPSHOT_EVERY)])


@pytest.mark.parametrize("kind", LASTING)
def test_layers_are_there_after_reopening_a_rebuild_a_transfer_and_a_copy(kind: str, desk: Desk) -> None:
    clock = HandClock(NOON.timestamp())
    engine = desk.open(kind, clock=clock)
    session = _furnished(engine)
    _talk(session)
    session.set_working("name", "after the snapshot")
    session.set_environment("last", "seen")
    expected = session.state(), session.working(), session.environment()
    engine.rebuild()
    engine.export(desk.folder / "export.jsonl")
    engine.close()
    holdfast.copy(desk.address(kind), f"{desk.folder}/copied.db")
    taken = desk.open("memory", clock=clock)
    taken.import_(desk.folder / "export.jsonl")
    for each in (desk.open(kind, clock=clock), taken, desk.open_url(f"{desk.folder}/copied.db", clock=clock)):
        found = each.session("s")
        assert (found.state(), found.working(), found.environment()) == expected
        assert each.verify().ok


@pytest.mark.parametrize("kind", FEWER)
def test_an_erased_value_is_nowhere_any_more(kind: str, desk: Desk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s", identity=Identity(user_name=SECRET))
    session.set_working("a", [SECRET])
    session.set_working("b", "stays")
    session.set_environment(SECRET, 1)
    session.set_environment("location", SECRET)
    _talk(session)
    snapshot = store_of(engine).snapshot(session.scope.stream)
    assert snapshot is not None
    assert SECRET.encode() in snapshot.state
    assert SECRET.encode() in everything(engine, desk)
    session.erase([1, 2, 4, 5], "asked to")
    assert SECRET.encode() not in everything(engine, desk)
    snapshot = store_of(engine).snapshot(session.scope.stream)
    assert snapshot is not None
    assert SECRET.encode() not in snapshot.state
    assert _values(session) == {"b": "stays"}
    assert session.environment().location is None
    assert session.state().identity.authority == ""
    assert session.state().bulk == len('"b""stays"')
    assert engine.verify().ok


@pytest.mark.parametrize("kind", FEWER)
def test_nothing_is_left_of_the_layers_of_a_destroyed_session(kind: str, desk: Desk) -> None:
    engine = desk.open(kind)
    session = engine.create_session(
        "s",
        identity=Identity(user_name=SECRET, permissions=(SECRET,)),
        ledgers=[LedgerId("default", "user", (SECRET,))],
    )
    for number in range(3):
        session.set_working(SECRET, number, ttl_s=1)
        session.set_environment(f"{number} {SECRET}", SECRET)
    _talk(session)
    session.clear_environment()
    assert SECRET.encode() in everything(engine, desk)
    session.destroy(offload=False)
    assert SECRET.encode() not in everything(engine, desk)
    assert engine.verify().ok
