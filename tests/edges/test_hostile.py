"""Promise 13: more than five hundred hostile values at every entrance of the public API.

Each is either accepted and comes back as it went in, also after reopening and after an export into the other backends, or
it is refused with a typed error that can be printed, and nothing has changed. In memory, on SQLite and on PostgreSQL,
blocking and awaited: the same answer.

A store sees of a value only what it is asked. Every value is handed in at every entrance of an engine in memory whose
stores are watched; what they are asked is taken to pieces, each with its place: the kind of column that it goes to, if it
is to be kept, and otherwise the question that it is a parameter of. The other stores are asked whenever a piece is new in
its place, or an answer or the way to it is new at its entrance: once each among the entrances that lead to the same places.
Text is told apart to the letter; bytes and numbers, which stores keep as they are, by their size. With HOLDFAST_SOAK=1
everything is asked everywhere.

Entrances that are asked together share their stores: each has a tenant of its own there. What was prepared for a value that
was then refused serves the next one, as nothing has changed.
"""

from __future__ import annotations

import functools
import pickle
import re
import struct
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.errors import HoldfastError, InvalidInput, StorageError
from holdfast.model import limits
from holdfast.model.rows import Row
from holdfast.runtime.bodies import VerifiedBodies
from holdfast.runtime.maintenance import check_path
from holdfast.storage.postgres.connect import parse_address
from tests import hostile
from tests.edges.engines import EngineDesk, contents, log_of, rows_of
from tests.edges.fact_inputs import STORE_INPUTS
from tests.edges.frame_inputs import FRAME_INPUTS, FRAMES, PUSHES
from tests.edges.input_cases import InputCase, is_number
from tests.edges.session_inputs import ALL_INPUTS, BODY, MESSAGE_INPUTS, QUESTIONS, RECORD_INPUTS
from tests.hostile import HostileCase
from tests.postgres import base_url
from tests.support import figure

BLOCKING = ("memory", "sqlite", "postgres")
AWAITED = ("memory awaited", "sqlite awaited", "postgres awaited")
STRIDE = figure(24, 1)
"""One value in so many is asked at each entrance, other ones at the next."""
SAMPLE = figure(1_200, 1)
"""One value in so many is asked everywhere, whatever it comes to; another one at each entrance."""
AWAITED_SAMPLE = figure(1_920, 1)
"""The same for what is awaited, where every kind of answer is asked once at each entrance anyway."""
KEEPING = ("append", "adopt")
"""What tells a store to keep something; whatever else it is asked has parameters, and no columns."""
MESSAGE_CHARS = 2_000
SHOWN_ANSWERS = 20
SHOWN_CASES = 5

_ADDRESS = re.compile("x[0-9a-f]{8,}")
_MADE_UP = re.compile("[cfhrst][0-9]+|[0-9a-f]{32}|[0-9a-f]{64}")
"""A name that tells the number of a case, an id, a digest: they differ, and it makes no difference."""

Wrong = dict[str, list[str]]
"""Wrong answers, and the cases that got them."""

ALL: dict[str, InputCase] = ALL_INPUTS | FRAME_INPUTS | STORE_INPUTS


def _group(name: str) -> str:
    """The entrances through which a text comes to the same places are asked together."""
    if name in STORE_INPUTS:
        return "facts"
    if "key" in name and "metadata" not in name:
        return "keys"
    if re.search(r"actor|session\)|session's|'s session|tenant|thread|principal|cause|row|scope|history|acknowl", name):
        return "names"
    if name in FRAME_INPUTS:
        return "frames" if name in FRAMES or name in PUSHES else "more of frames"
    if name in MESSAGE_INPUTS or name in RECORD_INPUTS:
        return "messages"
    return "questions" if name in QUESTIONS else "sessions, calls and bodies"


GROUPS: dict[str, list[str]] = {}
for each in ALL:
    GROUPS.setdefault(_group(each), []).append(each)


def test_there_are_more_than_five_hundred_different_cases() -> None:
    assert len(hostile.CASES) > 500
    assert len({case.name for case in hostile.CASES}) == len(hostile.CASES)
    assert len({case.make() for case in hostile.TEXTS}) == len(hostile.TEXTS)


