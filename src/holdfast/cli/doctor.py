"""`holdfast doctor`: problems of this store and this machine or server, and what to do about them.

Law: a check never raises an error; it reports what it could not check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import click

import holdfast
from holdfast import errors
from holdfast.cli import checks
from holdfast.cli.checks import Check
from holdfast.cli.output import (
    VERDICT_STYLES,
    StyledText,
    escape,
    format_count,
    format_duration,
    print_json,
    print_line,
    show_progress,
)
from holdfast.cli.settings import PAGE, Settings, common_options, iterate_sessions, iterate_suspended, read_pages
from holdfast.model.rows import PROJECTION_VERSION, FactRow, FrameRow, RowOrder, ledger_of

QUICK_EVENTS = 20_000
"""A log up to this size is verified without --full."""
OVERDUE_S = 3_600
"""The doctor warns if an entry of the outbox waits longer than this."""
MAX_NAMES = 3
"""The maximum number of sessions or ledgers that a line names."""

PROBLEMS_FOUND = 1


@click.command()
@click.option("--full", is_flag=True, help=f"Verify all events, even more than {QUICK_EVENTS:,}.")
@common_options
@click.pass_obj
def doctor(settings: Settings, full: bool) -> int:
    """Find problems of the store and the machine, with advice.

    Each line is a finding; advice follows where there is any. The exit code is 1 if there is a problem.
    """
    done: list[Check] = []
    for check in _run_checks(settings, _check_reachable(settings), full):
        done.append(check)
        if not settings.json:
            _print_check(check)
    bad = sum(check.verdict == "bad" for check in done)
    warnings = sum(check.verdict == "warn" for check in done)
    if settings.json:
        print_json({"ok": not bad, "bad": bad, "warn": warnings, "checks": [_to_document(check) for check in done]})
    else:
        verdict = "bad" if bad else "warn" if warnings else "ok"
        print_line(
            "",
            StyledText(f"{format_count(bad, 'problem')}, {format_count(warnings, 'warning')}", VERDICT_STYLES[verdict]),
        )
    return PROBLEMS_FOUND if bad else 0


def _check_reachable(settings: Settings) -> Check | None:
    """A missing store is an error, as for every command; an unreachable server is a finding."""
    try:
        settings.check_exists()
    except errors.ExtraMissing as error:
        return Check("library", "bad", str(error))
    except errors.StorageError as error:
        if not settings.is_on_server:
            raise
        return checks.report_unreachable(error)
    return None


def _to_document(check: Check) -> dict[str, str]:
    return {"name": check.name, "verdict": check.verdict, "found": check.finding, "advice": check.advice}


def _print_check(check: Check) -> None:
    print_line(
        StyledText(f"{check.verdict:<4}  ", VERDICT_STYLES[check.verdict]),
        StyledText(f"{check.name:<14}  ", "bold"),
        escape(check.finding),
    )
    if check.advice:
        print_line(" " * 22, StyledText(f"→ {escape(check.advice)}", "dim"))


def _run_checks(settings: Settings, refusal: Check | None, full: bool) -> Iterator[Check]:
    if refusal is not None:
        yield refusal
        return
    bad = False
    for check in checks.check_server(settings.file) if settings.is_on_server else checks.check_file(settings.path):
        bad = bad or check.verdict == "bad"
        yield check
    if settings.is_on_server and bad:
        return
    try:
        engine = settings.open()
    except holdfast.HoldfastError as error:
        yield Check("open", "bad", str(error), "The contents could not be checked.")
        return
    with engine:
        if settings.is_on_server:
            yield from checks.check_open_server(engine.store)
        else:
            yield checks.check_write_lock(settings.path)
        yield from _check_engine(engine, settings.tenant, full)


def _check_engine(engine: holdfast.Engine, tenant: str, full: bool) -> Iterator[Check]:
    inside: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("rows", lambda: _check_projections(engine)),
        ("open calls", lambda: _check_open_calls(engine)),
        ("idle sessions", lambda: _check_idle_sessions(engine)),
        ("frames", lambda: _check_frames(engine, tenant)),
        ("suspended", lambda: _check_suspended(engine)),
        ("facts", lambda: _check_expired_facts(engine, tenant)),
        ("reviews", lambda: _check_reviews(engine, tenant)),
        ("outbox", lambda: _check_outbox(engine)),
        ("contents", lambda: _check_log(engine, full)),
    )
    for name, check in inside:
        try:
            yield check()
        except errors.RoleTooNarrow:
            yield Check(
                name, "ok", "not checked: it concerns all tenants", "Run `holdfast doctor` as the owner of the tables."
            )
        except holdfast.HoldfastError as error:
            yield Check(name, "bad", str(error), "Run `holdfast verify`, and restore from a backup.")


def _check_projections(engine: holdfast.Engine) -> Check:
    version = engine.store.projection_version()
    if version == PROJECTION_VERSION:
        return Check("rows", "ok", f"written by version {version} of the projections, the current one")
    return Check(
        "rows",
        "warn",
        f"written by version {version} of the projections; this Holdfast has {PROJECTION_VERSION}",
        "Another version of Holdfast uses this store: upgrade it, then run `holdfast rebuild`.",
    )


def _check_open_calls(engine: holdfast.Engine) -> Check:
    waiting = [row for row in iterate_sessions(engine, status="open") if row.open_calls]
    if not waiting:
        return Check("open calls", "ok", "no tool call waits for its result")
    calls = sum(row.open_calls for row in waiting)
    return Check(
        "open calls",
        "warn",
        f"{format_count(calls, 'tool call')} without a result in {_name_some([row.session for row in waiting])}",
        "If no process works on them: `holdfast recover` shows the calls that were started and may have taken effect; "
        "session.close_calls(reason) closes all of them.",
    )


def _name_some(names: list[str], what: str = "session") -> str:
    """Return the number of different names, and the first few of them."""
    unique = list(dict.fromkeys(names))
    more = ", …" if len(unique) > MAX_NAMES else ""
    return f"{format_count(len(unique), what)}: {', '.join(unique[:MAX_NAMES])}{more}"


def _check_idle_sessions(engine: holdfast.Engine) -> Check:
    now_us = time.time_ns() // 1_000
    overdue = sum(bool(row.expires_us and row.expires_us <= now_us) for row in iterate_sessions(engine, status="open"))
    if not overdue:
        return Check("idle sessions", "ok", "none is past its idle timeout")
    finding = f"{format_count(overdue, 'session')} past the idle timeout"
    return Check("idle sessions", "warn", finding, "`holdfast sweep` ends them.")


def _check_frames(engine: holdfast.Engine, tenant: str) -> Check:
    now_us = time.time_ns() // 1_000
    where: dict[str, str | int] = {"tenant": tenant}
    late = engine.store.rows(FrameRow, where, limit=PAGE, most={"deadline_us": now_us})
    if not late:
        return Check("frames", "ok", "none is past its deadline")
    sessions = _name_some([row.session for row in late])
    finding = f"{_at_least(late)}{format_count(len(late), 'frame')} past the deadline in {sessions}"
    return Check("frames", "warn", finding, "`holdfast sweep` fails them and cancels the frames below them.")


def _check_suspended(engine: holdfast.Engine) -> Check:
    """Suspended frames without a live token cannot be resumed."""
    entries = list(iterate_suspended(engine))
    stuck = [entry for entry in entries if entry.status != "live"]
    if not stuck:
        return Check(
            "suspended",
            "ok",
            f"{format_count(len(entries), 'frame')} suspended, every token is live" if entries else "none",
        )
    expired = sum(entry.status == "expired" for entry in stuck)
    counts = f"{expired:,} with an expired token, {len(stuck) - expired:,} with a revoked one"
    where = _name_some([entry.scope.session for entry in stuck])
    return Check(
        "suspended",
        "warn",
        f"{format_count(len(stuck), 'suspended frame')} without a usable token ({counts}) in {where}",
        "`holdfast suspended` lists them. frame.reissue() issues a new token; frame.pop() ends the frame.",
    )


def _check_expired_facts(engine: holdfast.Engine, tenant: str) -> Check:
    """Find expired facts that no sweep has ended yet: facts derived from them are not marked for review."""
    now_us = time.time_ns() // 1_000
    where: dict[str, str | int] = {"tenant": tenant, "live": 1}
    late = engine.store.rows(FactRow, where, limit=PAGE, order=RowOrder(("expires_us",)), most={"expires_us": now_us})
    if not late:
        return Check("facts", "ok", "none has expired since the last sweep")
    finding = (
        f"{_at_least(late)}{format_count(len(late), 'fact')} expired since the last sweep in {_name_ledgers(late)}"
    )
    return Check(
        "facts", "warn", finding, "`holdfast sweep` ends them and marks the facts derived from them for review."
    )


def _check_reviews(engine: holdfast.Engine, tenant: str) -> Check:
    waiting = engine.store.rows(FactRow, {"tenant": tenant, "review": 1}, limit=PAGE)
    if not waiting:
        return Check("reviews", "ok", "no fact needs a review")
    finding = f"{_at_least(waiting)}{format_count(len(waiting), 'fact')} to review in {_name_ledgers(waiting)}"
    return Check(
        "reviews", "warn", finding, "`holdfast facts review` lists them: confirm each fact, or assert the right value."
    )


def _at_least(rows: Sequence[object]) -> str:
    return "at least " if len(rows) == PAGE else ""


def _name_ledgers(rows: Sequence[FactRow]) -> str:
    return _name_some([str(ledger_of(row)) for row in rows], "ledger")


def _check_outbox(engine: holdfast.Engine) -> Check:
    times_us = [entry.at_us for entry in read_pages(lambda last: engine.admin.outbox(after=last, limit=PAGE))]
    if not times_us:
        return Check("outbox", "ok", "nothing waits for long-term memory")
    oldest_s = time.time() - min(times_us) / 1e6
    finding = f"{format_count(len(times_us), 'entry', 'entries')} waiting, the oldest for {format_duration(oldest_s)}"
    set_aside = engine.memory.backlog().set_aside
    if set_aside:
        sessions = _name_some([each.offload.scope.session for each in set_aside])
        failures = f"{_at_least(set_aside)}{len(set_aside):,} set aside after too many failures in {sessions}"
        return Check(
            "outbox",
            "warn",
            f"{finding}; {failures}; the first: {set_aside[0].error}",
            "`holdfast memory backlog` lists them. Repair the cause, then add --requeue.",
        )
    if oldest_s < OVERDUE_S:
        return Check("outbox", "ok", finding)
    return Check(
        "outbox",
        "warn",
        finding,
        "Check that a worker runs: `holdfast worker`, `with engine.worker():` in a program, or a program of yours that "
        "reads the outbox and calls engine.admin.acknowledge().",
    )


def _check_log(engine: holdfast.Engine, full: bool) -> Check:
    events = engine.admin.totals().events
    if events > QUICK_EVENTS and not full:
        return Check(
            "contents", "ok", f"{events:,} events, not verified", "`holdfast verify` or --full reads them all."
        )
    with show_progress("verifying") as advance:
        report = engine.admin.verify(progress=advance)
    if report.ok:
        return Check("contents", "ok", f"{format_count(report.events, 'event')} verified, no damage")
    finding = f"{format_count(len(report.problems), 'problem')}, the first: {report.problems[0]}"
    return Check(
        "contents", "bad", finding, "`holdfast verify` lists them. Keep the damaged store, and restore a backup."
    )
