"""The log of a server: one JSON object a line, on stderr.

Law: a line has names, numbers and types of errors; never a content, a query, a key or a message that may quote one. The
frames of an unexpected error are logged, its message is not.
"""

from __future__ import annotations

import datetime
import logging
import re
import traceback
from typing import Any

import msgspec

from holdfast.errors import HoldfastError, StorageCorrupt, StorageError

ACCESS = "holdfast.requests"
"""The logger of requests."""
FIELDS = "fields"
"""The attribute of a record with the fields of its line."""
STACK_FRAMES = 30
"""The most frames of an error in the log: the innermost."""
SERVER = "holdfast.server"
"""The logger of the server itself."""
_UVICORN = "uvicorn.error"
_DEATH = re.compile(r"Child process \[[0-9]+\] died")
"""What uvicorn says of a worker that was killed."""
_QUIET = (_UVICORN, "holdfast")
"""Loggers whose messages have no contents. Of all others only the name and the level are logged."""


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, FIELDS, None)
        if isinstance(fields, dict):
            line |= fields
        elif record.name.startswith(_QUIET):
            line["message"] = record.getMessage().strip()
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe_error(record.exc_info[1])
        return msgspec.json.encode(line, enc_hook=str).decode()


class UvicornLines(logging.Filter):
    """Gives the lines of uvicorn our name, and the death of a worker the level that it deserves."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        record.name = SERVER
        if record.levelno < logging.WARNING and _DEATH.search(record.getMessage()):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return record.levelno >= self._level


def describe_error(error: BaseException) -> dict[str, Any]:
    """The type and the frames of an error, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-STACK_FRAMES:]
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if error.__cause__ is not None:
        described["cause"] = type(error.__cause__).__name__
    if isinstance(error, BaseExceptionGroup):
        described["errors"] = [describe_error(each) for each in error.exceptions]
    return described


def log_failure(error: BaseException, request_id: str) -> None:
    """Write the line of an error that the server could not help."""
    fields: dict[str, Any] = {"request_id": request_id, "error": describe_error(error)}
    if isinstance(error, StorageError):
        fields["message"] = str(error)  # of the store: it quotes no content
    elif isinstance(error, StorageCorrupt):
        fields["message"] = f"{error.what} is damaged"  # its reason may quote what is stored
    elif isinstance(error, HoldfastError):
        fields["error"].pop("frames")  # the type says it all
    logging.getLogger("holdfast.server").error("failure", extra={FIELDS: fields})


def log_request(level: int, fields: dict[str, Any]) -> None:
    """Write the line of a request."""
    logger = logging.getLogger(ACCESS)
    if logger.isEnabledFor(level):
        logger.log(level, "request", extra={FIELDS: fields})


def build_log_config(level: str) -> dict[str, Any]:
    """The configuration of `logging` for a server and its workers."""
    number = logging.getLevelNamesMapping()[level.upper()]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"uvicorn": {"()": UvicornLines, "level": number}},
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            "holdfast": {"level": level.upper()},
            _UVICORN: {"level": min(number, logging.INFO), "filters": ["uvicorn"]},
        },
    }
