"""Promise: a client's connections are its own, end with it, and keep its token to themselves."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import threading
import traceback

import pytest

import strandline
from strandline import ClientSettings, Closed, Forbidden, Invalid, ObjectStoreUnreachable
from strandline.server.settings import ServerSettings
from tests.server.certificates import certificate
from tests.server.running import running

SECRET = "evs1_000000000000_" + "s" * 43 + "_000000"


def test_importing_the_package_loads_no_client():
    code = "from strandline import *; import sys; print('httpx2' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_a_closed_store_says_so(server):
    store = strandline.connect(server.url)
    topic = store.topic("closing")
    store.close()
    store.close()

    with pytest.raises(Closed):
        topic.append(b"x")


def test_closing_ends_who_waits(server, name):
    store = strandline.connect(server.url)
    topic = store.topic(name)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            for _ in topic.follow():
                pass
        except BaseException as error:  # noqa: BLE001 - looked at below
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    topic.append(b"x")
    store.close()
    waiting.join(60)

    assert not waiting.is_alive()
    assert isinstance(raised[0], Closed)


def test_nobody_there_is_told_clearly():
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with (
        strandline.connect(url, settings=ClientSettings(retry_s_max=0.0)) as store,
        pytest.raises(ObjectStoreUnreachable) as nobody,
    ):
        store.topics()

    assert url in str(nobody.value)
    assert "is it running?" in str(nobody.value)


def test_one_connection_is_enough_for_many_threads(server, name):
    settings = ClientSettings(connections_max=1, idle_connections_max=1)
    with strandline.connect(server.url, settings=settings) as store:
        topic = store.topic(name)
        threads = [threading.Thread(target=topic.append, args=(b"x",)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert topic.head_seq == 20


def test_many_tasks_share_a_client(server, name):
    async def work() -> int:
        async with strandline.connect_async(server.url) as store:
            topic = await store.topic(name)
            await asyncio.gather(*(topic.append(b"%d" % number) for number in range(100)))
            return await topic.head_seq

    assert asyncio.run(work()) == 100


@pytest.mark.parametrize("connect", [strandline.connect, strandline.connect_async])
def test_connections_are_not_pickled(server, connect):
    store = connect(server.url)

    with pytest.raises(TypeError, match="connect there"):
        pickle.dumps(store)


def test_a_forked_child_has_connections_of_its_own(server, name):
    with strandline.connect(server.url) as store:
        topic = store.topic(name)
        child = os.fork()
        if not child:
            code = 1
            try:
                _append_and_look(topic, b"child")
                code = 0
            finally:
                os._exit(code)
        _append_and_look(topic, b"parent")
        _, status = os.waitpid(child, 0)

    assert status == 0
    assert sorted(server.store.topic(name).read(0, 1000).data) == [b"child"] * 50 + [b"parent"] * 50


def _append_and_look(topic, data: bytes) -> None:
    """Both at once on one connection would get each other's answers."""
    for _ in range(50):
        seq = topic.append(data).first_seq
        assert topic.read(seq - 1, 1).data == [data]


def test_a_wrong_token_is_refused_and_never_told(tmp_path):
    with running(tmp_path) as server:
        with strandline.connect(server.url) as store:
            made = store.tokens.create("all")
        with strandline.connect(server.url, token=made.token) as store:
            assert store.topic("t").append(b"x").first_seq == 1
            assert store.tokens.whoami().id == made.info.id
            assert [each.id for each in store.tokens.list()] == [made.info.id]
            told = [repr(store), repr(store.topic("t")), repr(store._connection), store.url]
        with (
            strandline.connect(server.url, token=SECRET) as store,
            pytest.raises(Forbidden) as refused,
        ):
            store.topics()

    shown = "".join(traceback.format_exception(refused.value))
    assert "s" * 43 not in shown
    assert not any(made.token in each for each in told)


def test_a_token_that_may_only_write_can_write(tmp_path):
    with running(tmp_path) as server:
        with strandline.connect(server.url) as store:
            everything = store.tokens.create("all").token
        with strandline.connect(server.url, token=everything) as store:
            store.topic("orders")
            store.kv("map").put("a", b"1")
            writer = store.tokens.create("write:orders").token
            reader = store.tokens.create("read:map").token
        with strandline.connect(server.url, token=writer) as store:
            topic = store.topic("orders")
            assert topic.append(b"x").first_seq == 1
            with pytest.raises(Forbidden):
                topic.read()
        with strandline.connect(server.url, token=reader) as store:
            kv = store.kv("map")
            assert kv.get("a") == b"1"
            with pytest.raises(Forbidden):
                kv.put("a", b"2")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:4000",
        "ftp://example.org",
        "http://",
        "http://host:port",
        "http://host/?x=1",
        "http://host/#x",
        "http+unix://host/x",
        "http+unix:relative",
        "",
        5,
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(Invalid):
        strandline.connect(url)


def test_a_token_in_the_url_is_refused_and_not_told():
    with pytest.raises(Invalid) as refused:
        strandline.connect(f"http://user:{SECRET}@127.0.0.1:4000")

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "ä", 5])
def test_what_is_no_token_is_refused_and_not_told(token):
    with pytest.raises(Invalid) as refused:
        strandline.connect("http://127.0.0.1:4000", token=token)

    assert not token or str(token) not in str(refused.value)


def test_a_socket_of_this_machine(tmp_path):
    path = str(tmp_path / "s.sock")
    with (
        running(tmp_path, bind=f"unix:{path}"),
        strandline.connect(f"http+unix:{path}") as store,
    ):
        assert store.topic("t").append(b"x").first_seq == 1
        assert store.url == f"http+unix:{path}"


def test_a_server_must_be_who_it_says_it_is(tmp_path):
    told, strange = certificate(tmp_path, "own"), certificate(tmp_path, "strange")
    once = ClientSettings(retry_s_max=0.0)
    with running(tmp_path, settings=ServerSettings(tls=told)) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with strandline.connect(url, verify=told.certificate) as store:
            assert store.topic("t").append(b"x").first_seq == 1
        for verify in (True, strange.certificate):
            with (
                strandline.connect(url, verify=verify, settings=once) as store,
                pytest.raises(ObjectStoreUnreachable, match="certificate"),
            ):
                store.topics()


def test_certificates_that_are_none_are_refused(tmp_path):
    with pytest.raises(Invalid):
        strandline.connect("https://127.0.0.1:4000", verify=str(tmp_path / "nothing.pem"))
