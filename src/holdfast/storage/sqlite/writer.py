"""The one writer of a process: a job runs inside a transaction that it shares with those that wait beside it.

Law: a job that fails takes no other with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import apsw

from holdfast import errors
from holdfast.storage.group import Group, Request
from holdfast.storage.sqlite.connect import broken_storage, typed
from holdfast.storage.sqlite.log import Log

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Writer:
    def __init__(self, log: Log, path: str) -> None:
        self._log = log
        self._path = path
        self._group = Group(path, self._commit)

    def run(self, job: Callable[[Log], T]) -> T:
        """Block until the job is durable."""
        answer: T = self._group.run(job)
        return answer

    def submit(self, job: Callable[[Log], T], loop: asyncio.AbstractEventLoop) -> asyncio.Future[T]:
        """The same for an event loop, which goes on meanwhile; called in it."""
        return self._group.submit(job, loop)

    def close(self) -> None:
        self._group.close(self._log.connection.close)

    def _commit(self, batch: list[Request]) -> None:
        try:
            together = self._attempt(batch)
        except apsw.Error as error:
            for request in batch:
                request.fail(_caused(typed(self._path, error), error))
            return
        for request in [] if together else batch:  # one of them failed half-way: each gets a transaction of its own
            try:
                self._attempt([request], alone=True)
            except apsw.Error as error:
                request.fail(_caused(typed(self._path, error), error))

    def _attempt(self, batch: list[Request], *, alone: bool = False) -> bool:
        """Run and commit a batch. False if a job failed after it had written, so that nothing could be committed."""
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
                    if broken_storage(error):
                        raise
                    is_sqlite = isinstance(error, apsw.Error)
                    request.error = _caused(typed(self._path, error), error) if is_sqlite else error  # type: ignore[arg-type]
                    if log.connection.total_changes() != before:
                        request.finished = alone
                        return alone
            for request in batch:
                request.committing = True
            log.commit()
            committed = True
        finally:
            if not committed:
                log.roll_back()
        for request in batch:
            request.finished = True
        return True


def _caused(error: errors.HoldfastError, cause: BaseException) -> errors.HoldfastError:
    error.__cause__ = cause
    return error
