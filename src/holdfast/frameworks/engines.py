"""The engine behind an adapter: a blocking one, also where the framework awaits.

Law: an adapter has one logic, which blocks. What a framework awaits runs in a thread, so the loop goes on meanwhile, and
group commit serves all threads together.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import holdfast
from holdfast.core.sessions.decide import check_exists
from holdfast.errors import ExtraMissing, InvalidArgument, describe_value
from holdfast.flows.load import load_session_state
from holdfast.model.state import SessionState

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
    context = session._context
    state = session._drive(load_session_state(context.scope.stream, context.engine.cache, fresh=False))
    check_exists(state, context.scope)
    return state


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
