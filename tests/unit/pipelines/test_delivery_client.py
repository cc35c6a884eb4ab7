"""Promise: what is delivered is in the topic when the call returns, once, whoever has the store.

When the call gives up waiting the delivery is safe, and when the writer refuses it the caller gets
the writer's error.
"""

from __future__ import annotations

import threading

import pytest

import strandline
from strandline.config.settings import LakeSettings, Settings
from strandline.errors import (
    Corrupt,
    Invalid,
    NotAStore,
    TooLarge,
    Unavailable,
    UnknownTopic,
)
from strandline.ingest import delivery_codec as letters
from strandline.ingest.delivery_codec import PENDING, StagedFile, TopicDelivery
from strandline.pipelines import delivery_client as module
from strandline.pipelines.delivery_client import deliver, discard, lake_of
from strandline.platform.objectstore.cloud import open_objects
from tests.unit.pipelines.owners import (
    contents,
    delivered_in,
    made_store,
    owner,
    stage,
    staged_in,
)

DEADLINE_S = 60.0


def send(path: str, *files: StagedFile, number: int = 1, attempt: str = "a" * 32, **more: object):
    told = {"topic": "t", "producer": "p", "wait_s_max": DEADLINE_S, **more}
    deliver(path, told.pop("topic"), files, number=number, attempt=attempt, **told)


def nothing_is_left(path: str) -> bool:
    return not staged_in(path) and not delivered_in(path) and not delivered_in(path, "refused")


def test_without_an_owner_the_store_is_opened_for_a_moment(data_dir):
    made_store(data_dir)

    send(data_dir, stage(data_dir, b"a", b"b"), stage(data_dir, b"c", part=1))

    assert contents(data_dir) == [b"a", b"b", b"c"]
    assert nothing_is_left(data_dir)
    with strandline.open(data_dir) as store:  # and it is free again
        assert store.health().status == "green"


def test_an_owner_in_another_process_takes_the_delivery(data_dir):
    made_store(data_dir)

    with owner(data_dir):
        send(data_dir, stage(data_dir, b"a"))
        send(data_dir, stage(data_dir, b"b", number=2), number=2)

        assert contents(data_dir) == [b"a", b"b"]
        assert delivered_in(data_dir) == []
    assert nothing_is_left(data_dir)


def test_an_owner_in_this_process_takes_the_delivery(data_dir):
    with strandline.open(data_dir) as store:
        topic = store.topic("t")

        send(data_dir, stage(data_dir, b"a"))

        assert topic.head_seq == 1


def test_a_delivery_goes_on_when_its_owner_closes_the_store(data_dir):
    made_store(data_dir)
    sending = threading.Thread(target=send, args=(data_dir, stage(data_dir, b"a")))

    with owner(data_dir, jobs=False):
        sending.start()
        while not delivered_in(data_dir):
            assert sending.is_alive()
    sending.join(DEADLINE_S)

    assert contents(data_dir) == [b"a"]


@pytest.mark.parametrize("owned", [False, True])
def test_of_two_attempts_of_one_number_one_is_appended(data_dir, owned):
    made_store(data_dir)
    first, second = stage(data_dir, b"first"), stage(data_dir, b"second")

    if owned:
        with owner(data_dir):
            send(data_dir, first)
            send(data_dir, second, attempt="b" * 32)
    else:
        send(data_dir, first)
        send(data_dir, second, attempt="b" * 32)

    assert contents(data_dir) == [b"first"]
    assert nothing_is_left(data_dir)


def test_of_two_attempts_at_once_one_is_appended_and_both_are_told_it_is_there(data_dir):
    made_store(data_dir)
    files = {attempt: stage(data_dir, attempt.encode()) for attempt in "abcdef"}
    threads = [
        threading.Thread(target=send, args=(data_dir, file), kwargs={"attempt": attempt * 32})
        for attempt, file in files.items()
    ]

    with owner(data_dir):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)

    found = contents(data_dir)
    assert len(found) == 1
    assert nothing_is_left(data_dir)


def test_out_of_patience_the_delivery_is_safe_and_appended_later(data_dir):
    made_store(data_dir)
    file = stage(data_dir, b"a")

    with owner(data_dir, jobs=False), pytest.raises(Unavailable, match="delivered and safe"):
        send(data_dir, file, wait_s_max=0.1)
    discard(data_dir, "t", [file], producer="p", number=1)
    with strandline.open(data_dir) as store:
        store.ingest_pending()

    assert contents(data_dir) == [b"a"]
    assert nothing_is_left(data_dir)


@pytest.mark.parametrize("attempt", ["a" * 32, "b" * 32], ids=["same attempt", "another"])
def test_delivering_the_same_files_again_does_no_harm(data_dir, attempt):
    made_store(data_dir)
    file = stage(data_dir, b"a")
    with owner(data_dir, jobs=False), pytest.raises(Unavailable):
        send(data_dir, file, wait_s_max=0.1)

    send(data_dir, file, attempt=attempt)

    assert contents(data_dir) == [b"a"]
    assert nothing_is_left(data_dir)


