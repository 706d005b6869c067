"""Streams through the gateway: they stay streams, end with whoever ends them, and leave their record."""

from __future__ import annotations

import hashlib
import socket
import threading

import pytest

from tests.gateway.conftest import Bench, open_bench
from tests.gateway.raw_upstream import (
    WAIT_S,
    RawRequest,
    cut,
    frame_chunk,
    open_client,
)

BODY = b'{"model":"m","stream":true,"messages":[]}'
POST = "POST /v1/messages"
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
SIZED_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100000\r\n\r\n"
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant",'
    b'"model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
    b"event: content_block_start\n"
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
)
END = (
    b'data: {"type":"content_block_stop","index":0}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}\n\n'
    b'data: {"type":"message_stop"}\n\n'
)


def delta(text: str) -> bytes:
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
        + text.encode()
        + b'"}}\n\n'
    )


def test_many_streams_interleave() -> None:
    """Each client has the first half of its stream before any of the second halves is sent."""
    count = 32
    second_half = threading.Event()
    is_coming = threading.Barrier(count + 1)

    def script(request: RawRequest, connection: socket.socket) -> None:
        name = (request.find(b"x-name") or b"").decode()
        connection.sendall(SSE_HEAD + frame_chunk(START) + frame_chunk(delta(f"{name}é one ")))
        assert second_half.wait(WAIT_S)
        connection.sendall(frame_chunk(delta(f"{name}é two")) + frame_chunk(END) + b"0\r\n\r\n")

    texts: dict[int, bytes] = {}

    def use(number: int, url: str) -> None:
        with open_client(url) as client:
            client.send(POST, f"X-Name: {number}\r\n", BODY)
            assert client.read_start()[0] == 200
            received = b""
            while b" one " not in received:
                received += client.read_chunk()[1]
            is_coming.wait(WAIT_S)
            while data := client.read_chunk()[1]:
                received += data
            texts[number] = received

    with open_bench(script) as bench:
        threads = [threading.Thread(target=use, args=(number, bench.url)) for number in range(count)]
        for thread in threads:
            thread.start()
        is_coming.wait(WAIT_S)
        assert texts == {}
        second_half.set()
        for thread in threads:
            thread.join(WAIT_S)
        outcomes = [bench.desk.next_outcome() for _ in range(count)]
    for number in range(count):
        expected = START + delta(f"{number}é one ") + delta(f"{number}é two") + END
        assert hashlib.sha256(texts[number]).digest() == hashlib.sha256(expected).digest()
    replies = {outcome.reply["content"][0]["text"] for outcome in outcomes if outcome.reply}
    assert replies == {f"{number}é one {number}é two" for number in range(count)}
    assert all(outcome.is_complete and outcome.sent_us <= outcome.ended_us for outcome in outcomes)
    assert all(outcome.reply and outcome.reply["usage"]["output_tokens"] == 9 for outcome in outcomes)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/completions"])
def test_a_client_that_goes_ends_the_request_upstream(bench: Bench, path: str) -> None:
    def script(_request: RawRequest, connection: socket.socket) -> None:
        connection.sendall(SSE_HEAD + frame_chunk(START) + frame_chunk(delta("half")))
        bench.upstream.wait_for_gone(connection)

    bench.upstream.script = script
    with open_client(bench.url) as client:
        client.send(f"POST {path}", body=BODY)
        client.read_start()
        while b"half" not in client.rest:
            client.fill()
    assert bench.upstream.gone.wait(WAIT_S)
    if path == "/v1/messages":
        outcome = bench.desk.next_outcome()
        while outcome.is_complete:  # a late one, of the test before
            outcome = bench.desk.next_outcome()
        assert outcome.status == 200
        assert outcome.reply is not None
        assert outcome.reply["content"] == [{"type": "text", "text": "half"}]


def test_a_client_that_goes_before_the_answer_ends_the_request_upstream(bench: Bench) -> None:
    came = threading.Event()

    def script(_request: RawRequest, connection: socket.socket) -> None:
        came.set()
        bench.upstream.wait_for_gone(connection)

    bench.upstream.script = script
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        assert came.wait(WAIT_S)
    assert bench.upstream.gone.wait(WAIT_S)
    outcome = bench.desk.next_outcome()
    assert (outcome.status, outcome.reply, outcome.is_complete) == (0, None, False)


