"""The tree of commands."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from holdfast import __version__
from holdfast.cli import proposals as _proposals  # noqa: F401 - more commands of the group `facts`
from holdfast.cli.care import backup, collect, copy, export, import_, rebuild, sweep, verify
from holdfast.cli.context import context, handle, plan
from holdfast.cli.doctor import doctor
from holdfast.cli.facts import facts
from holdfast.cli.frames import frames, recover, resume, suspended
from holdfast.cli.log import log
from holdfast.cli.packs import diff, pack
from holdfast.cli.sessions import sessions
from holdfast.cli.settings import global_options
from holdfast.cli.situation import situation
from holdfast.cli.stats import stats
from holdfast.cli.why import why


class ReaderLeft(Exception):
    """Whoever read our output has seen enough."""


class Root(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """click takes a broken pipe for a failure; `holdfast log | head` is none."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderLeft from error


@click.group("holdfast", cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
@global_options
def root() -> None:
    """Look into a Holdfast file or a store on a server, check it, copy it, and keep it in order."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for your shell.

    With it, the shell completes commands, options and the names of sessions and ledgers.

    For bash, in ~/.bashrc: eval "$(holdfast completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "holdfast", "_HOLDFAST_COMPLETE").source())


for command in (
    sessions,
    log,
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
    verify,
    rebuild,
    doctor,
    backup,
    copy,
    export,
    import_,
    stats,
    sweep,
    collect,
    completion,
):
    root.add_command(command)
