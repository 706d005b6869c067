"""What passes the gateway: the exact bytes of requests and answers, over real sockets."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import socket
import struct
import threading
import zlib
from collections.abc import Callable

import pytest
from backports import zstd

from holdfast.gateway.model import Arrival
from tests.gateway.conftest import Bench, open_bench
from tests.gateway.raw_upstream import (
    WAIT_S,
    RawRequest,
    answer_with,
    build_answer,
    cut,
    frame_chunk,
    open_client,
)

BODY = b'{ "model" : "m",\n"messages":[{"role":"user","content":"h\\u00e9llo \xf0\x9f\x98\x80"}] }'
ODD_HEADERS = (
    "X-Api-Key: secret\r\nanthropic-BETA: b, a ,c\r\nX-Twice: 1\r\nx-twice: 2\r\nX-Empty:\r\nCookie: a=b; c\r\n"
    "X-Latin: caf\xe9\r\nUser-Agent: odd/1.0 (x; y)\r\nAccept-Encoding: gzip, br\r\nContent-Type: application/json\r\n"
)
POST = "POST /v1/messages?beta=true&x=%2F%7e"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def framing_free(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [pair for pair in headers if pair[0].lower() not in (b"transfer-encoding", b"content-length", b"host")]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_request_leaves_as_it_came(bench: Bench, is_chunked: bool) -> None:
    bench.upstream.script = answer_with(build_answer(b"{}"))
    with open_client(bench.url) as client:
        body = frame_chunk(BODY[:9]) + frame_chunk(BODY[9:]) + b"0\r\n\r\n" if is_chunked else BODY
        client.send(POST, ODD_HEADERS + ("Transfer-Encoding: chunked\r\n" if is_chunked else ""), body)
        assert client.read_answer()[0] == 200
    (request,) = bench.upstream.requests
    assert request.line == b"POST /v1/messages?beta=true&x=%2F%7e HTTP/1.1"
    assert sha(request.body) == sha(BODY)
    sent = [tuple(line.split(": ")) for line in ODD_HEADERS.replace(":\r\n", ": \r\n").strip().split("\r\n")]
    assert framing_free(request.headers) == [(a.encode(), b.encode("latin-1")) for a, b in sent]
    assert request.headers[0] == (b"Host", bench.upstream.host)
    assert bench.desk.arrivals[0].body == BODY
    assert dict(bench.desk.arrivals[0].headers)["x-latin"] == "caf\xe9"


def test_websockets_are_refused_so_that_a_client_uses_http(bench: Bench) -> None:
    """Codex uses HTTP at once after status 426, and after five attempts after any other."""
    with open_client(bench.url) as client:
        upgrade = (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
        )
        client.send("GET /v1/responses", upgrade, b"")
        status, headers, _ = client.read_answer()
    assert (status, dict(headers)[b"x-holdfast-error"]) == (426, b"no-websockets")
    assert not bench.upstream.requests


def test_headers_of_one_connection_stay_here(bench: Bench) -> None:
    bench.upstream.script = answer_with(
        build_answer(
            b"{}", headers="Connection: x-mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nX-Theirs: 2\r\n"
        )
    )
    with open_client(bench.url) as client:
        hop = "Connection: keep-alive, x-drop\r\nX-Drop: 1\r\nTE: trailers\r\nExpect: 100-continue\r\nX-Keep: 1\r\n"
        client.send(POST, hop, BODY)
        assert client.read_head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        _, headers, body = client.read_answer()
    assert framing_free(bench.upstream.requests[0].headers) == [(b"X-Keep", b"1")]
    assert framing_free(headers) == [(b"X-Theirs", b"2")]
    assert body == b"{}"


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/models?a=%20b"])
def test_an_answer_arrives_as_it_came(bench: Bench, path: str, is_chunked: bool) -> None:
    data = random.Random(1).randbytes(200_000)
    headers = "Request-ID: r1\r\nX-Twice: a\r\nX-Twice: b\r\nanthropic-ratelimit-Tokens: 5\r\nX-Latin: caf\xe9\r\n"
    head = build_answer(b"", status="529 Odd Reason", headers=headers).partition(b"Content-Length")[0].decode()
    pieces = [data[at : at + 40_001] for at in range(0, len(data), 40_001)]
    if is_chunked:
        raw = [f"{head}Transfer-Encoding: chunked\r\n\r\n".encode("latin-1"), *map(frame_chunk, pieces), b"0\r\n\r\n"]
    else:
        raw = [f"{head}Content-Length: {len(data)}\r\n\r\n".encode("latin-1"), *pieces]
    bench.upstream.script = answer_with(*raw)
    with open_client(bench.url) as client:
        client.send(f"POST {path}", body=BODY)
        status, received, body = client.read_answer()
    assert (status, sha(body)) == (529, sha(data))
    sent = [tuple(line.encode("latin-1").split(b": ")) for line in headers.strip().split("\r\n")]
    assert framing_free(received) == sent
    names = {name.lower() for name, _ in received}
    assert (b"transfer-encoding" in names, b"content-length" in names) == (is_chunked, not is_chunked)


@pytest.mark.parametrize(
    ("line", "answer", "status"),
    [
        ("HEAD /", b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nX-A: 1\r\n\r\n", 200),
        ("HEAD /v1/models", b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\n\r\n", 404),
        ("DELETE /v1/responses/r1", b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", 204),
        ("GET /v1/models", b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nX-A: 1\r\n\r\n', 304),
        ("GET /v1/models", b"HTTP/1.1 307 Moved\r\nLocation: http://[bad\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n", 307),
    ],
)  # fmt: skip
def test_an_answer_without_a_body(bench: Bench, line: str, answer: bytes, status: int) -> None:
    bench.upstream.script = answer_with(answer)
    with open_client(bench.url) as client:
        for _ in range(2):  # the connection stays usable
            client.send(line)
            received, headers, head = client.read_start()
            assert (received, dict(headers)[b"X-A"]) == (status, b"1")
            if b"1234" in answer:
                assert b"Content-Length: 1234" in head
    assert [request.line for request in bench.upstream.requests] == [f"{line} HTTP/1.1".encode()] * 2
    assert bench.desk.arrivals == []


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Too Large", "429 Slow", "500 Oh", "529 Overloaded"])
def test_a_refusal_of_an_unchanged_request_is_passed_on_once(bench: Bench, status: str) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error"}}'
    bench.upstream.script = answer_with(build_answer(body, status=status, headers="retry-after: 3\r\n"))
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        received, headers, answer = client.read_answer()
    assert (received, answer, dict(headers)[b"retry-after"]) == (int(status[:3]), body, b"3")
    outcome = bench.desk.next_outcome()
    assert (outcome.status, outcome.reply, outcome.was_resent) == (received, None, False)
    assert len(bench.upstream.requests) == 1


ENCODERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}
DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": zstd.decompress,
}


@pytest.mark.parametrize("coding", ENCODERS)
def test_an_encoded_request_is_read_and_leaves_as_it_came(bench: Bench, coding: str) -> None:
    bench.upstream.script = answer_with(build_answer(b"{}"))
    encoded = ENCODERS[coding](BODY)
    with open_client(bench.url) as client:
        client.send(POST, f"Content-Encoding: {coding}\r\n", encoded)
        client.read_answer()
        bench.desk.on_prepare = lambda arrival: arrival.body + b" "
        client.send(POST, f"Content-Encoding: {coding}\r\n", encoded)
        client.read_answer()
    assert [arrival.body for arrival in bench.desk.arrivals] == [BODY, BODY]
    first, second = bench.upstream.requests
    assert sha(first.body) == sha(encoded)
    assert DECODERS[coding](second.body) == BODY + b" "
    assert second.find(b"content-encoding") == coding.encode()


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "odd", "gzip, gzip"])
def test_a_request_that_cannot_be_decoded_passes_without_the_desk(bench: Bench, coding: str) -> None:
    bench.upstream.script = answer_with(build_answer(b"{}"))
    with open_client(bench.url) as client:
        client.send(POST, f"Content-Encoding: {coding}\r\n", b"\x1f\x8bnot at all")
        assert client.read_answer()[0] == 200
    assert bench.upstream.requests[0].body == b"\x1f\x8bnot at all"
    assert bench.upstream.requests[0].find(b"content-encoding") == coding.encode()
    assert bench.desk.arrivals == []


def test_a_changed_request_has_its_own_length(bench: Bench) -> None:
    bench.upstream.script = answer_with(build_answer(b'{"ok":1}'))
    bench.desk.on_prepare = lambda arrival: b"{}"
    with open_client(bench.url) as client:
        client.send(POST, ODD_HEADERS, BODY)
        client.read_answer()
    (request,) = bench.upstream.requests
    assert (request.body, request.find(b"content-length")) == (b"{}", b"2")
    assert bench.desk.next_outcome().was_resent is False


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Too Large"])
@pytest.mark.parametrize("coding", ["", "zstd"])
def test_a_refused_change_is_sent_once_more_as_it_came(bench: Bench, status: str, coding: str) -> None:
    encoded = ENCODERS[coding](BODY) if coding else BODY

    def script(request: RawRequest, connection: socket.socket) -> None:
        is_original = request.body == encoded
        answer_with(build_answer(b'{"ok":1}') if is_original else build_answer(b"no", status=status))(
            request, connection
        )

    bench.upstream.script = script
    bench.desk.on_prepare = lambda arrival: b"{}"
    with open_client(bench.url) as client:
        client.send(POST, f"Content-Encoding: {coding}\r\n" if coding else "", encoded)
        assert client.read_answer()[::2] == (200, b'{"ok":1}')
    outcome = bench.desk.next_outcome()
    assert (outcome.status, outcome.was_resent, outcome.reply) == (200, True, {"ok": 1})
    assert len(bench.desk.left_alone) == 1
    assert [sha(request.body) for request in bench.upstream.requests[1:]] == [sha(encoded)]


def test_a_second_refusal_is_passed_on_and_is_none_of_the_change(bench: Bench) -> None:
    """An account without credit, for example: it would leave every conversation alone for ever."""
    bench.upstream.script = answer_with(build_answer(b"no", status="400 Bad Request"))
    bench.desk.on_prepare = lambda arrival: b"{}"
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        assert client.read_answer()[::2] == (400, b"no")
    assert len(bench.upstream.requests) == 2
    assert not bench.desk.next_outcome().was_resent
    assert not bench.desk.left_alone


def test_a_desk_that_raises_stops_no_request(bench: Bench) -> None:
    def fail(_arrival: Arrival) -> bytes:
        raise RuntimeError("the desk broke")

    bench.upstream.script = answer_with(build_answer(b"{}"))
    bench.desk.on_prepare = fail
    bench.desk.on_fall_back = lambda arrival: b'{"by":"the last view"}'
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        client.read_answer()
        bench.desk.on_fall_back = fail
        client.send(POST, body=BODY)
        client.read_answer()
    assert [request.body for request in bench.upstream.requests] == [b'{"by":"the last view"}', BODY]
    assert bench.desk.next_outcome().status == 200
    assert bench.desk.outcomes.empty()


def test_a_desk_that_hangs_stops_no_request() -> None:
    release = threading.Event()

    def hang(arrival: Arrival) -> bytes:
        assert release.wait(WAIT_S)
        return b"too late"

    with open_bench(answer_with(build_answer(b"{}")), deadline_s=0.05) as bench:
        bench.desk.on_prepare = hang
        bench.desk.on_fall_back = lambda arrival: b'{"by":"the last view"}'
        with open_client(bench.url) as client:
            for _ in range(6):  # more than there are threads
                client.send(POST, body=BODY)
                assert client.read_answer()[0] == 200
            bench.desk.on_fall_back = hang
            client.send(POST, body=BODY)
            assert client.read_answer()[0] == 200
            outcomes = [bench.desk.next_outcome() for _ in range(6)]
            release.set()
        assert {request.body for request in bench.upstream.requests[:6]} == {b'{"by":"the last view"}'}
        assert bench.upstream.requests[6].body == BODY
        assert len(outcomes) == 6
    assert bench.desk.outcomes.empty()  # a late result is thrown away


def test_a_large_request_streams_through_without_the_desk() -> None:
    data = random.Random(2).randbytes(300_000)
    with open_bench(answer_with(build_answer(b"{}")), request_bytes=100_000) as bench, open_client(bench.url) as client:
        for is_chunked in (False, True):
            framing = "Transfer-Encoding: chunked\r\n" if is_chunked else f"Content-Length: {len(data)}\r\n"
            client.send(POST, framing)
            pieces = [data[at : at + 50_000] for at in range(0, len(data), 50_000)]
            for piece in pieces:
                client.connection.sendall(frame_chunk(piece) if is_chunked else piece)
            client.connection.sendall(b"0\r\n\r\n" if is_chunked else b"")
            assert client.read_answer()[0] == 200
        assert [sha(request.body) for request in bench.upstream.requests] == [sha(data)] * 2
        assert [request.find(b"content-length") for request in bench.upstream.requests] == [b"300000", None]
        assert bench.desk.arrivals == []
        bomb = gzip.compress(b" " * 1_000_000)
        client.send(POST, "Content-Encoding: gzip\r\n", bomb)
        assert client.read_answer()[0] == 200
        assert bench.upstream.requests[2].body == bomb
        assert bench.desk.arrivals == []


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/embeddings"])
def test_a_provider_out_of_reach_is_an_error_in_the_shape_of_the_provider(path: str) -> None:
    with open_bench(answer_with(b"")) as bench:
        bench.upstream.close()
        with open_client(bench.url) as client:
            client.send(f"POST {path}", body=BODY)
            status, headers, body = client.read_answer()
        assert (status, dict(headers)[b"x-holdfast-error"]) == (502, b"upstream-failed")
        document = json.loads(body)
        assert document.get("type") == ("error" if path == "/v1/messages" else None)
        assert "could not reach" in document["error"]["message"]
        if path != "/v1/embeddings":
            outcome = bench.desk.next_outcome()
            assert (outcome.status, outcome.reply, outcome.is_complete) == (0, None, False)


def test_an_upstream_that_closes_without_an_answer_is_an_error(bench: Bench) -> None:
    bench.upstream.script = lambda request, connection: cut(connection)
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        assert client.read_answer()[0] == 502
        client.send(POST, body=BODY)
        assert client.read_answer()[0] == 502


def test_a_connection_that_is_reset_has_words_for_it(bench: Bench) -> None:
    def reset(_: RawRequest, connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    bench.upstream.script = reset
    with open_client(bench.url) as client:
        client.send(POST, body=BODY)
        _, _, body = client.read_answer()
    message = json.loads(body)["error"]["message"]
    assert re.fullmatch(r"Holdfast could not reach the provider [\w.]+:\d+: \w+: \S.*\S\. Try again\.", message)


def test_an_answer_that_is_no_http_is_quoted_nowhere(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.upstream.script = answer_with(b"the words of a model\r\n\r\n")
    with open_client(bench.url) as client:
        client.send("POST /v1/messages", body=BODY)
        status, _, body = client.read_answer()
    assert status == 502
    assert b"Protocol" in body
    assert b"words" not in body
    assert "words" not in caplog.text


def test_what_belongs_to_openai_and_to_anthropic() -> None:
    with (
        open_bench(answer_with(build_answer(b"anthropic"))) as anthropic,
        open_bench(
            answer_with(build_answer(b"openai")),
            anthropic_url=anthropic.upstream.url + "/a/",
        ) as bench,
        open_client(bench.url) as client,
    ):
        for line, headers, expected in (
            ("POST /v1/messages", "", b"anthropic"),
            ("POST /v1/messages/count_tokens?x=1", "", b"anthropic"),
            ("GET /v1/models", "anthropic-version: 2023-06-01\r\n", b"anthropic"),
            ("GET /api/hello", "", b"anthropic"),
            ("GET /v1/models", "", b"openai"),
            ("POST /v1/responses", "", b"openai"),
            ("POST /v1/responses/compact", "", b"openai"),
        ):
            client.send(line, headers, BODY if line.startswith("POST") else b"")
            assert client.read_answer()[2] == expected, line
        assert anthropic.upstream.requests[1].line == b"POST /a/v1/messages/count_tokens?x=1 HTTP/1.1"
        assert len(bench.desk.arrivals) == 2


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/v1/responses", b"/v1/responses"),
        ("/v1", "/v1/responses", b"/v1/responses"),
        ("/v1/", "/v1/responses?a=1", b"/v1/responses?a=1"),
        ("/api/v3", "/v1/responses", b"/api/v3/responses"),
    ],
)
def test_the_path_of_a_base_url_of_openai_stands_for_the_version(base: str, path: str, target: bytes) -> None:
    from holdfast.gateway.upstream import UpstreamLink

    link = UpstreamLink(f"http://127.0.0.1:9{base}", is_versioned=True)
    raw, _, query = path.encode().partition(b"?")
    assert link.build_target(raw, query) == target