def test_every_entrance_is_asked_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(ALL)
    assert len(ALL) == len(ALL_INPUTS) + len(FRAME_INPUTS) + len(STORE_INPUTS)


@pytest.mark.promise(13, f"hostile text: {len(hostile.CASES)} values at {len(ALL)} entrances, one in {STRIDE} at each")
@pytest.mark.parametrize("group", GROUPS)
def test_every_value_comes_back_or_is_refused_alike_everywhere(group: str, desk: EngineDesk) -> None:
    wrong: Wrong = defaultdict(list)
    blocking, awaited = ({kind: desk.open(kind) for kind in kinds} for kinds in (BLOCKING, AWAITED))
    known: set[object] = set()
    for number, name in enumerate(GROUPS[group]):
        tenant = f"t{number}"
        everywhere, some = _watched(desk, name, tenant, known, wrong)
        _compared(blocking, name, tenant, everywhere, wrong)
        _compared(awaited, name, tenant, some, wrong)
    for engines in (blocking, awaited):
        _kept_alike(engines, wrong)
    for trouble in _not_lasting(desk, blocking):
        wrong[trouble].append("afterwards")
    assert not wrong, _summary(wrong)


def _furnished(engine: holdfast.Engine, tenant: str) -> holdfast.Engine:
    own = engine.acting_as(tenant=tenant)
    own.create_session("s").record("user", "before")
    own.blobs.put(BODY)
    return own


# One engine that is asked everything, and watched


class Watched:
    """A store that notes what it is asked."""

    def __init__(self, inner: object, asked: list[tuple[str, object]]) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def ask(*args: object, **kwargs: object) -> Any:
            _take_apart(self._asked, name, (*args, kwargs), keeping=name in KEEPING)
            return found(*args, **kwargs)

        return ask


