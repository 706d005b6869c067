"""Real agents as processes: their programs, a home that is theirs alone, and what they print.

They see no network but this machine: providers, updates and telemetry are off or on loopback.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gateway.run_processes import end_with_tests
from tests.gateway.upstreams import Exchange, FakeProvider
from tests.gateway.upstreams.server import Script

ROOT = Path(__file__).parents[2]
RUN_S = 180
_SYSTEM = {"linux": "linux", "darwin": "darwin"}[sys.platform]
_CPU = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
_TRIPLES = {
    ("linux", "x64"): "x86_64-unknown-linux-musl",
    ("linux", "arm64"): "aarch64-unknown-linux-musl",
    ("darwin", "x64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}


def _make_token(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none"}, claims, "unsigned")
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


_ACCOUNT = {"chatgpt_plan_type": "pro", "chatgpt_account_id": "none"}
CHATGPT_LOGIN = {
    "auth_mode": "chatgpt",
    "OPENAI_API_KEY": None,
    "tokens": {
        "id_token": _make_token(
            {"email": "a@b.example", "exp": 4_000_000_000, "https://api.openai.com/auth": _ACCOUNT}
        ),
        "access_token": _make_token({"exp": 4_000_000_000}),
        "refresh_token": "none",
        "account_id": "none",
    },
    "last_refresh": "2099-01-01T00:00:00Z",
}
UNREACHABLE = "http://127.0.0.1:9"
"""Nothing listens there."""


def find_program(folder: Path, name: str) -> Path:
    """The program of an agent, from the package for this machine."""
    modules = folder / "node_modules"
    if name == "claude":
        return modules / "@anthropic-ai" / f"claude-code-{_SYSTEM}-{_CPU}" / "claude"
    triple = _TRIPLES[_SYSTEM, _CPU]
    return modules / "@openai" / f"codex-{_SYSTEM}-{_CPU}" / "vendor" / triple / "bin" / "codex"


@dataclasses.dataclass
class AgentResult:
    """How an agent ended."""

    code: int
    text: str
    """Its last message."""
    session: str
    turns: int
    """Claude Code's own count; of Codex, the items that it printed."""
    stderr: str

    @property
    def seen(self) -> tuple[int, str, int]:
        """What must be the same with and without a gateway."""
        return self.code, self.text, self.turns


class Desktop:
    """A home, a folder of work, a provider, and perhaps a gateway between. The folders have the same names every time, as
    agents tell their models."""

    def __init__(
        self, folder: Path, programs: Path, script: Script, *, window: int | None = None, through: bool
    ) -> None:
        self.home, self.work, self.store = folder / "home", folder / "work", folder / "gateway.db"
        for each in (self.home, self.work):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir(parents=True)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.store}{suffix}").unlink(missing_ok=True)
        shutil.rmtree(f"{self.store}.blobs", ignore_errors=True)
        self.programs, self.window, self.through = programs, window, through
        self.has_login = False
        self.has_command = True
        self.provider = FakeProvider(script)

    def log_in(self) -> None:
        """Log Codex in by ChatGPT, with tokens that nobody issued. It then compresses its requests."""
        self.has_login = True

    def lose_command(self) -> None:
        """Let the login shells of Codex not find the command `holdfast`, as where it is in a virtual environment."""
        self.has_command = False

    def build_environment(self) -> dict[str, str]:
        codex = self.home / "codex"
        codex.mkdir(exist_ok=True)
        config = [f'openai_base_url = "{self.provider.url}/v1"', f'chatgpt_base_url = "{UNREACHABLE}"']
        config += ["check_for_update_on_startup = false", "[analytics]", "enabled = false"]
        config += [f'[projects."{self.work}"]', 'trust_level = "trusted"']
        (codex / "config.toml").write_text("\n".join(config) + "\n")
        self._install_holdfast()
        if self.has_login:
            (codex / "auth.json").write_text(json.dumps(CHATGPT_LOGIN))
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": str(self.home),
            "HTTPS_PROXY": UNREACHABLE,
            "NO_PROXY": "127.0.0.1,localhost",
            "CLAUDE_CONFIG_DIR": str(self.home / "claude"),
            "ANTHROPIC_BASE_URL": self.provider.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
            "CODEX_HOME": str(codex),
            **({} if self.has_login else {"CODEX_API_KEY": "none"}),
        }

    def _install_holdfast(self) -> None:
        """The command, where the login shells of Codex find it."""
        folder = self.home / ".local" / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "holdfast").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m holdfast "$@"\n')
        (folder / "holdfast").chmod(0o755)
        path = "$HOME/.local/bin:$PATH" if self.has_command else "/usr/bin:/bin"
        (self.home / ".profile").write_text(f'PATH="{path}"\n')

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        if self.through:
            options = ["--file", str(self.store), *(["--window", str(self.window)] if self.window else [])]
            command = [sys.executable, "-m", "holdfast", "run", *options, *command]
        return subprocess.run(
            end_with_tests(*command),
            cwd=self.work,
            env=self.build_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    def claude(self, prompt: str, *args: str) -> AgentResult:
        program = str(find_program(self.programs, "claude"))
        options = ["--output-format", "json", "--dangerously-skip-permissions"]
        done = self._run([program, "-p", prompt, *options, *args])
        try:
            printed = json.loads(done.stdout)
        except ValueError:
            printed = {}
        text = str(printed.get("result", f"{done.stdout}{done.stderr}"))
        return AgentResult(
            done.returncode, text, printed.get("session_id", ""), printed.get("num_turns", -1), done.stderr
        )

    def codex(self, *args: str, model: str = "gpt-5") -> AgentResult:
        program = str(find_program(self.programs, "codex"))
        options = ["--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox", "-m", model]
        done = self._run([program, "exec", *options, *args])
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        texts = [item["text"] for item in items if item["type"] == "agent_message"]
        session = next((event["thread_id"] for event in events if event["type"] == "thread.started"), "")
        return AgentResult(
            done.returncode, texts[-1] if texts else done.stdout + done.stderr, session, len(items), done.stderr
        )

    def holdfast(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", "--file", str(self.store), *args]
        return subprocess.run(
            command, cwd=self.work, env=self.build_environment(), capture_output=True, text=True, check=False
        )

    @property
    def calls(self) -> list[Exchange]:
        return [each for each in self.provider.exchanges if each.is_call and each.status == 200]

    def count_messages(self) -> list[tuple[str, int]]:
        """The agent and the number of messages of every call; sub-agents in any order."""
        counts = [
            (each.get("x-claude-code-agent-id") != "", len(list_messages(json.loads(self.provider.decode(each)))))
            for each in self.calls
        ]
        main = [("main", count) for is_sub, count in counts if not is_sub]
        return main + sorted(("sub-agent", count) for is_sub, count in counts if is_sub)


def list_messages(request: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = request.get("messages") or request.get("input") or []
    return messages


@contextmanager
def open_desktop(
    folder: Path, programs: Path, script: Script, *, through: bool, window: int | None = None
) -> Iterator[Desktop]:
    desktop = Desktop(folder, programs, script, through=through, window=window)
    with desktop.provider:
        if not through:  # the gateway answers so by itself
            desktop.provider.pages["GET", "/v1/responses"] = (426, b"")
        yield desktop
