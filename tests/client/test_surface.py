"""A remote engine has exactly the surface of an embedded one, in both worlds."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.api.operations import LOCAL, OPERATIONS, SURFACE
from holdfast.client.worlds import AWAITED, BLOCKING, TWINS
from tests.client.serving import engine_server

PUBLIC = {**{each: each for each in SURFACE}, **TWINS}
"""Every public class, and its blocking twin."""


def public_members(owner: type) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers(owner):
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def remote_class(public: type) -> type:
    blocking = PUBLIC[public]
    return (BLOCKING if public is blocking else AWAITED)[blocking]


@pytest.mark.parametrize("public", PUBLIC, ids=lambda each: each.__name__)
def test_a_remote_class_has_the_names_and_signatures_of_its_public_one(public: type) -> None:
    remote = remote_class(public)
    assert issubclass(remote, public)
    expected = dict(public_members(public))
    assert {name for name, _ in public_members(remote)} == set(expected)
    for name, member in expected.items():
        found = inspect.getattr_static(remote, name)
        assert type(found) is type(inspect.getattr_static(public, name)), name
        if inspect.isfunction(member):
            assert inspect.signature(found) == inspect.signature(member), name
            assert inspect.iscoroutinefunction(found) == inspect.iscoroutinefunction(member), name
            assert found.__doc__ == member.__doc__, name


def inherited_methods(public: type) -> set[str]:
    """The methods of a remote class that are those of the embedded engine."""
    remote = remote_class(public)
    return {
        name
        for name, member in public_members(public)
        if inspect.isfunction(member) and inspect.getattr_static(remote, name) is inspect.getattr_static(public, name)
    }


def test_nothing_runs_on_a_store_of_its_own() -> None:
    """All that is inherited works on the other methods alone."""
    found = {f"{public.__name__}.{name}" for public in PUBLIC for name in inherited_methods(public)}
    assert found == {"Admin.sweeper", "AsyncAdmin.sweeper"}


def test_the_table_and_the_local_methods_are_all_there_is() -> None:
    listed = {f"{each.owner.__name__}.{each.method}" for each in OPERATIONS} | set(LOCAL)
    assert {f"{owner.__name__}.{name}" for owner in SURFACE for name in _methods(owner)} <= listed


def _methods(owner: type) -> set[str]:
    return {name for name, member in public_members(owner) if inspect.isfunction(member)}


def test_every_object_of_a_remote_engine_is_one_of_the_public_classes() -> None:
    address, served = engine_server().open("memory:")
    try:
        with holdfast.connect(address) as engine:
            session = engine.session("s", user="ada", create=True)
            frame = session.frame("work", budget=10)
            assert isinstance(engine, holdfast.Engine)
            assert isinstance(session, holdfast.Session)
            assert isinstance(frame, holdfast.Frame)
            assert isinstance(session.ledger(user="ada"), holdfast.Ledger)
            assert isinstance(session.frames.get(frame.id), holdfast.Frame)
            facets = (
                "context",
                "packs",
                "handles",
                "situation",
                "facts",
                "frames",
                "working",
                "environment",
                "entries",
            )
            for name in facets:
                assert type(getattr(session, name)).__name__.startswith("Remote"), name

        async def check() -> None:
            async with await holdfast.connect_async(address) as engine:
                assert isinstance(engine, holdfast.AsyncEngine)
                session = await engine.session("s")
                assert isinstance(session, holdfast.AsyncSession)
                async with session.frame("other", budget=10) as frame:
                    assert isinstance(frame, holdfast.AsyncFrame)
                assert (await frame.state()).status == "completed"

        asyncio.run(check())
    finally:
        engine_server().close(address, served)


def test_wrong_arguments_are_refused_as_python_does() -> None:
    address, served = engine_server().open("memory:")
    try:
        with holdfast.connect(address) as engine:
            session: Any = engine.session("s", create=True)
            with pytest.raises(TypeError, match="unexpected keyword argument 'roll'"):
                session.record("user", "hi", roll=1)
            with pytest.raises(TypeError, match="missing a required argument"):
                session.result("c1_0")
            with pytest.raises(TypeError):
                session.run("c1_0", None, twice=True)
    finally:
        engine_server().close(address, served)


def test_an_import_loads_no_client() -> None:
    code = "import sys, holdfast; holdfast.open('memory:').close(); print('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
