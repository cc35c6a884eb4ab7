"""Promise: with a certificate nothing travels unencrypted or below TLS 1.2, clients show theirs
where that is asked for, and a new certificate counts without a restart."""

from __future__ import annotations

import contextlib
import shutil
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from strandline.errors import Invalid
from strandline.server.connection import tls
from strandline.server.settings import RequestLimits, ServerSettings, TlsSettings
from tests.server.certificates import certificate, subject, trusting
from tests.server.process import served
from tests.server.running import DEADLINE_S, Raw, running

GET = b"GET /v0/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"
APPEND = (
    b"POST /v0/topics/news HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 24\r\n\r\n{"records":[{"data":1}]}'
)


def test_requests_are_answered_over_tls_on_both_ways(tmp_path: Path):
    settings = ServerSettings(tls=certificate(tmp_path, "one"))
    with running(tmp_path, settings=settings) as server:
        with server.raw(context=trusting(settings.tls)) as raw:
            raw.send(APPEND + APPEND * 50 + GET)
            statuses = [raw.answer().status for _ in range(52)]

        assert server.url.startswith("https://")
        assert statuses == [201] + [200] * 51


def test_what_is_malformed_is_told_over_tls_too(tmp_path: Path):
    settings = ServerSettings(tls=certificate(tmp_path, "one"))
    trusted = trusting(settings.tls)
    with running(tmp_path, settings=settings) as server, server.raw(context=trusted) as raw:
        raw.send(GET.replace(b"\r\n", b"\n"))

        assert raw.answer().status == 400
        assert raw.is_closed


def test_plain_text_gets_no_answer_from_a_tls_port(tmp_path: Path):
    settings = ServerSettings(tls=certificate(tmp_path, "one"))
    with running(tmp_path, settings=settings) as server, server.raw() as raw:
        raw.send(GET)

        assert b"HTTP" not in raw.rest()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_below_1_2_is_refused(tmp_path: Path):
    settings = ServerSettings(tls=certificate(tmp_path, "one"))
    old = trusting(settings.tls)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with running(tmp_path, settings=settings) as server, pytest.raises(ssl.SSLError):
        server.raw(context=old)


def test_a_client_without_a_certificate_is_refused_where_one_is_asked_for(tmp_path: Path):
    ours, theirs = certificate(tmp_path, "server"), certificate(tmp_path, "client")
    ours = msgspec.structs.replace(ours, client_authority=theirs.certificate)
    with running(tmp_path, settings=ServerSettings(tls=ours)) as server:
        known = trusting(ours)
        known.load_cert_chain(theirs.certificate, theirs.key)
        with server.raw(context=known) as raw:
            raw.send(GET)
            with_one = raw.answer()

        # A client of TLS 1.3 hears of it with the first bytes that it reads.
        with server.raw(context=trusting(ours)) as raw, pytest.raises((ssl.SSLError, OSError)):
            raw.answer()

        assert with_one.status == 200


def test_sighup_takes_a_new_certificate_and_keeps_the_old_one_when_it_is_bad(tmp_path: Path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    both = trusting(first)
    both.load_verify_locations(second.certificate)
    used = TlsSettings(certificate=str(tmp_path / "used.pem"), key=str(tmp_path / "used.key"))
    _copy(first, used)
    flags = ["--tls-certificate", used.certificate, "--tls-key", used.key]

    with served(tmp_path, *flags) as server:
        before = _shown(server.raw(), both)
        _copy(second, used)
        server.signal(signal.SIGHUP)
        after = _until_shown("second", server, both)
        Path(used.key).write_text("nonsense")
        server.signal(signal.SIGHUP)
        still = _shown(server.raw(), both)
        server.signal(signal.SIGTERM)
        code, _ = server.ended()

    assert (before, after, still, code) == ("first", "second", "second", 0)


@pytest.mark.parametrize("field", ["certificate", "key", "client_authority"])
def test_files_that_do_not_fit_are_named(tmp_path: Path, field):
    settings = certificate(tmp_path, "one")
    broken = msgspec.structs.replace(settings, **{field: str(tmp_path / "missing.pem")})

    with pytest.raises(Invalid, match=r"missing\.pem"):
        tls.make_context(broken)


def _copy(settings: TlsSettings, to: TlsSettings) -> None:
    shutil.copy(settings.certificate, to.certificate)
    shutil.copy(settings.key, to.key)


def _shown(raw: Raw, context: ssl.SSLContext) -> str:
    with raw, context.wrap_socket(raw.socket, server_hostname="localhost") as connected:
        return subject(connected)


def _until_shown(name: str, server, context: ssl.SSLContext) -> str:
    """The signal is heard some time later."""
    shown = ""
    for _ in range(1000):
        shown = _shown(server.raw(), context)
        if shown == name:
            break
    return shown


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_address_max"])
def test_connections_in_their_handshake_count(tmp_path: Path, limit: str):
    settings = ServerSettings(
        tls=certificate(tmp_path, "one"), limits=RequestLimits(**{limit: 3}, receive_s_max=60)
    )
    trusted = trusting(settings.tls)
    with running(tmp_path, settings=settings) as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(server.raw()) for _ in range(3)]
        _until(lambda: len(server.listener.connections.open) == 3)

        with server.raw() as one_more:
            refused = one_more.is_closed
        silent[0].socket.close()
        _until(lambda: len(server.listener.connections.open) == 2)
        with server.raw(context=trusted) as instead:
            instead.send(GET)
            answered = instead.answer().status

    assert refused
    assert answered == 200


def test_a_connection_counts_once_when_its_handshake_is_over(tmp_path: Path):
    settings = ServerSettings(
        tls=certificate(tmp_path, "one"), limits=RequestLimits(connections_max=1)
    )
    trusted = trusting(settings.tls)
    with running(tmp_path, settings=settings) as server:
        for _ in range(3):
            with server.raw(context=trusted) as raw:
                raw.send(GET)
                assert raw.answer().status == 200
                assert len(server.listener.connections.open) == 1
            _until(lambda: not server.listener.connections.open)


def test_a_handshake_that_takes_too_long_ends_and_is_counted_no_more(tmp_path: Path):
    settings = ServerSettings(
        tls=certificate(tmp_path, "one"), limits=RequestLimits(receive_s_max=0.3)
    )
    with running(tmp_path, settings=settings) as server, server.raw() as silent:
        _until(lambda: len(server.listener.connections.open) == 1)

        assert silent.is_closed
        _until(lambda: not server.listener.connections.open)


def test_a_server_ends_while_a_handshake_is_under_way(tmp_path: Path):
    settings = ServerSettings(
        tls=certificate(tmp_path, "one"), limits=RequestLimits(receive_s_max=60), drain_s=0.2
    )
    with running(tmp_path, settings=settings) as server:
        silent = server.raw()
        _until(lambda: len(server.listener.connections.open) == 1)
    with silent:
        assert silent.is_closed


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
