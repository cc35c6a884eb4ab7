"""Promise: a topic may have several views at once; each is what the log folds into for it."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.views.kv import meta_codec as kv_meta
from strandline.views.metrics.ingest import record_codec as metrics_records
from strandline.views.queue import codec as queue_codec
from strandline.views.series import meta as series_meta
from strandline.views.view import MARKS
from tests.unit.store.world import World

NAME = "orders"


def digests(store) -> dict[tuple[str, str], str]:
    return {(kind, name): store.views.digest(kind, name) for kind, name in store.views.names()}


def test_plain_records_are_for_every_view():
    store = World().store
    orders = store.topic(NAME)
    orders.append(b"tea", key="ada")
    orders.append(b"cake", key="ada")

    seen = store.kv(NAME).get("ada"), [job.data for job in store.queue(NAME).claim(5)]
    points = store.series(NAME).range("ada")

    assert seen == (b"cake", [b"tea", b"cake"])
    assert [point.payload for point in points] == [b"tea", b"cake"]


def test_what_only_one_view_can_read_is_for_that_view_alone():
    world = World()
    store = world.store
    kv, queue, series = store.kv(NAME), store.queue(NAME), store.series(NAME)
    kv.put("a", b"kv", ttl=60)
    kv.delete("a")
    queue.put(b"queue", priority=3, group="g")
    series.append("s", 5, b"series")
    series.run_retention(1)
    store.metrics(NAME).write("cpu", {}, {"load": 1.0})

    seen = (
        [entry.key for entry in kv.scan()],
        [job.data for job in queue.peek(9)],
        list(series.range_all()),
    )

    assert seen == ([], [b"queue"], [b"s"])


def test_a_topic_with_several_views_keeps_its_records():
    world = World()
    store = world.store
    kv, queue = store.kv(NAME, history=1), store.queue(NAME)
    for number in range(20):
        store.topic(NAME).append(b"%d" % number, key="same")
    queue.ack_many(queue.claim(10))
    queue.compact()
    for _ in range(3):
        store.checkpoint()
    before = digests(store)

    for kind, name in before:
        store.rebuild(kind, name)

    assert digests(store) == before
    assert len(store.topic(NAME).read().records) == 20
    assert kv.get("same") == b"19"
    assert len(queue.peek(99)) == 10
    assert digests(world.kill()) == before


def test_a_view_that_comes_later_folds_what_is_left():
    store = World().store
    kv = store.kv(NAME, history=1)
    for number in range(5):
        kv.put("same", b"%d" % number)
    for _ in range(2):
        store.checkpoint()

    queue = store.queue(NAME)
    before = digests(store)
    store.rebuild("queue", NAME)

    assert [job.data for job in queue.peek(9)] == [b"4"]
    assert digests(store) == before


def test_a_topic_is_deleted_with_all_that_its_views_keep_elsewhere():
    store = World().store
    queue = store.queue(NAME)
    queue.put_many([b"1", b"2"])
    queue.ack_many(queue.claim(2))
    store.topic(f"{NAME}:mine").append(b"stays")

    with pytest.raises(Invalid, match="belongs to a view of 'orders'"):
        store.delete_topic(f"{NAME}:leases")
    with pytest.raises(Invalid, match="cannot have a view of its own"):
        store.kv(f"{NAME}:leases")
    store.delete_topic(NAME)
    left = store.topics()
    queue = store.queue(NAME)
    queue.put_many([b"3", b"4"])

    assert left == [f"{NAME}:mine"]
    assert [job.data for job in queue.claim(2)] == [b"3", b"4"]


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("kv", kv_meta.DELETED),
        ("queue", queue_codec.encode_job(queue_codec.PLAIN._replace(priority=1))),
        ("series", series_meta.encode(series_meta.NORMAL, 0, 5)),
        ("metrics", metrics_records.MARK),
    ],
)
def test_the_marks_are_what_the_views_write(kind, written):
    assert written.startswith(MARKS[kind])
    assert not written.startswith(tuple(mark for other, mark in MARKS.items() if other != kind))
