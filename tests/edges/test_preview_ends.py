"""Previews show the beginning and the end of a body; what is binary is called that; models are told in words for models."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import Engine, Session
from holdfast.core.history import previews
from holdfast.core.history.previews import MESSAGE_TAIL, RESULT_TAIL, Spooling
from holdfast.model.content import Body
from holdfast.model.sessions.messages import MessageGroup
from tests.edges.engines import EngineDesk
from tests.edges.fact_engines import open_session_ledger

LOG = "".join(f"tests/test_{number}.py PASSED\n" for number in range(40_000)) + "1 failed, 39999 passed in 81.20s\n"
PASTE = "log line 12:00:00 ok\n" * 9_000 + "\nWhy did the payment of ACME fail? Answer in French."


def _call(session: Session, name: str = "run", **args: Any) -> Any:
    return session.record("assistant", tool_calls=[{"name": name, "args": args}], pack=False).tool_calls[0]


def _read(session: Session, **args: Any) -> str:
    return session.run(_call(session, "read_handle", **args)).text


def _shown(session: Session, budget: int) -> str:
    item = session.pack(budget=budget).history.items[-1]
    assert isinstance(item, MessageGroup)
    return item.messages[-1].text


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("[… ")]


@pytest.mark.parametrize("budget", [16_000, 64_000, 200_000])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_last_line_of_a_log_is_shown(engine: Engine, budget: int, streamed: bool) -> None:
    session = engine.create_session("s")
    session.result(_call(session), iter([LOG.encode()]) if streamed else LOG)
    shown = _shown(session, budget)
    assert shown.startswith("tests/test_0.py PASSED\n")
    assert shown.endswith("\n1 failed, 39999 passed in 81.20s\n")
    assert set(_lines(shown)) <= set(LOG.splitlines())  # whole lines only
    assert f"{len(LOG)} bytes total" in shown
    assert len(shown.encode()) <= Spooling().preview_bytes(budget) + 200


@pytest.mark.parametrize("budget", [16_000, 64_000])
def test_a_question_behind_a_paste_is_shown(engine: Engine, budget: int) -> None:
    session = engine.create_session("s")
    session.record("user", PASTE)
    shown = _shown(session, budget)
    assert shown.endswith("Why did the payment of ACME fail? Answer in French.")
    head, _, tail = shown.partition("\n[… ")
    tail = tail.partition("]\n")[2]
    assert abs(len(head) - len(tail)) < 200
    assert set(_lines(shown)) <= set(PASTE.splitlines())


def test_the_end_of_a_large_stream_is_kept_without_its_middle(desk: EngineDesk) -> None:
    session = desk.open("sqlite").create_session("s")
    call = _call(session)

    def stream() -> Iterator[bytes]:
        for _ in range(400):
            yield b"x" * 99_999 + b"\n"
        yield b"the end\n"

    tracemalloc.start()
    try:
        message = session.result(call, stream())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (part,) = message.tool_results[0].content
    assert isinstance(part, Body)
    assert part.preview[-part.tail :].endswith("\nthe end\n")
    assert peak < 8 << 20
    assert _shown(session, 200_000).endswith("\nthe end\n")


def test_a_log_whose_previews_have_no_end_stays_readable(engine: Engine) -> None:
    session = engine.create_session("s")
    ref = engine.blobs.put(LOG.encode(), media_type="text/plain")
    session.result(_call(session), [Body(ref, LOG[:2_048])])
    assert _shown(session, 16_000).startswith(LOG[:2_048] + "\n[… tool result spooled")
    assert session.pack(budget=16_000).text == session.pack(budget=16_000).text


texts = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\n"), max_size=40)


@given(
    text=texts, times=st.integers(1, 60), limit=st.integers(0, 400), share=st.sampled_from([RESULT_TAIL, MESSAGE_TAIL])
)
def test_a_preview_is_a_beginning_and_an_end_and_no_longer_than_asked(
    text: str, times: int, limit: int, share: float
) -> None:
    body = (text * times).encode()
    made = previews.cut_ends(body, body, len(body), limit, share)
    assert len(made.text.encode()) <= limit
    head, tail = previews.split_ends(made.text, made.tail)
    assert body.startswith(head.encode())
    assert body.endswith(tail.encode())
    if len(body) <= limit:
        assert (head, tail) == (body.decode(), "")
    elif limit >= previews.LEAST_ENDS_BYTES:
        assert len(tail.encode()) >= int((limit - 5) * share) // 2 - 4
        assert len(head.encode()) >= (limit - 5 - int((limit - 5) * share)) // 2 - 4


def test_redaction_reaches_the_end_of_a_preview(engine: Engine) -> None:
    """What was stated is found at the end of the stored preview and of a longer one, whose characters are others."""
    session = engine.create_session("s", actor="ada")
    ledger = open_session_ledger(session)
    session.record("user", "Our hotel costs 90. " + "word " * 40_000 + "\nShip to 123 Elm Street. I am Ada.")
    ledger.set("shipping_address", "123 Elm Street")
    session.record("assistant", "Noted.")
    session.record("user", "What now?")
    for budget in (16_000, 64_000):
        assert "Ship to 123 Elm Street. I am Ada." in session.pack(budget=budget).text
    ledger.set("shipping_address", "456 Oak Avenue")
    for budget in (16_000, 64_000):
        text = session.pack(budget=budget).text
        assert "123 Elm Street" not in text
        assert ". I am Ada." in text


# Binary


def test_binary_is_called_that_and_not_shown_as_digits(engine: Engine) -> None:
    session = engine.create_session("s")
    png, other = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, b"\xff\xfe\x00" * 500
    for body, kind in ((png, "binary (image/png)"), (other, "binary")):
        message = session.result(_call(session), body)
        shown = _shown(session, 16_000)
        assert f"{len(body)} bytes, {kind}" in shown
        assert "cannot be shown as text" in shown
        assert "read_handle" not in shown
        for how in ({}, {"search": "x"}, {"first_line": 1}, {"start": 5}):
            answer = _read(session, handle=f"h{message.seq}_0", **how)
            assert "cannot be shown as text" in answer
            assert kind in answer
            assert body.hex()[:20] not in answer


# The tool


def test_the_end_is_read_by_counting_from_it(engine: Engine) -> None:
    session = engine.create_session("s")
    message = session.result(_call(session), LOG)
    handle = f"h{message.seq}_0"
    lines = LOG.splitlines(keepends=True)
    assert _read(session, handle=handle, first_line=-2).startswith("".join(lines[-2:]))
    assert _read(session, handle=handle, start=-30).startswith(LOG[-30:])
    found = session.handles.read(handle, first_line=-3, last_line=len(lines) - 1)
    assert (found.text, found.lines) == ("".join(lines[-3:-1]), (len(lines) - 2, len(lines) - 1))
    assert session.handles.read(handle, start=-(10**9), stop=5).text == LOG[:5]
    assert session.handles.read(handle, first_line=-(10**9), last_line=1).text == lines[0]


def test_the_schema_says_what_a_search_is_and_how_to_read_the_end() -> None:
    about = holdfast.READ_HANDLE.parameters["properties"]
    assert "not a pattern" in about["search"]["description"]
    for name in ("start", "first_line"):
        assert "from the end" in about[name]["description"]
        assert "minimum" not in about[name]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"handle": "sched.py"},
        {"handle": "h999_0"},
        {"handle": "h2_0", "start": 1, "search": "x"},
        {"handle": "h2_0", "first_line": 0},
        {"handle": "h2_0", "first_line": 9_999},
        {"handle": "h2_0", "stop": -1},
        {"handle": "h2_0", "start": 1.5},
        {"handle": "h2_0", "search": "a\nb"},
        {"handle": "h2_0", "search": "x" * 100_000},
        {"handle": "h2_0", "search": 5},
        {"handle": "h2_0", "regex": "x"},
    ],
)
def test_what_is_wrong_is_told_in_words_for_a_model(engine: Engine, args: dict[str, Any]) -> None:
    session = engine.create_session("s")
    session.record("user", "text\n" * 9)
    answer = _read(session, **args)
    assert answer.startswith("Error: ")
    for word in ("()", "stored", "taken", "session", "passed", "9007199254740991", "limit", "control characters"):
        assert word not in answer


def test_a_search_that_finds_nothing_says_that_it_is_literal(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "text\n" * 9)
    assert "literal text" in _read(session, handle="h2_0", search="FAILED|error")


def test_a_call_of_no_known_tool_is_told_of_read_handle(engine: Engine) -> None:
    def book() -> str:
        """Book it."""
        return "booked"

    session = engine.create_session("s")
    assert "The tools are: book, read_handle" in session.run(_call(session, "nope"), [book]).text


def test_an_argument_error_has_no_address_of_a_library(engine: Engine) -> None:
    pydantic = pytest.importorskip("pydantic")
    order = pydantic.create_model("Order", part=(str, ...), count=(int, ...))

    def buy(order: Any) -> str:
        """Buy it."""
        return "bought"

    buy.__annotations__["order"] = order
    session = engine.create_session("s")
    told = session.run(_call(session, "buy", order={"part": 5}), [holdfast.Tool.from_function(buy)]).text
    assert "http" not in told
    assert "part" in told
    assert "count" in told
