"""`holdfast run`: a command, and a gateway beside it for as long as the command runs.

The command and the gateway are processes of their own. This process listens for both: a connection that comes while the
gateway starts again waits for it, at the same port.

Laws: the command does not start unless the gateway is ready. It has the terminal, and standard input and output, for
itself. It gets every signal that it would get without Holdfast, and its exit code is the exit code. A gateway that dies is
started again; it ends after the command, or when both processes that it serves are gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import msgspec

from holdfast import errors
from holdfast.gateway.agents import (
    AgentKind,
    ProviderUrls,
    build_command,
    build_environment,
    extend_path,
    find_kind,
    find_outer,
    find_providers,
    has_holdfast_in_login_shell,
)
from holdfast.gateway.service_link import LINK_VARIABLE, ServiceLink

START_S = 60.0
"""How long a gateway may take until it is ready."""
END_S = 45.0
"""How long it may take to end: open streams have their time, and records theirs."""
BACKLOG = 1_024
FIRST_DELAY_S = 0.1
LAST_DELAY_S = 5.0
"""Between two starts of a gateway that does not become ready."""
LOG_BYTES = 4_000
"""How much of a gateway's last words is reported."""
STOP_S = 0.05
"""How long a terminal may take to stop this process with the command."""
FORWARDED = (signal.SIGTERM, signal.SIGHUP)
TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends them to the command, too."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `holdfast run` was asked for."""

    command: tuple[str, ...]
    store: str
    """The address of the store, absolute."""
    tenant: str | None = None
    gateway_args: tuple[str, ...] = ()
    urls: ProviderUrls = ProviderUrls()
    """Providers that the user names; others are those of the command."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    code: int
    """The exit code of the command; 128 and the number of the signal that ended it."""
    run: str
    """The id under which its calls are recorded; empty inside another run, whose gateway it uses."""
    started_us: int
    restarts: int = 0
    log: str = ""
    """The last that the gateway wrote to standard error."""


def run_command(options: RunOptions, environ: Mapping[str, str] | None = None) -> RunResult:
    """Run a command with a gateway of its own; inside another run, with that of the other one.

    Raises GatewayNotStarted, or InvalidArgument for a command that is not there; nothing was run then."""
    environ = os.environ if environ is None else environ
    program = find_program(options.command[0], environ)
    kind = find_kind(options.command[0])
    started_us = time.time_ns() // 1_000
    outer = find_outer(environ)
    if outer is not None:
        code = run_child(program, build_command(kind, options.command, outer), environ)
        return RunResult(code=code, run="", started_us=started_us)
    with contextlib.ExitStack() as stack:
        tools = stack.enter_context(find_tools(environ))
        options = choose_read_back(options, kind, environ, tools)
        gateway = stack.enter_context(GatewayChild(options, kind, program, environ))
        command = build_command(kind, options.command, gateway.url)
        variables = build_environment(environ, gateway.url, store=options.store, tenant=options.tenant, tools=tools)
        code = run_child(program, command, variables, keep=(gateway.lifeline,))
    return RunResult(
        code=code, run=gateway.run, started_us=started_us, restarts=gateway.restarts, log=gateway.last_words
    )


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """The path of a program, as a shell finds it."""
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None:
        reason = f"there is no program {name!r}; check its name and PATH"
        raise errors.InvalidArgument(argument="command", reason=reason)
    return os.path.abspath(found)


def choose_read_back(options: RunOptions, kind: AgentKind, environ: Mapping[str, str], tools: str | None) -> RunOptions:
    """The options, with how the model reads. Codex starts login shells: where these do not find `holdfast`, the gateway
    adds its tool, unless the user chose something else."""
    if kind != "codex" or any(arg.startswith("--read-back=") for arg in options.gateway_args):
        return options
    shown = environ if tools is None else {**environ, "PATH": extend_path(environ, tools)}
    if has_holdfast_in_login_shell(shown):
        return options
    return msgspec.structs.replace(options, gateway_args=(*options.gateway_args, "--read-back=tool"))


@contextlib.contextmanager
def find_tools(environ: Mapping[str, str]) -> Iterator[str | None]:
    """A folder with the command `holdfast` alone, so that `holdfast read` works in the agent's shell. None if PATH has
    the command of this process anyway."""
    found = shutil.which("holdfast", path=environ.get("PATH", os.defpath))
    own = os.path.join(os.path.dirname(sys.executable), "holdfast")
    if found is not None and os.path.exists(own) and os.path.samefile(found, own):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-run-") as folder:
        script = os.path.join(folder, "holdfast")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m holdfast "$@"\n')
        os.chmod(script, 0o700)
        yield folder


# The gateway


class GatewayChild:
    """A gateway as a child process, at one port over all its lives."""

    def __init__(self, options: RunOptions, kind: AgentKind, program: str, environ: Mapping[str, str]) -> None:
        self.run = secrets.token_hex(8)
        self.restarts = 0
        self.last_words = ""
        self._options = options
        own = find_providers(kind, program, environ)
        self._urls = ProviderUrls(options.urls.anthropic or own.anthropic, options.urls.openai or own.openai)
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> GatewayChild:
        with contextlib.ExitStack() as stack:
            self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=BACKLOG))
            self._log: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
            self._lifeline_end, self.lifeline = os.pipe()
            stack.callback(self._close_lifeline)
            self._process = self._start()
            if not wait_until_ready(self._process, START_S):
                stop_process(self._process)
                raise errors.GatewayNotStarted(reason=self._read_reason())
            self._watcher = threading.Thread(target=self._watch, name="gateway-watch", daemon=True)
            self._watcher.start()
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        assert self._watcher is not None
        self._watcher.join()
        if self._process is not None:
            stop_process(self._process)
        self.last_words = self._read_log() if self.restarts else ""
        self._resources.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _start(self) -> subprocess.Popen[bytes]:
        link = ServiceLink(run=self.run, listener=self._listener.fileno(), lifeline=self._lifeline_end)
        environ = {**self._environ, "HOLDFAST_FILE": self._options.store, LINK_VARIABLE: link.encode()}
        if self._options.tenant is not None:
            environ["HOLDFAST_TENANT"] = self._options.tenant
        for name, url in (("ANTHROPIC_BASE_URL", self._urls.anthropic), ("OPENAI_BASE_URL", self._urls.openai)):
            environ.pop(name, None)
            if url is not None:
                environ[name] = url
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", "--json", "gateway", *self._options.gateway_args],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            pass_fds=(link.listener, link.lifeline),
            start_new_session=True,  # a terminal's Ctrl-C is for the command
        )

    def _watch(self) -> None:
        """Start the gateway again whenever it has died."""
        delay_s = 0.0
        while not self._ending.is_set():
            assert self._process is not None
            if not wait_for_end(self._process, self._ending):
                return
            if self._ending.wait(delay_s):
                return
            self.restarts += 1
            self._process = self._start()
            is_ready = wait_until_ready(self._process, START_S, self._ending)
            delay_s = 0.0 if is_ready else min(LAST_DELAY_S, max(FIRST_DELAY_S, 2 * delay_s))

    def _close_lifeline(self) -> None:
        os.close(self._lifeline_end)
        os.close(self.lifeline)

    def _read_log(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_BYTES))
        return self._log.read().decode(errors="replace").strip()

    def _read_reason(self) -> str:
        """Why the gateway did not start: its error, or its last words."""
        text = self._read_log()
        last = text.rpartition("\n")[2]
        try:
            return str(msgspec.json.decode(last)["error"]["message"]).rstrip(".")
        except (msgspec.DecodeError, KeyError, TypeError):
            return last or f"it was not ready within {START_S:.0f} seconds"


def wait_until_ready(process: subprocess.Popen[bytes], timeout_s: float, ending: threading.Event | None = None) -> bool:
    """Whether a gateway says that it is ready, within the time and before it has died."""
    assert process.stdout is not None
    line: list[bytes] = []
    reader = threading.Thread(target=lambda out: line.append(out.readline()), args=(process.stdout,), daemon=True)
    reader.start()
    until = time.monotonic() + timeout_s
    while reader.is_alive() and time.monotonic() < until and not (ending is not None and ending.is_set()):
        reader.join(0.05)
    return bool(line and line[0].endswith(b"\n"))


def wait_for_end(process: subprocess.Popen[bytes], ending: threading.Event) -> bool:
    """Wait until a process has ended; False if it is no longer to be watched."""
    while not ending.is_set():
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        return True
    return False


def stop_process(process: subprocess.Popen[bytes], timeout_s: float = END_S) -> None:
    """End a gateway in order; by force, if that takes too long."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


