"""Promise: what is delivered is appended once and in order, or refused with the reason.

A delivery that cannot be appended holds up nobody else; one that may be appended later stays.
"""

from __future__ import annotations

import msgspec
import pytest

from strandline.errors import (
    DiskFull,
    ObjectStoreUnreachable,
    TooLarge,
    TopicFull,
    UnsupportedFormat,
)
from strandline.ingest import delivery_codec as letters
from strandline.ingest import staged_files
from strandline.ingest.delivery_codec import PENDING, REFUSED
from strandline.ingest.delivery_job import LEFTOVER_S, IngestJob
from strandline.platform.objectstore.local import FolderObjects
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects
from tests.unit.ingest.deliveries import PATH, Post, counted, rows

DAY_S = 86_400.0


def test_a_delivery_is_appended_with_all_its_columns_and_then_forgotten():
    post = Post()
    post.store.create_topic("t")
    first = post.stage(rows(b"a", key=[b"k"], tag=["eu"], node=["n"], meta=[b"m"]))
    second = post.stage(rows(b"b"), part=1)
    post.send(post.letter(first, second))

    assert post.take() == 1

    found = post.store.topic("t").read(0).records
    assert [(r.data, r.key, r.tag, r.node, r.meta) for r in found] == [
        (b"a", b"k", "eu", "n", b"m"),
        (b"b", None, None, None, None),
    ]
    assert (post.pending(), post.refused(), post.staged()) == ([], [], [])
    assert post.store.health().status == "green"


def test_nothing_delivered_is_nothing_to_do():
    post = Post()

    assert post.take() == 0
    assert post.store.health().status == "green"


def test_deliveries_of_a_producer_are_taken_in_the_order_of_their_numbers():
    post = Post()
    post.store.create_topic("t")
    for number in (12, 3, 100, 4):
        post.deliver(counted(f"n{number}", 2), number=number)

    assert post.take() == 4

    assert post.data() == [
        b"%s %d" % (name, place) for name in (b"n3", b"n4", b"n12", b"n100") for place in (0, 1)
    ]


def test_producers_and_topics_do_not_meet():
    post = Post()
    for topic in ("t", "u"):
        post.store.create_topic(topic)
        for producer in ("p", "q"):
            post.deliver(rows(f"{topic} {producer}".encode()), producer=producer, topic=topic)

    assert post.take() == 4

    assert sorted(post.data("t")) == [b"t p", b"t q"]
    assert sorted(post.data("u")) == [b"u p", b"u q"]


def test_a_number_that_comes_again_is_recognised_and_its_files_are_removed():
    post = Post()
    post.store.create_topic("t")
    post.deliver(rows(b"a"), number=5)
    post.take()

    for number in (5, 4):
        post.deliver(rows(b"again"), number=number)
    taken = post.take()

    assert taken == 2
    assert post.data() == [b"a"]
    assert (post.pending(), post.refused(), post.staged()) == ([], [], [])


@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
def test_a_number_that_comes_again_in_other_chunks_is_recognised(chunks):
    post = Post()
    post.store.create_topic("t")
    files = [post.stage(rows(b"%d" % part), part=part) for part in range(2)]
    post.send(post.letter(*files))
    post.take()

    again = [post.stage(rows(b"again"), part=part) for part in range(chunks)]
    post.send(post.letter(*again))

    assert post.take() == 1
    assert post.data() == [b"0", b"1"]


def test_a_number_that_comes_again_after_a_restart_is_recognised():
    post = Post()
    post.store.create_topic("t")
    post.deliver(rows(b"a"))
    post.take()
    post.store.checkpoint()
    post.reopen()
    post.deliver(rows(b"again"))

    post.take()

    assert post.data() == [b"a"]


def test_an_unknown_topic_is_refused_unless_it_is_to_be_made():
    post = Post()
    refused = post.deliver(rows(b"a"), topic="ordres")
    post.deliver(rows(b"b"), topic="new", create=True)

    assert post.take() == 1

    assert post.refusal(refused).error == "unknown_topic"
    assert post.store.topics() == ["new"]
    assert post.data("new") == [b"b"]


def _other_store(post: Post) -> str:
    return post.deliver(rows(b"x"), store_id="ab" * 16)


def _other_name(post: Post) -> str:
    return post.send(post.letter(post.stage(rows(b"x"))), name=letters.name_of("t", "q", 1))


def _damaged(post: Post) -> str:
    name = letters.name_of("t", "p", 1)
    post.folder.create(f"{PENDING}/{name}", b'{"format":1}')
    return name


def _missing_file(post: Post) -> str:
    name = post.deliver(rows(b"x"))
    post.lake.delete([f"incoming/{staged}" for staged in post.staged()])
    return name


def _miscounted(post: Post) -> str:
    staged = msgspec.structs.replace(post.stage(rows(b"x")), rows=2)
    return post.send(post.letter(staged))


