"""DEBUG messages of the logger `holdfast`: what an engine does, with names and numbers, never with contents.

Turn them on with `logging.getLogger("holdfast").setLevel(logging.DEBUG)`. When they are off, a message costs one check.
This module does not import `logging`: a program that has not imported it cannot listen.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.errors import VersionConflict
from holdfast.model.content import BlobRef
from holdfast.model.frames.frames import Recovery, SweepResult
from holdfast.model.history.plans import Plan
from holdfast.model.log import Append, AppendResult, StreamWrite

if TYPE_CHECKING:
    import logging

_DEBUG = 10
_DIGEST_CHARS = 12

_logger: logging.Logger | None = None


def find_logger() -> logging.Logger | None:
    """Return the logger, or None if nobody listens to DEBUG messages."""
    global _logger  # noqa: PLW0603 - looked up once: getLogger() takes a lock
    if _logger is None:
        module = sys.modules.get("logging")
        if module is None:
            return None
        _logger = module.getLogger("holdfast")
    return _logger if _logger.isEnabledFor(_DEBUG) else None


def log(message: str, *values: object) -> None:
    """Log a message with its values, if anybody listens."""
    logger = find_logger()
    if logger is not None:
        logger.debug(message, *values)


def log_append(append: Append, result: AppendResult) -> None:
    """Log what a command stored: stream, versions and event types."""
    logger = find_logger()
    if logger is None:
        return
    if result.repeated:
        logger.debug("command repeated on %s: stored before, nothing changed", append.writes[0].stream)
        return
    for write in append.writes:
        first, last = write.expected + 1, write.expected + len(write.events)
        versions = f"version {last}" if first == last else f"versions {first} to {last}"
        logger.debug("appended to %s: %s (%s)", write.stream, versions, _join_types(write))


def _join_types(write: StreamWrite) -> str:
    counts = Counter(event.type for event in write.events)
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())


def log_refusal(append: Append, error: BaseException) -> None:
    """Log that the store refused a command."""
    logger = find_logger()
    if logger is None:
        return
    if isinstance(error, VersionConflict):
        text = "conflict on %s: decided at version %d, but the stream is at %d; retried unless `expect` was passed"
        logger.debug(text, error.stream, error.expected, error.actual)
    else:
        logger.debug("append to %s failed: %s", append.writes[0].stream, type(error).__name__)


def log_answer(answer: object) -> None:
    """Log the answer of an operation, if it is a pack, a compaction, a recovery or a sweep."""
    logger = find_logger()
    if logger is None:
        return
    from holdfast.render.pack import Pack  # noqa: PLC0415 - loaded only for a listener

    match answer:
        case Pack(tokens=tokens, manifest=manifest):
            sections = Counter(each.section for each in manifest.entries if each.fate in ("included", "reduced"))
            counts = ", ".join(f"{count} {section}" for section, count in sections.items())
            where = f"{manifest.scope.stream}{'' if manifest.frame is None else f' frame {manifest.frame}'}"
            logger.debug("pack built for %s: %d of %d tokens (%s)", where, tokens.used, tokens.budget, counts)
        case Plan(at=int() as at):
            text = "history of %s compacted by event %d: %d tokens, before %d (%s, level %s)"
            logger.debug(text, answer.scope.stream, at, answer.final, answer.original, answer.policy, answer.level)
        case Recovery():
            text = "session recovered: %d frames, %d pending items, %d calls of unknown outcome"
            unknown = len(answer.unknown_outcomes)
            logger.debug(text, answer.frames_recovered, answer.pending_work_items, unknown)
        case SweepResult():
            text = "swept: %d sessions and %d frames ended, %d facts expired"
            logger.debug(text, len(answer.sessions), len(answer.frames), answer.facts)


def log_blob(tenant: str, ref: BlobRef) -> None:
    """Log that a body was put into the blob store."""
    log("blob put for tenant %s: %s, %d bytes", tenant, ref.digest[:_DIGEST_CHARS], ref.size)
