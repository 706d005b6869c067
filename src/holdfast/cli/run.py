"""`holdfast run`: a command whose calls of models go through a gateway of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import holdfast
from holdfast import errors
from holdfast.cli.gateway import choose_store, policy_choice_option, read_back_option, window_limit_option
from holdfast.cli.output import StyledText, discard_output, escape, json_text, print_line
from holdfast.cli.settings import Settings, gateway_options

_CLOCK_SLACK_US = 1_000_000


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@policy_choice_option
@window_limit_option
@read_back_option
@click.option("--user", metavar="NAME", help="The user whose facts are recorded.  [default: facts of each session]")
@click.option("--anthropic-url", metavar="URL", help="The provider for /v1/messages.  [default: the command's own]")
@click.option("--openai-url", metavar="URL", help="The provider for OpenAI's APIs.  [default: the command's own]")
@click.option("-q", "--quiet", is_flag=True, help="Print no figures at the end.")
@gateway_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def run(settings: Settings, /, command: tuple[str, ...], quiet: bool, **options: Any) -> int:
    """Run an agent, and send less of its conversations.

    COMMAND is claude, codex, or any other program with its arguments, which are passed on as they are: `holdfast run
    claude -p "Fix the test."`. A gateway on this machine runs beside it. The command finds it by ANTHROPIC_BASE_URL and
    OPENAI_BASE_URL, Codex by an option; no settings are changed.

    The exit code is that of the command. Figures go to standard error at the end. The store is that of the gateway,
    unless --file names another.
    """
    from holdfast.gateway.agents import ProviderUrls  # noqa: PLC0415 - what does not need it loads less
    from holdfast.gateway.run import RunOptions, run_command  # noqa: PLC0415

    choose_store(settings)
    if settings.path in ("memory:", ":memory:"):
        reason = (
            f"{settings.file!r} is a store in memory, which the gateway cannot share; name a file, or postgresql://…"
        )
        raise errors.InvalidArgument(argument="file", reason=reason)
    args = [f"--policy={options['policy']}"]
    if options["read_back"] != "auto":
        args.append(f"--read-back={options['read_back']}")
    for name in ("window", "user"):
        if options[name] is not None:
            args.append(f"--{name.replace('_', '-')}={options[name]}")
    done = run_command(
        RunOptions(
            command=command,
            store=settings.file if settings.is_on_server else os.path.abspath(settings.path),
            tenant=settings.tenant if settings.has_tenant else None,
            gateway_args=tuple(args),
            urls=ProviderUrls(options["anthropic_url"], options["openai_url"]),
        )
    )
    if done.restarts:
        words = f" Its last words: {done.log}" if done.log else ""
        _print_note(f"The gateway ended {done.restarts} times, and was started again.{words}")
    if not quiet and done.run:
        _print_figures(settings, done.run, done.started_us)
    return done.code


def _print_figures(settings: Settings, run_id: str, started_us: int) -> None:
    """Print what the calls of a run cost. What fails here does not change how the run ended."""
    from holdfast.cli.gateway_figures import describe_run  # noqa: PLC0415 - only for this
    from holdfast.gateway.statistics import PRICE_MODEL, read_calls, sum_calls  # noqa: PLC0415

    try:
        with settings.open() as engine:
            calls = read_calls(engine, since_us=started_us - _CLOCK_SLACK_US, run=run_id)
            totals = sum_calls(call.figures for call in calls)
    except holdfast.HoldfastError as error:
        _print_note(f"The figures of this run cannot be read: {error}")
        return
    if settings.json:
        document = {"run": run_id, **totals.as_document(), "price_model": PRICE_MODEL}
        with _keep_exit_code():
            click.echo(json_text(document, ascii_only=True), err=True)
        return
    for text in describe_run(totals, settings.display_address):
        _print_note(text)


def _print_note(text: str) -> None:
    with _keep_exit_code():
        print_line(StyledText("Holdfast: ", "bold"), StyledText(escape(text), "dim"), error=True)


@contextmanager
def _keep_exit_code() -> Iterator[None]:
    """Let the exit code be that of the command also if nothing can be printed, as when its terminal was closed."""
    try:
        yield
        sys.stderr.flush()
    except (OSError, ValueError):
        discard_output(sys.stderr)