def _too_large_at_the_end(post: Post) -> str:
    files = [post.stage(rows(b"x")), post.stage(rows(bytes(2 << 20)), part=1)]
    return post.send(post.letter(*files))


def _other_columns(post: Post) -> str:
    return post.deliver(rows(b"x", colour=["red"]))


def _too_long_a_name(post: Post) -> str:
    return post.deliver(rows(b"x"), producer="p" * 201)


@pytest.mark.parametrize(
    ("deliver", "code", "reason"),
    [
        (_other_store, "invalid", "deliver it there"),
        (_other_name, "invalid", "contains the name"),
        (_damaged, "corrupt", "cannot be read"),
        (_missing_file, "corrupt", "missing"),
        (_miscounted, "corrupt", "1 rows in 1 chunks, not 2 in 1"),
        (_too_large_at_the_end, "too_large", "record_bytes_max"),
        (_other_columns, "invalid", "colour"),
        (_too_long_a_name, "too_large", "producer"),
    ],
)
def test_what_cannot_be_appended_is_refused_whole_and_holds_up_nobody(deliver, code, reason):
    post = Post()
    post.store.create_topic("t")
    name = deliver(post)
    post.deliver(rows(b"good"), producer="q", number=9)

    assert post.take() == 1

    assert post.data() == [b"good"]
    assert post.pending() == []
    assert post.refused() == [name]
    assert post.refusal(name).error == code
    assert reason in post.refusal(name).reason
    health = post.store.health()
    assert health.status == "yellow"
    assert any("rejected" in told and reason in told for told in health.reasons)


def test_a_refusal_is_told_by_every_later_opening():
    post = Post()
    post.deliver(rows(b"x"))
    post.take()

    health = post.reopen().health()

    assert health.status == "yellow"
    assert "unknown topic" in health.reasons[0] or "no topic" in health.reasons[0]


def test_a_chunk_that_a_cap_never_allows_refuses_all_of_it():
    post = Post()
    post.store.create_topic("t", cap_records=3, discard="reject")
    files = [post.stage(rows(b"a")), post.stage(counted("b", 4), part=1)]
    name = post.send(post.letter(*files))

    post.take()

    assert post.refusal(name).error == TooLarge.code
    assert post.data() == []


def test_a_full_topic_keeps_its_delivery_waiting_and_takes_the_rest_later():
    post = Post()
    full = post.store.create_topic("t", cap_records=3, discard="reject")
    post.store.create_topic("u")
    files = [post.stage(counted(f"f{part}", 2), part=part) for part in range(2)]
    name = post.send(post.letter(*files))
    post.deliver(rows(b"u"), topic="u", producer="q")

    with pytest.raises(TopicFull):
        post.take()

    assert post.pending() == [name]
    assert post.data("u") == [b"u"]
    assert post.data() == [b"f0 0", b"f0 1"]

    full.delete(before=3)
    post.reopen()
    assert post.take() == 1
    assert post.data() == [b"f1 0", b"f1 1"]
    assert (post.pending(), post.refused(), post.staged()) == ([], [], [])


def test_a_later_number_does_not_pass_one_that_waits():
    post = Post()
    topic = post.store.create_topic("t", cap_records=3, discard="reject")
    post.deliver(counted("first", 2), number=1)
    post.deliver(counted("second", 3), number=2)
    post.deliver(counted("third", 1), number=3)

    with pytest.raises(TopicFull):
        post.take()
    seen = post.data()
    topic.delete(before=3)
    with pytest.raises(TopicFull):
        post.take()
    seen += post.data()
    topic.delete(before=6)
    post.take()

    assert [*seen, *post.data()] == [
        *(b"first %d" % place for place in range(2)),
        *(b"second %d" % place for place in range(3)),
        b"third 0",
    ]


def test_a_full_disk_and_a_silent_object_store_keep_the_delivery():
    objects = SimObjects()
    post = Post(objects)
    post.store.create_topic("t")
    name = post.deliver(rows(b"a"))

    objects.fail("get")
    with pytest.raises(ObjectStoreUnreachable):
        post.take()
    assert post.pending() == [name]

    assert post.take() == 1
    assert post.data() == [b"a"]


def test_a_delivery_of_a_newer_version_stays_and_holds_up_nobody():
    post = Post()
    post.store.create_topic("t")
    newer = post.send(post.letter(post.stage(rows(b"x")), format=letters.FORMAT + 1))
    post.deliver(rows(b"good"), producer="q")

    with pytest.raises(UnsupportedFormat):
        post.take()

    assert post.data() == [b"good"]
    assert post.pending() == [newer]