def test_a_client_that_goes_while_the_desk_works_sends_nothing(bench: Bench) -> None:
    is_preparing, release = threading.Event(), threading.Event()

    def prepare(arrival: object) -> bytes:
        is_preparing.set()
        assert release.wait(WAIT_S)
        return b"{}"

    bench.desk.on_prepare = prepare
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        assert is_preparing.wait(WAIT_S)
    with open_client(bench.url) as other:  # the gateway has seen the first one go when it answers the second one
        other.send("GET /holdfast/health")
        assert other.read_answer()[0] == 200
    release.set()
    bench.desk.on_prepare = lambda arrival: arrival.body
    bench.upstream.script = lambda request, connection: connection.sendall(
        SSE_HEAD + frame_chunk(START + END) + b"0\r\n\r\n"
    )
    with open_client(bench.url) as other:
        other.send(POST, "X-Name: second\r\n", BODY)
        assert other.read_answer()[0] == 200
    assert [request.find(b"x-name") for request in bench.upstream.requests] == [b"second"]


@pytest.mark.parametrize("head", [SSE_HEAD, SIZED_HEAD], ids=["chunked", "sized"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/completions"])
def test_a_stream_that_was_cut_is_cut_for_the_client(bench: Bench, head: bytes, path: str) -> None:
    def script(_request: RawRequest, connection: socket.socket) -> None:
        data = START + delta("half")
        connection.sendall(head + (frame_chunk(data) if head is SSE_HEAD else data))
        cut(connection)

    bench.upstream.script = script
    with open_client(bench.url) as client:
        client.send(f"POST {path}", body=BODY)
        _, _, raw_head = client.read_start()
        with pytest.raises(EOFError):
            client.read_body(raw_head)
        assert b"0\r\n\r\n" not in client.rest
    if path == "/v1/messages":
        outcome = bench.desk.next_outcome()
        while outcome.is_complete:  # a late one, of the test before
            outcome = bench.desk.next_outcome()
        assert outcome.status == 200
        assert outcome.reply is not None
        assert outcome.reply["content"] == [{"type": "text", "text": "half"}]


def test_a_client_that_stops_reading_after_the_last_event_has_a_complete_reply(bench: Bench) -> None:
    def script(_request: RawRequest, connection: socket.socket) -> None:
        connection.sendall(SSE_HEAD + frame_chunk(START + delta("all") + END))
        bench.upstream.wait_for_gone(connection)

    bench.upstream.script = script
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        client.read_start()
        while b"message_stop" not in client.rest:
            client.fill()
    outcome = bench.desk.next_outcome()
    assert (outcome.is_complete, outcome.reply and outcome.reply["stop_reason"]) == (True, "end_turn")


def test_records_are_finished_at_the_end_and_never_delay_the_client() -> None:
    release = threading.Event()
    settled: list[int] = []

    def settle(_outcome: object) -> None:
        assert release.wait(WAIT_S)
        settled.append(1)

    def script(_request: RawRequest, connection: socket.socket) -> None:
        connection.sendall(SSE_HEAD + frame_chunk(START + END) + b"0\r\n\r\n")

    with open_bench(script) as bench:
        bench.desk.on_settle = settle
        with open_client(bench.url) as client:
            for _ in range(5):
                client.send(POST, body=BODY)
                assert client.read_answer()[0] == 200
        assert settled == []
        threading.Timer(0.2, release.set).start()
    assert len(settled) == 5


def test_a_gateway_that_ends_cuts_streams_after_its_grace() -> None:
    def script(_request: RawRequest, connection: socket.socket) -> None:
        connection.sendall(SSE_HEAD + frame_chunk(START) + frame_chunk(delta("half")))
        bench.upstream.wait_for_gone(connection)

    with open_bench(script, grace_s=1) as bench, open_client(bench.url) as client:
        client.send(POST, body=BODY)
        _, _, head = client.read_start()
        while b"half" not in client.rest:
            client.fill()
        bench.service.stop()
        with pytest.raises(EOFError):
            client.read_body(head)
        outcome = bench.desk.next_outcome()
        assert (outcome.is_complete, outcome.status) == (False, 200)
        assert bench.upstream.gone.wait(WAIT_S)


def test_a_reply_beyond_the_limit_is_passed_on_and_not_kept(bench: Bench) -> None:
    piece = delta("x" * 1_000_000)

    def script(_request: RawRequest, connection: socket.socket) -> None:
        connection.sendall(SSE_HEAD + frame_chunk(START))
        for _ in range(20):
            connection.sendall(frame_chunk(piece))
        connection.sendall(frame_chunk(END) + b"0\r\n\r\n")

    bench.upstream.script = script
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        client.read_start()
        hashed = hashlib.sha256()
        while data := client.read_chunk()[1]:
            hashed.update(data)
    assert hashed.digest() == hashlib.sha256(START + piece * 20 + END).digest()
    outcome = bench.desk.next_outcome()
    assert (outcome.status, outcome.reply, outcome.is_complete) == (200, None, True)
