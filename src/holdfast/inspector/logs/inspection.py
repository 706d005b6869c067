"""Inspect a log: read it, replay it into a session, build the report, and store it with the session."""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import msgspec

import holdfast
from holdfast.errors import LogRefused
from holdfast.inspector.logs.build import build_report, calibrate
from holdfast.inspector.logs.formats import read_log
from holdfast.inspector.logs.replay import PACKS, LogClock, ReplayOptions, replay_entries
from holdfast.inspector.logs.reports import LogReport, LogSource
from holdfast.inspector.logs.traces import Survey, survey_entries
from holdfast.model.history.prices import PRICES, Prices, find_prices
from holdfast.types import shorten_name

REPORT_KIND = "log-report"
REPORT_KEY = "report"
UNKNOWN_WINDOW = 200_000
"""The window of a model that is not in the price table."""


def replay_log(
    path: str | os.PathLike[str],
    engine: holdfast.Engine,
    *,
    clock: LogClock | None = None,
    session: str | None = None,
    model: str = "",
    budget: int | None = None,
    packs: int = PACKS,
) -> LogReport:
    """Replay a log into a new session of an engine, and return its report, which is also an entry of the session.

    `clock` is the clock that the engine was opened with: it follows the times of the log, or begins at the time of the
    file if the log has none. `session` is the name of the session; without it, that of the file. `model` is the model
    of calls for which the log names none. `budget` is the most tokens of a pack; the default is the window of the model
    without its longest answer. `packs` bounds how many packs are built.

    The engine should be one of open_scratch(): it decides the policy, and nothing in it is worth keeping. Raises
    FileAbsent or LogRefused, and SessionExists if there is such a session."""
    log = read_log(path)
    survey = survey_entries(log.read())
    if not survey.calls:
        raise LogRefused(path=log.path.name, reason="it has no reply of a model")
    if clock is not None:
        clock.us = survey.first_us or clock.us or log.path.stat().st_mtime_ns // 1_000
    prices = _find_all_prices(survey, model)
    name = shorten_name(session or _name_session(log.path.stem))
    engine.create_session(name)
    options = ReplayOptions(
        budget=budget or _find_budget(survey, prices, model),
        model=model,
        step=max(1, math.ceil(survey.calls / max(1, packs))),
        overheads={
            thread.name: calibrate(thread.calls, [call.context for call in thread.calls]).overhead
            for thread in survey.threads.values()
        },
    )
    open_session = functools.partial(_open_session, engine, name)
    replays = replay_entries(log.read(), open_session, clock, options)
    source = LogSource(kind=log.kind, file=log.path.name, lines=log.lines, skipped=log.skipped)
    report = build_report(source, survey, replays, prices, model)
    report.session = name
    body: Any = msgspec.to_builtins(report)
    engine.session(name).entries.append(REPORT_KIND, REPORT_KEY, body)
    return report


def _open_session(engine: holdfast.Engine, name: str, thread: str) -> holdfast.Session:
    return engine.session(name, thread=shorten_name(thread) if thread else None, create=True)


def _name_session(stem: str) -> str:
    return "".join(each for each in stem.encode("utf-8", "replace").decode() if each.isprintable()).strip() or "log"


def _find_all_prices(survey: Survey, model: str) -> dict[str, Prices | None]:
    models = {call.figures.model or model for thread in survey.threads.values() for call in thread.calls}
    return {each: find_prices(each, PRICES) if each else None for each in models}


def _find_budget(survey: Survey, prices: dict[str, Prices | None], model: str) -> int:
    """The window of the smallest model of the session itself without its longest answer; at least the longest prompt."""
    first = next(iter(survey.threads.values()))
    known = [prices.get(call.figures.model or model) for call in first.calls]
    rooms = [each.window - each.max_output for each in known if each is not None]
    usages = [call.figures.usage for call in first.calls]
    longest = max((usage.input_tokens for usage in usages if usage is not None), default=0)
    return max(min(rooms, default=UNKNOWN_WINDOW), longest)
