"""Promise 13: more than five hundred hostile values at every entrance of the public API.

Each is either accepted and comes back as it went in, also after reopening and after an export into the other backends, or
it is refused with a typed error that can be printed, and nothing has changed. In memory, on SQLite and on PostgreSQL,
blocking and awaited: the same answer.

A store sees of a value only what it is asked. Every value is handed to an engine in memory whose stores are watched; of
those that come to the same askings, one is enough for the other stores. Text is told apart to the letter; bytes and
numbers, which stores keep as they are, by their size. With HOLDFAST_SOAK=1 everything is asked everywhere.
"""

from __future__ import annotations

import pickle
import re
import struct
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.errors import HoldfastError, InvalidInput, StorageError
from holdfast.model import limits
from holdfast.runtime.care import Bodies, checked_path
from holdfast.storage.postgres.connect import address_of
from holdfast.testing import hostile
from holdfast.testing.hostile import Case
from tests.edges.engines import Desk, contents, log_of, rows_of
from tests.edges.entrances import BODY, ENTRANCES, Entrance
from tests.postgres import base_url
from tests.support import figure

BLOCKING = ("memory", "sqlite", "postgres")
AWAITED = ("memory awaited", "sqlite awaited", "postgres awaited")
SAMPLE = figure(40, 1)
"""One value in so many is asked everywhere, whatever it comes to; another one at each entrance."""
MANY = figure(100, 1)
"""If stores are asked so many different things, PostgreSQL is asked awaited as well."""
MESSAGE_CHARS = 2_000
SHOWN_ANSWERS = 20
SHOWN_CASES = 5

_ADDRESS = re.compile("x[0-9a-f]{8,}")
_MADE_UP = re.compile("s[0-9]+|[0-9a-f]{32}|[0-9a-f]{64}")
"""A session's name that tells the number of a case, an id, a digest: they differ, and it makes no difference."""

Wrong = dict[str, list[str]]
"""Wrong answers, and the cases that got them."""


def test_there_are_more_than_five_hundred_different_cases() -> None:
    assert len(hostile.CASES) > 500
    assert len({case.name for case in hostile.CASES}) == len(hostile.CASES)
    assert len({case.make() for case in hostile.TEXTS}) == len(hostile.TEXTS)


@pytest.mark.promise(13, f"hostile text: {len(hostile.CASES)} values at {len(ENTRANCES)} entrances")
@pytest.mark.parametrize("name", ENTRANCES)
def test_every_value_comes_back_or_is_refused_alike_everywhere(name: str, desk: Desk) -> None:
    wrong: Wrong = defaultdict(list)
    everywhere, awaited = _watched(desk, name, wrong)
    engines = _compared(desk, BLOCKING, name, everywhere, wrong)
    for trouble in _not_lasting(desk, engines):
        wrong[trouble].append("afterwards")
    _compared(desk, AWAITED if len(everywhere) > MANY else AWAITED[:-1], name, awaited, wrong)
    assert not wrong, _summary(wrong)


def _furnished(engine: holdfast.Engine) -> holdfast.Engine:
    engine.create_session("s").record("user", "before")
    engine.put_blob(BODY)
    return engine


# One engine that is asked everything, and watched


class Watched:
    """A store that notes what it is asked."""

    def __init__(self, inner: object, asked: list[object]) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def ask(*args: object, **kwargs: object) -> Any:
            self._asked.append((name, _seen(args), _seen(kwargs)))
            return found(*args, **kwargs)

        return ask


