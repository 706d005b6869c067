"""The settings of every command: file or server, tenant, actor, and output format.

Laws: a command that only reads never creates a file or a schema on a server; a password in an address is not shown; the
options can be written before or after the command name, and those after it take precedence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import click

import holdfast
from holdfast import errors
from holdfast.cli.output import (
    UNSAFE,
    format_count,
)
from holdfast.storage.addresses import POSTGRES_SCHEMES, mask_address

DEFAULT_FILE = "agent.db"
DEFAULT_PRINCIPAL = "cli"
"""The principal of commands that write, unless --principal names another."""
PAGE = 1_000
MAX_SUGGESTIONS = 10
"""The maximum number of suggestions in a message."""
SessionStatusFilter: TypeAlias = Literal["open", "closed", "destroyed"]
SessionListOrder: TypeAlias = Literal["recent", "name"]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass
class Settings:
    file: str = DEFAULT_FILE
    has_file: bool = False
    """Whether the file was named, by an option or the environment."""
    tenant: str = "default"
    has_tenant: bool = False
    actor: str | None = None
    json: bool = False

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.file.removeprefix("sqlite:///")

    @property
    def is_on_server(self) -> bool:
        return self.file.startswith(POSTGRES_SCHEMES)

    @property
    def display_address(self) -> str:
        """The path or the address, without a password."""
        return mask_address(self.file)

    def open(
        self, *, create: bool = False, principal: str = DEFAULT_PRINCIPAL, policy: holdfast.Policy | None = None
    ) -> holdfast.Engine:
        """Open the store. It must exist, unless `create` is true."""
        if not create:
            self.check_exists()
        return holdfast.open(self.file, tenant=self.tenant, principal=principal, policy=policy)

    def check_exists(self) -> None:
        if self.path in ("memory:", ":memory:"):
            raise errors.InvalidUrl(url=self.file, reason="a store in memory ends with the command that opened it")
        if not self.exists():
            raise errors.FileAbsent(path=self.display_address)
        if self.is_on_server:
            return
        if os.path.isdir(self.path):
            raise errors.InvalidUrl(url=self.file, reason="it is a folder")
        if os.path.getsize(self.path) == 0:
            raise errors.ForeignFile(path=self.file, reason="it is empty")

    def exists(self) -> bool:
        """Whether the store exists: a file, or tables on a server."""
        scheme, separator, _ = self.path.partition("://")
        if separator and not self.is_on_server:
            raise errors.InvalidUrl(url=self.display_address, reason=f"there is no store for the scheme {scheme!r}")
        if not self.is_on_server:
            return bool(self.path) and "\0" not in self.path and os.path.exists(self.path)
        try:
            from holdfast.storage.postgres.migrate import has_store  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise errors.ExtraMissing(what="a store on PostgreSQL", extra="postgres") from error
        return has_store(self.file)

    def find_session(self, engine: holdfast.Engine, name: str, thread: str | None) -> holdfast.Session:
        """Find a session by name. Without --actor: the session of the default actor, or else the only one of this name."""
        if self.actor is not None:
            return engine.session(name, actor=self.actor, thread=thread)
        try:
            return engine.session(name, thread=thread)
        except errors.SessionNotFound:
            rows = [row for row in iterate_sessions(engine) if row.session == name and thread in (None, row.thread)]
            if len(rows) == 1:
                return engine.session(name, actor=rows[0].actor, thread=rows[0].thread or None)
            if not rows:
                raise
        options = [f"--actor {row.actor!r}" + (f" --thread {row.thread!r}" if row.thread else "") for row in rows]
        suggestions = "; ".join(options[:MAX_SUGGESTIONS]) + ("; …" if len(options) > MAX_SUGGESTIONS else "")
        raise click.UsageError(f"There are {len(rows)} sessions {name!r}. Select one with {suggestions}")


def read_pages(read: Callable[[T | None], Sequence[T]]) -> Iterator[T]:
    """Yield all items, page by page. `read` returns the page after an item, or the first page."""
    last: T | None = None
    while page := read(last):
        yield from page
        last = page[-1]


def iterate_sessions(
    engine: holdfast.Engine,
    *,
    actor: str | None = None,
    status: SessionStatusFilter | None = None,
    order: SessionListOrder = "name",
) -> Iterator[holdfast.types.SessionRow]:
    """Yield all sessions of the tenant."""
    return read_pages(lambda last: engine.sessions(actor=actor, status=status, order=order, after=last, limit=PAGE))


def iterate_suspended(
    engine: holdfast.Engine, actor: str | None = None, session: str | None = None
) -> Iterator[holdfast.types.SuspendedFrame]:
    """Yield all suspended frames of the tenant."""
    return read_pages(lambda last: engine.suspended(actor=actor, session=session, after=last, limit=PAGE))


def _store_option(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        settings = context.ensure_object(Settings)
        if value in (None, False):
            return
        setattr(settings, name, value)
        if name in ("tenant", "file"):
            setattr(settings, f"has_{name}", True)

    return callback


def global_options(function: F) -> F:
    """Add the options of `holdfast` itself; environment variables are their defaults."""
    return _add_options(function, "-f", env=True)


def common_options(function: F) -> F:
    """Add the same options after the command name, where `-f` may have another meaning."""
    return _add_options(function, env=False)


def gateway_options(function: F) -> F:
    """The same for a command whose store is that of the gateway."""
    return _add_options(function, env=False, default_file="the gateway's own")


def _add_options(function: F, *short: str, env: bool, default_file: str = DEFAULT_FILE) -> F:
    file_help = f"The Holdfast file, or postgresql://….  [default: {default_file}]"
    for names, setting, variable, metavar, text in (
        (["--json"], "json", None, None, "Print JSON."),
        (["--actor"], "actor", "HOLDFAST_ACTOR", "NAME", "Only sessions of this actor.  [default: all actors]"),
        (["--tenant"], "tenant", "HOLDFAST_TENANT", "NAME", "The tenant.  [default: default]"),
        (["--file", *short], "file", "HOLDFAST_FILE", "PATH", file_help),
    ):
        option = click.option(
            *names,
            is_flag=metavar is None,
            default=None,
            metavar=metavar,
            type=click.Path() if setting == "file" else None,
            envvar=variable if env else None,
            show_envvar=env,
            expose_value=False,
            callback=_store_option(setting),
            help=text,
        )
        function = option(function)
    return function


def complete_session_names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Any]:
    """Complete the name of a session. If the store cannot be read, there are no completions and no error."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

    settings = context.find_object(Settings) or Settings()
    try:
        with settings.open() as engine:
            rows = [row for row in iterate_sessions(engine, actor=settings.actor) if row.session.startswith(typed)]
    except holdfast.HoldfastError:
        return []
    return [
        CompletionItem(row.session, help=f"{row.actor}, {row.status}, {format_count(row.messages, 'message')}")
        for row in rows[:PAGE]
        if not UNSAFE.search(row.session + row.actor)
    ]
