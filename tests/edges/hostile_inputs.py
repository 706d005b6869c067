"""Every value at every entrance: taken whole, or refused by a typed error with nothing stored."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.errors import HoldfastError, InvalidInput
from tests import hostile
from tests.edges.engines import EngineDesk, store_of
from tests.edges.input_cases import InputCase
from tests.hostile import HostileCase

MESSAGE_CHARS = 2_000


ASYNC_SAMPLE = 4
"""What awaits is the same code behind another driver: it is tried with one in so many."""


def create_default_session(tenant: Any) -> None:
    tenant.create_session("s").record("user", "before")


def check_inputs(
    desk: EngineDesk,
    kind: str,
    entrances: Mapping[str, InputCase],
    sample: int,
    begin: Callable[[Any], object] = create_default_session,
) -> Any:
    """Try one hostile value in `sample` at each entrance, another one at each, and return the engine. `begin` makes what is
    there before."""
    wrong: dict[str, list[str]] = defaultdict(list)
    engine = desk.open(kind)
    every = sample * ASYNC_SAMPLE if "awaited" in kind else sample
    for number, (name, entrance) in enumerate(entrances.items()):
        tenant = engine.acting_as(tenant=f"t{number}")
        begin(tenant)
        shift = zlib.crc32(name.encode())
        for at, case in enumerate(hostile.CASES):
            if (at + shift) % every == 0 and (trouble := _find_fault(tenant, entrance, case, at)):
                wrong[f"{name}: {trouble}"].append(case.name)
    said = "\n".join(f"{what}: {cases[:5]}" for what, cases in wrong.items())
    assert not wrong, said.encode(errors="replace").decode()
    return engine


def _find_fault(engine: Any, entrance: InputCase, case: HostileCase, number: int) -> str:
    """What is wrong with what comes back; nothing if it is as it should be."""
    entrance.prepare(engine, number)
    before, value = store_of(engine).totals(), case.make()
    try:
        back = entrance.use(engine, value, number)
    except HoldfastError as error:
        fits = isinstance(error, InvalidInput) or (isinstance(error, entrance.also) and entrance.fits(value))
        if not fits or not is_printable(error):
            return f"{type(error).__name__}: {error}"[:200]
        return "" if store_of(engine).totals() == before else "refused, and something was stored"
    except Exception as error:
        return "" if isinstance(error, entrance.also) else f"raw {type(error).__name__}: {error}"[:200]
    if not entrance.fits(value):
        return "taken, but no value of this kind should be"
    expected = entrance.expected(case.make())
    same = back is value or (type(back) is type(expected) and _encode(back) == _encode(expected))
    return "" if same else f"not what went in: {back!r:.100}"


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def is_printable(error: HoldfastError) -> bool:
    """Whether it says something that fits a log."""
    return len(str(error).encode()) > 0 and len(str(error)) < MESSAGE_CHARS
