"""One checkout, measured from inside: `python -P structure_probe.py CHECKOUT ORDER`, with its `src` on PYTHONPATH.

The orders are `names`, `paths` and `append FILE`; the answer is JSON. Older versions of Holdfast have all that is called
here, so that one probe measures both sides of a change.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast

PACKAGE = Path(holdfast.__file__).parent
BUDGET = 4_000
WARM_TURNS = 3
WARM_MESSAGES = 400
BRIEF = "You run the orders desk of a wholesaler. Look things up before you answer."
FACTS = {"shipping_address": "123 Main St", "customer": "Ada Lovelace", "meeting_day": "Tuesday"}

CallPath = list[Path]
"""The file of each function of Holdfast that was entered, in order."""


def main(checkout: str, order: str, *arguments: str) -> None:
    assert Path(checkout) in PACKAGE.parents, f"{PACKAGE} is not of {checkout}"
    if order == "append":
        append(*arguments)
    else:
        print(json.dumps(count_names() if order == "names" else trace_paths()))


def count_names() -> dict[str, int]:
    counts = {"holdfast": len(set(holdfast.__all__))}
    try:
        counts["holdfast.types"] = len(set(importlib.import_module("holdfast.types").__all__))
    except ModuleNotFoundError:
        counts["holdfast.types"] = 0
    with holdfast.open(":memory:") as engine:
        session = engine.create_session("only")
        for handle in (engine, session, session.frame("check the orders", budget=2_000), session.ledger()):
            own, facets = find_members(handle), dict[str, int]()
            for name in own:
                if is_facet(value := read_attribute(handle, name)):
                    facets[name] = len(find_members(value))
            name = type(handle).__name__
            counts[name] = len(own) - len(facets)
            counts[f"{name}: facets"] = len(facets)
            counts[f"{name}: members of its facets"] = sum(facets.values())
    return counts


def find_members(handle: object) -> list[str]:
    return [name for name in dir(handle) if not name.startswith("_")]


def read_attribute(handle: object, name: str) -> object:
    """The value of an attribute; None for a method."""
    static = inspect.getattr_static(handle, name)
    return None if inspect.isroutine(static) else getattr(handle, name)


def is_facet(value: object) -> bool:
    """Whether this is an object of the runtime that holds methods of another, and no handle of its own."""
    kind = type(value)
    handles = (holdfast.Engine, holdfast.Session, holdfast.Frame, holdfast.Ledger)
    return kind.__module__.startswith("holdfast.runtime") and kind not in handles


def trace_paths() -> dict[str, dict[str, Any]]:
    """What each operation walks through, after the same operation was done a few times."""
    with tempfile.TemporaryDirectory() as folder, holdfast.open(Path(folder) / "log.db") as engine:
        plain = engine.create_session("plain")
        cold = {"record": trace(lambda: plain.record("user", "Hello."))}
        record_messages(plain)
        session = engine.create_session("full")
        ledger: Any = session.ledger()
        assert_fact = getattr(ledger, "set", None) or ledger.assert_
        for name, value in FACTS.items():
            assert_fact(name, value)
        record_messages(session)
        frame = session.frame("check the open orders", budget=2_000)
        frame.record("user", "Check which orders are still open.")
        for turn in range(WARM_TURNS):
            warm = {
                "record": trace(lambda: session.record("user", "Where is the order of last week?")),
                "pack, messages only": trace(lambda: build_pack(plain)),
                "pack": trace(lambda: build_pack(session)),
                "observe": trace(lambda turn=turn: observe(session, turn)),  # type: ignore[misc]
            }
            cold = warm | cold
            build_pack(session)
            session.record("assistant", "It has left the warehouse.")
            plain.record("assistant", "It has left the warehouse.")
            plain.record("user", "Where is the order of last week?")
    return {name: describe_path(path) | {"cold": describe_path(cold[name])} for name, path in warm.items()}


def record_messages(session: Any) -> None:
    """Twenty messages: five questions, each with a tool call, its result and a reply."""
    for number in range(5):
        session.record("user", f"Where is order {number}, and when does it arrive?")
        function = {"name": "find_order", "arguments": json.dumps({"order": number})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        session.record_all(
            [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": f"order {number}: shipped, 3 boxes. " * 20},
            ]
        )
        session.record("assistant", f"Order {number} has left for 123 Main St; it arrives on Friday.")


def build_pack(session: Any) -> None:
    session.pack(budget=BUDGET, brief=holdfast.Brief(prompt=BRIEF))


def observe(session: Any, number: int) -> None:
    session.observe(f"Actually, my shipping address is now {456 + number} Oak Ave.")


def trace(work: Callable[[], object]) -> CallPath:
    """The path of one call. A generator counts where it starts, not each time it goes on."""
    frames: dict[int, FrameType] = {}  # they are held, so that no id comes twice
    prefix = f"{PACKAGE}/"

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(prefix):
            frames.setdefault(id(frame), frame)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return [Path(frame.f_code.co_filename).relative_to(PACKAGE) for frame in frames.values()]


def describe_path(path: CallPath) -> dict[str, Any]:
    rooms = [each.parent for each in path]
    return {
        "calls": len(path),
        "files": sorted(map(str, set(path))),
        "rooms": sorted(map(str, set(rooms))),
        "file_changes": count_changes(path),
        "room_changes": count_changes(rooms),
        "layer_changes": count_changes([Path(each.parts[0]) for each in path]),
    }


def count_changes(items: list[Path]) -> int:
    return sum(before != after for before, after in itertools.pairwise(items))


def append(file: str) -> None:
    """For each line of standard input, a number: so many durable appends, and what they took."""
    with holdfast.open(file) as engine:
        for number in range(12):  # past the first checkpoint, the write-ahead log grows no more
            messages = [("user", text(each)) for each in range(WARM_MESSAGES)]
            engine.create_session(f"warm-{number}").record_all(messages)
        session = engine.create_session("only")
        numbers = itertools.count()
        for line in sys.stdin:
            texts = [text(next(numbers)) for _ in range(int(line))]
            cpu, wall = time.process_time(), time.perf_counter()
            for each in texts:
                session.record("assistant", each)
            print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), flush=True)


def text(number: int) -> str:
    return f"{number:08d} The build failed in the third step, because the linker could not find a symbol. " * 5


if __name__ == "__main__":
    main(*sys.argv[1:])
