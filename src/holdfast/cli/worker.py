"""`holdfast worker` and `holdfast outbox`: deliver ended conversations to long-term memory, and see what waits for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

import holdfast
from holdfast.cli.options import policy_option, principal_option
from holdfast.cli.output import (
    StyledText,
    TableColumn,
    escape,
    format_count,
    format_duration,
    print_json,
    print_line,
    print_table,
)
from holdfast.cli.settings import Settings, common_options
from holdfast.model import limits
from holdfast.model.memory.deliveries import Delivery, DeliveryReport

DEFAULT_EVERY_S = 5.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ENTRY_COLUMNS = (
    TableColumn("SESSION"),
    TableColumn("ACTOR"),
    TableColumn("ENTRY", right=True, whole=True),
    TableColumn("ENDED", whole=True),
    TableColumn("AGE", right=True, whole=True),
    TableColumn("TRIES", right=True, whole=True),
    TableColumn("STATE", whole=True),
    TableColumn("ERROR", below=True),
)


@click.command()
@click.option("--once", is_flag=True, help="Deliver what is due now, and end.")
@click.option(
    "--every",
    type=click.FloatRange(0, min_open=True),
    default=DEFAULT_EVERY_S,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, limits.READ_EVENTS),
    default=100,
    show_default=True,
    help="The most entries of one round.",
)
@principal_option
@policy_option
@common_options
@click.pass_obj
def worker(
    settings: Settings, once: bool, every: float, limit: int, principal: str, policy: holdfast.Policy | None
) -> None:
    """Deliver ended conversations to the memory in the store.

    It learns facts of users from them, too. Several workers share the work. SIGTERM and Ctrl-C end it after the entry that
    it is at. A memory of your own needs a worker in your program: `with engine.worker():`.
    """
    with settings.open(principal=principal, policy=policy) as engine:
        runner = engine.worker(every_s=every, limit=limit)
        with _stop_at_signals(runner.stop):
            if not once:
                runner.run(lambda report: _print_report(settings, report) if _has_news(report) else None)
                return
            total = DeliveryReport()
            while _has_news(report := runner.run_once()):
                total = _add_reports(total, report)
            _print_report(settings, _add_reports(total, report))


@contextmanager
def _stop_at_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at the first signal. A second one ends the command at once."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()
        restore()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {each: signal.signal(each, handle) for each in _STOP_SIGNALS}
    try:
        yield
    finally:
        restore()


def _has_news(report: DeliveryReport) -> bool:
    return bool(report.delivered or report.failed)


def _add_reports(one: DeliveryReport, other: DeliveryReport) -> DeliveryReport:
    return DeliveryReport(
        delivered=(*one.delivered, *other.delivered),
        failed=(*one.failed, *other.failed),
        facts=one.facts + other.facts,
        pending=other.pending,
    )


def _print_report(settings: Settings, report: DeliveryReport) -> None:
    if settings.json:
        delivered = [{"session": each.scope.session, "entry": each.entry} for each in report.delivered]
        failed = [_to_document(each) for each in report.failed]
        print_json({"delivered": delivered, "failed": failed, "facts": report.facts, "pending": report.pending})
        return
    failed_text = f", {len(report.failed):,} failed" if report.failed else ""
    print_line(
        f"{format_count(len(report.delivered), 'conversation')} delivered{failed_text}, "
        f"{format_count(report.facts, 'fact')} learned, {report.pending:,} waiting."
    )


@click.command()
@click.option("--requeue", is_flag=True, help="Try those again that are set aside.")
@common_options
@click.pass_obj
def outbox(settings: Settings, requeue: bool) -> None:
    """List the conversations that wait for long-term memory.

    Those that failed too often are set aside: no worker takes them until they are requeued.
    """
    with settings.open() as engine:
        if requeue:
            for failed in _filter_actor(settings, engine.memory.backlog().set_aside):
                engine.memory.requeue(failed)
        backlog = engine.memory.backlog()
    entries = _filter_actor(settings, (*backlog.set_aside, *backlog.waiting))
    if settings.json:
        for each in entries:
            print_json(_to_document(each))
        return
    now_us = time.time_ns() // 1_000
    if entries:
        print_table(_ENTRY_COLUMNS, [_entry_cells(each, now_us) for each in entries])
    print_line(StyledText(f"{format_count(len(entries), 'entry', 'entries')} waiting", "dim"), error=True)


def _filter_actor(settings: Settings, entries: tuple[Delivery, ...]) -> list[Delivery]:
    return [each for each in entries if settings.actor in (None, each.offload.scope.actor)]


def _entry_cells(entry: Delivery, now_us: int) -> list[str | StyledText]:
    offload = entry.offload
    state = _describe_state(entry, now_us)
    return [
        escape(offload.scope.session),
        escape(offload.scope.actor),
        f"{offload.entry:,}",
        escape(offload.why),
        format_duration(max(0.0, (now_us - offload.at_us) / 1e6)),
        f"{entry.attempts:,}",
        StyledText(state, "bold red" if entry.is_set_aside else ""),
        escape(entry.error),
    ]


def _describe_state(entry: Delivery, now_us: int) -> str:
    if entry.is_set_aside:
        return "set aside"
    if entry.until_us > now_us:
        return "in work"
    return "due" if entry.next_us <= now_us else f"in {format_duration((entry.next_us - now_us) / 1e6)}"


def _to_document(entry: Delivery) -> dict[str, object]:
    scope = entry.offload.scope
    return {
        "session": scope.session,
        "actor": scope.actor,
        "thread": scope.thread,
        "entry": entry.offload.entry,
        "why": entry.offload.why,
        "at_us": entry.offload.at_us,
        "attempts": entry.attempts,
        "until_us": entry.until_us,
        "next_us": entry.next_us,
        "error": entry.error,
        "set_aside": entry.is_set_aside,
    }
