"""Which ledger a command is about, and as whom it is seen.

Laws: a ledger is always named, since a guess would show or change somebody else's facts; through a session everything is
seen and done as whoever speaks in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, get_args

import click
import msgspec

import holdfast
from holdfast.cli.settings import PAGE, SUGGESTED, Settings, session_names
from holdfast.cli.words import UNSAFE, count
from holdfast.model.names import LedgerKind
from holdfast.model.rows import ledger_of

F = TypeVar("F", bound=Callable[..., Any])

KINDS: tuple[LedgerKind, ...] = ("user", "project", "organization")
"""Those that go by one name; a session's own goes by the session's."""


class Whose(NamedTuple):
    """The names that were given."""

    user: str | None = None
    project: str | None = None
    organization: str | None = None
    session: str | None = None
    thread: str | None = None

    @property
    def named(self) -> dict[str, str]:
        return {kind: name for kind in KINDS if (name := getattr(self, kind)) is not None}


def _names(kind: LedgerKind) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Any]:
        """The ledgers that a half-typed name may mean; none, rather than an error, if they cannot be read."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

        settings = context.find_object(Settings) or Settings()
        try:
            with settings.open() as engine:
                found = [(ledger_of(row).names[0], row) for row in rows(engine, kind)]
        except holdfast.HoldfastError:
            return []
        wanted = [(name, row) for name, row in found if name.startswith(typed) and not UNSAFE.search(name)]
        return [CompletionItem(name, help=count(row.facts, "fact")) for name, row in wanted[:PAGE]]

    return complete


def kind_options(function: F) -> F:
    """The names of ledgers that are not a session's own."""
    for kind in reversed(KINDS):
        told = f"The ledger of this {kind}."
        function = click.option(f"--{kind}", metavar="NAME", shell_complete=_names(kind), help=told)(function)
    return function


def of_a_ledger(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command about one ledger: what was given to name it comes as `whose`."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in Whose._fields}
        return function(*args, whose=Whose(**given), **options)

    told = "The ledger of this session; with another name, that ledger as this session may see it."
    for option in (
        click.option("--thread", metavar="NAME", help="Which thread of the session."),
        click.option("--session", metavar="NAME", shell_complete=session_names, help=told),
        kind_options,
    ):
        command = option(command)
    return command


def chosen(settings: Settings, engine: holdfast.Engine, whose: Whose) -> holdfast.Ledger:
    """The ledger that these names mean."""
    named = whose.named
    if len(named) > 1:
        raise click.UsageError(f"One ledger at a time: {' or '.join(f'--{kind}' for kind in named)}.")
    if whose.session is not None:
        return settings.session(engine, whose.session, whose.thread).ledger(**named)
    if whose.thread is not None:
        raise click.UsageError("--thread goes with --session.")
    if not named:
        raise click.UsageError(f"Say whose facts. {there_are(settings, engine)}")
    return engine.ledger(**named)  # type: ignore[arg-type]


def there_are(settings: Settings, engine: holdfast.Engine) -> str:
    """Which ledgers there are, as one would name them."""
    found = rows(engine)
    some = [option_for(ledger_of(row)) for _, row in zip(range(SUGGESTED), found, strict=False)]
    if not some:
        return f"There is no ledger in the tenant {settings.tenant!r} yet."
    return f"There are: {'; '.join(some)}{'; …' if next(found, None) is not None else ''}"


def option_for(ledger: holdfast.LedgerId) -> str:
    """The options that name a ledger."""
    if ledger.kind != "session":
        return f"--{ledger.kind} {ledger.names[0]!r}"
    actor, session, *thread = ledger.names
    return f"--session {session!r} --actor {actor!r}" + "".join(f" --thread {each!r}" for each in thread)


def rows(engine: holdfast.Engine, kind: LedgerKind | None = None) -> Iterator[holdfast.LedgerRow]:
    """All of the tenant's ledgers, page by page."""
    last: holdfast.LedgerRow | None = None
    while page := engine.ledgers(kind=kind, after=last, limit=PAGE):
        yield from page
        last = page[-1]


def of_actor(row: holdfast.LedgerRow, actor: str | None) -> bool:
    """Whether a ledger is anybody's, or one of this actor's sessions' own."""
    return actor is None or (row.kind == "session" and ledger_of(row).names[0] == actor)


def policy_option(function: F) -> F:
    told = "Policy as JSON, for a store whose programs do not use the default one."
    return click.option("--policy", type=click.Path(exists=True, dir_okay=False), callback=_policy, help=told)(function)


def _policy(_context: click.Context, _parameter: click.Parameter, path: str | None) -> holdfast.Policy | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=holdfast.Policy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path!r} is no policy: {error}.") from error


ALL_KINDS: tuple[str, ...] = get_args(LedgerKind)
