"""What a command needs so that its requests come to a gateway: variables, arguments, and its own provider. Pure, but for
reading what Codex is configured to use, and what its shells find.

Laws: nothing of the user's settings is changed: variables and arguments are those of one command. A request leaves for the
provider that the command would have used by itself, so no credential goes anywhere else.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

AgentKind: TypeAlias = Literal["claude", "codex", "other"]
CHATGPT_URL = "https://chatgpt.com/backend-api/codex"
"""What Codex uses for a login by ChatGPT."""
OUTER_VARIABLE = "HOLDFAST_RUN_URL"
"""Where a command finds the gateway of the run that it is part of."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_STATUS_S = 10
_SHELL_S = 10
"""What a login shell may take to begin."""


class ProviderUrls(NamedTuple):
    """The base URLs of providers; None for the usual one."""

    anthropic: str | None = None
    openai: str | None = None


def find_outer(environ: Mapping[str, str]) -> str | None:
    """The gateway of the run that this process is part of; None if it is part of none, or has another provider."""
    url = environ.get(OUTER_VARIABLE)
    return url if url and url == environ.get("ANTHROPIC_BASE_URL") else None


def find_kind(program: str) -> AgentKind:
    """Which agent a program is, by its name."""
    name = os.path.basename(program).lower().removesuffix(".exe").removesuffix(".js")
    return "claude" if name == "claude" else "codex" if name == "codex" else "other"


def find_providers(kind: AgentKind, program: str, environ: Mapping[str, str]) -> ProviderUrls:
    """The providers that a command would use without a gateway."""
    anthropic = environ.get("ANTHROPIC_BASE_URL") or None
    if kind != "codex":
        return ProviderUrls(anthropic, environ.get("OPENAI_BASE_URL") or None)
    configured = read_codex_url(environ)  # Codex itself does not read OPENAI_BASE_URL
    if configured is None and has_chatgpt_login(program, environ):
        configured = CHATGPT_URL
    return ProviderUrls(anthropic, configured)


def read_codex_url(environ: Mapping[str, str]) -> str | None:
    """The base URL in the configuration of Codex; None if it has none."""
    folder = environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            value = tomllib.load(file).get("openai_base_url")
    except (OSError, ValueError):
        return None
    return value if isinstance(value, str) and value else None


def has_chatgpt_login(program: str, environ: Mapping[str, str]) -> bool:
    """Whether Codex would use a login by ChatGPT, as it says itself. No file with credentials is read."""
    if environ.get("CODEX_API_KEY"):
        return False
    try:
        done = subprocess.run(
            [program, "login", "status"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_STATUS_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and b"ChatGPT" in done.stdout + done.stderr


def has_holdfast_in_login_shell(environ: Mapping[str, str]) -> bool:
    """Whether a login shell of the user finds the command `holdfast`: such shells may set PATH anew."""
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = ""
    try:
        done = subprocess.run(
            [shell or "/bin/sh", "-lc", "command -v holdfast"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SHELL_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def build_command(kind: AgentKind, command: Sequence[str], url: str) -> list[str]:
    """The command with the arguments that its agent needs before the user's own."""
    program, *rest = command
    return [program, "-c", f'openai_base_url="{url}/v1"', *rest] if kind == "codex" else [program, *rest]


def build_environment(
    environ: Mapping[str, str], url: str, *, store: str, tenant: str | None = None, tools: str | None = None
) -> dict[str, str]:
    """The variables of the command. `tools` is a folder with the command `holdfast`, if it is not found without."""
    found = dict(environ)
    if not environ.get("ANTHROPIC_BASE_URL"):
        # Claude Code loads tools on demand only from a provider that it knows, unless this is set.
        found.setdefault("ENABLE_TOOL_SEARCH", "true")
    found["ANTHROPIC_BASE_URL"] = found[OUTER_VARIABLE] = url
    found["OPENAI_BASE_URL"] = f"{url}/v1"
    for name in ("NO_PROXY", "no_proxy"):
        found[name] = extend_no_proxy(environ.get(name, ""))
    found["HOLDFAST_FILE"] = store
    if tenant is not None:
        found["HOLDFAST_TENANT"] = tenant
    if tools is not None:
        found["PATH"] = extend_path(environ, tools)
    return found


def extend_path(environ: Mapping[str, str], tools: str) -> str:
    """PATH with one more folder, which stands first."""
    path = environ.get("PATH", os.defpath)
    return f"{tools}{os.pathsep}{path}" if path else tools


def extend_no_proxy(value: str) -> str:
    """A list of hosts without a proxy, and this machine."""
    names = [name for name in (each.strip() for each in value.split(",")) if name]
    return value if "*" in names else ",".join([*names, *(name for name in LOOPBACK if name not in names)])
