"""The doctor: problems of a store and its machine or server, and what to do about them.

Law: a check never raises an error; it reports what it could not check.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import holdfast
from holdfast import errors
from holdfast.flows.maintain import VerificationReport
from holdfast.model.rows import PROJECTION_VERSION, EntryRow, FactRow, FrameRow, RowOrder, SessionRow, ledger_of
from holdfast.runtime import checks
from holdfast.runtime.checks import Check
from holdfast.runtime.figures import format_count, format_duration
from holdfast.storage.addresses import POSTGRES_SCHEMES

Verify: TypeAlias = Callable[[], VerificationReport]
T = TypeVar("T")
PAGE = 1_000
QUICK_EVENTS = 20_000
"""A log up to this size is verified without --full."""
OVERDUE_S = 3_600
"""The doctor warns if an entry of the outbox waits longer than this."""
REFUSAL_KIND = "gateway.refusal"
"""The entry of a conversation that a gateway leaves alone."""
MAX_NAMES = 3
"""The maximum number of sessions or ledgers that a line names."""


def check_store(engine: holdfast.Engine, address: str, tenant: str, full: bool, verify: Verify) -> Iterator[Check]:
    """Run all checks of a store that is open: of its file or its server, and of its contents."""
    path = address.removeprefix("sqlite:///")
    if address.startswith(POSTGRES_SCHEMES):
        yield from checks.check_server(address)
        yield from checks.check_open_server(engine.store)
    elif os.path.exists(path):
        yield from checks.check_file(path)
        yield checks.check_write_lock(path)
    yield from check_engine(engine, tenant, full, verify)


def _read_pages(read: Callable[[T | None], Sequence[T]]) -> Iterator[T]:
    last: T | None = None
    while page := read(last):
        yield from page
        last = page[-1]


def _read_open_sessions(engine: holdfast.Engine) -> Iterator[SessionRow]:
    return _read_pages(lambda last: engine.sessions(status="open", after=last, limit=PAGE))


def check_engine(engine: holdfast.Engine, tenant: str, full: bool, verify: Verify) -> Iterator[Check]:
    """Run the checks of the contents of an open store. `verify` is engine.admin.verify, perhaps with its progress shown."""
    inside: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("rows", lambda: _check_projections(engine)),
        ("open calls", lambda: _check_open_calls(engine)),
        ("idle sessions", lambda: _check_idle_sessions(engine)),
        ("frames", lambda: _check_frames(engine, tenant)),
        ("suspended", lambda: _check_suspended(engine)),
        ("facts", lambda: _check_expired_facts(engine, tenant)),
        ("reviews", lambda: _check_reviews(engine, tenant)),
        ("outbox", lambda: _check_outbox(engine)),
        ("gateway", lambda: _check_refusals(engine, tenant)),
        ("contents", lambda: _check_log(engine, full, verify)),
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
    waiting = [row for row in _read_open_sessions(engine) if row.open_calls]
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
    overdue = sum(bool(row.expires_us and row.expires_us <= now_us) for row in _read_open_sessions(engine))
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
    entries = list(_read_pages(lambda last: engine.suspended(after=last, limit=PAGE)))
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
    times_us = [entry.at_us for entry in _read_pages(lambda last: engine.admin.outbox(after=last, limit=PAGE))]
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


def _check_refusals(engine: holdfast.Engine, tenant: str) -> Check:
    """Find conversations that a gateway leaves alone, because a provider refused a changed request."""
    rows = engine.store.rows(EntryRow, {"tenant": tenant, "kind": REFUSAL_KIND}, limit=PAGE)
    if not rows:
        return Check("gateway", "ok", "no conversation is left alone after a refusal")
    newest = sorted(rows, key=lambda row: -row.at_us)
    texts = [_describe_refusal(engine, row) for row in newest[:MAX_NAMES]]
    more = "; …" if len(rows) > MAX_NAMES else ""
    count = f"{_at_least(rows)}{format_count(len(rows), 'conversation')}"
    return Check(
        "gateway",
        "warn",
        f"{count} left alone after a provider refused a changed request: {'; '.join(texts)}{more}",
        "Their requests leave as the agent writes them, so nothing is lost. A new conversation is shortened again; to "
        f'shorten one of these again, call session.entries.delete(["{newest[0].entry}"]) and restart the gateway.',
    )


def _describe_refusal(engine: holdfast.Engine, row: EntryRow) -> str:
    entry = engine.session(row.session, actor=row.actor, thread=row.thread or None).entries.get(row.entry)
    body = entry.body if entry is not None and isinstance(entry.body, dict) else {}
    age = format_duration(max(0.0, time.time() - row.at_us / 1e6))
    return f"{row.session} (status {body.get('status', '?')}, {body.get('model', '?')}, {age} ago)"


def _check_log(engine: holdfast.Engine, full: bool, verify: Verify) -> Check:
    events = engine.admin.totals().events
    if events > QUICK_EVENTS and not full:
        return Check(
            "contents", "ok", f"{events:,} events, not verified", "`holdfast verify` or --full reads them all."
        )
    report = verify()
    if report.ok:
        return Check("contents", "ok", f"{format_count(report.events, 'event')} verified, no damage")
    finding = f"{format_count(len(report.problems), 'problem')}, the first: {report.problems[0]}"
    return Check(
        "contents", "bad", finding, "`holdfast verify` lists them. Keep the damaged store, and restore a backup."
    )
