"""Group commit: commands that wait at the same time share one commit.

Laws: a command is answered only after its commit. The thread that gets the lead commits for all that wait in the queue,
so a single caller needs no thread switch.

A signal can interrupt a thread between any two steps, so no step relies on a later one: the holder of the lock
leads, a request stays in the queue until it has an answer, and a waiting thread checks its request from time to
time.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast import errors
from holdfast.model import limits

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

WAKE_S = 0.05
"""How long a thread waits before it checks its request. It matters only if the thread that should wake it was
interrupted."""


class QueuedCommand:
    """A command in the queue. A thread waits for its gate, a task for its future."""

    __slots__ = ("error", "future", "gate", "is_abandoned", "is_committing", "is_finished", "job", "result")

    def __init__(self, job: Any, future: asyncio.Future[Any] | None) -> None:
        self.job = job
        self.future = future
        self.gate = allocate_lock()
        if future is None:
            self.gate.acquire()
        self.is_finished = self.is_committing = self.is_abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def is_settled(self) -> bool:
        return self.is_finished or self.is_abandoned

    def wake(self) -> None:
        with suppress(RuntimeError):  # another thread has released it
            if self.future is None and self.gate.locked():
                self.gate.release()

    def answer(self, result: Any) -> None:
        self.result = result
        self.is_finished = True

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.is_finished = True


class CommitGroup:
    """Runs batches of commands, one at a time. `commit` answers or fails every request of a batch."""

    def __init__(self, what: str, commit: Callable[[list[QueuedCommand]], None]) -> None:
        self._what = what
        self._commit = commit
        self._queue: deque[QueuedCommand] = deque()
        self._lead_lock = threading.Lock()
        self._closed = False
        self._thread: ThreadPoolExecutor | None = None
        self._scheduled_loop: asyncio.AbstractEventLoop | None = None

    @property
    def queued(self) -> int:
        """How many commands wait."""
        return len(self._queue)

    def run(self, job: Any) -> Any:
        """Block until the command is durable, and return the answer of `commit`."""
        request = QueuedCommand(job, None)
        try:
            self._enqueue(request)
            while not request.is_finished:
                if self._lead_lock.locked():
                    request.gate.acquire(timeout=WAKE_S)
                    continue
                with self._lead_lock:
                    if not request.is_finished:
                        self._lead()
                self._wake_next()
        except BaseException:
            request.is_abandoned = True  # interrupted: nobody waits for the answer, so it must not run later
            raise
        if request.error is not None:
            raise request.error
        return request.result

    def submit(self, job: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Queue a command from an event loop. The loop goes on; the future gets the answer."""
        future: asyncio.Future[Any] = loop.create_future()
        self._enqueue(QueuedCommand(job, future))
        if self._scheduled_loop is not loop:
            self._scheduled_loop = loop
            loop.call_soon(self._lead_in_thread)  # later, so that tasks that are ready now join this batch
        return future

    def close(self, release: Callable[[], object]) -> None:
        """Finish the queue, then release the storage. Closing it again does nothing."""
        with self._lead_lock:
            while not self._closed and self._queue:
                self._lead()
            closed, self._closed = self._closed, True
            if not closed:
                release()
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def _wake_next(self) -> None:
        """Wake the thread that waits longest, to lead next."""
        for request in list(self._queue)[:1]:
            request.wake()

    def _enqueue(self, request: QueuedCommand) -> None:
        if self._closed:
            raise errors.StoreClosed(what=self._what)
        if len(self._queue) >= limits.QUEUED_COMMANDS:
            raise errors.QueueFull(what=self._what, limit=limits.QUEUED_COMMANDS)
        self._queue.append(request)

    def _lead_in_thread(self) -> None:
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only for event loops

            self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-writer")
        self._thread.submit(self._lead_for_tasks)

    def _lead_for_tasks(self) -> None:
        self._scheduled_loop = None
        with self._lead_lock:
            while self._queue:
                self._lead()
        self._wake_next()

    def _lead(self) -> None:
        """Run one batch of the commands that wait now. Only for the holder of the lock."""
        batch = [request for request in list(self._queue)[: limits.BATCH_COMMANDS] if not request.is_settled]
        try:
            if self._closed:
                for request in batch:
                    request.fail(errors.StoreClosed(what=self._what))
            elif batch:
                self._commit(batch)
        finally:
            self._finish_batch(batch)

    def _finish_batch(self, batch: list[QueuedCommand]) -> None:
        """Answer the requests of a batch. After an interrupted commit, its outcome is unknown."""
        for request in batch:
            if request.is_committing and not request.is_finished:
                reason = "the writing thread was interrupted"
                request.fail(errors.StorageUnavailable(what=self._what, reason=reason))
        while self._queue and self._queue[0].is_settled:
            self._queue.popleft()
        waiting: dict[asyncio.AbstractEventLoop, list[QueuedCommand]] = {}
        for request in batch:
            if request.is_finished:
                request.wake()
            if request.future is not None and request.is_finished:
                waiting.setdefault(request.future.get_loop(), []).append(request)
        for loop, requests in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve_futures, requests)


def _resolve_futures(requests: list[QueuedCommand]) -> None:
    for request in requests:
        if request.future is None or request.future.done():
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)
