"""`holdfast gateway`: a proxy on this machine between agents and their models."""

from __future__ import annotations

import os
from typing import Any, Literal

import click
from click.core import ParameterSource

from holdfast import errors
from holdfast.cli.output import print_json, print_line
from holdfast.cli.settings import Settings, gateway_options
from holdfast.gateway.stores import default_store

DEFAULT_PORT = 8788


policy_choice_option = click.option(
    "--policy",
    type=click.Choice(["faithful", "frugal"]),
    default="faithful",
    show_default=True,
    help="How much of a conversation is sent: nearly all that may matter, or less.",
)
window_limit_option = click.option(
    "--window",
    type=click.IntRange(1_000),
    metavar="TOKENS",
    help="The most tokens of a request.  [default: as the model and the policy have it]",
)
read_back_option = click.option(
    "--read-back",
    type=click.Choice(["auto", "shell", "mcp", "tool", "none"]),
    default="auto",
    show_default=True,
    help="How models read what left their view: by `holdfast read`, MCP, an added tool, or not at all.",
)


def choose_store(settings: Settings, store: str | None = None) -> None:
    """Use this store for a command of the gateway; else the one that an option or the environment names; else the default
    one, whose folder is made for its user alone."""
    if store is not None:
        settings.file = store
    elif not settings.has_file:
        settings.file = default_store()
        os.makedirs(os.path.dirname(settings.file), mode=0o700, exist_ok=True)


@click.command()
@click.argument("store", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port; 0: any free one.",
)
@policy_choice_option
@window_limit_option
@read_back_option
@click.option("--user", metavar="NAME", help="The user whose facts are recorded.  [default: facts of each session]")
@click.option(
    "--anthropic-url",
    metavar="URL",
    envvar="ANTHROPIC_BASE_URL",
    show_envvar=True,
    help="The base URL for /v1/messages.  [default: https://api.anthropic.com]",
)
@click.option(
    "--openai-url",
    metavar="URL",
    envvar="OPENAI_BASE_URL",
    show_envvar=True,
    help="The base URL for the APIs of OpenAI; its path stands for /v1.  [default: https://api.openai.com/v1]",
)
@click.option(
    "--deadline",
    type=click.FloatRange(0.01, 60),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a request may be held up; after it, it leaves by the last view, or as it came.",
)
@click.option("--allow-host", metavar="NAME", multiple=True, help="A host name that clients use.  [default: its own]")
@click.option("--allow-remote", is_flag=True, help="Listen at an address that other machines reach.")
@click.option(
    "--grace",
    type=click.IntRange(0, 3_600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long open streams may go on after SIGTERM.",
)
@gateway_options
@click.pass_obj
def gateway(settings: Settings, /, store: str | None, **options: Any) -> None:
    """Run a proxy between agents and their models.

    It records conversations, and sends less of them.

    Agents use it as the base URL of their provider: ANTHROPIC_BASE_URL=http://127.0.0.1:8788, or
    OPENAI_BASE_URL=http://127.0.0.1:8788/v1. Keys pass through, and are not stored. `holdfast run` does all of it for one
    command.

    STORE is a file or postgresql://…; without it, and without --file, it is gateway.db in the user's data folder. SIGTERM
    ends the gateway in order.
    """
    choose_store(settings, store)
    for name, url in (("anthropic_url", options["anthropic_url"]), ("openai_url", options["openai_url"])):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.ENVIRONMENT:
            _refuse_gateway(url)
    run_gateway(settings, **options)


def _refuse_gateway(url: str) -> None:
    """A shell in which agents use a gateway has its address where that of the provider would be. Two in a row would record
    and shorten each conversation twice."""
    try:
        from holdfast.gateway.health import is_gateway  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise errors.ExtraMissing(what="holdfast gateway", extra="gateway") from error
    if is_gateway(url):
        reason = (
            f"at {url!r}, from ANTHROPIC_BASE_URL or OPENAI_BASE_URL, a Holdfast gateway runs already: use that one, or "
            "name the provider with --anthropic-url or --openai-url"
        )
        raise errors.InvalidArgument(argument="url", reason=reason)


def run_gateway(
    settings: Settings, *, policy: Literal["faithful", "frugal"], window: int | None, user: str | None, **options: Any
) -> None:
    """Run a gateway on the store of the settings, until a signal."""
    try:
        from holdfast.gateway.proxy import ANTHROPIC_URL, OPENAI_URL, Gateway, GatewayOptions  # noqa: PLC0415 - an extra
        from holdfast.gateway.service import GatewayService, ServiceOptions  # noqa: PLC0415
    except ImportError as error:
        raise errors.ExtraMissing(what="holdfast gateway", extra="gateway") from error
    from holdfast.gateway.desk import Desk  # noqa: PLC0415 - what does not need it loads less
    from holdfast.gateway.engines import open_engine  # noqa: PLC0415
    from holdfast.gateway.options import DeskOptions  # noqa: PLC0415
    from holdfast.gateway.service_link import take_link  # noqa: PLC0415

    def announce(url: str) -> None:
        if settings.json:
            print_json({"url": url, "store": settings.display_address})
        else:
            print_line(f"Holdfast gateway at {url}, on {settings.display_address}")

    link = take_link(os.environ)
    if link is not None:
        link.watch()
    with open_engine(settings.file, tenant=settings.tenant) as engine:
        read_back = options.get("read_back", "auto")
        run = "" if link is None else link.run
        desk = Desk(engine, DeskOptions(policy=policy, window=window, user=user, read_back=read_back, run=run))
        chosen = GatewayOptions(
            anthropic_url=options["anthropic_url"] or ANTHROPIC_URL,
            openai_url=options["openai_url"] or OPENAI_URL,
            deadline_s=options["deadline"],
        )
        service = ServiceOptions(
            host=options["host"],
            port=options["port"],
            allowed_hosts=tuple(options["allow_host"]),
            allow_remote=options["allow_remote"],
            grace_s=options["grace"],
            listener=None if link is None else link.listener,
        )
        GatewayService(Gateway(desk, chosen), service).run(announce)
