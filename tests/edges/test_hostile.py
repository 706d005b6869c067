"""Promise 13: more than five hundred hostile values at every entrance of the public API.

Each is either accepted and comes back as it went in, also after reopening and after an export into the other backend, or it
is refused with a typed error that can be printed, and nothing has changed. In memory and on SQLite, blocking and awaited:
the same answer.
"""

from __future__ import annotations

import pickle
import re
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast import errors
from holdfast.errors import HoldfastError, InvalidInput, StorageError
from holdfast.model import limits
from holdfast.testing import hostile
from holdfast.testing.hostile import Case
from tests.edges.engines import SQLITE, Desk, contents, log_of, rows_of, store_of
from tests.edges.entrances import BODY, ENTRANCES, Entrance

ENGINES = ("memory", "sqlite", "sqlite awaited")
MESSAGE_CHARS = 2_000
SHOWN_ANSWERS = 20
SHOWN_CASES = 5

_ADDRESS = re.compile("x[0-9a-f]{8,}")


def test_there_are_more_than_five_hundred_different_cases() -> None:
    assert len(hostile.CASES) > 500
    assert len({case.name for case in hostile.CASES}) == len(hostile.CASES)
    assert len({case.make() for case in hostile.TEXTS}) == len(hostile.TEXTS)


@pytest.mark.parametrize("name", ENTRANCES)
def test_every_value_comes_back_or_is_refused_alike_everywhere(name: str, desk: Desk) -> None:
    engines = {kind: desk.open(kind) for kind in ENGINES}
    for engine in engines.values():
        engine.create_session("s").record("user", "before")
        engine.put_blob(BODY)
    wrong: dict[str, list[str]] = defaultdict(list)
    for number, case in enumerate(hostile.CASES):
        answers = {kind: _answer(engine, ENTRANCES[name], case, number) for kind, engine in engines.items()}
        said = {kind: text for kind, (text, _) in answers.items()}
        if len(set(said.values())) > 1:
            wrong[f"not the same everywhere: {said}"].append(case.name)
        elif not all(right for _, right in answers.values()):
            wrong[said["memory"]].append(case.name)
    for trouble in _not_lasting(desk, engines):
        wrong[trouble].append("afterwards")
    assert not wrong, _summary(wrong)


def _answer(engine: Any, entrance: Entrance, case: Case, number: int) -> tuple[str, bool]:
    """What was said, and whether that was right."""
    entrance.prepare(engine, number)
    before = _marks(engine)
    value = case.make()
    try:
        back = entrance.use(engine, value, number)
    except HoldfastError as error:
        message = _ADDRESS.sub("x…", str(error)) if _printable(error) else "not printable"
        said = f"{type(error).__name__}: {message}"
        typed = isinstance(error, InvalidInput) or (isinstance(error, entrance.also) and entrance.fits(value))
        return said, typed and _printable(error) and _marks(engine) == before
    except Exception as error:
        return f"raw {type(error).__name__}", isinstance(error, entrance.also)
    if not entrance.fits(value):
        return "accepted, but no value of this kind should be", False
    return "accepted", _same(back, entrance.expected(case.make()))


def _marks(engine: Any) -> object:
    totals = store_of(engine).totals()
    return totals.streams, totals.events, totals.keys, sum(1 for _ in engine.blobs.stored())


def _printable(error: HoldfastError) -> bool:
    return len(str(error).encode("utf-8")) > 0 and len(str(error)) < MESSAGE_CHARS


def _same(back: Any, given: Any) -> bool:
    """Equal all the way down, in kind as well: 1 is not 1.0, 0.0 is not -0.0, a list is not a tuple."""
    if type(back) is not type(given):
        return False
    if isinstance(back, float):
        return struct.pack("d", back) == struct.pack("d", given)
    if isinstance(back, list | tuple):
        return len(back) == len(given) and all(map(_same, back, given))
    if isinstance(back, dict):
        return back.keys() == given.keys() and all(_same(back[key], given[key]) for key in back)
    return bool(back == given)


