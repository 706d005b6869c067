"""What a log of frames must add up to, told from its events alone: a second opinion, which shares no arithmetic with the
engine's own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from holdfast.core import upcast
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    BudgetCancelled,
    BudgetCommitted,
    BudgetGranted,
    BudgetReserved,
    BudgetUsed,
    FramePopped,
    FramePushed,
)
from holdfast.model.frames.frames import FrameState
from holdfast.model.log import StoredEvent
from tests.crash.frame_writers import DONE, Op


class Account:
    def __init__(self, name: str, parent: Account | None, total: int) -> None:
        self.name = name
        self.parent = parent
        self.total = total
        self.used = 0
        self.reserved: dict[str, int] = {}
        self.children: dict[str, Account] = {}
        """Those that live."""
        self.status = ""
        """How it ended."""

    @property
    def left(self) -> int:
        return self.total - self.used - sum(self.reserved.values()) - self.delegated

    @property
    def delegated(self) -> int:
        return sum(child.total for child in self.children.values())

    def below(self) -> Iterable[Account]:
        for child in self.children.values():
            yield child
            yield from child.below()


class FrameAccounts:
    """Every grant is covered when it is made and settled once, whatever order the writers were in."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.spent = 0

    def take(self, recorded: StoredEvent) -> None:
        event = upcast.decode_event(recorded)
        match event:
            case FramePushed():
                parent = None if event.parent is None else self.live(event.parent)
                if parent is not None:
                    assert event.budget <= parent.left, "more was granted than there was"
                account = Account(f"f{recorded.seq}", parent, event.budget)
                self.accounts[account.name] = account
                if parent is not None:
                    parent.children[account.name] = account
            case FramePopped():
                self._pop(event)
            case BudgetGranted():
                account = self.live(event.frame)
                if account.parent is not None:
                    assert event.amount <= account.parent.left, "more was granted than there was"
                account.total += event.amount
            case BudgetReserved() | BudgetCommitted() | BudgetCancelled() | BudgetUsed():
                self._spend(recorded.seq, event)

    def live(self, frame: str) -> Account:
        account = self.accounts[frame]
        assert not account.status, f"something happens in {frame}, which has ended"
        return account

    def _spend(self, seq: int, event: BudgetReserved | BudgetCommitted | BudgetCancelled | BudgetUsed) -> None:
        account = self.live(event.frame)
        if isinstance(event, BudgetReserved):
            assert event.amount <= account.left, "more was reserved than there was"
            account.reserved[f"r{seq}"] = event.amount
        elif not isinstance(event, BudgetUsed):
            assert event.reservation in account.reserved, "a reservation was settled twice"
            del account.reserved[event.reservation]
        if isinstance(event, BudgetCommitted | BudgetUsed):
            account.used += event.tokens
            self.spent += event.tokens

    def _pop(self, event: FramePopped) -> None:
        account = self.live(event.frame)
        assert sorted(event.cascade) == sorted(each.name for each in account.below()), "a frame outlives its parent"
        for frame in (*event.cascade, event.frame):
            self._settle(self.live(frame), event.status if frame == event.frame else "cancelled")
        assert event.used == account.used

    def _settle(self, account: Account, status: str) -> None:
        assert not account.children, "a frame ends before those below it"
        account.status = status
        account.reserved.clear()
        if account.parent is not None:
            del account.parent.children[account.name]
            account.parent.used += account.used

    def check(self, frames: Mapping[str, FrameState]) -> None:
        """The engine has the same figures for every frame there ever was."""
        assert frames.keys() == self.accounts.keys()
        for name, account in self.accounts.items():
            frame = frames[name]
            assert frame.status == (account.status or frame.status)
            assert frame.is_live == (not account.status)
            budget = frame.budget
            assert (budget.total, budget.used) == (account.total, account.used)
            assert (budget.reserved, budget.delegated) == (sum(account.reserved.values()), account.delegated)
            assert budget.available == max(0, account.left)
        tops = (each for each in self.accounts.values() if each.parent is None)
        unsettled = (each.used for top in tops for each in (top, *top.below()))
        assert sum(unsettled) == self.spent, "what was used does not add up"


MADE: dict[str, tuple[str, ...]] = {
    "push": ("frame.pushed",),
    "reserve": ("budget.reserved",),
    "commit": ("budget.committed",),
    "cancel": ("budget.cancelled",),
    "use": ("budget.used",),
    "grant": ("budget.granted",),
    "suspend": ("frame.suspended",),
    "reissue": ("token.reissued",),
    "resume": ("frame.resumed",),
    "start": ("call.started",),
    "recover": ("actor.resumed",),
}
"""What an operation makes when it is done; a pop and a message more than one."""


def check_stored(
    ops: Iterable[Op], events: Iterable[StoredEvent], ledger: FrameAccounts
) -> Counter[tuple[str, str, bool]]:
    """Everything acknowledged is there once, everything refused is not there, and what was never answered is there once or
    not at all. How often each fate was met: the kind, the answer, unknown if there once was none, and whether it is
    there."""
    tried: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        tried[op.name].append(op)
    stored: dict[str, list[StoredEvent]] = defaultdict(list)
    for event in events:
        if event.cause is not None:
            assert event.cause in tried, "something is there that nobody tried"
            stored[event.cause].append(event)
    fates: Counter[tuple[str, str, bool]] = Counter()
    for name, tries in tried.items():
        answers = [op.answer for op in tries if op.answer]
        found = stored[name]
        _check_one(tries[-1], answers, found, ledger)
        last = answers[-1] if len(answers) * 2 == len(tries) else "unknown"
        fates[tries[0].kind, last, bool(found)] += 1
    return fates


def _check_one(op: Op, answers: list[str], found: list[StoredEvent], ledger: FrameAccounts) -> None:
    assert len({event.command for event in found}) <= 1, "it was stored twice"
    if op.kind in ("look", "sweep"):
        assert not found
        return
    if found:
        assert tuple(event.type for event in found) in _kinds(op)
        assert answers == [] or answers[-1] == DONE, "it was refused, and is there"
        _check_content(op, upcast.decode_event(found[0]))
    elif answers and answers[-1] == DONE:
        assert op.kind == "pop", "it was acknowledged, and is not there"
        assert ledger.accounts[op.frame].status == op.about.partition(" ")[0]


def _kinds(op: Op) -> tuple[tuple[str, ...], ...]:
    if op.kind == "pop":
        return ("frame.popped",), ("frame.popped", "frame.result_added")
    if op.kind == "record":
        return (("message.recorded", "budget.committed" if op.about else "budget.used"),)
    return (MADE[op.kind],)


def _check_content(op: Op, event: Event | None) -> None:
    match event:
        case FramePushed():
            assert (event.parent, event.budget) == (op.frame, op.amount)
        case BudgetReserved() | BudgetGranted():
            assert (event.frame, event.amount) == (op.frame, op.amount)
        case BudgetCommitted():
            assert (event.frame, event.reservation, event.tokens) == (op.frame, op.about, op.amount)
        case BudgetUsed():
            assert (event.frame, event.tokens) == (op.frame, op.amount)
        case FramePopped():
            assert (event.frame, f"{event.status} {event.summary}".strip()) == (op.frame, op.about)