# The command


def run_child(program: str, command: Sequence[str], environ: Mapping[str, str], keep: Sequence[int] = ()) -> int:
    """Run the command with this process's terminal. Returns its exit code."""
    received: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int) -> None:
        received.append(number)
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)

    with _take_signals(forward):
        try:
            child = subprocess.Popen(command, executable=program, env=environ, pass_fds=keep)
        except OSError as error:
            reason = f"{command[0]!r} cannot be run: {error.strerror or error}"
            raise errors.InvalidArgument(argument="command", reason=reason) from error
        for number in received:
            os.kill(child.pid, number)
        return _wait(child)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Wait for the command. If it stops itself, as with Ctrl-Z, this process stops with it."""
    while True:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            time.sleep(STOP_S)
            changed, status = os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not changed and _has_terminal():
                os.kill(os.getpid(), signal.SIGSTOP)
            if not changed or os.WIFCONTINUED(status) or os.WIFSTOPPED(status):
                continue
        code = os.waitstatus_to_exitcode(status)
        child.returncode = code
        return code if code >= 0 else 128 - code


def _has_terminal() -> bool:
    """Whether the group of this process has a terminal's foreground: its signals reach the command, too."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    return False


@contextlib.contextmanager
def _take_signals(forward: Callable[[int], None]) -> Iterator[None]:
    """Forward signals to the command; those of a terminal only where that has not sent them itself. One that is ignored
    stays ignored."""

    def on_terminal_signal(number: int, _frame: Any) -> None:
        if not _has_terminal():
            forward(number)

    before = {}
    try:
        for number in FORWARDED + TERMINAL_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                handler = on_terminal_signal if number in TERMINAL_SIGNALS else lambda got, _frame: forward(got)
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
