"""`holdfast mcp`: serve a store by MCP on standard input and output, for one agent on this machine."""

from __future__ import annotations

import asyncio

import click

import holdfast
from holdfast.access.access import RIGHTS, Access
from holdfast.cli.settings import Settings, common_options
from holdfast.errors import ExtraMissing
from holdfast.model.sessions.layers import Identity


@click.command()
@click.argument("store", required=False)
@click.option("--user", metavar="NAME", help="The user whom the agent serves: facts are remembered for them.")
@click.option("--session", metavar="NAME", default="", help="The session to use when a tool names none.")
@click.option("--read-only", is_flag=True, help="Offer only the tools that read, and change nothing.")
@click.option(
    "--authority", metavar="ROLE", default="peer", show_default=True, help="The authority of what is written."
)
@click.option("--principal", metavar="NAME", default="mcp", show_default=True, help="Who acts, as the log says.")
@common_options
@click.pass_obj
def mcp(
    settings: Settings,
    store: str | None,
    user: str | None,
    session: str,
    read_only: bool,
    authority: str,
    principal: str,
) -> None:
    """Serve a store by MCP on standard input and output.

    STORE is a file, which is created, or a server; the default is that of --file. An agent starts this command itself: see
    the guide for Claude Desktop, Claude Code and Cursor. For many users, run `holdfast serve`, which has MCP at /mcp.
    """
    try:
        from holdfast.mcp.stdio import serve_stdio  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExtraMissing(what="MCP", extra="mcp") from error
    address = settings.file if store is None else store
    identity = None if user is None else Identity(user_id=user, user_name=user, authority=authority)
    access = Access(
        tenant=settings.tenant,
        principal=principal,
        rights=frozenset({"read"}) if read_only else frozenset(RIGHTS),
        actor=settings.actor,
        identity=identity,
    )
    if read_only:
        Settings(file=address, tenant=settings.tenant).check_exists()
    asyncio.run(_serve(address, access, session, serve_stdio))


async def _serve(address: str, access: Access, session: str, serve: object) -> None:
    async with await holdfast.open_async(address, tenant=access.tenant, principal=access.principal) as engine:
        await serve(engine, access, session)  # type: ignore[operator]
