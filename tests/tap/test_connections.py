"""The tap's connections to providers: encrypted or not, closed by either side, full, and cheap while answers pass."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from turnscope.tap.apis import Upstreams
from turnscope.tap.server import Tap, run_tap

from tests.tap.test_gateway import ANSWER, BODY, make_request, read_log, send, split, tapped
from tests.tap.upstream import read_answer, read_request, serve, stream, wait_for, whole

PARTS = [b"data: {}\n\n" for _ in range(100)]


def test_a_part_of_an_answer_does_not_stop_and_start_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such change is a system call, which a thousand streams would pay with every part."""
    changes, modify = [], selectors.DefaultSelector.modify
    register, unregister = selectors.DefaultSelector.register, selectors.DefaultSelector.unregister
    for name, real in (("modify", modify), ("register", register), ("unregister", unregister)):
        monkeypatch.setattr(selectors.DefaultSelector, name, lambda *given, real=real: changes.append(1) or real(*given))
    parts = [each for part in PARTS for each in (part, lambda: time.sleep(0.002))]
    with tapped(tmp_path, stream(*parts)) as (tap, _):
        send(tap)
    assert len(changes) < len(PARTS)


def test_an_idle_connection_that_the_provider_closed_is_not_used_again(tmp_path: Path) -> None:
    with tapped(tmp_path, whole(ANSWER, "200 OK", "Connection: keep-alive")) as (tap, upstream):
        assert split(send(tap))[1] == ANSWER
        upstream.close_all()
        time.sleep(0.1)
        assert split(send(tap))[1] == ANSWER
        assert upstream.connections == 2


def test_an_answer_that_its_client_does_not_read_waits_at_the_provider(tmp_path: Path) -> None:
    sent: list[int] = []
    piece = b"x" * 1_000_000
    parts = [each for number in range(60) for each in (piece, lambda number=number: sent.append(number))]
    with tapped(tmp_path, stream(*parts)) as (tap, _):
        port = int(tap.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(make_request().format(port=port).encode() + BODY)
            wait_for(lambda: sent)
            before = -1
            while before != len(sent):
                before = len(sent)
                time.sleep(0.5)
            assert before < 40
            received = read_answer(client, b"\r\n0\r\n\r\n")
    assert received.count(b"x") == 60 * len(piece) + 1  # one stands in the head


def test_an_answer_that_comes_before_the_request_was_read_passes(tmp_path: Path) -> None:
    """A provider may refuse a body that is too long before it has read it, and close."""
    refusal = whole(b'{"type":"error"}', "413 Too Large", "Connection: close")[0]
    with serve_raw(refusal) as port, run_tap(tmp_path / "log.jsonl", Upstreams(f"http://127.0.0.1:{port}", {})) as tap:
        answer = send(tap, b'{"model":"m","messages":[]' + b" " * 30_000_000 + b"}")
    assert answer.startswith(b"HTTP/1.1 413")
    (call,) = read_log(tmp_path).calls
    assert call.status == 413


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_provider_behind_tls_is_reached_where_its_certificate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    context = make_tls(tmp_path)
    if is_trusted:
        trust = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        monkeypatch.setattr(httpx2, "create_ssl_context", lambda: trust)
    with serve_raw(b"".join(stream(*PARTS)), context) as upstream, encrypted(tmp_path, upstream) as tap:
        answers = [send(tap) for _ in range(2)]
    for answer in answers:
        assert (answer.count(PARTS[0]) == len(PARTS)) is is_trusted
        assert (b"certificate verify failed" in answer) is not is_trusted


def test_no_connection_stays_behind_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    ends: list[str] = []
    with serve_raw(b"", make_tls(tmp_path), ends) as upstream, encrypted(tmp_path, upstream) as tap:
        assert b"HTTP/1.1 502" in send(tap)
        wait_for(lambda: ends)


def test_a_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(whole(ANSWER)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with run_tap(tmp_path / "log.jsonl", Upstreams("http://provider.invalid", {})) as tap:
            assert split(send(tap))[1] == ANSWER
    assert proxy.came[0][0].startswith(b"POST http://provider.invalid/v1/messages HTTP/1.1")


def encrypted(folder: Path, port: int) -> AbstractContextManager[Tap]:
    return run_tap(folder / "log.jsonl", Upstreams(f"https://127.0.0.1:{port}", {}))


@contextmanager
def serve_raw(answer: bytes, context: ssl.SSLContext | None = None, ends: list[str] | None = None) -> Iterator[int]:
    """Serve one answer to each connection: over TLS when its request has come, else before it reads more than its head."""
    listening = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) if context else connection as wire:
                if context:
                    while read_request(wire):
                        wire.sendall(answer)
                else:
                    wire.recv(1_000)
                    wire.sendall(answer)
                    wire.shutdown(socket.SHUT_WR)
                    time.sleep(0.2)  # so that what came is there before the reset that follows from what was not read
        except OSError as error:
            (ends if ends is not None else []).append(str(error))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listening:
        yield listening.getsockname()[1]


def make_tls(folder: Path) -> ssl.SSLContext:
    """What a server of this machine shows; its certificate lies in the folder."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a provider")])
    places = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    begun = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    dated = begun.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    authority = x509.BasicConstraints(ca=True, path_length=None)
    signed = dated.add_extension(places, critical=False).add_extension(authority, critical=True).sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context
