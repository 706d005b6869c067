"""The root command and the list of its commands."""

from __future__ import annotations

import importlib
from typing import Any

import click
from click.shell_completion import get_completion_class

from holdfast import __version__
from holdfast.cli.settings import global_options

COMMANDS = {
    "sessions": "sessions",
    "log": "log",
    "read": "read",
    "withdraw": "withdrawals",
    "restore": "withdrawals",
    "fork": "forks",
    "forks": "forks",
    "compare": "forks",
    "merge": "forks",
    "frames": "frames",
    "suspended": "frames",
    "resume": "frames",
    "recover": "frames",
    "facts": "facts",
    "context": "context",
    "pack": "packs",
    "why": "packs",
    "diff": "packs",
    "calls": "calls",
    "plan": "context",
    "handle": "context",
    "situation": "situation",
    "entries": "entries",
    "memory": "memory",
    "verify": "maintenance",
    "rebuild": "maintenance",
    "doctor": "doctor",
    "backup": "maintenance",
    "copy": "maintenance",
    "export": "maintenance",
    "import": "maintenance",
    "stats": "maintenance",
    "sweep": "maintenance",
    "worker": "worker",
    "inspect": "inspect",
    "serve": "serve",
    "run": "run",
    "gateway": "gateway",
    "keys": "keys",
    "mcp": "mcp",
    "collect": "maintenance",
}
"""The module of each command. It is loaded when the command is used: that is most of the time in which a command starts."""


_FUNCTIONS = {"import": "import_"}


class OutputClosed(Exception):
    """The reader of the output has closed it."""


class RootGroup(click.Group):
    """The commands of COMMANDS, each loaded when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module = importlib.import_module(f"holdfast.cli.{COMMANDS[cmd_name]}")
            self.add_command(getattr(module, _FUNCTIONS.get(cmd_name, cmd_name)))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke a command. A broken pipe is not a failure, as in `holdfast log | head`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error


@click.group("holdfast", cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
@global_options
def root() -> None:
    """Inspect, check, copy and maintain a Holdfast store: a file, or a server."""


@root.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options and the names of sessions and ledgers.

    For bash, in ~/.bashrc: eval "$(holdfast completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "holdfast", "_HOLDFAST_COMPLETE").source())
