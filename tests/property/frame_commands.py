"""What may be asked of the frames of a session, and strategies for it. A pick is a number until it is known what there is
to pick from; then it is the name of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from hypothesis import strategies as st

Pick: TypeAlias = int | str
Spent: TypeAlias = int | tuple[int, int, int, int, int]
"""Tokens, or input, output, cache read, cache write and reasoning tokens."""

FORGED = "hfs_" + "A" * 43
STRANGE = "strange"
"""A pick that names nothing."""


class Push(NamedTuple):
    frame: Pick | None
    goal: str
    budget: int
    depth: int | None
    tools: int | None
    timeout: int | None
    inputs: Any


class Pop(NamedTuple):
    frame: Pick
    status: Literal["completed", "failed", "cancelled"]
    summary: str
    result: str | None
    cascade: bool


class Update(NamedTuple):
    frame: Pick
    goal: str | None
    inputs: Any
    context: str | None


class Keep(NamedTuple):
    """Add a handle."""

    frame: Pick
    kind: Literal["document", "url"]
    source: str | None
    text: str


class Reserve(NamedTuple):
    frame: Pick
    amount: int


class Commit(NamedTuple):
    frame: Pick
    reservation: Pick
    spent: Spent


class Cancel(NamedTuple):
    frame: Pick
    reservation: Pick


class Use(NamedTuple):
    frame: Pick
    spent: Spent


class Grant(NamedTuple):
    frame: Pick
    amount: int


class Say(NamedTuple):
    frame: Pick | None
    role: Literal["user", "assistant"]
    text: str
    calls: int
    usage: tuple[int, int, int, int, int] | None
    reservation: Pick | None


class Start(NamedTuple):
    frame: Pick | None
    call: Pick
    again: bool
    key: str


class Answer(NamedTuple):
    frame: Pick | None
    call: Pick
    wrong: bool


class Abandon(NamedTuple):
    """Close the calls that wait: all of them, or those of one frame."""

    frame: Pick | None


class Suspend(NamedTuple):
    frame: Pick
    expires: int | None
    """So many microseconds from now."""
    resumable_by: tuple[str, ...]
    cascade: bool


class Reissue(NamedTuple):
    frame: Pick
    expires: int | None


class Revoke(NamedTuple):
    frame: Pick


class Resume(NamedTuple):
    token: Pick
    elsewhere: bool
    """In another tenant."""


class Take(NamedTuple):
    """Take the session up: recover."""


class Reset(NamedTuple):
    pass


class Close(NamedTuple):
    pass


class Sweep(NamedTuple):
    """Of all sessions."""


class Erase(NamedTuple):
    """An event of this frame, and so its whole tree."""

    frame: Pick


Command: TypeAlias = (
    Push
    | Pop
    | Update
    | Keep
    | Reserve
    | Commit
    | Cancel
    | Use
    | Grant
    | Say
    | Start
    | Answer
    | Abandon
    | Suspend
    | Reissue
    | Revoke
    | Resume
    | Take
    | Reset
    | Close
    | Erase
)

SECOND = 1_000_000
WHO = ("local", "local", "local", "local", "ann", "bob")

_picks = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 7])
_rarely = st.sampled_from([False, False, True])
_amounts = st.sampled_from([10, 0, 1, 30, 100, 1_000])
_usages = st.sampled_from([(10, 2, 0, 0, 0), (100, 20, 50, 30, 7), (7, 0, 9, 0, 0), (0, 1, 0, 0, 0)])
_spent = st.sampled_from([0, 1, 5, 30, 400]) | _usages
_terms = st.sampled_from([None, None, 1, 20 * SECOND, -1])

pushes = st.builds(
    Push,
    frame=_picks | _picks | _picks | st.none(),
    goal=st.sampled_from(["plan", "read"]),
    budget=st.sampled_from([100, 0, 10, 30, 30, 1_000]),
    depth=st.sampled_from([None, None, None, None, 0, 1, 2, 5]),
    tools=st.sampled_from([None, None, 1, 3]),
    timeout=st.sampled_from([None, None, 10 * SECOND, 60 * SECOND]),
    inputs=st.sampled_from([None, {"a": 1}]),
)
pops = st.builds(
    Pop,
    frame=_picks,
    status=st.sampled_from(["completed", "completed", "failed", "cancelled"]),
    summary=st.sampled_from(["", "", "", "done"]),
    result=st.sampled_from([None, None, None, "found"]),
    cascade=st.booleans(),
)
others = st.builds(
    Update, _picks, st.none() | st.just("plan"), st.sampled_from([None, [1]]), st.none() | st.just("hash")
) | st.builds(
    Keep, _picks, st.sampled_from(["document", "url"]), st.sampled_from([None, "s", "t"]), st.sampled_from(["x", "y"])
)
spending = st.one_of(
    st.builds(Reserve, _picks, _amounts),
    st.builds(Reserve, _picks, _amounts),
    st.builds(Commit, _picks, _picks | _picks | _picks | st.just(STRANGE), _spent),
    st.builds(Cancel, _picks, _picks | _picks | _picks | st.just(STRANGE)),
    st.builds(Use, _picks, _spent),
    st.builds(Grant, _picks, _amounts),
)
talk = st.one_of(
    st.builds(
        Say,
        frame=st.none() | _picks | _picks,
        role=st.just("assistant"),
        text=st.sampled_from(["So be it.", "Which one?"]),
        calls=st.sampled_from([0, 1, 2]),
        usage=st.none() | _usages,
        reservation=st.none() | _picks,
    ),
    st.builds(Say, st.none() | _picks, st.just("user"), st.just("Really?"), st.just(0), st.none(), st.none()),
    st.builds(
        Start,
        st.none() | _picks,
        _picks | _picks | _picks | st.just(STRANGE),
        st.booleans(),
        st.sampled_from(["k1", "k2"]),
    ),
    st.builds(Answer, st.none() | _picks, _picks | _picks | _picks | st.just(STRANGE), st.booleans()),
    st.builds(Abandon, st.none() | _picks),
)
resting = st.one_of(
    st.builds(Suspend, _picks, _terms, st.sampled_from([(), (), ("ann",), ("ann", "bob")]), st.booleans()),
    st.builds(Suspend, _picks, st.none(), st.just(()), st.booleans()),
    st.builds(Resume, _picks, st.just(False)),
    st.builds(Resume, _picks, st.just(False)),
    st.builds(Resume, _picks | _picks | _picks | st.just(STRANGE), _rarely),
    st.builds(Reissue, _picks, _terms),
    st.builds(Revoke, _picks),
)
ends = st.builds(Reset) | st.builds(Close)
commands: st.SearchStrategy[Command | Sweep] = st.one_of(
    *[pushes] * 4, *[pops] * 2, others, *[spending] * 3, *[talk] * 3, *[resting] * 4, st.builds(Take), st.builds(Sweep)
)
rare: st.SearchStrategy[Command] = ends | st.builds(Erase, _picks) | st.builds(Erase, _picks)
ROOT = Push(None, "plan", 1_000, None, None, 60 * SECOND, None)
_BELOW = Push(0, "read", 30, None, None, None, None)
_FAILED = Pop(0, "failed", "", None, False)
_CALLED = Say(0, "assistant", "", 1, None, None)
SCENES: tuple[tuple[Command | Sweep | int, ...], ...] = (
    (ROOT, _BELOW, _BELOW, Use(0, (10, 2, 0, 0, 0)), _FAILED, Use(0, 1), _FAILED),
    (_BELOW, _FAILED, _BELOW, _BELOW, Pop(1, "completed", "", None, True)),
    (_BELOW, Suspend(1, None, (), True), Resume(0, False), Take()),
    (Suspend(0, None, ("ann",), False), Revoke(0), Reissue(0, None), Resume(0, False), Resume(0, False)),
    (_BELOW, Suspend(0, None, (), False), Suspend(1, None, (), True), Resume(1, False), Resume(0, False)),
    (Reserve(0, 10), Say(0, "assistant", "So.", 0, None, 0), Reserve(0, 1), Commit(0, 0, 1_000), Cancel(0, 0)),
    (_CALLED, Start(0, 0, False, "k1"), Start(0, 0, False, "k1"), Start(0, 0, True, "k2"), Take(), Answer(0, 0, True)),
    (_CALLED, Start(None, 0, False, "k1"), Pop(0, "completed", "", None, True), Answer(None, 0, True), Take()),
    (_CALLED, ROOT, _CALLED, Abandon(0), Abandon(None), Take()),
    (Suspend(0, None, (), False), Revoke(0), Revoke(0), Pop(0, "completed", "", None, True), Resume(0, False)),
    (ROOT, _BELOW, _BELOW, 60 * SECOND, Sweep(), Take()),
)
"""What seldom comes about by chance; a number lets so many microseconds pass."""


def resolve_pick(pick: Pick | None, of: Sequence[str], otherwise: str) -> str | None:
    """What a pick stands for: the newest is the first."""
    if pick is None:
        return None
    return otherwise if isinstance(pick, str) or not of else of[-1 - pick % len(of)]
