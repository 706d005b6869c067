"""The only writer of a process: jobs that wait at the same time share a transaction.

Law: a job that fails does not affect other jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import apsw

from holdfast import errors
from holdfast.storage.group import CommitGroup, QueuedCommand
from holdfast.storage.sqlite.connections import is_storage_fault, translate_error
from holdfast.storage.sqlite.log import SqliteLog

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class SqliteWriter:
    """Runs jobs on the writing connection."""

    def __init__(self, log: SqliteLog, path: str) -> None:
        self._log = log
        self._path = path
        self._group = CommitGroup(path, self._commit)

    def run(self, job: Callable[[SqliteLog], T]) -> T:
        """Block until the job is durable."""
        answer: T = self._group.run(job)
        return answer

    def submit(self, job: Callable[[SqliteLog], T], loop: asyncio.AbstractEventLoop) -> asyncio.Future[T]:
        """Queue a job from an event loop; the future gets the result."""
        return self._group.submit(job, loop)

    @property
    def queued(self) -> int:
        """How many jobs wait."""
        return self._group.queued

    def close(self) -> None:
        self._group.close(self._log.connection.close)

    def _commit(self, batch: list[QueuedCommand]) -> None:
        try:
            is_committed = self._attempt(batch)
        except apsw.Error as error:
            for request in batch:
                request.fail(_with_cause(translate_error(self._path, error), error))
            return
        for request in (
            [] if is_committed else batch
        ):  # a job failed after it had written: each gets its own transaction
            try:
                self._attempt([request], alone=True)
            except apsw.Error as error:
                request.fail(_with_cause(translate_error(self._path, error), error))

    def _attempt(self, batch: list[QueuedCommand], *, alone: bool = False) -> bool:
        """Run and commit a batch. Returns False if a job failed after it had written: then nothing is committed."""
        log = self._log
        committed = False
        try:
            log.begin()
            for request in batch:
                before = log.connection.total_changes()
                request.error = None
                try:
                    request.result = request.job(log)
                except Exception as error:
                    if is_storage_fault(error):
                        raise
                    is_sqlite = isinstance(error, apsw.Error)
                    request.error = _with_cause(translate_error(self._path, error), error) if is_sqlite else error  # type: ignore[arg-type]
                    if log.connection.total_changes() != before:
                        request.is_finished = alone
                        return alone
            for request in batch:
                request.is_committing = True
            log.commit()
            committed = True
        finally:
            if not committed:
                log.roll_back()
        for request in batch:
            request.is_finished = True
        return True


def _with_cause(error: errors.HoldfastError, cause: BaseException) -> errors.HoldfastError:
    error.__cause__ = cause
    return error
