"""What may be asked of a ledger, and strategies for it. A pick is a number until it is known what there is to pick from;
then it is the id of a fact. Names outside and keys stand for themselves."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

Pick: TypeAlias = int | str
Home: TypeAlias = tuple[str, str]
"""A scope and its id."""

SECOND = 1_000_000
KEYS = ("town", "price", "plan")
"""The second is one for which the newest news count."""
REFS = ("doc-1", "doc-2")
SUPPOSED = "Suppose we move"
GLOBAL: Home = ("global", "")
HOMES: tuple[Home, ...] = (GLOBAL, ("draft", "d"), ("task", "t"), ("hypothetical", ""))
VALUES: tuple[Any, ...] = (
    1,
    1.0,
    True,
    None,
    "Oslo",
    "Rome",
    SUPPOSED,
    {"a": [1, None], "b": {}},
    {"b": {}, "a": [1, None]},
    [],
)
SOURCES = {"": "user", "observation": "capability", "hr system": "organizational"}
"""Names of sources, and the kind of memory that they make."""
ENDORSE = "facts:endorse"


class Who(NamedTuple):
    """Someone who reads and writes."""

    name: str
    authority: str
    permissions: tuple[str, ...] | None = ()
    default: str | None = None

    def knows(self, requires: frozenset[str]) -> bool:
        return self.permissions is None or requires <= {*self.permissions}


PROGRAM = Who("", "policy", None, "peer")
BOSS = Who("boss", "manager", (ENDORSE, "p", "q"))
ANN = Who("ann", "peer", ("p",))
BOB = Who("bob", "peer")
GUEST = Who("eve", "guest", (ENDORSE,))
PEOPLE = (PROGRAM, BOSS, ANN, BOB, GUEST)


class Assert(NamedTuple):
    key: str
    value: Any
    home: Home | None = GLOBAL
    """None to have it told from the value."""
    authority: str | None = None
    requires: tuple[str, ...] = ()
    supersedes: tuple[Pick, ...] = ()
    depends_on: tuple[Pick, ...] = ()
    ref: str = ""
    since: int | None = None
    """When it became true, from now on."""
    expires: int | None = None
    """When it runs out, from now on."""
    sensitive: bool | None = None
    constraint: bool | None = None
    kind: str | None = None
    source: str = ""
    memory: str | None = None
    reason: str = ""


class Supersede(NamedTuple):
    fact: Pick
    by: Pick
    reason: str = ""


class Retract(NamedTuple):
    fact: Pick
    reason: str = ""


class Expire(NamedTuple):
    fact: Pick


class Promote(NamedTuple):
    fact: Pick
    home: Home


class Endorse(NamedTuple):
    fact: Pick
    authority: str | None


class Confirm(NamedTuple):
    fact: Pick


class Reinstate(NamedTuple):
    fact: Pick


class Erase(NamedTuple):
    facts: tuple[Pick, ...]


class Sweep(NamedTuple):
    """Let what has run out expire, in all ledgers."""


class Again(NamedTuple):
    """Whatever was the last command that came with a key, once more."""


Change: TypeAlias = Supersede | Retract | Expire | Promote | Endorse | Confirm | Reinstate
Command: TypeAlias = Assert | Change | Erase
Any_: TypeAlias = Command | Sweep | Again

_few = st.integers(0, 3)
picks: st.SearchStrategy[Pick] = st.one_of(
    _few, _few, _few, _few, st.integers(0, 30), st.sampled_from([*KEYS, *REFS, "k999"])
)
_homes = st.sampled_from([GLOBAL, GLOBAL, GLOBAL, GLOBAL, *HOMES[1:3]])
_rungs = st.sampled_from([None, None, None, "policy", "manager", "peer", "employee", "guest", "nobody"])
_requires = st.sampled_from([(), (), (), ("p",), ("p", "q")])
_times = st.sampled_from([None, None, None, 0, -5 * SECOND, 5 * SECOND])
_terms = st.sampled_from([None, None, None, None, 4 * SECOND, 30 * SECOND, -SECOND])
_reasons = st.sampled_from(["", "", "heard it"])


def _some(most: int) -> st.SearchStrategy[tuple[Pick, ...]]:
    return st.lists(picks, min_size=1, max_size=most).map(tuple)


def _asserts(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Assert]:
    """What is not said stays as it is by default."""
    return st.fixed_dictionaries(fields).map(lambda said: Assert(**said))


plain = _asserts(
    key=st.sampled_from(KEYS),
    value=st.sampled_from(VALUES),
    home=_homes,
    authority=_rungs,
    requires=_requires,
    depends_on=st.just(()) | _some(2),
)
full = _asserts(
    key=st.sampled_from(KEYS),
    value=st.sampled_from(VALUES[:6]),
    home=_homes | st.none(),
    authority=_rungs,
    requires=_requires,
    supersedes=st.just(()) | _some(2),
    depends_on=st.just(()) | _some(2),
    ref=st.sampled_from(["", *REFS]),
    since=_times,
    expires=_terms,
    sensitive=st.sampled_from([None, None, True, False]),
    constraint=st.sampled_from([None, None, True, False]),
    kind=st.sampled_from([None, None, None, "budget"]),
    source=st.sampled_from([*SOURCES]),
    memory=st.sampled_from([None, None, "user", "capability"]),
    reason=_reasons,
).map(lambda each: each if each.constraint is not False else each._replace(kind=None))
simple = _asserts(key=st.sampled_from(KEYS), value=st.sampled_from(VALUES[:5]))
supposed = st.just(Assert("town", SUPPOSED, None))
changes: st.SearchStrategy[Command] = st.one_of(
    st.builds(Supersede, picks, picks, _reasons),
    st.builds(Retract, picks, _reasons),
    st.builds(Expire, picks),
    st.builds(Promote, picks, st.sampled_from([GLOBAL, GLOBAL, *HOMES])),
    st.builds(Endorse, picks, _rungs),
    st.builds(Endorse, picks, st.sampled_from(["policy", "manager"])),
    st.builds(Confirm, picks),
    st.builds(Reinstate, picks),
    st.builds(Reinstate, picks),
)
_weighted: tuple[st.SearchStrategy[Any_], ...] = (
    *[simple] * 3,
    *[plain] * 4,
    *[full] * 5,
    supposed,
    *[changes] * 7,
    st.builds(Erase, _some(2)),
    st.builds(Sweep),
    st.builds(Again),
)


@st.composite
def _commands(draw: st.DrawFn) -> Any_:
    """One of them: to name all that it could be would fill pages."""
    return draw(_weighted[draw(st.integers(0, len(_weighted) - 1))])


commands = _commands()
steps = st.sampled_from([0, 0, 0, 0, 1, 1, 2 * SECOND, 10 * SECOND, -3 * SECOND])
people = st.sampled_from([PROGRAM, PROGRAM, *PEOPLE])


class By(NamedTuple):
    """Someone else's part in a scene."""

    who: Who
    command: Command


