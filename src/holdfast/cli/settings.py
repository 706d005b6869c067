"""What every command takes: which file or server, whose sessions, and in which form to answer.

Laws: looking never makes a file, nor a schema on a server; a password in an address is not shown; the options stand
before the command or after it, and the nearer one counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import click

import holdfast
from holdfast import errors
from holdfast.cli.words import UNSAFE, count
from holdfast.model.addresses import POSTGRES, shown_address

DEFAULT_FILE = "agent.db"
PRINCIPAL = "cli"
"""In whose name the few commands that write do so, unless they are told another."""
PAGE = 1_000
SUGGESTED = 10
"""Places named in a message, at most."""

Status: TypeAlias = Literal["open", "closed", "destroyed"]
Order: TypeAlias = Literal["recent", "name"]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    file: str = DEFAULT_FILE
    tenant: str = "default"
    tenant_given: bool = False
    actor: str | None = None
    json: bool = False

    @property
    def path(self) -> str:
        """The file's name in the file system."""
        return self.file.removeprefix("sqlite:///")

    @property
    def on_server(self) -> bool:
        return self.file.startswith(POSTGRES)

    @property
    def shown(self) -> str:
        """The file's name or the address, as others may see it."""
        return shown_address(self.file)

    def open(
        self, *, create: bool = False, principal: str = PRINCIPAL, policy: holdfast.Policy | None = None
    ) -> holdfast.Engine:
        """The engine on the store, which must be there already unless this command may begin one."""
        if not create:
            self.check_present()
        return holdfast.open(self.file, tenant=self.tenant, principal=principal, policy=policy)

    def check_present(self) -> None:
        if self.path in ("memory:", ":memory:"):
            raise errors.InvalidUrl(url=self.file, reason="nothing is kept in memory from one command to the next")
        if not self.begun():
            raise errors.FileAbsent(path=self.shown)
        if self.on_server:
            return
        if os.path.isdir(self.path):
            raise errors.InvalidUrl(url=self.file, reason="it is a folder")
        if os.path.getsize(self.path) == 0:
            raise errors.ForeignFile(path=self.file, reason="it is empty")

    def begun(self) -> bool:
        """Whether there is anything yet, be it a file or tables on a server."""
        scheme, separator, _ = self.path.partition("://")
        if separator and not self.on_server:
            raise errors.InvalidUrl(url=self.shown, reason=f"no store for {scheme!r} is known here")
        if not self.on_server:
            return bool(self.path) and "\0" not in self.path and os.path.exists(self.path)
        try:
            from holdfast.storage.postgres.migrate import present  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise errors.ExtraMissing(what="a store on PostgreSQL", extra="postgres") from error
        return present(self.file)

    def session(self, engine: holdfast.Engine, name: str, thread: str | None) -> holdfast.Session:
        """The session of this name; if nobody says whose, the default actor's, or else the only one there is."""
        if self.actor is not None:
            return engine.session(name, actor=self.actor, thread=thread)
        try:
            return engine.session(name, thread=thread)
        except errors.SessionNotFound:
            found = [row for row in rows(engine) if row.session == name and thread in (None, row.thread)]
            if len(found) == 1:
                return engine.session(name, actor=found[0].actor, thread=found[0].thread or None)
            if not found:
                raise
        places = [f"--actor {row.actor!r}" + (f" --thread {row.thread!r}" if row.thread else "") for row in found]
        named = "; ".join(places[:SUGGESTED]) + ("; …" if len(places) > SUGGESTED else "")
        raise click.UsageError(f"There are {len(found)} sessions {name!r}. Say which one: {named}")


def rows(
    engine: holdfast.Engine, *, actor: str | None = None, status: Status | None = None, order: Order = "name"
) -> Iterator[holdfast.SessionRow]:
    """All of the tenant's sessions, page by page."""
    last: holdfast.SessionRow | None = None
    while page := engine.sessions(actor=actor, status=status, order=order, after=last, limit=PAGE):
        yield from page
        last = page[-1]


def resting(
    engine: holdfast.Engine, actor: str | None = None, session: str | None = None
) -> Iterator[holdfast.Suspended]:
    """All of the tenant's suspended frames, page by page."""
    last: holdfast.Suspended | None = None
    while page := engine.suspended(actor=actor, session=session, after=last, limit=PAGE):
        yield from page
        last = page[-1]


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        settings = context.ensure_object(Settings)
        if value in (None, False):
            return
        setattr(settings, name, value)
        if name == "tenant":
            settings.tenant_given = True

    return callback


def global_options(function: F) -> F:
    """The options of `holdfast` itself, with the environment as their second source."""
    return _options(function, "-f", env=True)


def common(function: F) -> F:
    """The same options after the command's name, where `-f` may mean something else."""
    return _options(function, env=False)


def _options(function: F, *short: str, env: bool) -> F:
    file_help = f"The Holdfast file, or postgresql://….  [default: {DEFAULT_FILE}]"
    for names, keep, variable, metavar, text in (
        (["--json"], "json", None, None, "Answer in JSON."),
        (["--actor"], "actor", "HOLDFAST_ACTOR", "NAME", "Whose sessions.  [default: anyone's]"),
        (["--tenant"], "tenant", "HOLDFAST_TENANT", "NAME", "Which tenant's.  [default: default]"),
        (["--file", *short], "file", "HOLDFAST_FILE", "PATH", file_help),
    ):
        option = click.option(
            *names,
            is_flag=metavar is None,
            default=None,
            metavar=metavar,
            type=click.Path() if keep == "file" else None,
            envvar=variable if env else None,
            show_envvar=env,
            expose_value=False,
            callback=_keep(keep),
            help=text,
        )
        function = option(function)
    return function


def session_names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Any]:
    """The sessions that a half-typed name may mean; none, rather than an error, if they cannot be read."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

    settings = context.find_object(Settings) or Settings()
    try:
        with settings.open() as engine:
            found = [row for row in rows(engine, actor=settings.actor) if row.session.startswith(typed)]
    except holdfast.HoldfastError:
        return []
    return [
        CompletionItem(row.session, help=f"{row.actor}, {row.status}, {count(row.messages, 'message')}")
        for row in found[:PAGE]
        if not UNSAFE.search(row.session + row.actor)
    ]
