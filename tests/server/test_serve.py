"""Promise: a server is there before its store is, goes without losing what it acknowledged, and
comes back with all of it, even from a kill."""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading

import msgspec
import pytest

from strandline.cli.errors import LOCKED
from strandline.cli.main import run
from strandline.errors import Invalid, Unavailable
from strandline.platform.disk import OsDisk
from strandline.server.settings import ServerSettings
from strandline.store import Store
from tests.server.certificates import certificate
from tests.server.process import served
from tests.server.running import Answered, Raw, running


def ask(raw: Raw, path: str, body: bytes | None = None, headers: str = "") -> Answered:
    method, told = "GET", headers
    if body is not None:
        method = "POST"
        told += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    raw.send(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{told}\r\n".encode() + (body or b""))
    return raw.answer()


class SlowDisk(OsDisk):
    """A disk whose store takes as long to open as the test likes."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def boot_id(self) -> str:
        assert self.go_on.wait(30)
        return super().boot_id()


def test_while_the_store_is_opened_probes_are_answered_and_others_come_back_later(tmp_path):
    disk = SlowDisk()
    with running(tmp_path, disk=disk, ready=False) as server, server.raw() as raw:
        try:
            health = ask(raw, "/v0/health")
            ready = ask(raw, "/v0/ready")
            other = ask(raw, "/v0/topics/news", b'{"records":[{"data":1}]}')
        finally:
            disk.go_on.set()
        while ask(raw, "/v0/ready").status == 503:
            pass
        then = ask(raw, "/v0/topics/news", b'{"records":[{"data":1}]}')

    assert health.status == 200
    assert msgspec.json.decode(health.body)["status"] == "ok"
    assert ready.status == other.status == 503
    assert int(ready.headers["retry-after"]) >= 1
    problem = msgspec.json.decode(other.body)["error"]
    assert problem["code"] == "not_ready"
    assert problem["detail"] == {"replay_progress": 0.0}
    assert then.status == 201


def test_a_store_that_cannot_be_opened_ends_the_server(tmp_path):
    with Store(str(tmp_path / "data")), pytest.raises(Unavailable), running(tmp_path):
        pass


def test_sigterm_lets_requests_end_and_closes_the_store(tmp_path):
    with served(tmp_path) as server, server.raw() as raw, server.raw() as waiting:
        assert ask(raw, "/v0/topics/news", b'{"records":[{"data":1}]}').status == 201
        asked = b'{"from_seq":1,"wait_ms":30000}'
        waiting.send(
            b"POST /v0/topics/news/diff HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(asked), asked)
        )
        ask(raw, "/v0/topics")  # by now the other request is under way

        server.signal(signal.SIGTERM)
        answer = waiting.answer()
        code, said = server.ended()

        assert answer.status == 200
        assert code == 0
        assert b"Traceback" not in said
        assert raw.is_closed
    with Store(str(tmp_path / "data")) as store:
        assert store.topic("news").head_seq == 1


def test_a_second_signal_ends_the_server_at_once(tmp_path):
    with served(tmp_path, "--set", "drain_s=60") as server, server.raw() as raw:
        record = b'{"records":[{"data":"%b"}]}' % (b"a" * 900_000)
        for _ in range(12):
            ask(raw, "/v0/topics/news", record)
        never_read = server.raw()
        never_read.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        diff = b'{"max_batch_bytes":8388608}'
        with never_read:
            never_read.send(
                b"POST /v0/topics/news/diff HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(diff), diff)
            )
            assert never_read.socket.recv(1)

            server.signal(signal.SIGTERM)
            assert raw.is_closed  # the first was heard
            server.signal(signal.SIGTERM)
            code, _ = server.ended()

        assert code == -signal.SIGTERM


def test_two_servers_never_share_a_store(tmp_path):
    with served(tmp_path) as server:
        with served(tmp_path) as second:
            code, _ = second.ended()
        with server.raw() as raw:
            answer = ask(raw, "/v0/topics")

        assert code == LOCKED
        assert b"error: " in second.said
        assert b"Traceback" not in second.said
        assert answer.status == 200


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    acked: list[int] = []
    with served(tmp_path) as server, server.raw() as raw:
        body = b'{"records":[{"data":0}],"config":{"durability":"fsync"}}'
        assert ask(raw, "/v0/topics/safe", body).status == 201
        raw.send(_appends(500))
        for number in range(500):
            acked += _seqs(raw.answer())
            if number == 200:
                break
        os.kill(server.pid, signal.SIGKILL)
        server.ended()

    with served(tmp_path) as server, server.raw() as raw:
        asked = b'{"limit":1000}'
        page = msgspec.json.decode(ask(raw, "/v0/topics/safe/diff", asked).body)

    kept = {record["$seq"]: record["data"] for record in page["records"]}
    assert len(acked) == 201
    assert {seq: kept.get(seq) for seq in acked} == {seq: seq - 1 for seq in acked}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--bind", "0.0.0.0:0"], "unencrypted"),
        (["--bind", "nowhere"], "bind is HOST:PORT"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--set", "limits.other=1"], "there is no setting 'limits.other'"),
        (["--set", "limits.claim_max"], "NAME=VALUE"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(tmp_path, monkeypatch, capsys, flags, told):
    monkeypatch.chdir(tmp_path)

    code = run(["serve", *flags])

    assert code == 2
    message, _hint = capsys.readouterr().err.splitlines()
    assert told in message


def test_an_address_that_is_taken_is_told(tmp_path):
    with (
        running(tmp_path / "one") as server,
        pytest.raises(Unavailable, match="is another server using it"),
        running(tmp_path / "two", bind=f"127.0.0.1:{server.port}"),
    ):
        pass


def test_a_socket_file_is_for_its_owner_alone_and_goes_with_the_server(tmp_path):
    path = tmp_path / "socket"
    with running(tmp_path, bind=f"unix:{path}") as server, server.raw() as raw:
        mode = stat.S_IMODE(path.stat().st_mode)
        answer = ask(raw, "/v0/topics")
        with pytest.raises(Unavailable), running(tmp_path / "two", bind=f"unix:{path}"):
            pass

    assert mode == 0o600
    assert answer.status == 200
    assert not path.exists()


def test_a_socket_file_that_was_left_behind_is_replaced_and_nothing_else_is(tmp_path):
    left, other = tmp_path / "left", tmp_path / "other"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    other.write_text("precious")

    with running(tmp_path, bind=f"unix:{left}") as server, server.raw() as raw:
        answer = ask(raw, "/v0/topics")
    with pytest.raises(Unavailable), running(tmp_path, bind=f"unix:{other}"):
        pass

    assert answer.status == 200
    assert other.read_text() == "precious"


def test_a_public_address_without_a_token_never_serves(tmp_path):
    tls = certificate(tmp_path, "one")

    with (
        pytest.raises(Invalid, match="there is no token"),
        running(tmp_path, settings=ServerSettings(tls=tls), bind="0.0.0.0:0"),
    ):
        pass


@pytest.mark.parametrize("way", ["", "Content-Encoding: identity\r\n"], ids=["hot", "application"])
@pytest.mark.parametrize(
    ("trusted", "status"), [((), 200), (("127.0.0.1",), 401), (("10.0.0.0/8",), 200)]
)
@pytest.mark.parametrize("forwarded", ["127.0.0.1, 1.2.3.4", "1.2.3.4, 127.0.0.1", "1.2.3.4:80"])
def test_only_a_trusted_proxy_says_who_asks(tmp_path, way, trusted, status, forwarded):
    """Without a token this machine is let in, and strangers are not."""
    settings = ServerSettings(trusted_proxies=trusted)
    with running(tmp_path, settings=settings) as server, server.raw() as raw:
        server.store.topic("news")
        body = b'{"records":[{"data":1}]}'
        ask(raw, "/v0/topics/news", body)

        answer = ask(raw, "/v0/topics/news", body, f"X-Forwarded-For: {forwarded}\r\n{way}")

    assert answer.status == status


def _appends(count: int) -> bytes:
    bodies = (b'{"records":[{"data":%d}]}' % number for number in range(1, count + 1))
    return b"".join(
        b"POST /v0/topics/safe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        for body in bodies
    )


def _seqs(answer: Answered) -> list[int]:
    told = msgspec.json.decode(answer.body)
    return list(range(told["first_seq"], told["last_seq"] + 1))
