"""What a reader may not know of is as if it were not there: in no list, count, search, history, error or link, and not in
what a detector is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Engine, Fact, Identity, Ledger, Session, errors
from holdfast.errors import HoldfastError
from tests.edges.engines import EngineDesk, ManualClock, RepeatableIds, contents, expect_refusal
from tests.edges.fact_engines import (
    CFO,
    CLERK,
    GUEST,
    MANY,
    PEER,
    ScriptedDetector,
    open_ledger,
    open_session_ledger,
    proposal,
)
from tests.edges.surface import call
from tests.support import figure

WORD = "zanzibar"
"""In every secret value, and nowhere else."""
KEYS = ("a", "b", "c")
REFS = ("R", "S")


@pytest.fixture(scope="module", params=MANY)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, ScriptedDetector]]:
    hearing = ScriptedDetector()
    desk = EngineDesk(Path(tmp_path_factory.mktemp("permissions")))
    yield desk.open(request.param, clock=ManualClock(), detector=hearing), hearing
    desk.close()


@pytest.fixture
def hearing(shared: tuple[Engine, ScriptedDetector]) -> ScriptedDetector:
    shared[1].answer = lambda _: ()
    return shared[1]


@pytest.fixture
def home(shared: tuple[Engine, ScriptedDetector], request: pytest.FixtureRequest) -> Engine:
    return shared[0].acting_as(tenant=request.function.__name__)


def _readers(engine: Engine) -> tuple[Ledger, Ledger, Ledger]:
    """The program, one who may not know, and one who may."""
    program, guest, clerk = (open_ledger(engine, organization="acme", identity=each) for each in (None, GUEST, CLERK))
    return program, guest, clerk


def _seen(read: Callable[[], object]) -> str:
    """What comes back, or what is said instead, as text."""
    try:
        return repr(read())
    except HoldfastError as error:
        return f"{type(error).__name__}: {error}"


def _roads(ledger: Ledger, session: Session, ids: int) -> dict[str, Callable[[], object]]:
    """Every way to read something."""
    names = [*KEYS, *REFS, *(f"k{number}" for number in range(1, ids + 1))]
    roads: dict[str, Callable[[], object]] = {
        "facts": ledger.items,
        "dead": lambda: ledger.items(status="dead"),
        "drafts": lambda: ledger.items(within=[("draft", "d")]),
        "review": ledger.review.list,
        "constraints": lambda: ledger.constraints(within=[("draft", "d")]),
        "search": lambda: ledger.search(f"{WORD} plain a b c must", within=[("draft", "d")]),
        "session search": lambda: session.facts.search(f"{WORD} plain a b c must"),
        "repr": lambda: (ledger, session),
        "state": session.state,
        "proposals": session.facts.proposals,
    }
    for name in names:
        roads[f"get {name}"] = lambda name=name: ledger.fact(name)  # type: ignore[misc]
    for key in KEYS:
        roads[f"current {key}"] = lambda key=key: ledger.get(key)  # type: ignore[misc]
        roads[f"history {key}"] = lambda key=key: ledger.history(key)  # type: ignore[misc]
        roads[f"short history {key}"] = lambda key=key: ledger.history(key, limit=1)  # type: ignore[misc]
        roads[f"why {key}"] = lambda key=key: ledger.why(key)  # type: ignore[misc]
        roads[f"fact {key}"] = lambda key=key: session.facts.get(key)  # type: ignore[misc]
    for number in range(ids + 1):
        after = f"k{number}" if number else None
        roads[f"page after {after}"] = lambda after=after: ledger.items(after=after, limit=1)  # type: ignore[misc]
        roads[f"dead after {after}"] = lambda after=after: ledger.items(status="dead", after=after, limit=1)  # type: ignore[misc]
    return roads


# Whatever is kept from a reader, the reader sees the same


_PATHS = {name: f"review.{name}" for name in ("expire", "reinstate", "confirm", "promote")}
_KEY = st.sampled_from(KEYS)
_REF = st.sampled_from(["", *REFS])
_PICK = st.integers(0, 5)
_STEP = st.one_of(
    st.tuples(st.just("open"), st.sampled_from([GUEST, PEER]), _KEY, st.integers(0, 2), _REF, st.none() | _PICK),
    st.tuples(st.just("open change"), st.sampled_from(["retract", "expire", "reinstate", "confirm"]), _PICK),
    st.tuples(st.just("secret"), _KEY, _REF, st.none() | _PICK, st.booleans()),
    st.tuples(st.just("secret change"), st.sampled_from(["retract", "expire", "reinstate", "promote", "erase"]), _PICK),
)


class World:
    """A ledger with what is open and what is secret. In the other world the secrets have other keys, names and values."""

    def __init__(self, disguise: str) -> None:
        self.disguise = disguise
        self.hearing = ScriptedDetector()
        self.engine = holdfast.open("memory:", clock=ManualClock(), ids=RepeatableIds(), detector=self.hearing)
        self.program, self.guest, _ = _readers(self.engine)
        self.session = self.engine.create_session("s", identity=GUEST, ledgers=[self.program.id])
        self.secrets: list[str] = []
        self.plain: list[str] = []
        self.said: list[str] = []

    def do(self, step: tuple[Any, ...]) -> None:
        what, *rest = step
        if what == "open":
            self._told(lambda: self._open(*rest))
        elif what == "open change" and self.plain:
            change, pick = rest
            self._told(lambda: call(self.guest, _PATHS.get(change, change))(self.plain[pick % len(self.plain)]))
        elif what == "secret":
            self._secret(*rest)
        elif what == "secret change" and self.secrets:
            self._change(*rest)

    def _told(self, do: Callable[[], object]) -> None:
        """What happens to one who may not know when he does something."""
        self.said.append(_seen(do))

    def _open(self, who: Identity, key: str, value: int, ref: str, on: int | None) -> Fact:
        sources = [self.plain[on % len(self.plain)]] if self.plain and on is not None else []
        ledger = open_ledger(self.engine, organization="acme", identity=who)
        fact = ledger.set(key, f"plain {value}", ref=ref, depends_on=sources)
        self.plain.append(fact.id)
        return fact

    def _secret(self, key: str, ref: str, on: int | None, draft: bool) -> None:
        if self._taken(key):
            return
        sources = [self.secrets[on % len(self.secrets)]] if self.secrets and on is not None else []
        scope: Any = "draft" if draft else "global"
        try:
            fact = self.program.set(
                f"{self.disguise}{key}",
                f"{WORD}{self.disguise} must not be told {len(self.secrets)}",
                ref=f"{self.disguise}{ref}" if ref else "",
                depends_on=sources,
                requires=["hr"],
                authority="policy",
                scope=scope,
                scope_id="d" if draft else "",
            )
        except HoldfastError:
            return
        self.secrets.append(fact.id)

    def _change(self, change: str, pick: int) -> None:
        name = self.secrets[pick % len(self.secrets)]
        try:
            key = self.program.fact(name).key
            if not self._taken(key.removeprefix(self.disguise)):
                call(self.program, _PATHS.get(change, change))(name, *(["a test"] if change == "erase" else []))
        except HoldfastError:
            return

    def _taken(self, key: str) -> bool:
        """Something open lives under this key: what the program does there is not hidden from anybody."""
        return any(fact.key == key for fact in self.guest.items(within=[("draft", "d")]))

    def seen(self, ids: int) -> dict[str, str]:
        roads = _roads(self.guest, self.session, ids)
        surface = {name: _seen(read) for name, read in roads.items()}
        surface["observed"] = _seen(lambda: self.session.observe(f"{WORD} plain a b c"))
        surface["shown to a detector"] = repr(self.hearing.shown)
        return surface | {f"step {number}": said for number, said in enumerate(self.said)}

    def events(self) -> int:
        return next((row.version for row in self.engine.ledgers() if row.kind == "organization"), 0)


@settings(max_examples=figure(35, 20_000))
@given(st.lists(_STEP, max_size=10))
def test_two_worlds_that_differ_in_secrets_alone_look_the_same(steps: list[tuple[Any, ...]]) -> None:
    one, other = World(""), World("vault ")
    for step in steps:
        one.do(step)
        other.do(step)
    assert one.events() == other.events()
    seen = one.seen(one.events())
    assert seen == other.seen(other.events())
    assert WORD not in "".join(text for name, text in seen.items() if name not in ("observed", "shown to a detector"))


# Errors


REFUSALS: dict[str, Callable[[Ledger, str], object]] = {
    "get": lambda ledger, name: ledger.fact(name),
    "retract": lambda ledger, name: ledger.retract(name),
    "expire": lambda ledger, name: ledger.review.expire(name),
    "promote": lambda ledger, name: ledger.review.promote(name, scope="project", scope_id="p"),
    "confirm": lambda ledger, name: ledger.review.confirm(name),
    "endorse": lambda ledger, name: ledger.review.endorse(name),
    "reinstate": lambda ledger, name: ledger.review.reinstate(name),
    "erase": lambda ledger, name: ledger.erase(name, "a test"),
    "erase, after others": lambda ledger, name: ledger.erase(["open", name], "a test"),
    "supersede": lambda ledger, name: ledger.review.supersede(name, "open"),
    "supersede by": lambda ledger, name: ledger.review.supersede("open", name),
    "assert_ supersedes": lambda ledger, name: ledger.set("new", 1, supersedes=["open", name]),
    "assert_ depends_on": lambda ledger, name: ledger.set("new", 1, depends_on=["open", name]),
}


@pytest.mark.parametrize("how", REFUSALS)
def test_naming_a_secret_is_refused_like_naming_nothing(how: str, shared: tuple[Engine, ScriptedDetector]) -> None:
    home = shared[0].acting_as(tenant=f"naming {how}")
    program, guest, _ = _readers(home)
    guest.set("open", 1)
    dead = program.set("old", WORD, requires=["hr"])
    secret = program.set("secret", WORD, ref="hidden", requires=["hr"], supersedes=dead)
    for name in (secret.id, dead.id, "secret", "hidden"):
        before = contents(home)
        with pytest.raises(errors.FactNotFound) as there:
            REFUSALS[how](guest, name)
        assert contents(home) == before
        with pytest.raises(errors.FactNotFound) as nowhere:
            REFUSALS[how](guest, "k999")
        assert str(there.value).replace(repr(name), "") == str(nowhere.value).replace("'k999'", "")


def test_why_and_history_of_a_secret_are_those_of_nothing(home: Engine) -> None:
    program, guest, clerk = _readers(home)
    program.set("secret", WORD, requires=["hr"])
    assert guest.history("secret") == ()
    assert guest.get("secret") is None
    with pytest.raises(errors.FactNotFound):
        guest.why("secret")
    assert clerk.why("secret").current == clerk.get("secret")


def test_nobody_asserts_what_he_may_not_know(home: Engine) -> None:
    _, guest, clerk = _readers(home)
    with expect_refusal(home, errors.PermissionMissing, permission="hr"):
        guest.set("secret", 1, requires=["hr"])
    with expect_refusal(home, errors.PermissionMissing, permission="board"):
        clerk.set("secret", 1, requires=["hr", "board"])
    assert clerk.set("secret", 1, requires=["hr"]).requires == ("hr",)


def test_a_name_that_secrets_share_is_clear_to_those_who_do_not_know_them(home: Engine) -> None:
    program, guest, clerk = _readers(home)
    seen = program.set("open", 1, ref="R")
    hidden = [program.set(f"secret {number}", number, ref="R", requires=["hr"]) for number in range(70)]
    assert guest.fact("R") == seen
    with pytest.raises(errors.AmbiguousFact) as ambiguous:
        clerk.fact("R")
    assert hidden[-1].id in str(ambiguous.value)
    other = program.set("open too", 2, ref="R")
    with pytest.raises(errors.AmbiguousFact) as fewer:
        guest.fact("R")
    assert sorted(fewer.value.facts.split(", ")) == sorted([seen.id, other.id])


# Links


def test_what_a_secret_replaced_is_dead_without_a_reason(home: Engine) -> None:
    program, guest, clerk = _readers(home)
    old = program.set("plan", "known to all")
    new = program.set("real plan", WORD, requires=["hr"], supersedes=old, reason=f"{WORD} is why")
    shown = guest.fact(old.id)
    assert (shown.status, shown.superseded_by, shown.why) == ("superseded", None, "")
    assert clerk.fact(old.id).superseded_by == new.id
    assert guest.get("plan") is None
    for road in (guest.history, guest.why):
        assert new.id not in repr(road("plan"))
        assert WORD not in repr(road("plan"))


def test_what_replaced_a_secret_does_not_tell(home: Engine) -> None:
    program, guest, clerk = _readers(home)
    old = program.set("plan", WORD, requires=["hr"])
    new = program.set("plan", "known to all")
    assert guest.fact(new.id).supersedes == ()
    assert clerk.fact(new.id).supersedes == (old.id,)
    assert [fact.id for fact in guest.history("plan")] == [new.id]
    assert guest.why("plan").chain == ()


def test_what_derives_from_a_secret_is_one(home: Engine) -> None:
    program, guest, clerk = _readers(home)
    public = program.set("public", 1)
    secret = program.set("secret", WORD, requires=["hr"])
    derived = program.set("derived", WORD, depends_on=[public, secret])
    assert derived.requires == ("hr",)
    assert guest.fact(public.id).derived_facts == ()
    assert guest.why("public").derived == ()
    assert clerk.fact(public.id).derived_facts == (derived.id,)
    guest_dead = open_ledger(home, organization="acme", identity=PEER).retract(public.id)
    assert [fact.id for fact in guest_dead] == [public.id]
    assert not clerk.fact(derived.id).is_valid


def test_a_dependent_that_follows_to_a_secret_does_not_tell(home: Engine) -> None:
    """Its source is replaced by one of the same value that few may know of, and that dies as well."""
    program, guest, clerk = _readers(home)
    rate = program.set("rate", 5)
    total = program.set("total", 50, depends_on=rate)
    secret = program.set("inner rate", 5, supersedes=rate, requires=["hr"])
    assert guest.fact(total.id).depends_on == ()
    assert clerk.fact(total.id).depends_on == (secret.id,)
    program.review.expire(secret)
    assert clerk.fact(total.id).review == secret.id
    for road in (lambda: guest.fact(total.id), lambda: guest.why("total"), guest.review.list, guest.items):
        assert secret.id not in _seen(road)


def test_a_claim_against_a_secret_is_one(home: Engine) -> None:
    """Asserted, promoted or endorsed."""
    program, guest, clerk = _readers(home)
    for number, key in enumerate(("asserted", "promoted", "endorsed")):
        secret = program.set(key, number, requires=["hr"], authority="policy")
        if key == "endorsed":
            claim = open_ledger(home, organization="acme", identity=GUEST).set(key, "other")
            claim = open_ledger(home, organization="acme", identity=CFO).review.endorse(claim)
        elif key == "promoted":
            claim = clerk.review.promote(clerk.set(key, "other", scope="draft", scope_id="d"))
        else:
            claim = clerk.set(key, "other")
        assert (claim.is_claim, claim.against) == (key != "endorsed", secret.id if key != "endorsed" else ""), key
        for road in (lambda: guest.fact(claim.id), lambda: guest.why(key), guest.items):  # noqa: B023 - used at once
            assert f"'{secret.id}'" not in _seen(road), key
            assert f"against {secret.id}" not in _seen(road), key


def test_a_secret_of_a_higher_authority_does_not_have_the_say_for_those_who_do_not_know_it(home: Engine) -> None:
    mine = open_ledger(home, user="ada")
    program, _, _ = _readers(home)
    said = mine.set("limit", 1, authority="guest")
    program.set("limit", 2, authority="policy", requires=["hr"])
    for identity, value in ((GUEST, 1), (CLERK, 2)):
        session = home.create_session(identity.authority, identity=identity, ledgers=[mine.id, program.id])
        fact = session.facts.get("limit")
        assert fact is not None
        assert fact.value == value
        assert [known.fact.value for known in session.facts.search("limit")] == [value]
    assert said.value == 1


# Detectors


def test_a_detector_is_shown_what_the_speaker_may_know(home: Engine, hearing: ScriptedDetector) -> None:
    program, _, _ = _readers(home)
    program.set("open matter", "plain")
    for number in range(40):
        program.set(f"matter {number}", f"{WORD} plain", requires=["hr"])
    for identity in (GUEST, CLERK):
        session = home.create_session(identity.authority, identity=identity, ledgers=[program.id])
        session.observe(f"what is the plain matter with {WORD}?")
        shown = hearing.shown[-1]
        assert (WORD in repr(shown.facts)) == (identity is CLERK)
        if identity is GUEST:
            assert [each.key for each in shown.facts] == ["open matter"]


@pytest.mark.parametrize("name", ["0:k1", "1:k1", "k1", "1:k2"])
def test_a_detector_that_guesses_the_id_of_a_secret_gets_nowhere(
    name: str, shared: tuple[Engine, ScriptedDetector], hearing: ScriptedDetector
) -> None:
    home = shared[0].acting_as(tenant=f"guesses {name}")
    program, _, _ = _readers(home)
    secret = program.set("secret", WORD, requires=["hr"], authority="guest")
    session = home.create_session("s", identity=GUEST, ledgers=[program.id])
    hearing.answer = lambda _: (
        proposal(change="retract", fact=name, value=None),
        proposal(change="supersede", fact=name, value="x"),
        proposal(change="expire", fact=name, confidence=0.6, value=None),
    )
    assert session.observe("it is over").proposals == ()
    assert program.fact(secret.id) == secret
    assert open_session_ledger(session).items() == ()
    assert session.facts.proposals() == ()