def _not_lasting(desk: Desk, engines: dict[str, holdfast.Engine]) -> Iterator[str]:
    """What is wrong with what was kept: everywhere, after reopening, and after an export into the other backend."""
    kept = contents(engines["memory"])
    for kind, engine in engines.items():
        if contents(engine) != kept:
            yield f"{kind}: it kept something else than the others"
        yield from (f"{kind}: {problem}" for problem in engine.verify().problems)
    for kind in SQLITE:
        engines[kind].close()
        if contents(desk.open(kind)) != kept:
            yield f"{kind}: something else is there after reopening"
    for source, target in (("memory", "sqlite"), ("sqlite", "memory")):
        path = desk.folder / f"{source}.jsonl"
        copy = desk.open(target, name="copy")
        try:
            desk.open(source).export(path) if source == "sqlite" else engines[source].export(path)
            copy.import_(path)
        except HoldfastError as error:
            yield f"from {source} to {target}: {error}"
        else:
            if (log_of(copy), rows_of(copy)) != kept[:2]:
                yield f"from {source} to {target}: something else arrived"
    yield from (f"left behind: {path}" for path in desk.folder.rglob("*.partial"))


def _summary(wrong: dict[str, list[str]]) -> str:
    lines = (
        f"{len(names)} × {said:.300}: {', '.join(names[:SHOWN_CASES])}"
        for said, names in list(wrong.items())[:SHOWN_ANSWERS]
    )
    return "\n".join(["wrong answers:", *lines]).encode("utf-8", "backslashreplace").decode()


def _swept(
    use: Callable[[Any], object], fits: Callable[[Any], bool], refusals: tuple[type[HoldfastError], ...]
) -> dict[str, list[str]]:
    """Every case, once: the wrong answers, and the cases that got them."""
    wrong: dict[str, list[str]] = defaultdict(list)
    for case in hostile.CASES:
        value = case.make()
        try:
            use(value)
        except refusals as error:
            if not _printable(error):
                wrong["not printable"].append(case.name)
        except Exception as error:
            wrong[f"raw {type(error).__name__}"].append(case.name)
        else:
            if not fits(value):
                wrong["accepted, but no value of this kind should be"].append(case.name)
    return wrong


@pytest.mark.parametrize("name", ["open", "open_async", "export", "import_", "backup"])
def test_every_address_is_taken_or_refused(name: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep enough below a folder of its own that no way up leads out of it."""
    deep = desk.folder.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    engine = desk.open("sqlite")

    def use(value: Any) -> None:
        address = f"{deep}/{value}" if type(value) is str else value
        own_error = [hostile.Spite] if hasattr(value, "__fspath__") else []
        with suppress(*own_error):
            ask(address)

    def ask(address: Any) -> None:
        if name.startswith("open"):
            desk.open_url(address, awaited=name.endswith("async")).close()
        else:
            getattr(engine, name)(address)

    refusals = (InvalidInput, StorageError, errors.DataError)
    wrong = _swept(use, lambda value: type(value) is str or hasattr(value, "__fspath__"), refusals)
    assert not wrong, _summary(wrong)


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize(("option", "kind"), [("tenant", str), ("principal", str), ("cached_streams", int)])
def test_every_option_of_opening_is_taken_or_refused(option: str, kind: type, awaited: bool, desk: Desk) -> None:
    def use(value: Any) -> None:
        desk.open_url("memory:", awaited=awaited, **{option: value}).close()

    wrong = _swept(use, lambda value: type(value) is kind, (InvalidInput,))
    assert not wrong, _summary(wrong)


def test_an_error_about_any_value_can_be_printed_and_sent_to_another_process() -> None:
    def use(value: Any) -> None:
        error = errors.InvalidName(what="name", value=value, reason="a test", limit=limits.NAME_BYTES)
        assert _printable(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)

    wrong = _swept(use, lambda _: True, ())
    assert not wrong, _summary(wrong)


def test_no_more_parts_are_asked_for_than_a_message_can_have(engine: holdfast.Engine) -> None:
    handed_out = 0

    def parts() -> Iterator[str]:
        nonlocal handed_out
        while handed_out < 100 * limits.CONTENT_PARTS:
            handed_out += 1
            yield "x"

    session = engine.create_session("s")
    with pytest.raises(InvalidInput):
        session.record("user", parts())  # type: ignore[arg-type]
    assert handed_out <= limits.CONTENT_PARTS + 1


_BOMB = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
import holdfast
value = ["x"]
for _ in range(12):
    value = [value] * 10
try:
    holdfast.open("memory:").create_session("s", metadata={"bomb": value})
except holdfast.errors.InvalidInput as error:
    print(type(error).__name__)
"""


def test_a_small_value_that_unfolds_without_end_is_refused_before_it_fills_the_memory() -> None:
    """Twelve lists, each ten times in the next: a few hundred bytes here, terabytes as JSON."""
    answer = subprocess.run([sys.executable, "-c", _BOMB], capture_output=True, text=True, timeout=120, check=False)
    assert answer.stdout.strip() in {"TooLarge", "InvalidJson"}, answer.stderr[-500:]
