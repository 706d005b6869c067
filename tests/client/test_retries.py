"""A request is sent again only if that cannot do anything twice; a lost answer stores nothing twice."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.client import exchanges
from holdfast.client.exchanges import Pause, RemoteRequest, RemoteResponse, Sending, Unanswered, Upload, attempts
from holdfast.errors import (
    HoldfastError,
    OutcomeUnknown,
    ServerFailed,
    ServerUnreachable,
    StorageBusy,
    VersionConflict,
)
from holdfast.server.app import build_app
from tests.client.faulty import TOKEN, LostAnswers, free_port, server_process, settings_of, wait_for_the_end
from tests.server.running import running
from tests.support import PATIENCE_S

READ = RemoteRequest("GET", "/sessions", is_safe=True)
KEYED = RemoteRequest("POST", "/sessions/s/messages", headers=(("Idempotency-Key", "k"),), is_safe=True)
UNSAFE = RemoteRequest("POST", "/sessions/s/calls/c/start")


def try_out(
    request: RemoteRequest, outcomes: list[RemoteResponse | Unanswered], retries: int = 3
) -> tuple[int, object]:
    """How often a request is sent, and its answer or its error."""
    flow = attempts(request, "the server", retries)
    sent = 0
    try:
        step = next(flow)
        while True:
            if isinstance(step, Pause):
                assert 0 <= step.seconds <= exchanges.LONGEST_PAUSE_S
                step = flow.send(None)
                continue
            assert step == Sending(request)
            outcome = outcomes[min(sent, len(outcomes) - 1)]
            sent += 1
            step = flow.throw(outcome) if isinstance(outcome, Unanswered) else flow.send(outcome)
    except StopIteration as stop:
        return sent, stop.value
    except HoldfastError as error:
        return sent, error


def problem(status: int, kind: str, **attributes: object) -> RemoteResponse:
    document = {"type": kind, "status": status, "attributes": attributes}
    headers = {"content-type": "application/problem+json", "retry-after": "1"}
    return RemoteResponse(status, headers, msgspec.json.encode(document))


OK = RemoteResponse(200, {}, b"{}")
LOST = Unanswered("gone", was_sent=True)
UNSENT = Unanswered("refused", was_sent=False)
BUSY = problem(503, "ServerBusy", server="", reason="full", retry_s=1)


@pytest.mark.parametrize("request_", [READ, KEYED], ids=["read", "with a key"])
@pytest.mark.parametrize("failure", [LOST, UNSENT, BUSY, problem(503, "StorageBusy", what="the store", waited_ms=5)])
def test_a_safe_request_is_sent_again(request_: RemoteRequest, failure: RemoteResponse | Unanswered) -> None:
    assert try_out(request_, [failure, failure, OK]) == (3, OK)


def test_a_request_that_may_have_taken_effect_is_not_sent_again_without_a_key() -> None:
    sent, error = try_out(UNSAFE, [LOST, OK])
    assert sent == 1
    assert isinstance(error, ServerUnreachable)
    sent, error = try_out(UNSAFE, [problem(503, "StorageBusy", what="the store", waited_ms=5), OK])
    assert (sent, type(error)) == (1, StorageBusy)
    assert try_out(UNSAFE, [UNSENT, OK]) == (2, OK)  # the server cannot have it
    assert try_out(UNSAFE, [BUSY, OK]) == (2, OK)  # the server has refused it before it did anything


def test_the_tries_are_bounded_and_the_last_error_is_raised() -> None:
    sent, error = try_out(READ, [LOST], retries=3)
    assert (sent, type(error)) == (4, ServerUnreachable)
    sent, error = try_out(READ, [problem(503, "StorageBusy", what="the store", waited_ms=5)], retries=2)
    assert (sent, type(error)) == (3, StorageBusy)
    assert try_out(READ, [LOST], retries=0)[0] == 1


def test_a_refusal_is_an_answer() -> None:
    refusal = problem(412, "VersionConflict", stream="s", expected=1, actual=2)
    sent, error = try_out(KEYED, [refusal, OK])
    assert (sent, type(error)) == (1, VersionConflict)


def test_what_is_no_answer_of_holdfast_is_a_failure_of_the_server() -> None:
    for status in (302, 401, 500):
        sent, error = try_out(READ, [RemoteResponse(status, {"content-type": "text/html"}, b"<p>"), OK])
        assert (sent, type(error)) == (1, ServerFailed)
    sent, answer = try_out(READ, [RemoteResponse(502, {"content-type": "text/html"}, b"<p>"), OK])
    assert (sent, answer) == (2, OK)  # a proxy in front of a server that is started again


def test_a_stream_that_was_read_is_not_sent_again() -> None:
    once = KEYED._replace(body=Upload(lambda: iter([b""]), is_repeatable=False))
    assert try_out(once, [LOST, OK])[0] == 1
    assert try_out(KEYED._replace(body=Upload(lambda: iter([b""]), is_repeatable=True)), [LOST, OK]) == (2, OK)


# A server that does what it is asked, and does not say so


def test_a_slow_answer_stores_once(tmp_path: Path) -> None:
    app = LostAnswers(build_app(settings_of(tmp_path / "agent.db")), wait_for_the_end, count=2)
    with running(app) as url, holdfast.connect(url, key=TOKEN, timeout_s=0.5) as engine:
        session = engine.session("s", create=True)
        message = session.record("user", "Once, please.")
        assert [each.text for each in session.messages()] == ["Once, please."]
        assert message.seq == session.messages()[0].seq
        assert len(app.seen) == 3
        assert len(set(app.seen)) == 1  # the same key each time
        session.record("user", "Again.", key="mine")
        assert app.seen[-1] == ("POST", "mine")


def test_a_lost_answer_to_a_write_with_a_version_is_no_conflict(tmp_path: Path) -> None:
    """The first try has changed the version; the second one is known by its key."""
    app = LostAnswers(build_app(settings_of(tmp_path / "agent.db")), wait_for_the_end)
    with running(app) as url, holdfast.connect(url, key=TOKEN, timeout_s=0.5) as engine:
        session = engine.session("s", create=True)
        message = session.record("user", "Once, please.", expect=1)
        assert session.messages() == [message]
        with pytest.raises(VersionConflict):
            session.record("user", "Late.", expect=1)


def test_a_slow_answer_stores_once_in_an_event_loop(tmp_path: Path) -> None:
    app = LostAnswers(build_app(settings_of(tmp_path / "agent.db")), wait_for_the_end)

    async def check(url: str) -> None:
        async with await holdfast.connect_async(url, key=TOKEN, timeout_s=0.5) as engine:
            session = await engine.session("s", create=True)
            await session.record("user", "Once, please.")
            assert [each.text for each in await session.messages()] == ["Once, please."]

    with running(app) as url:
        asyncio.run(check(url))
    assert len(app.seen) == 2


def test_without_retries_a_lost_answer_is_reported(tmp_path: Path) -> None:
    app = LostAnswers(build_app(settings_of(tmp_path / "agent.db")), wait_for_the_end)
    with running(app) as url, holdfast.connect(url, key=TOKEN, timeout_s=0.5, retries=0) as engine:
        session = engine.session("s", create=True)
        with pytest.raises(ServerUnreachable, match=r"no answer within 0\.5 seconds"):
            session.record("user", "Once, please.", key="mine")
        session.record("user", "Once, please.", key="mine")
        assert len(session.messages()) == 1


def test_a_server_that_is_killed_in_the_middle_of_a_call_stores_once(tmp_path: Path) -> None:
    """It has stored the message, and dies before it answers. Another one is started at the same address."""
    store, mark, port = tmp_path / "agent.db", tmp_path / "mark", free_port()
    answers: list[object] = []

    def work() -> None:
        try:
            with holdfast.connect(f"http://127.0.0.1:{port}", key=TOKEN, retries=20) as engine:
                session = engine.session("s", create=True)
                answers.append(session.record("user", "Once, please."))
                answers.append(session.messages())
        except BaseException as error:
            answers.append(error)

    client = threading.Thread(target=work)
    with server_process(store, port, mark) as first:
        client.start()
        assert first.wait(PATIENCE_S) < 0, "it kills itself"
    with server_process(store, port, mark):
        client.join(PATIENCE_S)
    assert not client.is_alive()
    message, listed = answers
    assert isinstance(message, holdfast.Message)
    assert listed == [message]


def test_a_start_of_a_tool_that_may_have_been_stored_is_not_repeated(tmp_path: Path) -> None:
    """It would be refused, and nobody would know why: the caller decides."""
    app = LostAnswers(build_app(settings_of(tmp_path / "agent.db")), wait_for_the_end, count=0)
    with running(app) as url, holdfast.connect(url, key=TOKEN) as engine:
        session = engine.session("s", create=True)
        (call,) = session.record("assistant", "", tool_calls=[{"name": "pay", "args": {}}]).tool_calls
        session.start_call(call)
        with pytest.raises(OutcomeUnknown):
            session.start_call(call)
