"""Promise: a real store that fails is told apart by what to do, and a lost reply loses nothing.

O1, O2, O3, O5, with real sockets: a proxy cuts replies off, a gateway is killed in the middle.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest

from strandline.config.settings import ObjectSettings
from strandline.errors import (
    BucketNotFound,
    Invalid,
    NotFound,
    ObjectExists,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    StrandlineError,
)
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.probe import probe
from strandline.platform.objectstore.protocol import Objects
from tests.integration.conftest import QUICK, Remote
from tests.integration.proxy import Proxy
from tests.integration.services import free_port, s3_options

IMPATIENT = msgspec.structs.replace(QUICK, attempts_max=2)
MIB = 1024 * 1024


@pytest.fixture
def proxy(remote: Remote) -> Iterator[Proxy]:
    made = Proxy(remote.service.port)
    yield made
    made.close()


def test_a_creation_whose_reply_is_lost_is_recognised(remote: Remote, proxy: Proxy):
    objects = remote.open(port=proxy.port)
    proxy.lose_replies("PUT", 1)

    created = objects.create("manifest/1", b"attempt 17")

    assert proxy.lost == 1
    assert created.recognised
    assert remote.open().get("manifest/1") == b"attempt 17"


def test_a_strangers_object_is_a_conflict_also_when_the_first_refusal_is_lost(
    remote: Remote, proxy: Proxy
):
    remote.open().create("manifest/1", b"stranger's")
    objects = remote.open(port=proxy.port)
    proxy.lose_replies("PUT", 1)

    with pytest.raises(ObjectExists):
        objects.create("manifest/1", b"our own 11")

    assert proxy.lost == 1
    assert objects.get("manifest/1") == b"stranger's"


def test_whoever_gave_up_finds_out_by_repeating(remote: Remote, proxy: Proxy):
    objects = remote.open(port=proxy.port, settings=IMPATIENT)
    proxy.lose_replies("PUT", 100)

    with pytest.raises(ObjectStoreUnreachable):
        objects.create("manifest/1", b"attempt 17")
    proxy.lose_replies("PUT", 0)
    created = objects.create("manifest/1", b"attempt 17")

    assert created.recognised


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_any_request_is_repeated_when_its_reply_is_lost(remote: Remote, proxy: Proxy, method: str):
    objects = remote.open(port=proxy.port)
    proxy.lose_replies(method, 1)

    objects.put("a", b"content")
    size = objects.head("a").size
    content = objects.get("a")
    part = objects.get_range("a", 1, 3)
    listed = [info.key for info in objects.list()]
    objects.delete(["a"])

    assert (size, content, part, listed) == (7, b"content", b"ont", ["a"])
    with pytest.raises(NotFound):
        objects.get("a")


@pytest.mark.parametrize(
    ("method", "behind"), [("POST", 0), ("POST", 1), ("PUT", 0), ("PUT", 1), ("PUT", 3)]
)
def test_a_stream_survives_lost_replies(remote: Remote, proxy: Proxy, method: str, behind: int):
    """The first request of an upload, its last one, or one of its parts."""
    objects = remote.open(port=proxy.port)
    proxy.lose_replies(method, 1, behind=behind)

    size = objects.put_stream("stream", [bytes([number]) * MIB for number in range(20)])

    assert size == 20 * MIB
    assert objects.head("stream").size == size
    assert objects.get_range("stream", 10 * MIB - 1, 2) == b"\x09\x0a"


def test_a_missing_bucket_is_told(remote: Remote):
    objects = remote.open(bucket="no-such-bucket-here")

    for use in every_use_of(objects):
        with pytest.raises(BucketNotFound, match="no-such-bucket-here"):
            use()


@pytest.mark.parametrize("remote", ["azurite", "ceph"], indirect=True)  # moto believes anybody
def test_wrong_credentials_are_told(remote: Remote):
    objects = remote.open(**remote.service.wrong_credentials)

    for use in every_use_of(objects):
        with pytest.raises(ObjectStoreDenied, match="credentials") as told:
            use()
        assert remote.service.secret not in str(told.value)


@pytest.mark.parametrize("remote", ["moto"], indirect=True)
def test_without_credentials_the_caller_is_told_to_set_them(remote: Remote, monkeypatch):
    nobody = f"http://127.0.0.1:{free_port()}"
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    objects = open_objects(
        f"s3://{remote.bucket}",
        options={"endpoint": remote.service.options["endpoint"], "metadata_endpoint": nobody},
        settings=IMPATIENT,
    )

    with pytest.raises(ObjectStoreDenied, match="credentials"):
        objects.get("a")


@pytest.mark.parametrize("remote", ["moto", "ceph"], indirect=True)
def test_address_and_credentials_may_come_from_the_environment(remote: Remote, monkeypatch):
    options = remote.service.options
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
    monkeypatch.setenv("AWS_REGION", options["region"])

    objects = open_objects(f"s3://{remote.bucket}/other", settings=QUICK)
    objects.create("a", b"1")

    assert objects.get("a") == b"1"
    assert list(remote.open().list()) == []  # it has a prefix of its own


def test_a_store_that_never_answers_is_told_within_the_time_given():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        objects = open_objects(
            "s3://bucket",
            options=s3_options(silent.getsockname()[1], "key", "secret"),
            settings=ObjectSettings(attempts_max=2, delay_s_first=0.01, request_s_max=0.1),
        )

        for use in every_use_of(objects):
            with pytest.raises(ObjectStoreUnreachable, match="no response"):
                use()


def test_a_killed_gateway_is_told_and_used_again_when_it_is_back(remote: Remote):
    objects = remote.open(settings=IMPATIENT)
    objects.create("before", b"kept")

    remote.service.kill()
    try:
        for use in every_use_of(objects):
            with pytest.raises(ObjectStoreUnreachable):
                use()
    finally:
        remote.service.restart()
    if not remote.service.keeps_objects:
        remote.service.make_bucket(remote.bucket)

    objects.create("after", b"new")
    kept = ["before"] if remote.service.keeps_objects else []
    assert [info.key for info in objects.list()] == ["after", *kept]


@pytest.mark.parametrize("remote", ["ceph"], indirect=True)  # the others forget everything
def test_a_gateway_killed_under_load_loses_nothing_that_was_acknowledged(remote: Remote):
    objects = remote.open(settings=IMPATIENT)
    acknowledged: list[str] = []
    refusals: list[StrandlineError] = []
    some_are_there = threading.Event()

    def write() -> None:
        for number in range(10_000):
            try:
                objects.create(f"n/{number}", b"body %d" % number)
            except StrandlineError as error:
                refusals.append(error)
                return
            acknowledged.append(f"n/{number}")
            if number == 20:
                some_are_there.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert some_are_there.wait(60)
    remote.service.kill()
    writer.join(60)
    remote.service.restart()

    listed = {info.key for info in objects.list("n")}
    assert [type(error) for error in refusals] == [ObjectStoreUnreachable]
    assert listed.issuperset(acknowledged)
    assert len(listed) <= len(acknowledged) + 1
    assert all(objects.get(key) == b"body " + key[2:].encode() for key in acknowledged[-5:])


def test_the_probe_tells_what_is_wrong_with_the_way_to_the_store(remote: Remote):
    with pytest.raises(BucketNotFound):
        probe(remote.open(bucket="no-such-bucket-here"))


@pytest.mark.parametrize(
    "url", ["s3://", "ftp://host/x", "s3://bucket/a//b", "file://relative", "az://"]
)
def test_a_url_that_names_no_store_is_refused(url: str):
    with pytest.raises(Invalid):
        open_objects(url)


def test_an_unknown_option_is_refused():
    with pytest.raises(Invalid, match="nonsense"):
        open_objects("s3://bucket", options={"nonsense": "1"})


def test_plain_http_to_another_machine_is_refused():
    objects = open_objects(
        "s3://bucket",
        options={
            "endpoint": "http://store.invalid",
            "access_key_id": "a",
            "secret_access_key": "b",
        },
        settings=ObjectSettings(attempts_max=1),
    )

    with pytest.raises(Invalid, match="plain http"):
        objects.get("a")


def every_use_of(objects: Objects) -> list[Callable[[], object]]:
    return [
        lambda: objects.create("a", b"x"),
        lambda: objects.put("a", b"x"),
        lambda: objects.put_stream("a", [b"x"]),
        lambda: objects.get("a"),
        lambda: objects.get_range("a", 0, 1),
        lambda: objects.head("a"),
        lambda: list(objects.list()),
        lambda: objects.delete(["a"]),
    ]
