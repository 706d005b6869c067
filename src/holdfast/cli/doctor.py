"""`holdfast doctor`: what is wrong or odd with this file and this machine, or this server, and what to do about it.

Law: a check never raises; what it cannot find out, it says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import click

import holdfast
from holdfast import errors
from holdfast.cli import machine
from holdfast.cli.machine import Check
from holdfast.cli.screen import VERDICTS, Styled, emit, progress, say
from holdfast.cli.settings import PAGE, Settings, common, resting, rows
from holdfast.cli.words import clean, count, span
from holdfast.model.rows import PROJECTION_VERSION, FactRow, FrameRow, Order, ledger_of

QUICK_EVENTS = 20_000
"""How large a log is verified on the way."""
OVERDUE_S = 3_600
"""How long an entry of the outbox may wait before it is odd."""
NAMED = 3
"""Sessions or ledgers that a line names, at most."""

PROBLEMS_FOUND = 1


@click.command()
@click.option("--full", is_flag=True, help=f"Verify everything, also with more than {QUICK_EVENTS:,} events.")
@common
@click.pass_obj
def doctor(settings: Settings, full: bool) -> int:
    """Look for what is wrong or odd.

    Each line says what was found, and what to do about it. The exit code is 1 if something is wrong.
    """
    found: list[Check] = []
    for check in _checks(settings, _refusal(settings), full):
        found.append(check)
        if not settings.json:
            _show(check)
    bad = sum(check.verdict == "bad" for check in found)
    odd = sum(check.verdict == "warn" for check in found)
    if settings.json:
        emit({"ok": not bad, "bad": bad, "warn": odd, "checks": [check._asdict() for check in found]})
    else:
        verdict = "bad" if bad else "warn" if odd else "ok"
        say("", Styled(f"{count(bad, 'problem')}, {count(odd, 'oddity', 'oddities')}", VERDICTS[verdict]))
    return PROBLEMS_FOUND if bad else 0


def _refusal(settings: Settings) -> Check | None:
    """A store that is not there is an error, as for every command; a server that cannot be asked is what was found."""
    try:
        settings.check_present()
    except errors.ExtraMissing as error:
        return Check("library", "bad", str(error))
    except errors.StorageError as error:
        if not settings.on_server:
            raise
        return machine.unreachable(error)
    return None


def _show(check: Check) -> None:
    say(
        Styled(f"{check.verdict:<4}  ", VERDICTS[check.verdict]),
        Styled(f"{check.name:<14}  ", "bold"),
        clean(check.found),
    )
    if check.advice:
        say(" " * 22, Styled(f"→ {clean(check.advice)}", "dim"))


def _checks(settings: Settings, refusal: Check | None, full: bool) -> Iterator[Check]:
    if refusal is not None:
        yield refusal
        return
    bad = False
    for check in machine.server_checks(settings.file) if settings.on_server else machine.checks(settings.path):
        bad = bad or check.verdict == "bad"
        yield check
    if settings.on_server and bad:
        return
    try:
        engine = settings.open()
    except holdfast.HoldfastError as error:
        yield Check("open", "bad", str(error), "Nothing inside could be looked at.")
        return
    with engine:
        if settings.on_server:
            yield from machine.open_server_checks(engine.store)
        else:
            yield machine.lock(settings.path)
        yield from _inside(engine, settings.tenant, full)


def _inside(engine: holdfast.Engine, tenant: str, full: bool) -> Iterator[Check]:
    inside: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("rows", lambda: _rows(engine)),
        ("open calls", lambda: _open_calls(engine)),
        ("idle sessions", lambda: _idle(engine)),
        ("frames", lambda: _frames(engine, tenant)),
        ("suspended", lambda: _suspended(engine)),
        ("facts", lambda: _facts(engine, tenant)),
        ("reviews", lambda: _reviews(engine, tenant)),
        ("outbox", lambda: _outbox(engine)),
        ("contents", lambda: _contents(engine, full)),
    )
    for name, check in inside:
        try:
            yield check()
        except errors.RoleTooNarrow:
            yield Check(name, "ok", "not looked at: it concerns all tenants", "The role that owns the tables can.")
        except holdfast.HoldfastError as error:
            yield Check(name, "bad", str(error), "Run `holdfast verify`, and restore from a backup.")


def _rows(engine: holdfast.Engine) -> Check:
    found = engine.store.projection_version()
    if found == PROJECTION_VERSION:
        return Check("rows", "ok", f"made by version {found} of the projections, the current one")
    found_by = f"made by version {found} of the projections; this Holdfast has {PROJECTION_VERSION}"
    return Check(
        "rows",
        "warn",
        found_by,
        "A Holdfast of another version is at work as well: upgrade it, then run `holdfast rebuild`.",
    )


def _open_calls(engine: holdfast.Engine) -> Check:
    waiting = [row for row in rows(engine, status="open") if row.open_calls]
    if not waiting:
        return Check("open calls", "ok", "no tool call waits for its result")
    calls = sum(row.open_calls for row in waiting)
    return Check(
        "open calls",
        "warn",
        f"{count(calls, 'tool call')} without a result in {_named([row.session for row in waiting])}",
        "If nobody works on them any more: `holdfast recover` tells which ones were started and may have taken effect, "
        "session.close_open_calls(reason) closes them.",
    )


def _named(names: list[str], what: str = "session") -> str:
    """So many of them, and a few of their names."""
    some = list(dict.fromkeys(names))
    return f"{count(len(some), what)}: {', '.join(some[:NAMED])}" + (", …" if len(some) > NAMED else "")


def _idle(engine: holdfast.Engine) -> Check:
    now_us = time.time_ns() // 1_000
    overdue = sum(bool(row.expires_us and row.expires_us <= now_us) for row in rows(engine, status="open"))
    if not overdue:
        return Check("idle sessions", "ok", "none is past its time")
    found = f"{count(overdue, 'session')} idle for longer than allowed"
    return Check("idle sessions", "warn", found, "`holdfast sweep` times them out.")


def _frames(engine: holdfast.Engine, tenant: str) -> Check:
    now_us = time.time_ns() // 1_000
    where: dict[str, str | int] = {"tenant": tenant}
    late = engine.store.rows(FrameRow, where, limit=PAGE, most={"deadline_us": now_us})
    if not late:
        return Check("frames", "ok", "none is out of time")
    found = f"{_least(late)}{count(len(late), 'frame')} out of time in {_named([row.session for row in late])}"
    return Check("frames", "warn", found, "`holdfast sweep` fails them, and cancels what is below them.")


def _suspended(engine: holdfast.Engine) -> Check:
    """A frame whose token is void rests until someone does something about it."""
    found = list(resting(engine))
    stuck = [entry for entry in found if entry.status != "live"]
    if not stuck:
        return Check(
            "suspended", "ok", f"{count(len(found), 'frame')} suspended, every token is live" if found else "none"
        )
    expired = sum(entry.status == "expired" for entry in stuck)
    told = f"{expired:,} with an expired token, {len(stuck) - expired:,} with a revoked one"
    where = _named([entry.scope.session for entry in stuck])
    return Check(
        "suspended",
        "warn",
        f"{count(len(stuck), 'suspended frame')} that nothing can resume ({told}) in {where}",
        "frame.reissue() makes another token, frame.pop() ends it; `holdfast suspended` lists them.",
    )


def _facts(engine: holdfast.Engine, tenant: str) -> Check:
    """What has run out holds no more, swept or not; but who relies on it is told by the sweep."""
    now_us = time.time_ns() // 1_000
    where: dict[str, str | int] = {"tenant": tenant, "live": 1}
    late = engine.store.rows(FactRow, where, limit=PAGE, order=Order(("expires_us",)), most={"expires_us": now_us})
    if not late:
        return Check("facts", "ok", "none has run out unnoticed")
    found = f"{_least(late)}{count(len(late), 'fact')} past their time in {_ledgers(late)}"
    return Check("facts", "warn", found, "`holdfast sweep` expires them, and marks what rests on them.")


def _reviews(engine: holdfast.Engine, tenant: str) -> Check:
    waiting = engine.store.rows(FactRow, {"tenant": tenant, "review": 1}, limit=PAGE)
    if not waiting:
        return Check("reviews", "ok", "no fact needs one")
    found = f"{_least(waiting)}{count(len(waiting), 'fact')} in need of a review in {_ledgers(waiting)}"
    return Check("reviews", "warn", found, "`holdfast facts review` lists them: confirm each, or assert what holds.")


def _least(found: Sequence[object]) -> str:
    return "at least " if len(found) == PAGE else ""


def _ledgers(found: Sequence[FactRow]) -> str:
    return _named([str(ledger_of(row)) for row in found], "ledger")


def _outbox(engine: holdfast.Engine) -> Check:
    times_us: list[int] = []
    last = None
    while page := engine.outbox(after=last, limit=PAGE):
        times_us += (entry.at_us for entry in page)
        last = page[-1]
    if not times_us:
        return Check("outbox", "ok", "nothing waits for long-term memory")
    oldest_s = time.time() - min(times_us) / 1e6
    found = f"{count(len(times_us), 'piece')} of history waiting, the oldest for {span(oldest_s)}"
    if oldest_s < OVERDUE_S:
        return Check("outbox", "ok", found)
    return Check("outbox", "warn", found, "Is the worker running that takes them and calls acknowledge()?")


def _contents(engine: holdfast.Engine, full: bool) -> Check:
    events = engine.totals().events
    if events > QUICK_EVENTS and not full:
        return Check(
            "contents", "ok", f"{events:,} events, not verified", "`holdfast verify` or --full reads them all."
        )
    with progress("verifying") as advance:
        report = engine.verify(progress=advance)
    if report.ok:
        return Check("contents", "ok", f"{count(report.events, 'event')} verified, all sound")
    found = f"{count(len(report.problems), 'problem')}, the first: {report.problems[0]}"
    return Check("contents", "bad", found, "`holdfast verify` lists them. Keep it as it is, and restore a backup.")
