"""Options that commands share, and the selection of a ledger by its name.

Laws: the caller always names the ledger, since a guess could show or change the facts of another user; with `--session`,
everything is read and written with the identity of that session.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypeVar, get_args

import click
import msgspec

import holdfast
from holdfast.cli.output import (
    UNSAFE,
    format_count,
)
from holdfast.cli.settings import (
    DEFAULT_PRINCIPAL,
    MAX_SUGGESTIONS,
    PAGE,
    Settings,
    complete_session_names,
    read_pages,
)
from holdfast.model.names import LedgerKind
from holdfast.model.rows import ledger_of

F = TypeVar("F", bound=Callable[..., Any])


def limit_option(default: int) -> Callable[[F], F]:
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(0),
        default=default,
        show_default=True,
        help="The maximum number; 0 for all.",
    )


session_argument = click.argument("session", shell_complete=complete_session_names)


thread_option = click.option("--thread", metavar="NAME", help="The thread of the session.")
principal_option = click.option(
    "--principal",
    metavar="NAME",
    default=DEFAULT_PRINCIPAL,
    show_default=True,
    help="The principal who makes the change.",
)
reason_option = click.option("--reason", metavar="TEXT", default="", help="The reason; it is stored.")
frame_option = click.option(
    "--frame",
    metavar="FRAME",
    help="Use the conversation of this frame; `top` is the top of the frame stack.",
)
window_option = click.option(
    "--window", type=click.IntRange(1), metavar="TOKENS", help="The size of the context window."
)
model_option = click.option("--model", metavar="NAME", help="The model.  [default: the model of the last reply]")
SHARED_KINDS: tuple[LedgerKind, ...] = ("user", "project", "organization")
"""The kinds of ledgers with one name. The ledger of a session has the names of the session."""


def open_conversation(
    settings: Settings, engine: holdfast.Engine, session: str, thread: str | None, frame: str | None
) -> Any:
    """Open a session, or a frame in it."""
    conversation = settings.find_session(engine, session, thread)
    return conversation if frame is None else conversation.frames.get(frame)


class LedgerSelector(NamedTuple):
    """The names of a ledger on the command line."""

    user: str | None = None
    project: str | None = None
    organization: str | None = None
    session: str | None = None
    thread: str | None = None

    @property
    def ledger_names(self) -> dict[str, str]:
        return {kind: name for kind in SHARED_KINDS if (name := getattr(self, kind)) is not None}


def _build_name_completion(kind: LedgerKind) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[Any]:
        """The ledgers that a half-typed name may mean; none, rather than an error, if they cannot be read."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while completing

        settings = context.find_object(Settings) or Settings()
        try:
            with settings.open() as engine:
                rows = [(ledger_of(row).names[0], row) for row in iterate_ledgers(engine, kind)]
        except holdfast.HoldfastError:
            return []
        matches = [(name, row) for name, row in rows if name.startswith(typed) and not UNSAFE.search(name)]
        return [CompletionItem(name, help=format_count(row.facts, "fact")) for name, row in matches[:PAGE]]

    return complete


def ledger_options(function: F) -> F:
    """Add the options that name a shared ledger."""
    for kind in reversed(SHARED_KINDS):
        text = f"The ledger of this {kind}."
        function = click.option(f"--{kind}", metavar="NAME", shell_complete=_build_name_completion(kind), help=text)(
            function
        )
    return function


def with_ledger(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a ledger to a command, which gets them as `selector`."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        names = {name: options.pop(name) for name in LedgerSelector._fields}
        return function(*args, selector=LedgerSelector(**names), **options)

    text = "The ledger of this session; or the identity to use, if another ledger is named."
    for option in (
        click.option("--thread", metavar="NAME", help="The thread of the session."),
        click.option("--session", metavar="NAME", shell_complete=complete_session_names, help=text),
        ledger_options,
    ):
        command = option(command)
    return command


def select_ledger(settings: Settings, engine: holdfast.Engine, selector: LedgerSelector) -> holdfast.Ledger:
    """Open the selected ledger."""
    named = selector.ledger_names
    if len(named) > 1:
        raise click.UsageError(f"Name one ledger: {' or '.join(f'--{kind}' for kind in named)}.")
    if selector.session is not None:
        return settings.find_session(engine, selector.session, selector.thread).ledger(**named)
    if selector.thread is not None:
        raise click.UsageError("--thread needs --session.")
    if not named:
        raise click.UsageError(f"Name a ledger. {describe_ledgers(settings, engine)}")
    return engine.ledger(**named)  # type: ignore[arg-type]


def describe_ledgers(settings: Settings, engine: holdfast.Engine) -> str:
    """List the first ledgers, with the options that name them."""
    rows = iterate_ledgers(engine)
    names = [format_ledger_option(ledger_of(row)) for _, row in zip(range(MAX_SUGGESTIONS), rows, strict=False)]
    if not names:
        return f"There is no ledger in the tenant {settings.tenant!r} yet."
    return f"There are: {'; '.join(names)}{'; …' if next(rows, None) is not None else ''}"


def format_ledger_option(ledger: holdfast.types.LedgerId) -> str:
    """Return the options that name a ledger."""
    if ledger.kind != "session":
        return f"--{ledger.kind} {ledger.names[0]!r}"
    actor, session, *thread = ledger.names
    return f"--session {session!r} --actor {actor!r}" + "".join(f" --thread {name!r}" for name in thread)


def iterate_ledgers(engine: holdfast.Engine, kind: LedgerKind | None = None) -> Iterator[holdfast.types.LedgerRow]:
    """Yield all ledgers of the tenant."""
    return read_pages(lambda last: engine.ledgers(kind=kind, after=last, limit=PAGE))


def belongs_to_actor(row: holdfast.types.LedgerRow, actor: str | None) -> bool:
    """Whether a ledger belongs to a session of this actor; without an actor, every ledger matches."""
    return actor is None or (row.kind == "session" and ledger_of(row).names[0] == actor)


def policy_option(function: F) -> F:
    text = "A policy as a JSON file, if the programs of this store do not use the default policy."
    return click.option("--policy", type=click.Path(exists=True, dir_okay=False), callback=_read_policy, help=text)(
        function
    )


def _read_policy(_context: click.Context, _parameter: click.Parameter, path: str | None) -> holdfast.Policy | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=holdfast.Policy)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path!r} is not a policy: {error}.") from error


LEDGER_KINDS: tuple[str, ...] = get_args(LedgerKind)


def date_option(name: str, text: str) -> Callable[[F], F]:
    """An option with a date, or a time in ISO 8601; without a time zone it is UTC."""

    def parse(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
        try:
            return None if value is None else _parse_date(value, is_end=name == "--until")
        except (ValueError, OverflowError) as error:
            reason = f"{value!r} is not a date such as 2026-01-31, or a time such as 2026-01-31T12:00."
            raise click.BadParameter(reason) from error

    return click.option(name, metavar="DATE", callback=parse, help=text)


def _parse_date(text: str, *, is_end: bool) -> datetime:
    """The start of a day, or its end; or a time."""
    if len(text) <= len("2026-01-31"):
        start = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
        return start + timedelta(days=1, microseconds=-1) if is_end else start
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