Scene: TypeAlias = tuple[Any_ | By | int, ...]

_TWIN = Assert("town", "Oslo", expires=30 * SECOND)
SCENES: tuple[Scene, ...] = (
    (Assert("town", 1), Assert("plan", 2, depends_on=(0,)), Assert("town", 1, depends_on=(0,)), Retract(0)),
    (Assert("town", 1), Assert("town", 2, HOMES[1], depends_on=(0,)), Promote(0, GLOBAL)),
    (
        Assert("town", 1, HOMES[1]),
        Assert("plan", 2, depends_on=(0,)),
        Assert("town", 1, depends_on=(0,)),
        Promote(2, GLOBAL),
    ),
    (Assert("town", 1, authority="manager"), Assert("town", 2, depends_on=(0,)), Endorse(0, "policy")),
    (Assert("town", 1, authority="manager", expires=SECOND), Assert("town", 2), 2 * SECOND, Endorse(0, "manager")),
    (Assert("town", 1, authority="manager", expires=SECOND), Assert("town", 2), 2 * SECOND, Assert("town", 3)),
    (Assert("town", 1, authority="policy", expires=SECOND), 2 * SECOND, Assert("plan", 2, supersedes=("town",))),
    (Assert("town", "Oslo"), Assert("plan", 2, depends_on=(0,)), _TWIN, Erase((2,)), Assert("town", "Rome")),
    (Assert("town", "Oslo"), Assert("plan", 2, depends_on=(0,)), _TWIN, Erase((0,)), Confirm(0)),
    (Assert("price", 1), Assert("town", 2, depends_on=(0,)), Assert("town", 3), Retract(2), Reinstate(1)),
    (Assert("town", 1), Assert("price", 2, depends_on=(0,)), Supersede(0, 1), Reinstate(0)),
    (Assert("town", 1), Assert("plan", 2, depends_on=(0,)), Endorse(0, "policy"), Retract(1)),
    (Assert("town", 1), Assert("town", 1, HOMES[1], "policy"), Promote(0, GLOBAL)),
    (Assert("town", 1), Assert("town", 2), Assert("town", 1), Reinstate(1), Reinstate(2), Promote("town", GLOBAL)),
    (Assert("price", 1, since=0), Assert("price", 2, since=-SECOND), Assert("price", 3, None, "policy", since=-SECOND)),
    (
        Assert("town", 1, requires=("p",), authority="manager"),
        Assert("town", 2),
        Assert("town", 1, authority="manager"),
    ),
    (supposed_ := Assert("town", SUPPOSED, None), supposed_, Promote(0, GLOBAL), supposed_),
    (
        Assert("plan", 1, expires=SECOND),
        Assert("town", 2, depends_on=(0,)),
        2 * SECOND,
        Assert("plan", 3, depends_on=(0,)),
    ),
    (Assert("town", 1), Assert("plan", 2), Supersede(1, 0), Assert("town", 3, requires=("p",)), Retract(0)),
    (By(BOSS, Assert("town", 1, requires=("p",))), By(BOB, Assert("town", 2)), Assert("town", 2)),
    (
        By(BOSS, Assert("town", 1, requires=("p",))),
        By(BOB, Assert("town", 2)),
        Endorse(0, "manager"),
        Reinstate("town"),
    ),
    (Assert("town", 1, expires=SECOND), By(GUEST, Assert("town", 2)), 2 * SECOND, By(GUEST, Assert("town", 2))),
    (Assert("plan", 1), Assert("town", 2, depends_on=(0,)), Endorse(0, "policy"), By(BOB, Retract(1)), Confirm(0)),
    (Assert("plan", 1), Assert("town", 2, depends_on=(0,)), Assert("plan", 3), Confirm(1), Assert("plan", 4)),
)
"""What seldom comes about by chance; a number lets so much time pass."""


def with_own_keys(command: Command, number: int) -> Command:
    """The same about keys of its own."""
    fields: dict[str, Any] = {}
    for name, value in command._asdict().items():
        if name in ("key", "fact", "by") and value in KEYS:
            fields[name] = f"{value} {number}"
        elif name in ("facts", "supersedes", "depends_on"):
            fields[name] = tuple(f"{each} {number}" if each in KEYS else each for each in value)
    return command._replace(**fields)
