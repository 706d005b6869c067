"""The root command and the list of its commands."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from holdfast import __version__
from holdfast.cli import facts as _proposals  # noqa: F401 - more commands of the group `facts`
from holdfast.cli.context import context, handle, plan
from holdfast.cli.doctor import doctor
from holdfast.cli.entries import entries
from holdfast.cli.facts import facts
from holdfast.cli.forks import compare, fork, forks, merge
from holdfast.cli.frames import frames, recover, resume, suspended
from holdfast.cli.keys import keys
from holdfast.cli.log import log
from holdfast.cli.maintenance import backup, collect, copy, export, import_, rebuild, stats, sweep, verify
from holdfast.cli.mcp import mcp
from holdfast.cli.memory import memory
from holdfast.cli.packs import diff, pack, why
from holdfast.cli.serve import serve
from holdfast.cli.sessions import sessions
from holdfast.cli.settings import global_options
from holdfast.cli.situation import situation
from holdfast.cli.withdrawals import restore, withdraw
from holdfast.cli.worker import worker


class OutputClosed(Exception):
    """The reader of the output has closed it."""


class RootGroup(click.Group):
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


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options and the names of sessions and ledgers.

    For bash, in ~/.bashrc: eval "$(holdfast completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "holdfast", "_HOLDFAST_COMPLETE").source())


for command in (
    sessions,
    log,
    withdraw,
    restore,
    fork,
    forks,
    compare,
    merge,
    frames,
    suspended,
    resume,
    recover,
    facts,
    context,
    pack,
    why,
    diff,
    plan,
    handle,
    situation,
    entries,
    memory,
    verify,
    rebuild,
    doctor,
    backup,
    copy,
    export,
    import_,
    stats,
    sweep,
    worker,
    serve,
    keys,
    mcp,
    collect,
    completion,
):
    root.add_command(command)
