"""`holdfast serve`: one server on a store, for programs on this machine or elsewhere."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast import errors
from holdfast.access.token_settings import TokenSettings
from holdfast.cli.output import print_json, print_line
from holdfast.cli.settings import Settings, common_options
from holdfast.storage.addresses import mask_address

_KINDS = ("openai", "openai-responses", "anthropic")


def _read_token_settings(
    _context: click.Context, _parameter: click.Parameter, path: str | None
) -> TokenSettings | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=TokenSettings)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path!r} has no settings of tokens: {error}.") from error


@click.command()
@click.argument("store", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8787, show_default=True, help="The port; 0: any free one."
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that share the work."
)
@click.option("--upstream", metavar="URL", default="", help="The base URL of the model server that /v1/responses asks.")
@click.option(
    "--upstream-kind", type=click.Choice(_KINDS), help="How the upstream speaks.  [default: from its address]"
)
@click.option(
    "--upstream-key", metavar="VARIABLE", default="", help="The environment variable with the key of the upstream."
)
@click.option(
    "--upstream-timeout",
    type=int,
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long the upstream may be silent.",
)
@click.option(
    "--budget", type=int, default=24_000, show_default=True, metavar="TOKENS", help="The most tokens of a pack."
)
@click.option("--memory", is_flag=True, help="Give the conversations of users under /v1 a long-term memory and facts.")
@click.option("--allow-host", metavar="NAME", multiple=True, help="A host name that clients use.  [default: its own]")
@click.option(
    "--allow-origin", metavar="ORIGIN", multiple=True, help="Web pages that may use the server.  [default: none]"
)
@click.option("--behind-tls", is_flag=True, help="Clients come through a proxy that speaks TLS with them.")
@click.option(
    "--tokens",
    type=click.Path(exists=True, dir_okay=False),
    callback=_read_token_settings,
    help="A JSON file that says which tokens of an identity provider are accepted.",
)
@click.option(
    "--max-body", type=int, default=16 << 20, show_default=True, metavar="BYTES", help="The largest body of a request."
)
@click.option(
    "--request-timeout",
    type=int,
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long a request may take until its answer begins.",
)
@click.option(
    "--grace",
    type=int,
    default=20,
    show_default=True,
    metavar="SECONDS",
    help="How long running requests may go on after SIGTERM.",
)
@click.option(
    "--drain",
    type=int,
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="How long to accept requests after SIGTERM, while /readyz says no.",
)
@click.option(
    "--background/--no-background",
    default=True,
    show_default=True,
    help="Deliver ended conversations to the memory, and sweep.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least level of the log on stderr.",
)
@common_options
@click.pass_obj
def serve(settings: Settings, /, store: str | None, log_level: str, **options: Any) -> None:
    """Serve a store over HTTP: a file, or postgresql://….

    The log is on stderr, one JSON object a line; /healthz, /readyz and /metrics are for your tools. SIGTERM ends the server
    in order: it accepts nothing more, lets running requests end, and closes the store.

    Without keys it prints a token, which works until the first key exists. --tenant and --actor are those of the token; a
    key has its own.
    """
    try:
        from holdfast.server import run  # noqa: PLC0415 - an extra
        from holdfast.server.settings import ServerSettings  # noqa: PLC0415
    except ImportError as error:
        raise errors.ExtraMissing(what="holdfast serve", extra="server") from error
    chosen = ServerSettings(
        store=settings.file if store is None else store,
        host=options["host"],
        port=options["port"],
        workers=options["workers"],
        upstream=options["upstream"],
        upstream_kind=options["upstream_kind"] or "",
        upstream_key_variable=options["upstream_key"],
        upstream_s=options["upstream_timeout"],
        budget=options["budget"],
        memory=options["memory"],
        body_bytes=options["max_body"],
        request_s=options["request_timeout"],
        grace_s=options["grace"],
        drain_s=options["drain"],
        background=options["background"],
        allowed_hosts=tuple(options["allow_host"]),
        allowed_origins=tuple(options["allow_origin"]),
        behind_tls=options["behind_tls"],
        jwt=options["tokens"],
        local_tenant=settings.tenant,
        local_actor=settings.actor,
    )

    def announce(started: ServerSettings) -> None:
        host = f"[{started.host}]" if ":" in started.host else started.host
        url = f"http://{host}:{started.port}"
        if settings.json:
            print_json({"url": url, "token": started.token, "workers": started.workers})
            return
        print_line(f"Holdfast serves {mask_address(started.store)} at {url}")
        if started.token:
            print_line(f"Token with all rights, until the server ends or the store has a key: {started.token}")

    run.serve(chosen, announce=announce, log_level=log_level)
