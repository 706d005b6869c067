"""Logs of agents: read what other programs wrote, replay it, and report what the agent was sent.

with tempfile.TemporaryDirectory() as folder:
    clock = LogClock()
    with open_scratch(f"{folder}/log.db", clock) as engine:
        report = replay_log("session.jsonl", engine, clock=clock)
print(format_report(report))
"""

from holdfast.inspector.logs.formats import Log, is_log, read_log
from holdfast.inspector.logs.inspection import REPORT_KEY, REPORT_KIND, replay_log
from holdfast.inspector.logs.replay import LogClock, open_scratch
from holdfast.inspector.logs.reports import (
    CacheBreak,
    CallDetail,
    DeadValue,
    LogReport,
    LogSource,
    TokenBill,
)
from holdfast.inspector.logs.summary import format_report

__all__ = [
    "REPORT_KEY",
    "REPORT_KIND",
    "CacheBreak",
    "CallDetail",
    "DeadValue",
    "Log",
    "LogClock",
    "LogReport",
    "LogSource",
    "TokenBill",
    "format_report",
    "is_log",
    "open_scratch",
    "read_log",
    "replay_log",
]
