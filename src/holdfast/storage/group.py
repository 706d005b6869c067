"""Commands that wait together share one commit.

Laws: a command is answered only after its commit; the thread that finds the lead free does the work for all who queue
behind it, so a lone caller pays for no thread switch.

A signal may interrupt a thread between any two steps, so nothing here depends on a step that must follow another: who holds
the lock leads, a request stays in the queue until it has an answer, and who waits to be woken looks up now and then.
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
"""How long a thread waits at its gate before it looks up. Only if whoever was to wake it was interrupted, it matters."""


class Request:
    """A command in the queue. A thread waits at its gate, a task awaits its future."""

    __slots__ = ("abandoned", "committing", "error", "finished", "future", "gate", "job", "result")

    def __init__(self, job: Any, future: asyncio.Future[Any] | None) -> None:
        self.job = job
        self.future = future
        self.gate = allocate_lock()
        if future is None:
            self.gate.acquire()
        self.finished = self.committing = self.abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def settled(self) -> bool:
        return self.finished or self.abandoned

    def wake(self) -> None:
        with suppress(RuntimeError):  # another was quicker
            if self.future is None and self.gate.locked():
                self.gate.release()

    def answer(self, result: Any) -> None:
        self.result = result
        self.finished = True

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.finished = True


class Group:
    """`commit` carries out a batch: it answers or fails every request in it. One batch at a time."""

    def __init__(self, what: str, commit: Callable[[list[Request]], None]) -> None:
        self._what = what
        self._commit = commit
        self._queue: deque[Request] = deque()
        self._leading = threading.Lock()
        self._closed = False
        self._thread: ThreadPoolExecutor | None = None
        self._coming: asyncio.AbstractEventLoop | None = None

    def run(self, job: Any) -> Any:
        """Block until the command is durable; what `commit` answered."""
        request = Request(job, None)
        try:
            self._enqueue(request)
            while not request.finished:
                if self._leading.locked():
                    request.gate.acquire(timeout=WAKE_S)
                    continue
                with self._leading:
                    if not request.finished:
                        self._lead()
                self._wake_next()
        except BaseException:
            request.abandoned = True  # interrupted: nobody waits for it any more, so nobody shall do it later
            raise
        if request.error is not None:
            raise request.error
        return request.result

    def submit(self, job: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """The same for an event loop, which goes on meanwhile; called in it."""
        future: asyncio.Future[Any] = loop.create_future()
        self._enqueue(Request(job, future))
        if self._coming is not loop:
            self._coming = loop
            loop.call_soon(self._lead_in_thread)  # after the tasks that are ready now: they join this batch
        return future

    def close(self, let_go: Callable[[], object]) -> None:
        """Finish what is queued, then let go of what it is written to; the second time, nothing."""
        with self._leading:
            while not self._closed and self._queue:
                self._lead()
            closed, self._closed = self._closed, True
            if not closed:
                let_go()
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def _wake_next(self) -> None:
        """Who waits longest leads next, if no one has taken the lead meanwhile."""
        for request in list(self._queue)[:1]:
            request.wake()

    def _enqueue(self, request: Request) -> None:
        if self._closed:
            raise errors.StoreClosed(what=self._what)
        if len(self._queue) >= limits.QUEUED_COMMANDS:
            raise errors.QueueFull(what=self._what, limit=limits.QUEUED_COMMANDS)
        self._queue.append(request)

    def _lead_in_thread(self) -> None:
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - who blocks has no need of it

            self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-writer")
        self._thread.submit(self._lead_for_tasks)

    def _lead_for_tasks(self) -> None:
        self._coming = None
        with self._leading:
            while self._queue:
                self._lead()
        self._wake_next()

    def _lead(self) -> None:
        """One batch: what waits now. Only for the holder of the lock."""
        batch = [request for request in list(self._queue)[: limits.BATCH_COMMANDS] if not request.settled]
        try:
            if self._closed:
                for request in batch:
                    request.fail(errors.StoreClosed(what=self._what))
            elif batch:
                self._commit(batch)
        finally:
            self._settle(batch)

    def _settle(self, batch: list[Request]) -> None:
        """Whoever was in a commit that we were torn out of cannot be told what became of it."""
        for request in batch:
            if request.committing and not request.finished:
                reason = "the writing thread was interrupted"
                request.fail(errors.StorageUnavailable(what=self._what, reason=reason))
        while self._queue and self._queue[0].settled:
            self._queue.popleft()
        waiting: dict[asyncio.AbstractEventLoop, list[Request]] = {}
        for request in batch:
            if request.finished:
                request.wake()
            if request.future is not None and request.finished:
                waiting.setdefault(request.future.get_loop(), []).append(request)
        for loop, requests in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, requests)


def _resolve(requests: list[Request]) -> None:
    for request in requests:
        if request.future is None or request.future.done():
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)
