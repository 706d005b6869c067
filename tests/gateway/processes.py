"""Gateways as processes that can be killed, and the nursery that they come from.

A nursery imports everything, opens nothing, and forks a gateway for every task on its standard input. It answers with the
process and the address of the gateway when that takes connections. It alone sends signals: it is the parent, and as long
as a parent has not seen the end of a process, nobody else gets its id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
"""Of the desk: a busy machine must not change what is sent."""


class GatewayTask(msgspec.Struct, kw_only=True, tag="run"):
    """A gateway to run."""

    store: str
    upstream: str
    port: int = 0
    window: int | None = None
    policy: str = "faithful"
    die_at: int = 0
    """Kill the process at this point: before or after a commit, or when something that was awaited is there."""
    points: str = ""
    """The file that has the number of points so far as its size."""


class BornGateway(msgspec.Struct):
    pid: int
    port: int


class SignalTask(msgspec.Struct, kw_only=True, tag="signal"):
    """A signal to send to a gateway, if it lives; 0 asks only whether it does."""

    pid: int
    number: int = 0


class Nursery:
    """Starts gateways within milliseconds."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def bear(self, task: GatewayTask) -> BornGateway:
        return msgspec.json.decode(self._ask(task), type=BornGateway)

    def signal(self, pid: int, number: int = 0) -> bool:
        """Send a signal to a gateway of this nursery; False if it has ended."""
        return msgspec.json.decode(self._ask(SignalTask(pid=pid, number=number)), type=bool)

    def _ask(self, task: GatewayTask | SignalTask) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class GatewayProcess:
    """A gateway on a file store, at one address over all its lives."""

    def __init__(self, nursery: Nursery, task: GatewayTask) -> None:
        self._nursery, self._task = nursery, task
        self.lives = 0
        self.start()

    def start(self, **changes: Any) -> None:
        born = self._nursery.bear(msgspec.structs.replace(self._task, **changes))
        self.pid = born.pid
        self._task.port = born.port
        self.lives += 1

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._task.port}"

    @property
    def is_alive(self) -> bool:
        return self._nursery.signal(self.pid)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, and wait until the process is gone."""
        if self._nursery.signal(self.pid, number):
            self.wait()

    def wait(self) -> None:
        until = time.monotonic() + 60
        while self.is_alive:
            if time.monotonic() > until:
                raise TimeoutError(f"the gateway {self.pid} does not end")
            time.sleep(0.002)

    def restart(self) -> None:
        self.end()
        self.start()

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


# The nursery's side


class _Fate:
    """Counts the points of a process, and ends it at one of them."""

    def __init__(self, task: GatewayTask) -> None:
        self._die_at = task.die_at
        self._file = os.open(task.points, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if task.points else -1
        self.count = 0

    def pass_point(self) -> None:
        self.count += 1
        if self._file >= 0:
            os.write(self._file, b".")
        if self.count == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def rule(self) -> None:
        """Count from now on."""
        import asyncio

        from holdfast.storage.sqlite.store import SqliteStore

        run, append, fate = asyncio.Handle._run, SqliteStore.append, self

        def run_handle(handle: Any) -> None:
            fate.pass_point()
            run(handle)

        def append_events(store: Any, *args: Any, **options: Any) -> Any:
            fate.pass_point()
            result = append(store, *args, **options)
            fate.pass_point()
            return result

        for owner, name, function in ((asyncio.Handle, "_run", run_handle), (SqliteStore, "append", append_events)):
            setattr(owner, name, function)


def _run_gateway(task: GatewayTask) -> None:
    from holdfast.gateway.desk import Desk
    from holdfast.gateway.engines import open_engine
    from holdfast.gateway.options import DeskOptions
    from holdfast.gateway.proxy import Gateway, GatewayOptions
    from holdfast.gateway.service import GatewayService, ServiceOptions

    options = msgspec.convert({"window": task.window, "policy": task.policy}, DeskOptions)
    with open_engine(task.store) as engine:
        urls: Any = {"anthropic_url": task.upstream, "openai_url": f"{task.upstream}/v1"}
        gateway = Gateway(Desk(engine, options), GatewayOptions(deadline_s=DEADLINE_S, **urls))
        service = GatewayService(gateway, ServiceOptions(port=task.port, grace_s=2))

        def announce(_: str) -> None:
            os.write(1, msgspec.json.encode(BornGateway(os.getpid(), service.port)) + b"\n")
            if task.die_at or task.points:
                _Fate(task).rule()

        service.run(announce)


def _serve() -> None:
    import holdfast.gateway.desk
    import holdfast.gateway.proxy
    import holdfast.gateway.service
    import holdfast.storage.sqlite.store  # noqa: F401 - so that no fork has to

    living: set[int] = set()
    for line in sys.stdin.buffer:
        task = msgspec.json.decode(line, type=GatewayTask | SignalTask)
        if isinstance(task, SignalTask):
            os.write(1, msgspec.json.encode(_signal(living, task)) + b"\n")
            continue
        if child := os.fork():
            living.add(child)
            continue
        os.close(0)
        try:
            _run_gateway(task)
        except BaseException:
            traceback.print_exc()
            os.write(1, b"{}\n")
        finally:
            os._exit(0)
    for child in list(living):  # nothing outlives the tests
        _signal(living, SignalTask(pid=child, number=signal.SIGKILL))


def _signal(living: set[int], task: SignalTask) -> bool:
    if task.pid in living and os.waitpid(task.pid, os.WNOHANG)[0]:
        living.discard(task.pid)
    if task.pid not in living:
        return False
    os.kill(task.pid, task.number)
    return True


if __name__ == "__main__":
    _serve()
