"""The public surface shows true signatures at run time, and no call has too many parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import ports, types
from holdfast.render.pack import Pack
from holdfast.runtime import (
    admin,
    async_engine,
    async_facets,
    async_ledgers,
    async_sessions,
    engine,
    facets,
    ledgers,
    sessions,
)

ROOT = Path(__file__).parents[2]
MOST_PARAMETERS = 8
ADAPTERS = """
    a2a adk agent_framework anthropic claude frameworks langchain langgraph llama_index openai_agents pydantic_ai strands
""".split()
"""They are read, not imported: each needs its framework."""
OBJECTS = (
    *(each for each in vars(holdfast).values() if inspect.isclass(each)),
    *(getattr(holdfast, name) for name in holdfast.__all__ if inspect.isclass(getattr(holdfast, name))),
    *(getattr(types, name) for name in types.__all__ if inspect.isclass(getattr(types, name))),
    *(ports.EventStore, ports.BlobStore, ports.Detector, ports.Summarizer, ports.TokenCounter),
    *(
        member
        for module in (
            *(sessions, facets, ledgers, engine, admin),
            *(async_sessions, async_facets, async_ledgers, async_engine),
        )
        for name, member in vars(module).items()
        if inspect.isclass(member) and member.__module__ == module.__name__ and not name.startswith("_")
    ),
)


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield from ((name, getattr(holdfast, name)) for name in ("open", "open_async", "connect", "connect_async", "copy"))
    for owner in dict.fromkeys(OBJECTS):
        for name, member in inspect.getmembers(owner):
            function: Any = member.fget if isinstance(member, property) else member
            is_own = inspect.isfunction(function) and function.__module__.startswith("holdfast")
            if is_own and not name.startswith("_"):
                yield f"{owner.__name__}.{name}", function


FUNCTIONS = dict(public_functions())


def test_there_is_a_surface_to_check() -> None:
    assert len(FUNCTIONS) > 300
    assert {"Session.record", "AsyncFrame.pack", "FactsFacet.set", "AsyncAdmin.verify", "open"} <= set(FUNCTIONS)


def test_no_call_has_many_parameters() -> None:
    for name, function in FUNCTIONS.items():
        parameters = inspect.signature(function).parameters.values()
        counted = [each.name for each in parameters if each.name != "self" and each.kind is not each.VAR_KEYWORD]
        assert len(counted) <= MOST_PARAMETERS, f"{name}: {counted}"


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_no_call_of_an_adapter_has_many_parameters(adapter: str) -> None:
    modules = sorted((ROOT / "src" / "holdfast" / adapter).glob("*.py"))
    assert modules
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
                counted = [each for each in named if each not in ("self", "cls")]
                assert len(counted) <= MOST_PARAMETERS, f"{path.name}: {node.name}: {counted}"


def test_annotations_are_known_at_run_time() -> None:
    for name, function in FUNCTIONS.items():
        hints = typing.get_type_hints(function)
        parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
        assert {*parameters, "return"} <= set(hints), name


def test_every_method_of_a_session_says_what_it_does() -> None:
    for name, function in FUNCTIONS.items():
        if name.split(".")[0].endswith(("Session", "Frame", "Ledger", "Facet", "Engine", "Admin", "Blobs")):
            text = inspect.getdoc(function) or ""
            first = " ".join(text.split("\n\n")[0].split())
            assert re.match(r"[A-Z].*\S$", first), f"{name}: {text}"


def test_help_shows_the_true_signature() -> None:
    shown = pydoc.plain(pydoc.render_doc(holdfast.Session.record))
    assert "pack: 'holdfast.Pack | Literal[False] | None' = None" in shown
    assert "-> 'Message'" in shown
    assert "the newest pack of this conversation that this engine built" in shown
    assert typing.get_type_hints(holdfast.Session.pack)["return"] is Pack
    assert typing.get_type_hints(holdfast.AsyncSession.pack)["return"] is Pack


def loaded_modules(code: str) -> set[str]:
    code = f"import sys, holdfast; {code}; print(*sys.modules)"
    return {*subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()}


def test_an_import_loads_little() -> None:
    """True annotations cost no import, and neither do names that are not used."""
    modules = loaded_modules("pass")
    assert {each for each in modules if re.match(r"holdfast\.(runtime|flows|core|text|render|storage)", each)} == set()
    assert loaded_modules("holdfast.open('memory:')").isdisjoint({"holdfast.render.pack", "asyncio", "httpx2"})


def test_every_public_name_is_listed_and_loads() -> None:
    assert set(holdfast.__all__) <= set(dir(holdfast))
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is getattr(holdfast, name)
    absent = "Sessions"
    with pytest.raises(AttributeError, match="no attribute 'Sessions'"):
        getattr(holdfast, absent)


def test_the_async_twins_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        twins = importlib.import_module("twins")
    finally:
        sys.path.pop(0)
    for path, text in twins.build_all().items():
        assert path.read_text() == text, f"{path.name} is out of date: run `make twins`"
