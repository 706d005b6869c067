"""The one writer of a process: commands that wait together share one commit.

Laws: a job runs inside a transaction and is answered only after its COMMIT; a job that fails takes no other with it; the
thread that finds the writer idle does the work for all who queue behind it, so a lone caller pays for no thread switch.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from holdfast import errors
from holdfast.model import limits
from holdfast.storage.sqlite.connect import broken_storage, typed
from holdfast.storage.sqlite.log import Log

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
Job = Callable[[Log], Any]


class _Request:
    """A job in the queue. A thread waits at its gate; a task awaits its future."""

    __slots__ = ("abandoned", "error", "finished", "future", "gate", "job", "promoted", "result")

    def __init__(self, job: Job, future: asyncio.Future[Any] | None) -> None:
        self.job = job
        self.future = future
        self.gate = allocate_lock()
        if future is None:
            self.gate.acquire()
        self.finished = self.promoted = self.abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Writer:
    def __init__(self, log: Log, path: str) -> None:
        self._log = log
        self._path = path
        self._queue: deque[_Request] = deque()
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._busy = False
        self._closed = False
        self._thread: ThreadPoolExecutor | None = None

    def run(self, job: Callable[[Log], T]) -> T:
        """Block until the job is durable."""
        request = _Request(job, None)
        if not self._enqueue(request):
            self._wait(request)
        if not request.finished:
            self._lead()
        answer: T = request.answer()
        return answer

    def submit(self, job: Callable[[Log], T], loop: asyncio.AbstractEventLoop) -> asyncio.Future[T]:
        """The same for an event loop, which goes on meanwhile; called in it."""
        future: asyncio.Future[T] = loop.create_future()
        if self._enqueue(_Request(job, future)):
            loop.call_soon(self._lead_in_thread)  # after the tasks that are ready now: they join this batch
        return future

    def close(self) -> None:
        """Wait for what is queued, then let go of the file."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: not self._busy)
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._log.connection.close()

    def _enqueue(self, request: _Request) -> bool:
        """True if the caller has to do the work."""
        with self._mutex:
            if self._closed:
                raise errors.StoreClosed(what=self._path)
            if len(self._queue) >= limits.QUEUED_COMMANDS:
                raise errors.StorageBusy(what=f"the queue of {self._path}", waited_ms=0)
            self._queue.append(request)
            idle, self._busy = not self._busy, True
            return idle

    def _wait(self, request: _Request) -> None:
        try:
            request.gate.acquire()
        except BaseException:  # an interrupt: nobody waits here any more, so nobody may be asked to lead
            with self._mutex:
                request.abandoned = True
                leader_gone = request.promoted and not request.finished
            if leader_gone:
                self._hand_over()
            raise

    def _lead(self) -> None:
        batch: list[_Request] = []
        try:
            with self._mutex:
                while self._queue and len(batch) < limits.BATCH_COMMANDS:
                    batch.append(self._queue.popleft())
            self._commit(batch)
        finally:
            self._hand_over()
            self._release(batch)

    def _hand_over(self) -> None:
        """The next to wait leads the next batch; a task cannot, so a thread does it for tasks."""
        with self._mutex:
            if not self._queue:
                self._busy = False
                self._idle.notify_all()
                return
            heir = next((each for each in self._queue if each.future is None and not each.abandoned), None)
            if heir is not None:
                self._queue.remove(heir)
                self._queue.appendleft(heir)
                heir.promoted = True
        if heir is not None:
            heir.gate.release()
        else:
            self._lead_in_thread()

    def _lead_in_thread(self) -> None:
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - who blocks has no need of it

            self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-writer")
        self._thread.submit(self._lead)

    def _release(self, batch: list[_Request]) -> None:
        waiting: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
        for request in batch:
            if not request.finished:
                request.error = errors.StorageUnavailable(what=self._path, reason="the writing thread was interrupted")
                request.finished = True
            if request.future is None:
                request.gate.release()
            else:
                waiting.setdefault(request.future.get_loop(), []).append(request)
        for loop, requests in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, requests)

    def _commit(self, batch: list[_Request]) -> None:
        try:
            isolated = self._attempt(batch)
        except apsw.Error as error:
            self._fail(batch, error)
            return
        if isolated:
            return
        for request in batch:  # one of them failed half-way: each gets a transaction of its own
            try:
                request.error = None
                self._attempt([request], alone=True)
            except apsw.Error as error:
                self._fail([request], error)

    def _attempt(self, batch: list[_Request], *, alone: bool = False) -> bool:
        """Run and commit a batch. False if a job failed after it had written, so that nothing could be committed."""
        log = self._log
        log.begin()
        committed = False
        try:
            for request in batch:
                before = log.connection.total_changes()
                try:
                    request.result = request.job(log)
                except Exception as error:
                    if broken_storage(error):
                        raise
                    request.error = typed(self._path, error) if isinstance(error, apsw.Error) else error
                    if log.connection.total_changes() != before:
                        request.finished = alone
                        return alone
            log.commit()
            committed = True
        finally:
            if not committed:
                log.roll_back()
        for request in batch:
            request.finished = True
        return True

    def _fail(self, batch: list[_Request], cause: apsw.Error) -> None:
        for request in batch:
            request.error = typed(self._path, cause)
            request.error.__cause__ = cause
            request.finished = True


def _resolve(requests: list[_Request]) -> None:
    for request in requests:
        if request.future is None or request.future.done():
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)
