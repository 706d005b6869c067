"""The engine behind an adapter: a blocking one, also where the framework awaits.

Law: an adapter has one logic, which blocks. What a framework awaits runs in a thread, so the loop goes on meanwhile, and
group commit serves all threads together.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import holdfast
from holdfast.errors import ExtraMissing, InvalidArgument, describe_value
from holdfast.flows.context import peek_session
from holdfast.flows.entries import entries
from holdfast.flows.facts import observation
from holdfast.model.sessions.messages import Message
from holdfast.model.state import SessionState
from holdfast.types import Entry, NewEntry

P = ParamSpec("P")
T = TypeVar("T")


def check_engine(engine: object) -> holdfast.Engine:
    """The engine, if it is a blocking one: of `holdfast.open()` or `holdfast.connect()`."""
    if isinstance(engine, holdfast.Engine):
        return engine
    reason = (
        f"{describe_value(engine)} is not an engine of holdfast.open() or holdfast.connect(); adapters use a blocking "
        "engine, and run it in threads where the framework awaits"
    )
    raise InvalidArgument(argument="engine", reason=reason)


def is_local(session: holdfast.Session) -> bool:
    """Whether this process has the store of a session open: a session of holdfast.connect() is of another class."""
    return type(session) is holdfast.Session


def peek_state(session: holdfast.Session) -> SessionState:
    """The state of a session as this process knows it. Others may have written since: a write that expects this version
    finds out. The store of a server is asked."""
    if not is_local(session):
        return session.state()
    return session._drive(peek_session(session._context))


def list_entries(session: holdfast.Session, *, is_known: bool, **options: Any) -> list[Entry]:
    """The entries of a session. `is_known`: the caller has just read it, so whether it exists is not looked up again."""
    if not is_known or not is_local(session):
        return session.entries.list(**options)
    return session._drive(entries.list_entries(session._context, is_known=True, **options))


def append_new_entry(session: holdfast.Session, new: NewEntry) -> None:
    """Append an entry with a random key: no other one is looked for under it."""
    if is_local(session):
        session._drive(entries.append_new(session._context, [new]))
    else:
        session.entries.append(new.kind, new.key, new.body, parent=new.parent)


def observe_recorded(session: holdfast.Session, message: Message) -> None:
    """Read facts from a message that the caller has just recorded or read: it is not read again."""
    if is_local(session):
        session._drive(observation.observe(session._context, message, is_known=True))
    else:
        session.observe(message)


async def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread, and wait for it. A cancelled caller does not wait; the function ends anyway, so
    what it stores is stored whole."""
    return await asyncio.to_thread(functools.partial(function, *args, **kwargs))


def require_package(package: str, what: str, extra: str) -> None:
    """Raise ExtraMissing if the framework of an adapter is not installed."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # the package that it is in is missing, too
        spec = None
    if spec is None:
        raise ExtraMissing(what=what, extra=extra)
