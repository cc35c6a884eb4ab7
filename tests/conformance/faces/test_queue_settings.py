"""Promise: every setting of a topic works for a queue as it is documented, or is refused with an
error that says what to do; in an open store and through both clients.

A setting that is new in ``TopicConfig`` fails here until it is listed.
"""

from __future__ import annotations

import pytest

from strandline import Invalid, TopicFull
from strandline.config.settings import TopicConfig

WORKS: dict[str, list[object]] = {
    "durability": ["ephemeral", "memory", "disk", "fsync"],
    "ttl_ms": [0, 3_600_000],
    "cap_records": [0, 2],
    "cap_bytes": [0, 2],
    "discard": ["old", "reject"],
    "idempotency_window_ms": [0, 1000],
    "dedupe_node": [True, False],
    "priority": [None, -1000, 1000],
    "auto_priority": [True, False],
    "auto_create": [True, False],
    "schema": [{}, {"to": "string"}],
}
REFUSED = {"schema_version": 1, "views": {"kv": {}}}
SETTINGS = [(setting, value) for setting, values in WORKS.items() for value in values]


def test_every_setting_is_listed():
    assert sorted([*WORKS, *REFUSED]) == sorted(TopicConfig.__struct_fields__)


@pytest.mark.parametrize(("setting", "value"), SETTINGS)
def test_a_queue_works_with_a_setting(store, name, setting, value):
    queue = store.queue(name, **{setting: value})

    assert [put.seq for put in queue.put_many([b"1", b"2"])] == [1, 2]
    jobs = queue.claim(9, worker="w")

    assert [job.data for job in jobs] == [b"1", b"2"]
    assert queue.ack_many(jobs).done == 2
    assert queue.statistics().waiting == 0
    assert store.topic(name).statistics().count == 0


@pytest.mark.parametrize("cap", ["cap_records", "cap_bytes"])
@pytest.mark.parametrize("durability", WORKS["durability"])
def test_a_cap_bounds_what_waits_and_leaves_what_is_in_flight(store, name, cap, durability):
    queue = store.queue(name, durability=durability, **{cap: 2})
    queue.put_many([b"1", b"2"])
    (first,) = queue.claim()

    queue.put_many([b"3", b"4"])
    assert [job.data for job in queue.claim(9)] == [b"3", b"4"]
    assert first.ack()

    store.topic(name).alter(discard="reject")
    queue.put_many([b"5", b"6"])
    with pytest.raises(TopicFull, match="purge"):
        queue.put(b"7")
    with pytest.raises(TopicFull, match="purge"):
        store.topic(name).append(b"7")
    assert queue.purge() == 2
    queue.put(b"8")


@pytest.mark.parametrize("setting", REFUSED)
def test_what_is_not_an_option_is_refused_by_name(store, name, setting):
    with pytest.raises(Invalid, match=r"unknown (queue|topic) option"):
        store.queue(name, **{setting: REFUSED[setting]})


@pytest.mark.parametrize("setting", ["ttl_ms", "cap_records", "cap_bytes"])
def test_a_second_view_is_refused_while_the_queue_is_bounded(store, name, setting):
    queue = store.queue(name, **{setting: 10})

    with pytest.raises(Invalid, match="only view"):
        store.kv(name)

    store.topic(name).alter(**{setting: 0})
    store.kv(name)
    with pytest.raises(Invalid, match="only view"):
        store.topic(name).alter(**{setting: 10})
    queue.put(b"1")
    assert queue.claim()[0].ack()


def test_records_of_a_queue_are_deleted_by_purge_and_by_nothing_else(store, name):
    queue = store.queue(name)
    queue.put(b"1")

    with pytest.raises(Invalid, match="purge"):
        store.topic(name).delete(before=2)
    assert queue.purge() == 1
