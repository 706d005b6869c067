"""The gateway's connections to providers: kept while both sides agree, in TLS where the URL says so, through proxies."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.gateway.conftest import Bench, open_bench
from tests.gateway.raw_upstream import RawRequest, RawUpstream, Script, answer_with, build_answer, cut, open_client

POST = "POST /v1/messages"
BODY = b'{"model":"m"}'
NAME = "provider.test"
ANSWER = answer_with(build_answer(b'{"ok":1}'))
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of a provider that signed it itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("certificate") / "provider.pem"
    pem, clear = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(
        built.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, clear)
    )
    return path


@pytest.fixture
def provider(certificate: Path) -> Iterator[RawUpstream]:
    """A provider that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with contextlib.closing(RawUpstream(ANSWER, context)) as upstream:
        yield upstream


def ask(bench: Bench, body: bytes = BODY) -> tuple[int, bytes]:
    with open_client(bench.url) as client:
        client.send(POST, body=body)
        status, _, answer = client.read_answer()
        return status, answer


# Kept connections


def test_a_connection_is_used_again() -> None:
    with open_bench(ANSWER) as bench:
        for _ in range(3):
            assert ask(bench) == (200, b'{"ok":1}')
        assert len(bench.upstream.connections) == 1


LATE_WORDS = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("words", [b"", LATE_WORDS], ids=["silent", "with words"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open"])
def test_a_connection_of_which_the_server_thinks_otherwise_is_used_no_more(words: bytes, is_closed: bool) -> None:
    """Servers close unused connections, some with an answer that belongs to no request."""
    said = threading.Event()

    def script(request: RawRequest, connection: socket.socket) -> None:
        ANSWER(request, connection)
        assert asked.wait(20)
        if words:
            connection.sendall(words)
        if is_closed:
            cut(connection)
        said.set()

    with open_bench(script) as bench:
        for _ in range(3):
            asked = threading.Event()
            said.clear()
            assert ask(bench) == (200, b'{"ok":1}')
            asked.set()
            assert said.wait(20)
        assert len(bench.upstream.connections) == (3 if words or is_closed else 1)


def test_an_answer_that_says_so_ends_its_connection() -> None:
    with open_bench(answer_with(build_answer(b"{}", headers="Connection: close\r\n"))) as bench:
        assert [ask(bench)[0] for _ in range(2)] == [200, 200]
        assert len(bench.upstream.connections) == 2


def test_a_long_answer_waits_for_a_client_that_reads_slowly() -> None:
    body = bytes(range(256)) * (8 << 12)
    with open_bench(answer_with(build_answer(body))) as bench, open_client(bench.url) as client:
        client.send("GET /v1/models")
        status, _, head = client.read_start()
        assert (status, client.read_body(head)[1]) == (200, body)


def test_a_long_request_arrives_whole() -> None:
    body = b'{"model":"' + b"m" * (6 << 20) + b'"}'
    with open_bench(ANSWER) as bench:
        assert ask(bench, body)[0] == 200
        assert bench.upstream.requests[0].body == body


# TLS


def test_a_provider_with_a_trusted_certificate_is_reached(
    provider: RawUpstream, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    body = b'{"model":"' + b"m" * (2 << 20) + b'"}'
    with open_bench(ANSWER, anthropic_url=provider.url) as bench:
        assert [ask(bench), ask(bench, body)] == [(200, b'{"ok":1}')] * 2
    assert [request.body for request in provider.requests] == [BODY, body]
    assert len(provider.connections) == 1


def test_a_provider_with_another_certificate_is_not_reached(provider: RawUpstream) -> None:
    with open_bench(ANSWER, anthropic_url=provider.url) as bench:
        status, answer = ask(bench)
    assert status == 502
    assert b"certificate verify failed" in answer
    assert provider.requests == []


def test_the_name_in_a_certificate_is_checked(
    provider: RawUpstream, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with open_bench(ANSWER, anthropic_url=provider.url.replace("127.0.0.1", "localhost")) as bench:
        status, answer = ask(bench)
    assert status == 502
    assert b"certificate verify failed" in answer


# Proxies


def test_a_request_of_plain_http_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(RawUpstream(ANSWER)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:a%40b@"))
        with open_bench(ANSWER, anthropic_url=f"http://{NAME}/base") as bench:
            assert [ask(bench)[0] for _ in range(2)] == [200, 200]
    request, _ = proxy.requests
    assert request.line == f"POST http://{NAME}/base/v1/messages HTTP/1.1".encode()
    assert (request.find(b"host"), request.body) == (NAME.encode(), BODY)
    assert request.find(b"proxy-authorization") == b"Basic bWU6YUBi"
    assert len(proxy.connections) == 1


def test_a_request_of_https_goes_through_a_tunnel_of_the_proxy(
    provider: RawUpstream, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with contextlib.closing(RawUpstream(tunnel_to(provider))) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.host.decode())  # as curl takes it
        with open_bench(ANSWER, anthropic_url=f"https://{NAME}:8443") as bench:
            assert [ask(bench)[0] for _ in range(2)] == [200, 200]
    (asked,) = proxy.requests
    assert asked.line == f"CONNECT {NAME}:8443 HTTP/1.1".encode()
    assert asked.find(b"proxy-authorization") is None
    assert [(each.find(b"host"), each.body) for each in provider.requests] == [(f"{NAME}:8443".encode(), BODY)] * 2


def tunnel_to(provider: RawUpstream) -> Script:
    def script(_request: RawRequest, connection: socket.socket) -> None:
        host, _, port = provider.host.decode().partition(":")
        with socket.create_connection((host, int(port))) as other:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=pump, args=(other, connection), daemon=True).start()
            pump(connection, other)

    return script


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


def test_a_proxy_that_refuses_a_tunnel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(RawUpstream(answer_with(build_answer(b"", status="407 No")))) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with open_bench(ANSWER, anthropic_url=f"https://{NAME}") as bench:
            status, answer = ask(bench)
    assert status == 502
    assert b"the proxy answered with the status 407" in answer


def test_a_proxy_that_does_not_speak_http_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    with open_bench(ANSWER, anthropic_url=f"https://{NAME}") as bench:
        status, answer = ask(bench)
    assert status == 502
    assert b"socks5" in answer


def test_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with open_bench(ANSWER) as bench:
        assert ask(bench)[0] == 200