def _seen(value: object) -> object:
    """A value as far as it can matter to a store."""
    match value:
        case bool() | None:
            return value
        case str():
            return "made up" if _MADE_UP.fullmatch(value) else value
        case bytes():
            return ("bytes", len(value).bit_length())
        case int():
            return ("int", value < 0, value.bit_length() // 8)
        case msgspec.Struct():
            return (type(value).__name__, *(_seen(getattr(value, name)) for name in value.__struct_fields__))
        case Mapping():
            return tuple((_seen(key), _seen(each)) for key, each in value.items())
        case tuple() | list():
            return tuple(map(_seen, value))
    return repr(value)


def _watched(desk: Desk, name: str, wrong: Wrong) -> tuple[list[int], list[int]]:
    """Ask everything of an engine in memory: which cases to ask of every store, and which awaited as well."""
    plain = _furnished(desk.open("memory"))
    asked: list[object] = []
    store, blobs = (cast("Any", Watched(each, asked)) for each in (plain.store, plain.blobs))
    engine = holdfast.Engine(store, blobs, msgspec.structs.replace(plain._place, bodies=Bodies(blobs)))
    sample = zlib.crc32(name.encode())
    known: set[object] = set()
    everywhere, awaited = list[int](), list[int]()
    for number, case in enumerate(hostile.CASES):
        ENTRANCES[name].prepare(engine, number)
        before = _marks(plain)
        asked.clear()
        answer = _answer(engine, ENTRANCES[name], case, number)
        if not answer.right or (answer.said != "accepted" and _marks(plain) != before):
            wrong[answer.said].append(case.name)
        drawn = (number + sample) % SAMPLE == 0
        if drawn or (answer.kind, *asked) not in known:
            everywhere.append(number)
        if drawn or answer.kind not in known:
            awaited.append(number)
        known |= {answer.kind, (answer.kind, *asked)}
    return everywhere, awaited


def _marks(engine: Any) -> object:
    totals = engine.store.totals()
    return totals.streams, totals.events, totals.keys, sum(1 for _ in engine.blobs.stored())


# Several engines that are asked the same


class Answer(NamedTuple):
    said: str
    kind: str
    right: bool


def _compared(
    desk: Desk, kinds: tuple[str, ...], name: str, numbers: list[int], wrong: Wrong
) -> dict[str, holdfast.Engine]:
    """Ask engines of these kinds the same. What was refused has changed nothing anywhere if it has changed nothing in
    memory, and in the end all have kept the same."""
    engines = {kind: _furnished(desk.open(kind)) for kind in kinds}
    for number in numbers:
        _compare(engines, ENTRANCES[name], number, wrong)
    kept = contents(engines[kinds[0]])
    for kind, engine in engines.items():
        if contents(engine) != kept:
            wrong[f"{kind}: it kept something else than the others"].append("afterwards")
    return engines


def _compare(engines: dict[str, holdfast.Engine], entrance: Entrance, number: int, wrong: Wrong) -> None:
    case = hostile.CASES[number]
    answers: dict[str, Answer] = {}
    for kind, engine in engines.items():
        entrance.prepare(engine, number)
        answers[kind] = _answer(engine, entrance, case, number)
    said = {kind: answer.said for kind, answer in answers.items()}
    if len(set(said.values())) > 1:
        wrong[f"not the same everywhere: {said}"].append(case.name)
    elif not all(answer.right for answer in answers.values()):
        wrong[next(iter(said.values()))].append(case.name)


def _answer(engine: Any, entrance: Entrance, case: Case, number: int) -> Answer:
    """What was said, of which kind that is, and whether it was right."""
    value = case.make()
    try:
        back = entrance.use(engine, value, number)
    except HoldfastError as error:
        message = _ADDRESS.sub("x…", str(error)) if _printable(error) else "not printable"
        typed = isinstance(error, InvalidInput) or (isinstance(error, entrance.also) and entrance.fits(value))
        return Answer(f"{type(error).__name__}: {message}", type(error).__name__, typed and _printable(error))
    except Exception as error:
        said = f"raw {type(error).__name__}"
        return Answer(said, said, isinstance(error, entrance.also))
    if not entrance.fits(value):
        return Answer("accepted, but no value of this kind should be", "accepted", False)
    return Answer("accepted", "accepted", _same(back, entrance.expected(case.make())))


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
    """What is wrong with what was kept: everywhere, after reopening, and after exports from one backend to the next."""
    source = engines["memory"]
    kept = contents(source)
    for kind, engine in engines.items():
        yield from (f"{kind}: {problem}" for problem in engine.verify().problems)
    engines["sqlite"].close()  # what is on PostgreSQL is read from the server each time
    if contents(desk.open("sqlite")) != kept:
        yield "something else is there after reopening"
    for target in ("sqlite", "postgres", "memory"):
        path = desk.folder / f"to-{target}.jsonl"
        copy = desk.open(target, name="copy")
        try:
            source.export(path)
            copy.import_(path)
        except HoldfastError as error:
            yield f"on the way to {target}: {error}"
        else:
            if (log_of(copy), rows_of(copy)) != kept[:2]:
                yield f"on the way to {target}: something else arrived"
        source = copy
    yield from (f"left behind: {path}" for path in desk.folder.rglob("*.partial"))


def _summary(wrong: Wrong) -> str:
    lines = (
        f"{len(names)} × {said:.300}: {', '.join(names[:SHOWN_CASES])}"
        for said, names in list(wrong.items())[:SHOWN_ANSWERS]
    )
    return "\n".join(["wrong answers:", *lines]).encode("utf-8", "backslashreplace").decode()


def _swept(
    use: Callable[[Any], object], fits: Callable[[Any], bool], refusals: tuple[type[HoldfastError], ...]
) -> Wrong:
    """Every case, once."""
    wrong: Wrong = defaultdict(list)
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


SERVED = ("schema={}", "pool={}", "connect_timeout={}", "dbname={}", "options={}", "{}=1")


@pytest.mark.parametrize("part", SERVED)
def test_every_part_of_a_servers_address_is_taken_or_refused(part: str) -> None:
    def use(value: Any) -> None:
        if type(value) is str:
            address = address_of(checked_path(f"postgresql://localhost/agents?{part.format(value)}"))
            assert part != SERVED[0] or address.schema == value

    wrong = _swept(use, lambda _: True, (errors.InvalidUrl,))
    assert not wrong, _summary(wrong)


def test_every_name_of_a_database_is_taken_or_refused(desk: Desk) -> None:
    base = base_url()
    for case in hostile.TEXTS[::SAMPLE]:
        name = quote(case.make(), safe="", errors="surrogatepass")
        with pytest.raises((errors.InvalidUrl, errors.StorageUnavailable)) as refused:
            desk.open_url(f"{base}{'&' if '?' in base else '?'}dbname={name}x")
        assert _printable(refused.value)


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