def _take_apart(pieces: list[tuple[str, object]], place: str, value: object, *, keeping: bool) -> None:
    """A value as far as it can matter to a store: its texts, numbers and bytes, each with the place it stands in."""
    kind = type(value)
    if value is None or kind is bool:
        pieces.append((place, value))
    elif isinstance(value, str):
        pieces += _texts(place, value)
    elif isinstance(value, bytes):
        pieces.append((place, len(value).bit_length()))
    elif isinstance(value, int):
        pieces.append((place, (value < 0, value.bit_length() // 8)))
    elif isinstance(value, tuple | list):
        for item in value:
            _take_apart(pieces, place, item, keeping=keeping)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            there = _place(type(value), name) if keeping else place
            _take_apart(pieces, there, getattr(value, name), keeping=keeping)
    elif isinstance(value, Mapping):
        for item in value.values():
            _take_apart(pieces, place, item, keeping=keeping)
    else:
        pieces.append((place, repr(value)))


@functools.cache
def _place(kind: type[Any], name: str) -> str:
    """What a column is to a store: part of a row's key, or another column of its type; the rest has places of its own."""
    if not issubclass(kind, Row):
        return f"{kind.__name__}.{name}"
    if name == "state":
        return "any row's JSON"
    return "any row's key" if name in kind.key else f"any row's {kind.__annotations__[name]}"


def _texts(place: str, text: str) -> list[tuple[str, object]]:
    """A text that a row keeps as JSON is many: a store does not know which of them is what."""
    if place != "any row's JSON":
        return [(place, "made up" if _MADE_UP.fullmatch(text) else text)]
    inside, found = [msgspec.json.decode(text)], list[tuple[str, object]]()
    while inside:
        each = inside.pop()
        if isinstance(each, dict):
            inside += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            inside += each
        elif isinstance(each, str) and not _MADE_UP.fullmatch(each):
            found.append((place, each))
    return found


def _watched(desk: EngineDesk, name: str, tenant: str, known: set[object], wrong: Wrong) -> tuple[list[int], list[int]]:
    """Ask everything of an engine in memory: which cases to ask of every store, and which awaited as well. `known` is what
    the other stores were asked before."""
    plain = _furnished(desk.open("memory"), tenant)
    asked: list[tuple[str, object]] = []
    store, blobs = (cast("Any", Watched(each, asked)) for each in (plain.store, plain._blob_store))
    engine = holdfast.Engine(store, blobs, msgspec.structs.replace(plain._context, bodies=VerifiedBodies(blobs)))
    sample = zlib.crc32(name.encode())
    everywhere, awaited = list[int](), list[int]()
    ready: int | None = None
    for number, case in [*enumerate(hostile.CASES)][sample % STRIDE :: STRIDE]:
        ready = _prepared([plain], ALL[name], ready, number)
        before = _marks(plain)
        asked.clear()
        answer = _answer(engine, ALL[name], case, ready)
        ready = None if answer.kind == "accepted" else ready
        if not answer.right or (answer.said != "accepted" and _marks(plain) != before):
            wrong[f"{name}: {answer.said}"].append(case.name)
        drawn = (number + sample) % SAMPLE == 0
        new_answer = (name, answer.kind)
        new = {new_answer, (*new_answer, *(place for place, _ in asked)), *asked} - known
        if drawn or new:
            everywhere.append(number)
        if (number + sample) % AWAITED_SAMPLE == 0 or new_answer in new:
            awaited.append(number)
        known |= new
    return everywhere, awaited


def _prepared(engines: Iterable[Any], entrance: InputCase, ready: int | None, number: int) -> int:
    """The number under which something is prepared: that of a case before, or now this one's."""
    if ready is None:
        for engine in engines:
            entrance.prepare(engine, number)
    return number if ready is None else ready


def _marks(engine: Any) -> object:
    totals = engine.store.totals()
    return totals.streams, totals.events, totals.keys, sum(1 for _ in engine._blob_store.stored())


# Several engines that are asked the same


class Answer(NamedTuple):
    said: str
    kind: str
    right: bool


def _compared(engines: dict[str, holdfast.Engine], name: str, tenant: str, numbers: list[int], wrong: Wrong) -> None:
    """Ask engines the same. What was refused has changed nothing anywhere if it has changed nothing in memory, and in the
    end all have kept the same."""
    own = {kind: _furnished(engine, tenant) for kind, engine in engines.items()}
    ready: int | None = None
    for number in numbers:
        case = hostile.CASES[number]
        ready = _prepared(own.values(), ALL[name], ready, number)
        answers = {kind: _answer(engine, ALL[name], case, ready) for kind, engine in own.items()}
        if any(answer.kind == "accepted" for answer in answers.values()):
            ready = None
        said = {kind: answer.said for kind, answer in answers.items()}
        if len(set(said.values())) > 1:
            wrong[f"{name}: not the same everywhere: {said}"].append(case.name)
        elif not all(answer.right for answer in answers.values()):
            wrong[f"{name}: {next(iter(said.values()))}"].append(case.name)


def _kept_alike(engines: dict[str, holdfast.Engine], wrong: Wrong) -> None:
    kept = {kind: contents(engine) for kind, engine in engines.items()}
    for kind, found in kept.items():
        if found != next(iter(kept.values())):
            wrong[f"{kind}: it kept something else than the others"].append("afterwards")


def _answer(engine: Any, entrance: InputCase, case: HostileCase, number: int) -> Answer:
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


def _not_lasting(desk: EngineDesk, engines: dict[str, holdfast.Engine]) -> Iterator[str]:
    """What is wrong with what was kept: in memory, as the others have the same; after reopening; and after exports from one
    backend to the next, and back into memory."""
    source = engines["memory"]
    kept = contents(source)
    yield from (f"memory: {problem}" for problem in source.admin.verify().problems)
    engines["sqlite"].close()  # what is on PostgreSQL is read from the server each time
    if contents(desk.open("sqlite")) != kept:
        yield "something else is there after reopening"
    for target in ("sqlite", "postgres", "memory"):
        path = desk.folder / f"to-{target}.jsonl"
        copy = desk.open(target, name="copy")
        try:
            source.admin.export(path)
            copy.admin.import_(path)
        except HoldfastError as error:
            yield f"on the way to {target}: {error}"
        else:
            if (log_of(copy), rows_of(copy)) != kept[:2]:
                yield f"on the way to {target}: something else arrived"
        source = copy
    yield from (f"back in memory: {problem}" for problem in source.admin.verify().problems)
    yield from (f"left behind: {path}" for path in desk.folder.rglob("*.partial"))


def _summary(wrong: Wrong) -> str:
    lines = (
        f"{len(names)} × {said:.300}: {', '.join(names[:SHOWN_CASES])}"
        for said, names in list(wrong.items())[:SHOWN_ANSWERS]
    )
    return "\n".join(["wrong answers:", *lines]).encode("utf-8", "backslashreplace").decode()


def _swept(
    use: Callable[[Any], object],
    fits: Callable[[Any], bool],
    refusals: tuple[type[HoldfastError], ...],
    cases: Sequence[HostileCase] = hostile.CASES,
) -> Wrong:
    """Every case, once."""
    wrong: Wrong = defaultdict(list)
    for case in cases:
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


ADDRESSED = ("open", "open_async", "export", "import_", "backup")
ADDRESS_STRIDE = figure(5, 1)


@pytest.mark.parametrize("name", ADDRESSED)
def test_every_address_is_taken_or_refused(name: str, desk: EngineDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep enough below a folder of its own that no way up leads out of it."""
    deep = desk.folder.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    engine = desk.open("sqlite")

    def use(value: Any) -> None:
        address = f"{deep}/{value}" if type(value) is str else value
        own_error = [hostile.HostileError] if hasattr(value, "__fspath__") else []
        with suppress(*own_error):
            ask(address)

    def ask(address: Any) -> None:
        if name.startswith("open"):
            desk.open_url(address, awaited=name.endswith("async")).close()
        else:
            getattr(engine.admin, name)(address)

    refusals = (InvalidInput, StorageError, errors.DataError)
    cases = hostile.CASES[ADDRESSED.index(name) % ADDRESS_STRIDE :: ADDRESS_STRIDE]
    wrong = _swept(use, lambda value: type(value) is str or hasattr(value, "__fspath__"), refusals, cases)
    assert not wrong, _summary(wrong)


SERVED = ("schema={}", "pool={}", "connect_timeout={}", "dbname={}", "options={}", "{}=1")


@pytest.mark.parametrize("part", SERVED)
def test_every_part_of_a_servers_address_is_taken_or_refused(part: str) -> None:
    def use(value: Any) -> None:
        if type(value) is str:
            address = parse_address(check_path(f"postgresql://localhost/agents?{part.format(value)}"))
            assert part != SERVED[0] or address.schema == value

    wrong = _swept(use, lambda _: True, (errors.InvalidUrl,))
    assert not wrong, _summary(wrong)


def test_every_name_of_a_database_is_taken_or_refused(desk: EngineDesk) -> None:
    base = base_url()
    for case in hostile.TEXTS[::SAMPLE]:
        name = quote(case.make(), safe="", errors="surrogatepass")
        with pytest.raises((errors.InvalidUrl, errors.StorageUnavailable)) as refused:
            desk.open_url(f"{base}{'&' if '?' in base else '?'}dbname={name}x")
        assert _printable(refused.value)


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize(("option", "kind"), [("tenant", str), ("principal", str), ("cached_streams", int)])
def test_every_option_of_opening_is_taken_or_refused(option: str, kind: type, awaited: bool, desk: EngineDesk) -> None:
    def use(value: Any) -> None:
        desk.open_url("memory:", awaited=awaited, **{option: value}).close()

    wrong = _swept(use, lambda value: type(value) is kind, (InvalidInput,))
    assert not wrong, _summary(wrong)


@pytest.mark.parametrize("kind", ["memory", "memory awaited"])
def test_every_pause_of_a_sweeper_is_taken_or_refused(kind: str, desk: EngineDesk) -> None:
    """No entrance like the others: how often it looks at the clock meanwhile, and so what time it is later, is chance."""
    engine = desk.open(kind)

    def use(value: Any) -> None:
        with engine.admin.sweeper(value):
            pass

    wrong = _swept(use, lambda value: is_number(value) and value > 0, (InvalidInput,))
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
