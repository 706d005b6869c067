"""A frame as a block: however it is left, the frame has ended as it should, and no error of the block is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Frame, Session, errors
from holdfast.model import limits
from tests.edges.engines import KINDS, EngineDesk, ManualClock, contents


class Interrupted(BaseException):
    """Like a keyboard interrupt, for one test at a time."""


def _left(session: Session, block: Callable[[Frame], object]) -> Frame:
    """A frame whose block did this."""
    with session.frame("work", budget=100) as frame:
        block(frame)
    return frame


def _raising(error: BaseException, first: Callable[[Frame], object] | None = None) -> Callable[[Frame], object]:
    """Do something, if anything, and then raise this."""

    def block(frame: Frame) -> None:
        if first is not None:
            first(frame)
        raise error

    return block


def _newest(session: Session) -> Frame:
    return session.frames.get(session.frames.list(limit=1_000)[-1].id)


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


OF_THE_BLOCK = ValueError("of the block")


def test_a_block_that_comes_to_its_end_completes_its_frame(engine: Engine) -> None:
    session = engine.create_session("s")
    frame = _left(session, lambda frame: frame.budget.use(1))
    assert (frame.state().status, frame.state().summary) == ("completed", "")
    with session.frame("outer", budget=10) as outer, outer.frame("inner", budget=5) as inner:
        assert inner.state().parent == outer.id
    assert [each.status for each in session.frames.list()] == ["completed"] * 3
    with session.frames.get(session.frame("found", budget=1).id) as found:
        pass
    assert found.state().status == "completed"


def test_an_error_fails_the_frame_with_its_text_and_goes_on(engine: Engine) -> None:
    session = engine.create_session("s")
    with pytest.raises(ZeroDivisionError, match="by zero"):
        _left(session, lambda _: 1 / 0)
    outer = session.frame("outer", budget=10)
    child = outer.frame("inner", budget=5)
    leaf = child.frame("leaf", budget=1)
    child.suspend("approval")
    with pytest.raises(KeyError), outer:
        raise KeyError("gone")
    (first,) = session.frames.list(limit=1)
    assert (first.status, session.frames.get(first.id).state().summary) == (
        "failed",
        "ZeroDivisionError: division by zero",
    )
    assert (outer.state().status, outer.state().summary) == ("failed", "KeyError: 'gone'")
    assert [each.state().status for each in (child, leaf)] == ["cancelled", "cancelled"]
    assert session.frames.list(status="live") == []


def test_an_interruption_cancels_the_frame_and_goes_on(engine: Engine) -> None:
    session = engine.create_session("s")
    for error in (Interrupted("stop"), GeneratorExit(), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            _left(session, _raising(error))
    frames = session.frames.list()
    assert [each.status for each in frames] == ["cancelled"] * 3
    assert session.frames.get(frames[0].id).state().summary == "Interrupted: stop"


def test_children_that_still_work_keep_the_frame_from_completing(engine: Engine) -> None:
    session = engine.create_session("s")
    with pytest.raises(errors.ChildrenActive), session.frame("outer", budget=10) as outer:
        outer.frame("inner", budget=5)
    assert outer.state().status == "waiting"


def test_what_was_suspended_or_popped_inside_stays_as_it_is(engine: Engine) -> None:
    session = engine.create_session("s")
    for ending in ("completed", "failed", "cancelled"):
        frame = _left(session, lambda frame, ending=ending: frame.pop(ending, "my own words"))  # type: ignore[misc]
        assert (frame.state().status, frame.state().summary) == (ending, "my own words")
    resting = _left(session, lambda frame: frame.suspend("approval"))
    assert resting.state().status == "suspended"
    with pytest.raises(ValueError, match="of the block"):
        _left(session, _raising(OF_THE_BLOCK, lambda frame: frame.pop("completed", "before")))
    assert (_newest(session).state().status, _newest(session).state().summary) == ("completed", "before")
    with pytest.raises(ValueError, match="of the block"):
        _left(session, _raising(OF_THE_BLOCK, lambda frame: frame.suspend("approval")))
    resting = _newest(session)
    assert resting.state().status == "suspended"
    token = resting.reissue()
    with engine.resume(token) as woken:
        assert woken.id == resting.id
    assert resting.state().status == "completed"


def _out_of_time(engine: Engine, clock: ManualClock, _: Frame) -> None:
    clock.now_s += 100
    engine.admin.sweep()


MEANWHILE: dict[str, tuple[type[errors.HoldfastError], str, Callable[[Engine, ManualClock, Frame], object]]] = {
    "it was out of time": (errors.AlreadyTerminal, "failed", _out_of_time),
    "its session was closed": (
        errors.AlreadyTerminal,
        "cancelled",
        lambda engine, _, frame: engine.session(frame.scope.session).end("done"),
    ),
    "its session was reset": (
        errors.AlreadyTerminal,
        "cancelled",
        lambda engine, _, frame: engine.session(frame.scope.session).reset(),
    ),
    "its parent ended": (
        errors.AlreadyTerminal,
        "cancelled",
        lambda engine, _, frame: (
            engine.session(frame.scope.session).frames.get(frame.state().root).pop("completed", cascade=True)
        ),
    ),
    "its session was destroyed": (
        errors.SessionDestroyedError,
        "",
        lambda engine, _, frame: engine.session(frame.scope.session).destroy(offload=False),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_completes_a_block_learns_that_its_frame_had_ended_meanwhile(kind: str, desk: EngineDesk) -> None:
    """And if the block fails, its own error is what comes out."""
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    for number, (refusal, status, happens) in enumerate(MEANWHILE.values()):
        for failing in (False, True):
            session = engine.create_session(f"{number} {failing}")
            frame = session.frame("parent", budget=10).frame("work", budget=1, timeout_s=50)
            happens(engine, clock, frame)
            with pytest.raises(ValueError if failing else refusal) as raised, frame:
                _raise(OF_THE_BLOCK if failing else None)
            assert isinstance(raised.value, errors.HoldfastError) != failing
            assert not status or frame.state().status == status
    assert engine.admin.verify().ok


class Spiteful(Exception):
    def __str__(self) -> str:
        raise RuntimeError("you shall not read me")


class Odd(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 - the point of it


class Subclassed(Exception):
    def __str__(self) -> str:
        class Text(str):
            __slots__ = ()

            def encode(self, *_: object) -> Any:
                raise RuntimeError("nor like this")

        return Text("odd")


HOSTILE: dict[str, tuple[Exception, str]] = {
    "of a megabyte": (ValueError("x" * (1 << 20)), "ValueError: xxx"),
    "of a megabyte in wide letters": (ValueError("😀" * (1 << 18)), "ValueError: 😀"),
    "of lone surrogates": (ValueError("\ud800\udfff"), "ValueError"),
    "with NULs and escapes": (ValueError("\0\x1b[2J\u202e"), "ValueError: \0\x1b[2J\u202e"),
    "empty": (ValueError(), "ValueError"),
    "that cannot be read": (Spiteful(), "Spiteful"),
    "that is a number": (Odd(), "Odd"),
    "that is no plain text": (Subclassed(), "Subclassed"),
    "of a class with a long name": (type("x" * 10_000, (Exception,), {})("text"), "xxx"),
    "in braces": (ValueError("{} {0.__class__} %s {frame!r}"), "ValueError: {} {0.__class__} %s {frame!r}"),
    "of many": (ExceptionGroup("several", [ValueError("one"), KeyError("two")]), "ExceptionGroup: several (2"),
    "of an unreadable file": (OSError(2, "No such file", "x" * 5_000), "FileNotFoundError: [Errno 2] No such file"),
}


def test_no_text_of_an_error_keeps_its_frame_from_failing(engine: Engine) -> None:
    session = engine.create_session("s")
    for error, text in HOSTILE.values():
        with pytest.raises(type(error)) as raised:
            _left(session, _raising(error))
        assert raised.value is error
        state = _newest(session).state()
        assert state.status == "failed"
        assert state.summary.startswith(text)
        assert len(state.summary.encode()) <= limits.PREVIEW_BYTES
    assert engine.admin.verify().ok


def test_an_error_is_not_masked_when_the_store_is_gone(desk: EngineDesk) -> None:
    for kind in KINDS:
        engine = desk.open(kind, name="gone")
        frame = engine.create_session("s").frame("work", budget=1)
        engine.close()
        with pytest.raises(ValueError, match="of the block"), frame:
            raise OF_THE_BLOCK
        again = desk.open(kind, name="gone") if not kind.startswith("memory") else None
        assert again is None or [each.status for each in again.session("s").frames.list()] == ["active"]


def test_the_same_in_an_event_loop() -> None:
    """As it is written there: a frame can be entered before it is there."""

    async def body() -> list[str]:
        async with await holdfast.open_async("memory:") as engine:
            session = await engine.create_session("s")
            async with session.frame("outer", budget=10) as outer:
                async with outer.frame("inner", budget=5) as inner:
                    await inner.budget.use(3)
                with pytest.raises(ZeroDivisionError):
                    async with outer.frame("failing", budget=5):
                        _ = 1 / 0
                kept = await outer.frame("kept", budget=1)
                await kept.pop("cancelled")
                token = await outer.suspend("approval")
            async with engine.resume(token) as woken:
                assert woken.id == outer.id
            with pytest.raises(errors.InvalidNumber):
                async with session.frame("never", budget=-1):
                    raise AssertionError("it was never there")
            return [each.status for each in await session.frames.list()]

    assert asyncio.run(body()) == ["completed", "completed", "failed", "cancelled"]


def test_a_task_that_is_cancelled_cancels_its_frame() -> None:
    async def body() -> str:
        async with await holdfast.open_async("memory:") as engine:
            session = await engine.create_session("s")
            begun = asyncio.Event()

            async def work() -> None:
                async with session.frame("work", budget=1):
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (frame,) = await session.frames.list()
            return frame.status

    assert asyncio.run(body()) == "cancelled"


def test_a_block_that_is_refused_at_its_beginning_leaves_nothing(engine: Engine) -> None:
    session = engine.create_session("s")
    before = contents(engine)
    with pytest.raises(errors.InvalidArgument), session.frame(" \n", budget=1):
        raise AssertionError("it was never there")
    assert contents(engine) == before