def test_one_number_for_two_topics_is_two_deliveries(data_dir):
    made_store(data_dir, "t", "u")
    with owner(data_dir, jobs=False):
        for topic in ("t", "u"):
            with pytest.raises(Unavailable):
                send(data_dir, stage(data_dir, topic.encode()), topic=topic, wait_s_max=0.1)

    with strandline.open(data_dir, settings=Settings()) as store:
        store.ingest_pending()

    assert (contents(data_dir, "t"), contents(data_dir, "u")) == ([b"t"], [b"u"])


def test_discard_removes_what_was_never_delivered_and_nothing_else(data_dir):
    made_store(data_dir)
    delivered, late = stage(data_dir, b"a"), stage(data_dir, b"late")
    with owner(data_dir, jobs=False), pytest.raises(Unavailable):
        send(data_dir, delivered, wait_s_max=0.1)

    discard(data_dir, "t", [delivered, late], producer="p", number=1)

    assert staged_in(data_dir) == [delivered.key.rpartition("/")[2]]
    discard(data_dir, "t", [late], producer="p", number=2)
    with strandline.open(data_dir) as store:
        store.ingest_pending()
    assert contents(data_dir) == [b"a"]


def _unknown_topic(path: str) -> None:
    send(path, stage(path, b"x"), topic="ordres")


def _too_large(path: str) -> None:
    send(path, stage(path, b"good"), stage(path, bytes(2 << 20), part=1))


def _missing_file(path: str) -> None:
    file = stage(path, b"x")
    open_objects(lake_of(path)).delete([file.key])
    send(path, file)


def _bad_name(path: str) -> None:
    send(path, stage(path, b"x"), topic="a/b\n", create=True)


@pytest.mark.parametrize(
    ("mistake", "error", "told"),
    [
        (_unknown_topic, UnknownTopic, "ordres"),
        (_too_large, TooLarge, "record_bytes_max"),
        (_missing_file, Corrupt, "is missing"),
        (_bad_name, Invalid, "name"),
    ],
)
@pytest.mark.parametrize("owned", [False, True])
def test_what_the_writer_refuses_is_raised_as_its_error(data_dir, mistake, error, told, owned):
    made_store(data_dir)

    if owned:
        with owner(data_dir), pytest.raises(error, match=told) as raised:
            mistake(data_dir)
    else:
        with pytest.raises(error, match=told) as raised:
            mistake(data_dir)

    assert type(raised.value) is error
    assert contents(data_dir) == []
    assert delivered_in(data_dir) == []


def test_a_refused_number_may_be_delivered_again_and_is_then_no_longer_refused(data_dir):
    made_store(data_dir)
    with pytest.raises(UnknownTopic):
        send(data_dir, stage(data_dir, b"a"), topic="new")

    send(data_dir, stage(data_dir, b"a"), topic="new", create=True)

    assert contents(data_dir, "new") == [b"a"]
    assert delivered_in(data_dir, "refused") == []


@pytest.mark.parametrize(
    "wrong", [{"number": -1}, {"number": letters.NUMBER_MAX}, {"producer": "p" * 201}]
)
def test_a_number_or_producer_that_is_none_is_refused_before_it_is_delivered(data_dir, wrong):
    made_store(data_dir)

    with pytest.raises(Invalid):
        send(data_dir, stage(data_dir, b"x"), **wrong)

    assert delivered_in(data_dir) == []


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "nowhere"
    file = StagedFile(key="incoming/x.arrow", rows=1, chunks=1, size=1, checksum="")

    with pytest.raises(NotAStore):
        send(str(path), file)

    assert not path.exists()


def test_a_delivery_of_another_that_cannot_be_taken_does_not_fail_this_one(data_dir):
    made_store(data_dir)
    newer = TopicDelivery(
        format=letters.FORMAT + 1,
        store_id="",
        topic="t",
        producer="newer",
        number=1,
        attempt="c" * 32,
        made_us=0,
        files=(),
    )
    folder = open_objects(f"{data_dir}/incoming")
    folder.create(f"{PENDING}/{newer.name()}", letters.encode(newer))
    folder.close()

    send(data_dir, stage(data_dir, b"a"))

    assert contents(data_dir) == [b"a"]
    assert delivered_in(data_dir) == [newer.name()]


def test_a_full_topic_is_waited_for(data_dir, monkeypatch):
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    made_store(data_dir, cap_records=1, discard="reject")
    send(data_dir, stage(data_dir, b"a"))

    with pytest.raises(Unavailable, match=r"safe.*is full"):
        send(data_dir, stage(data_dir, b"b", number=2), number=2, wait_s_max=0.1)
    with strandline.open(data_dir) as store:
        store.topic("t").delete(before=2)
        store.ingest_pending()

    assert contents(data_dir) == [b"b"]


def test_rows_are_staged_in_the_lake_that_is_named(data_dir, tmp_path):
    made_store(data_dir)
    lake = str(tmp_path / "lake")

    send(data_dir, stage(data_dir, b"a", lake=lake), lake=lake)

    settings = Settings(lake=LakeSettings(url=lake))
    with strandline.open(data_dir, readonly=True, settings=settings) as store:
        assert store.topic("t").head_seq == 1
    assert list(open_objects(lake).list("incoming")) == []