def test_a_delivery_is_not_forgotten_before_its_rows_are_synced():
    post = Post()
    topic = post.store.create_topic("t")
    syncs: list[list[str]] = []

    def sync() -> None:
        syncs.append(post.pending())
        if len(syncs) == 1:
            raise DiskFull("no room: free space")
        post.store.sync()

    inbox = IngestJob(
        post.folder,
        post.lake,
        post.clock,
        store_id=post.store.id,
        topic=lambda name, create: topic,
        sync=sync,
    )
    name = post.deliver(rows(b"a"))

    with pytest.raises(DiskFull):
        inbox.run_once()
    inbox.run_once()

    assert syncs == [[name], [name]]
    assert post.data() == [b"a"]
    assert post.pending() == []


def test_leftovers_go_after_a_week_and_never_a_file_that_is_delivered():
    clock = SimClock()
    post = Post(SimObjects(clock=clock), clock)
    post.store.create_topic("t", cap_records=1, discard="reject").append(b"full")
    waiting = post.stage(rows(b"delivered"))
    post.send(post.letter(waiting))
    post.stage(rows(b"nobody's"), producer="q")
    post.deliver(rows(b"x"), topic="unknown")
    with pytest.raises(TopicFull):
        post.take()

    post.clock.advance(LEFTOVER_S - DAY_S)
    recent = post.stage(rows(b"recent"), producer="r")
    with pytest.raises(TopicFull):
        post.take()
    before = post.staged()
    post.clock.advance(DAY_S + 1)
    with pytest.raises(TopicFull):
        post.take()

    assert len(before) == 4
    assert sorted(post.staged()) == sorted(
        file.key.rpartition("/")[2] for file in (waiting, recent)
    )
    assert post.refused() == []
    assert "rejected" not in " ".join(post.store.health().reasons)
    post.store.topic("t").delete(before=2)
    post.take()
    assert post.data() == [b"delivered"]


def test_leftovers_stay_while_a_delivery_cannot_be_read():
    post = Post()
    post.send(post.letter(post.stage(rows(b"x")), format=letters.FORMAT + 1))
    post.stage(rows(b"nobody's"), producer="q")
    post.clock.advance(2 * LEFTOVER_S)

    with pytest.raises(UnsupportedFormat):
        post.take()

    assert len(post.staged()) == 2


def test_a_large_delivery_is_appended_in_the_order_of_its_rows(monkeypatch):
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 7)
    post = Post()
    topic = post.store.create_topic("t")
    post.deliver(counted("row", 100), number=2)

    post.take()

    assert post.data() == [b"row %d" % place for place in range(100)]
    assert topic.last_number("p") == post.letter(number=3).chunk(0).number - 1


def test_a_closed_store_holds_nothing_in_the_inbox():
    post = Post()
    post.deliver(rows(b"x"))
    post.take()

    post.store.close()

    assert FolderObjects(f"{PATH}/incoming", post.disk).get(f"{REFUSED}/{post.refused()[0]}")
    assert post.disk.list_dir(f"{PATH}/incoming/.aside") == []


def test_a_delivery_at_a_head_is_appended_right_behind_it():
    post = Post()
    post.store.create_topic("t").append(b"before")
    files = [post.stage(rows(b"a", b"b")), post.stage(rows(b"c"), part=1)]
    post.send(post.letter(*files, format=letters.FORMAT, expected_head=1))

    post.take()

    assert post.data() == [b"before", b"a", b"b", b"c"]
    assert post.pending() == []


def test_a_delivery_at_a_head_is_refused_when_the_topic_has_gone_on():
    post = Post()
    topic = post.store.create_topic("t")
    post.send(post.letter(post.stage(rows(b"late")), format=letters.FORMAT, expected_head=0))
    topic.append(b"quicker")

    post.take()

    assert post.data() == [b"quicker"]
    assert [post.refusal(name).error for name in post.refused()] == ["conflict"]
    assert post.store.health().status == "green"


def test_a_delivery_at_a_head_that_is_overtaken_in_the_middle_never_has_its_end():
    post = Post()
    topic = post.store.create_topic("t")
    files = [post.stage(rows(b"a")), post.stage(rows(b"end"), part=1)]
    letter = post.letter(*files, format=letters.FORMAT, expected_head=0)
    topic.append_arrow(rows(b"a"), idempotency_key=letter.chunk(0))  # then the writer died
    topic.append(b"quicker")
    post.send(letter)

    post.take()

    assert post.data() == [b"a", b"quicker"]
    assert [post.refusal(name).error for name in post.refused()] == ["conflict"]


def test_a_delivery_at_a_head_goes_on_behind_its_first_chunk():
    post = Post()
    topic = post.store.create_topic("t")
    files = [post.stage(rows(b"a")), post.stage(rows(b"end"), part=1)]
    letter = post.letter(*files, format=letters.FORMAT, expected_head=0)
    topic.append_arrow(rows(b"a"), idempotency_key=letter.chunk(0))  # then the writer died
    post.send(letter)

    post.take()

    assert post.data() == [b"a", b"end"]
