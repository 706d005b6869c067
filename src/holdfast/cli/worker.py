"""`holdfast worker`: deliver ended conversations to long-term memory."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import policy_option, principal_option
from holdfast.cli.output import (
    format_count,
    print_json,
    print_line,
)
from holdfast.cli.settings import Settings, common_options
from holdfast.model import limits
from holdfast.model.memory.deliveries import DeliveryReport

DEFAULT_EVERY_S = 5.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    it is at. A memory, an extractor or an embedder of your own needs a worker in your program: `with engine.worker():`.
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
        failed = [documents.delivery(each) for each in report.failed]
        print_json({"delivered": delivered, "failed": failed, "facts": report.facts, "pending": report.pending})
        return
    failed_text = f", {len(report.failed):,} failed" if report.failed else ""
    print_line(
        f"{format_count(len(report.delivered), 'conversation')} delivered{failed_text}, "
        f"{format_count(report.facts, 'fact')} learned, {report.pending:,} waiting."
    )
