"""Tools: an intent before, an outcome after, and between the two nobody knows."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Message, Session, Text, ToolCall, Usage, errors
from holdfast.model import limits
from holdfast.types import Body, Data
from tests.edges.engines import KINDS, EngineDesk, contents, expect_refusal

AWAITED = tuple(kind for kind in KINDS if kind.endswith("awaited"))
BLOCKING = tuple(kind for kind in KINDS if not kind.endswith("awaited"))


def _asked(session: Any, *names: str, **args: Any) -> tuple[ToolCall, ...]:
    """Calls of one reply."""
    calls = [{"name": name, "args": args} for name in names or ("look",)]
    message: Message = session.record("assistant", "", tool_calls=calls)
    return message.tool_calls


def _said(message: Message) -> Any:
    [result] = message.tool_results
    [part] = result.content
    match part:
        case Text(text):
            return text
        case Data(value):
            return value
    return part


# Starting


def test_an_intent_says_what_is_to_run_under_which_key(engine: Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1)
    first, second, third = _asked(root, "pay", "pay", "look", amount=5)
    started = root.start_call(first)
    assert (started.call, started.name, started.args, started.attempt) == (first.id, "pay", {"amount": 5}, 1)
    assert len(started.key) == 32
    assert session.start_call(second.id).key != started.key
    assert session.start_call(third, call_key="my own").key == "my own"
    assert root.state().tool_calls == 3
    assert [call.attempts for call in session.state().open_calls] == [1, 1, 1]
    outside = engine.create_session("other")
    assert outside.start_call(_asked(outside, "pay", "pay", "look", amount=5)[0]).key != started.key


def test_a_second_start_is_refused_unless_it_is_asked_for(engine: Engine) -> None:
    session = engine.create_session("s")
    (call,) = _asked(session, "pay")
    first = session.start_call(call)
    data: dict[str, object] = {"call": call.id, "name": "pay", "key": first.key, "attempts": 1}
    for start in (
        lambda: session.start_call(call),
        lambda: session.start_call(call, call_key="another"),
        lambda: session.run(call, lambda: pytest.fail("it must not run")),
    ):
        with expect_refusal(engine, errors.OutcomeUnknown, **data):
            start()
    again = session.start_call(call, again=True, call_key="another")
    assert (again.key, again.attempt) == (first.key, 2)
    with expect_refusal(engine, errors.OutcomeUnknown, attempts=2):
        session.start_call(call)
    session.result(call, "paid")
    for again_ in (False, True):
        with expect_refusal(engine, errors.CallAnswered, call=call.id):
            session.start_call(call, again=again_)
    with expect_refusal(engine, errors.CallNotFound, call="c99_0"):
        session.start_call("c99_0")


def test_what_begins_belongs_to_the_frame_of_its_call(engine: Engine) -> None:
    session = engine.create_session("s")
    one, two = session.frame("one", budget=1), session.frame("two", budget=1)
    (call,) = _asked(one)
    two.start_call(call)
    assert (one.state().tool_calls, two.state().tool_calls) == (1, 0)
    assert session.result(call, "seen").seq
    (call,) = _asked(session)
    two.start_call(call)
    assert (one.state().tool_calls, two.state().tool_calls) == (1, 1)
    two.result(call, "seen")
    begun, idle = _asked(one, "pay", "look")
    one.start_call(begun)
    one.pop()
    with expect_refusal(engine, errors.CallAnswered, call=idle.id):
        session.start_call(idle)
    assert [each.call for each in session.recover().unknown_outcomes] == [begun.id]
    assert not session.result(begun, "what came of it is kept all the same").late
    assert session.result(idle, "this comes late").late
    assert session.state().open_calls == ()


# Running


def _returns(value: Any) -> Callable[..., Any]:
    return lambda **_: value


KEPT: dict[str, tuple[Any, Any]] = {
    "text": ("found", "found"),
    "no text": ("", ""),
    "nothing": (None, None),
    "an object": ({"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
    "a number": (1.5, 1.5),
    "bytes": (b"found", "found"),
    "a part": (Text("found"), "found"),
    "pieces of bytes": (iter([b"fo", b"und"]), "found"),
}


def test_what_a_tool_returns_is_the_result_of_its_call(engine: Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1)
    for name, (value, expected) in KEPT.items():
        given = iter([b"fo", b"und"]) if isinstance(value, Iterator) else value
        message = root.run(_asked(root)[0], _returns(given))
        assert (_said(message), message.tool_results[0].is_error) == (expected, False), name
    assert root.state().tool_calls == len(KEPT)
    large = root.run(_asked(root)[0], _returns({"x": "y" * limits.SPOOL_BYTES}))
    body = _said(large)
    assert isinstance(body, Body)
    assert json.loads(engine.blobs.read(body.ref)) == {"x": "y" * limits.SPOOL_BYTES}
    assert session.state().open_calls == ()
    assert engine.admin.verify().ok


def test_a_tool_gets_its_arguments_and_if_it_likes_its_key(engine: Engine) -> None:
    session = engine.create_session("s")
    seen: list[dict[str, Any]] = []

    def note(**args: Any) -> str:
        seen.append(args)
        return "noted"

    session.run(_asked(session, a=1, b=["x"])[0], note)
    session.run(_asked(session, a=1)[0], note, key_as="idempotency_key", call_key="mine")
    session.run(_asked(session, a=1)[0], functools.partial(note, b=2))
    session.run(_asked(session, **{"not a name": 1, "self": 2, "function": 3})[0], note)
    assert seen == [
        {"a": 1, "b": ["x"]},
        {"a": 1, "idempotency_key": "mine"},
        {"a": 1, "b": 2},
        {"not a name": 1, "self": 2, "function": 3},
    ]
    before = contents(engine)
    (call,) = session.record("assistant", "", tool_calls=[{"name": "look"}]).tool_calls
    for no_function in (None, "note", 5):
        with pytest.raises(errors.InvalidArgument):
            session.run(call, no_function)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidName):
        session.run(call, note, key_as="")
    assert len(contents(engine)[0]) == len(before[0]) + 1
    assert session.state().open_calls[0].attempts == 0


class Spiteful(Exception):
    def __str__(self) -> str:
        raise RuntimeError("you shall not read me")


FAILURES: dict[str, tuple[Exception, str]] = {
    "plain": (ValueError("no such page"), "ValueError: no such page"),
    "empty": (TimeoutError(), "TimeoutError"),
    "unreadable": (Spiteful(), "Spiteful"),
    "lone surrogates": (ValueError("\ud800"), "ValueError"),
    "ours": (errors.FrameNotFound(session="s", frame="f1"), "FrameNotFound: There is no frame"),
}


def test_what_a_tool_raises_is_an_error_for_the_model_to_see(engine: Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1)

    def fail(error: Exception) -> Callable[[], object]:
        def function() -> object:
            raise error

        return function

    for error, text in FAILURES.values():
        message = root.run(_asked(root)[0], fail(error))
        assert message.tool_results[0].is_error
        assert _said(message).startswith(text)
    large = root.run(_asked(root)[0], fail(ValueError("x" * (1 << 20))))
    assert isinstance(_said(large), Body)
    assert root.run(_asked(root, unknown=1)[0], lambda: "seen").tool_results[0].is_error
    assert [each.kind for each in session.recover().pending_work] == ["unhandled_error"]
    root.record("assistant", "I see")
    assert session.recover().pending_work == ()


def _exhausted() -> object:
    return next(iter(()))


def _half() -> Iterator[bytes]:
    yield b"half"
    raise ValueError("no more")


def test_no_error_of_a_tool_keeps_its_call_open(engine: Engine) -> None:
    """Not one that would end a loop, nor one that comes while the result is read."""
    session = engine.create_session("s")
    for function, text in ((_exhausted, "StopIteration"), (_half, "ValueError: no more")):
        message = session.run(_asked(session)[0], function)
        assert message.tool_results[0].is_error
        assert text in _said(message)
    assert session.state().open_calls == ()


UNKEEPABLE: tuple[Any, ...] = (object(), {(1, 2): 2}, float("nan"), 2**70, "\ud800", [b"x", 1j], {"a": {3j}}, 1j)


def test_what_cannot_be_kept_is_told_and_that_the_tool_has_run(engine: Engine) -> None:
    session = engine.create_session("s")
    for value in UNKEEPABLE:
        message = session.run(_asked(session)[0], _returns(value))
        assert message.tool_results[0].is_error
        assert _said(message).startswith("The tool has run, but its return value cannot be stored: ")
    assert session.state().open_calls == ()


def test_arguments_that_are_no_object_are_told_and_nothing_runs(engine: Engine) -> None:
    session = engine.create_session("s")
    for args in ("{not json", "", "x" * 1_000):
        (call,) = session.record("assistant", "", tool_calls=[{"name": "look", "args": args}]).tool_calls
        message = session.run(call, lambda **_: pytest.fail("it must not run"))
        assert message.tool_results[0].is_error
        assert _said(message).startswith("Error: the arguments are not an object")


class Interrupted(BaseException):
    """Like a keyboard interrupt, for one test at a time."""


def test_an_interrupted_tool_stays_open_with_its_outcome_unknown(engine: Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1)
    (call,) = _asked(root, "pay")

    def interrupted() -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        root.run(call, interrupted)
    [unknown] = session.recover().unknown_outcomes
    assert (unknown.call, unknown.frame, unknown.kind) == (call.id, root.id, "tool_in_progress")
    started = root.start_call(call, again=True)
    assert (started.key, started.attempt) == (unknown.key, 2)
    assert _said(root.result(call, "it had been paid")) == "it had been paid"


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_coroutine_function_is_refused_where_nothing_is_awaited(kind: str, desk: EngineDesk) -> None:
    async def look() -> str:
        return "seen"

    engine = desk.open(kind)
    session = engine.create_session("s")
    (call,) = _asked(session)
    for function in (look, functools.partial(look)):
        with expect_refusal(engine, errors.InvalidArgument):
            session.run(call, function)
    assert _said(session.run(call, lambda: "seen")) == "seen"


@pytest.mark.parametrize("kind", AWAITED)
def test_coroutine_functions_run_in_the_loop_and_others_beside_it(kind: str, desk: EngineDesk) -> None:
    session = desk.open(kind).create_session("s")
    threads: list[threading.Thread] = []

    async def look(at: int, **_: object) -> dict[str, int]:
        threads.append(threading.current_thread())
        await asyncio.sleep(0)
        return {"at": at}

    class Tool:
        async def __call__(self, at: int) -> int:
            return at

    def plain(at: int) -> int:
        threads.append(threading.current_thread())
        return at

    async def failing(**_: object) -> None:
        raise ValueError("no such page")

    assert _said(session.run(_asked(session, at=3)[0], look)) == {"at": 3}
    assert _said(session.run(_asked(session, at=3)[0], functools.partial(look, b=1))) == {"at": 3}
    assert _said(session.run(_asked(session, at=3)[0], lambda at: look(at, b=2))) == {"at": 3}
    assert _said(session.run(_asked(session, at=4)[0], Tool())) == 4
    assert _said(session.run(_asked(session, at=5)[0], plain)) == 5
    assert [thread is threading.main_thread() for thread in threads] == [True, True, True, False]
    assert _said(session.run(_asked(session)[0], failing)) == "ValueError: no such page"


def test_a_tool_that_is_cancelled_in_the_loop_has_an_unknown_outcome() -> None:
    async def body() -> None:
        async with await holdfast.open_async("memory:") as engine:
            session = await engine.create_session("s")
            asked = await session.record("assistant", "", tool_calls=[{"name": "pay"}])
            begun = asyncio.Event()

            async def pay() -> None:
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(session.run(asked.tool_calls[0], pay))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [each.call for each in (await session.recover()).unknown_outcomes] == [asked.tool_calls[0].id]

    asyncio.run(body())


# Recovery


def _waiting(session: Session) -> None:
    """One of everything that can be pending."""
    root = session.frame("root", budget=100)
    child = root.frame("child", budget=10)
    root.frame("resting", budget=10).suspend("approval")
    session.frame("asking", budget=1).record("assistant", "Which one do you mean?")
    started, _ = _asked(child, "pay", "look")
    child.start_call(started)
    child.frame("broken", budget=1).pop("failed", "no luck")


def test_recovery_tells_what_was_being_done(engine: Engine) -> None:
    session = engine.create_session("s")
    nothing = engine.recover(session.scope)
    assert (nothing.current_frame, nothing.pending_work, nothing.frames_recovered) == (None, (), 0)
    _waiting(session)
    before = contents(engine)
    recovery = engine.recover(session.scope)
    frames = {each.goal: each for each in session.frames.list()}
    assert [each.goal for each in recovery.frame_stack] == ["root", "child"]
    assert recovery.current_frame == frames["child"]
    assert (recovery.frames_recovered, recovery.last_event_seq) == (2, session.state().version)
    assert recovery.recovery_ms >= 0
    found = [(each.kind, each.frame, each.call) for each in recovery.pending_work]
    pay, look = session.state().open_calls
    assert found == [
        ("waiting_for_subcall", frames["root"].id, None),
        ("unhandled_error", frames["child"].id, None),
        ("waiting_for_user", frames["resting"].id, None),
        ("waiting_for_user", frames["asking"].id, None),
        ("tool_in_progress", frames["child"].id, pay.id),
        ("tool_not_started", frames["child"].id, look.id),
    ]
    assert recovery.pending_work_items == len(found) == 6
    assert [each.key for each in recovery.unknown_outcomes] == [pay.key]
    after = contents(engine)
    assert [event.type for event in after[0][len(before[0]) :]] == ["actor.resumed"]
    assert session.recover().pending_work == recovery.pending_work
    for no_scope in (None, "s", session.scope.stream):
        with expect_refusal(engine, errors.InvalidArgument):
            engine.recover(no_scope)  # type: ignore[arg-type]
    with expect_refusal(engine, errors.SessionNotFound):
        engine.recover(holdfast.types.Scope("default", "main", "nowhere"))
    with expect_refusal(engine, errors.SessionNotFound):
        engine.recover(holdfast.types.Scope("rival", "main", "s"))


@pytest.mark.parametrize(
    ("reply", "asks"),
    [
        ("Why did it fail? The disk was full.", False),
        ("```\nContinue?\n```", False),
        ('The form asks "Are you sure?"', False),
        ("Let me know if you need anything else.", False),
        ("Which size do you want?\n- S\n- M\n- L", True),
        ("Please tell me your order number.", True),
        ("Ποιο θέλετε;", True),
    ],
)
def test_only_what_was_a_question_waits_for_the_user(engine: Engine, reply: str, asks: bool) -> None:
    session = engine.create_session("s")
    frame = session.frame("look it up", budget=10)
    session.record("assistant", reply)
    frame.record("assistant", reply)
    found = [(each.kind, each.frame) for each in session.recover().pending_work]
    assert found == ([("waiting_for_user", frame.id), ("waiting_for_user", None)] if asks else [])
    session.record("system", "Be brief.")
    assert len(session.recover().pending_work) == len(found), "a system message answers nothing"
    session.record("user", "well")
    frame.record("user", "well")
    assert session.recover().pending_work == ()


def test_what_was_done_outside_of_frames_is_pending_too(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("assistant", "Shall I?", usage=Usage(1, 1))
    assert [(each.kind, each.frame) for each in session.recover().pending_work] == [("waiting_for_user", None)]
    session.record("user", "yes")
    (call,) = _asked(session, "pay")
    assert [each.kind for each in session.recover().pending_work] == ["tool_not_started"]
    session.result(call, "no money", is_error=True)
    assert [(each.kind, each.call) for each in session.recover().pending_work] == [("unhandled_error", call.id)]
    session.record("assistant", "Too bad.")
    assert session.recover().pending_work == ()


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("nor my name")


class Unnamed(Exception, metaclass=Nameless):
    """Its class does not tell its name."""


def _unnamed() -> object:
    raise Unnamed("text")


def test_an_error_whose_class_hides_its_name_is_told(engine: Engine) -> None:
    session = engine.create_session("s")
    message = session.run(_asked(session)[0], _unnamed)
    assert message.tool_results[0].is_error
    assert _said(message) == "Unnamed: text"


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_coroutine_that_nobody_awaits_is_no_tool_that_has_run(kind: str, desk: EngineDesk) -> None:
    class Tool:
        async def __call__(self) -> str:
            return "seen"

    session = desk.open(kind).create_session("s")
    message = session.run(_asked(session)[0], Tool())
    assert message.tool_results[0].is_error
    assert "open_async" in _said(message)
