"""`holdfast keys`: create, list, rotate and revoke the keys of a server, and read its audit.

Law: a secret is printed once, when it is made, to standard output; no list, error or log has it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

import holdfast
from holdfast.cli.documents import to_plain
from holdfast.cli.options import limit_option, principal_option, reason_option
from holdfast.cli.output import (
    StyledText,
    TableColumn,
    escape,
    format_timestamp,
    print_json,
    print_line,
    print_table,
    shorten,
)
from holdfast.cli.settings import Settings, common_options

if TYPE_CHECKING:
    from holdfast.access.audit import AuditEntry
    from holdfast.access.records import KeyRecord

T = TypeVar("T")
RIGHT_NAMES = ("read", "write", "model", "admin")
DAY_US = 86_400_000_000
DAY_S = 86_400
NAME_CHARS = 40
STATUS_STYLES = {"live": "green", "expired": "yellow", "revoked": "red"}
_KEY_COLUMNS = (
    TableColumn("KEY", whole=True),
    TableColumn("STATUS", whole=True),
    TableColumn("NAME"),
    TableColumn("TENANT"),
    TableColumn("USER"),
    TableColumn("RIGHTS", whole=True),
    TableColumn("CREATED", whole=True),
    TableColumn("EXPIRES", whole=True),
)
_AUDIT_COLUMNS = (
    TableColumn("TIME", whole=True),
    TableColumn("ACTION", whole=True),
    TableColumn("BY"),
    TableColumn("DETAILS", below=True),
)


@click.group()
def keys() -> None:
    """Create and revoke the keys of a server."""


def _run(settings: Settings, call: Callable[[holdfast.AsyncEngine], Awaitable[T]], *, create: bool = False) -> T:
    """Run a call on the store of the command."""
    import asyncio  # noqa: PLC0415 - only for these commands

    if not create:
        settings.check_exists()

    async def run() -> T:
        async with await holdfast.open_async(settings.file) as engine:
            return await call(engine)

    return asyncio.run(run())


@keys.command()
@click.argument("name")
@click.option(
    "--right",
    "rights",
    type=click.Choice(RIGHT_NAMES),
    multiple=True,
    default=("read", "write"),
    show_default=True,
    help="What the key may do; several times for several rights.",
)
@click.option("--user", metavar="ID", help="The key is of this user and acts as them.  [default: of a program]")
@click.option("--user-name", metavar="NAME", default="", help="The name of the user.")
@click.option("--authority", metavar="NAME", default="peer", show_default=True, help="The authority of the user.")
@click.option(
    "--permission", "permissions", metavar="NAME", multiple=True, help="A permission of the user; repeatable."
)
@click.option("--organization", metavar="NAME", default="", help="The organization of the user.")
@click.option("--department", metavar="NAME", default="", help="The department of the user.")
@click.option("--as", "acts_as", metavar="NAME", default="", help="The principal in the log.  [default: user or name]")
@click.option("--days", type=click.FloatRange(0, min_open=True), help="Days until the key expires.  [default: never]")
@click.option("--requests-per-minute", type=click.IntRange(1), metavar="NUMBER", help="The most requests.")
@click.option("--tokens-per-hour", type=click.IntRange(1), metavar="NUMBER", help="The most tokens of the model.")
@principal_option
@common_options
@click.pass_obj
def create(settings: Settings, /, name: str, principal: str, **options: Any) -> None:
    """Create a key, and print its secret once.

    --tenant is the tenant of the key, and --actor the only namespace of sessions that it may use: by default all of them
    for a program, and the id of the user for a user. A store that does not exist is created.
    """
    from holdfast.access.keys import create_key  # noqa: PLC0415 - only for these commands

    grant = _build_grant(settings, name, options)
    record, secret = _run(settings, lambda engine: create_key(engine, grant, by=principal), create=True)
    _print_secret(settings, record, secret)


def _build_grant(settings: Settings, name: str, options: dict[str, Any]) -> Any:
    from holdfast.access.records import KeyGrant  # noqa: PLC0415 - only for these commands

    identity = None
    fields = {field: options[field] for field in ("user_name", "organization", "department", "permissions")}
    if options["user"] is not None:
        identity = holdfast.Identity(user_id=options["user"], authority=options["authority"], **fields)
    elif any(fields.values()):
        given = next(field for field, value in fields.items() if value)
        option = {"permissions": "permission"}.get(given, given).replace("_", "-")
        raise click.UsageError(f"--{option} is about a user: pass --user, too.")
    days = options["days"]
    return KeyGrant(
        name=name,
        tenant=settings.tenant,
        principal=options["acts_as"],
        rights=options["rights"],
        actor=settings.actor,
        identity=identity,
        expires_us=None if days is None else _now_us() + round(days * DAY_US),
        requests_per_minute=options["requests_per_minute"],
        tokens_per_hour=options["tokens_per_hour"],
    )


@keys.command("list")
@click.option("--status", type=click.Choice(list(STATUS_STYLES)), help="Only keys with this status.  [default: all]")
@common_options
@click.pass_obj
def list_(settings: Settings, status: str | None) -> None:
    """List the keys, newest first.

    With --tenant, only the keys of that tenant. Secrets are not in the store: only their digests are.
    """
    from holdfast.access.keys import list_keys  # noqa: PLC0415 - only for these commands

    found = [
        record
        for record in reversed(_run(settings, list_keys))
        if status in (None, record.status(_now_us()))
        and (not settings.has_tenant or record.grant.tenant == settings.tenant)
    ]
    if settings.json:
        for record in found:
            print_json(_to_document(record))
    elif not found:
        print_line("There are no such keys. Create one with `holdfast keys create`.")
    else:
        print_table(_KEY_COLUMNS, map(_key_cells, found))


@keys.command()
@click.argument("key")
@common_options
@click.pass_obj
def show(settings: Settings, key: str) -> None:
    """Show one key, by its id."""
    from holdfast.access.keys import find_key  # noqa: PLC0415 - only for these commands

    _print_record(settings, _run(settings, lambda engine: find_key(engine, key)))


@keys.command()
@click.argument("key")
@click.option(
    "--overlap",
    type=click.IntRange(0),
    default=DAY_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the old secret works, too.",
)
@principal_option
@common_options
@click.pass_obj
def rotate(settings: Settings, key: str, overlap: int, principal: str) -> None:
    """Give a key a new secret, and print it once."""
    from holdfast.access.keys import rotate_key  # noqa: PLC0415 - only for these commands

    record, secret = _run(settings, lambda engine: rotate_key(engine, key, by=principal, overlap_s=overlap))
    _print_secret(settings, record, secret)


@keys.command()
@click.argument("key")
@reason_option
@principal_option
@common_options
@click.pass_obj
def revoke(settings: Settings, key: str, reason: str, principal: str) -> None:
    """Revoke a key for good.

    Running servers refuse it within seconds.
    """
    from holdfast.access.keys import revoke_key  # noqa: PLC0415 - only for these commands

    _print_record(settings, _run(settings, lambda engine: revoke_key(engine, key, by=principal, reason=reason)))


@keys.command()
@click.option("--action", metavar="NAME", help="Only entries of this action, such as login.refused.")
@limit_option(20)
@common_options
@click.pass_obj
def audit(settings: Settings, action: str | None, limit: int) -> None:
    """Show changes of keys, refused requests and maintenance.

    The newest come first.
    """
    from holdfast.access.audit import list_audit  # noqa: PLC0415 - only for these commands

    found = _run(settings, lambda engine: list_audit(engine, action=action, limit=limit))
    if settings.json:
        for entry in found:
            print_json({**to_plain(entry), "at": format_timestamp(entry.at_us)})
    elif not found:
        print_line("There are no such entries in the audit.")
    else:
        print_table(_AUDIT_COLUMNS, map(_audit_cells, found))


def _print_secret(settings: Settings, record: KeyRecord, secret: str) -> None:
    if settings.json:
        print_json({**_to_document(record), "key": str(secret)})
        return
    _print_record(settings, record)
    print_line("")
    print_line(StyledText(str(secret), "bold"))
    print_line("")
    print_line("This is the only time that the key is shown. Clients send it as `Authorization: Bearer …`.")


def _print_record(settings: Settings, record: KeyRecord) -> None:
    if settings.json:
        print_json(_to_document(record))
        return
    print_table(_KEY_COLUMNS, [_key_cells(record)])
    grant, identity = record.grant, record.grant.identity
    details = {
        "principal": grant.principal,
        "actor": grant.actor,
        "authority": None if identity is None else identity.authority,
        "permissions": None if identity is None else ", ".join(identity.permissions),
        "organization": None if identity is None else identity.organization,
        "department": None if identity is None else identity.department,
        "requests per minute": grant.requests_per_minute,
        "tokens per hour": grant.tokens_per_hour,
        "rotated": None if record.rotated_us is None else format_timestamp(record.rotated_us),
        "revoked": None if record.revoked_us is None else format_timestamp(record.revoked_us),
        "reason": record.revocation_reason,
    }
    for name, value in details.items():
        if value:
            print_line(StyledText(f"{name}: ", "dim"), escape(str(value)))


def _key_cells(record: KeyRecord) -> list[str | StyledText]:
    grant, status = record.grant, record.status(_now_us())
    return [
        StyledText(record.id, "bold"),
        StyledText(status, STATUS_STYLES[status]),
        shorten(grant.name, NAME_CHARS),
        shorten(grant.tenant, NAME_CHARS),
        "" if grant.identity is None else shorten(grant.identity.user_id, NAME_CHARS),
        " ".join(grant.rights),
        format_timestamp(record.created_us),
        "" if grant.expires_us is None else format_timestamp(grant.expires_us),
    ]


def _audit_cells(entry: AuditEntry) -> list[str | StyledText]:
    details = " ".join(f"{name}={value}" for name, value in entry.details.items())
    return [format_timestamp(entry.at_us), StyledText(escape(entry.action), "bold"), escape(entry.by), escape(details)]


def _to_document(record: KeyRecord) -> dict[str, Any]:
    """A key as JSON, without its digests."""
    return {
        "id": record.id,
        "prefix": record.prefix,
        "status": record.status(_now_us()),
        **to_plain(record.grant),
        "created_us": record.created_us,
        "rotated_us": record.rotated_us,
        "revoked_us": record.revoked_us,
        "revocation_reason": record.revocation_reason,
        "secrets": sum(each.until_us is None or each.until_us > _now_us() for each in record.digests),
        "created": format_timestamp(record.created_us),
    }


def _now_us() -> int:
    return time.time_ns() // 1_000
