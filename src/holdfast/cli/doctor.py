"""`holdfast doctor`: problems of this store and this machine or server, and what to do about them.

Law: a check never raises an error; it reports what it could not check.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

import holdfast
from holdfast import errors
from holdfast.cli.output import (
    VERDICT_STYLES,
    StyledText,
    escape,
    format_count,
    print_json,
    print_line,
    show_progress,
)
from holdfast.cli.settings import Settings, common_options
from holdfast.flows.maintain import VerificationReport
from holdfast.runtime import checks
from holdfast.runtime.checks import Check
from holdfast.runtime.doctor import QUICK_EVENTS, check_engine

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

        def verify() -> VerificationReport:
            with show_progress("verifying") as advance:
                return engine.admin.verify(progress=advance)

        yield from check_engine(engine, settings.tenant, full, verify)
