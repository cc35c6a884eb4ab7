"""Promise (C7, E8): damage in one place costs the records there, and nothing else.

Reading the damaged range raises ``Corrupt`` with its first and last seq. Other ranges of the topic
and other topics stay readable, and appends, checkpoints and retention go on. A read error of the
disk fails the request that met it, and no other.
"""

from __future__ import annotations

import errno

import pytest

from strandline.errors import Corrupt, Unavailable
from strandline.log.files import system_file
from strandline.log.repair.salvage import index_of
from strandline.log.wal.codec import store_seed
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import ROOT, data_paths, flipped, opened, replaced

PAYLOADS = [b"record %d" % number for number in range(1, 41)]


def test_a_damaged_block_hides_its_own_records_only():
    disk = _disk_with("/segments/0", block=3)

    with opened(disk, SimClock()) as store:
        with pytest.raises(Corrupt) as raised:
            store.topic("hit").read(12, 1)
        rest = [*_read(store, "hit", 0, 12), *_read(store, "hit", 16, 40)]
        others = _read(store, "other", 0, 5)

    assert (raised.value.first_seq, raised.value.last_seq) == (13, 16)
    assert raised.value.path in _segments(disk, "/segments/0")
    assert rest == PAYLOADS[:12] + PAYLOADS[16:]
    assert others == PAYLOADS[:5]


def test_a_damaged_block_of_a_shared_segment_hides_one_topic_only():
    disk = _disk_with("/segments/shared/", block=0)

    with opened(disk, SimClock()) as store:
        with pytest.raises(Corrupt) as raised:
            store.topic("other").read(0, 1)
        whole = _read(store, "hit", 0, 40)
        third = _read(store, "third", 0, 5)

    assert (raised.value.first_seq, raised.value.last_seq) == (1, 4)
    assert whole == PAYLOADS
    assert third == PAYLOADS[:5]


def test_a_damaged_index_hides_the_segment_and_says_which_records_those_are():
    disk = _damaged(_built(), "/segments/0", offset=-40)

    with opened(disk, SimClock()) as store:
        with pytest.raises(Corrupt) as raised:
            store.topic("hit").read(0, 1)
        store.topic("hit").append(b"behind it")
        behind = _read(store, "hit", 40, 1)

    assert (raised.value.first_seq, raised.value.last_seq) == (1, 40)
    assert behind == [b"behind it"]


def test_appends_and_checkpoints_go_on_beside_damage():
    disk = _disk_with("/segments/0", block=3)
    with opened(disk, SimClock()) as store:
        store.topic("hit").append(b"new")
        store.topic("other").append_many([b"more"] * 20)

        store.checkpoint()

    with opened(disk, SimClock()) as store:
        assert _read(store, "hit", 40, 1) == [b"new"]
        assert _read(store, "other", 5, 20) == [b"more"] * 20


def test_a_damaged_run_is_not_sealed_and_the_others_are():
    disk = _disk_with("/segments/shared/", block=0)
    with opened(disk, SimClock()) as store:
        for name in ("other", "third"):
            store.topic(name).append_many(PAYLOADS[:10])

        with pytest.raises(Corrupt, match="shared"):
            store.checkpoint()

        assert _read(store, "other", 5, 10) == PAYLOADS[:10]
        assert _read(store, "third", 0, 15) == PAYLOADS[:5] + PAYLOADS[:10]
    assert [path for path in _segments(disk, "/segments/0") if "0000003/" in path]


@pytest.mark.parametrize("options", [{"cap_records": 10}, {"cap_bytes": 90}, {"ttl_ms": 5000}])
def test_retention_goes_past_damage(options):
    disk, clock = _disk_with("/segments/0", block=3), SimClock()
    with opened(disk, clock) as store:
        hit = store.topic("hit")
        hit.alter(**options)
        clock.advance(10)
        hit.append_many([b"newest"] * 8)

        page = hit.read(0, 100)

    assert page.tombstone is not None
    assert page.data[-8:] == [b"newest"] * 8
    assert page.caught_up


def test_a_delete_of_damaged_records_can_be_replayed():
    disk = _disk_with("/segments/0", block=3)
    with opened(disk, SimClock()) as store:
        store.topic("hit").delete(before=15)

    with opened(disk, SimClock()) as store:
        earliest = store.topic("hit").statistics().earliest_seq

    assert earliest == 15


def test_a_read_error_fails_one_request_and_no_other():
    disk = _built()
    with opened(disk, SimClock()) as store:
        assert _read(store, "hit", 0, 1) == PAYLOADS[:1]
        fault = disk.fail("pread", errno=errno.EIO, path_contains="segments/0")

        with pytest.raises(Unavailable):
            store.topic("hit").read(20, 4)

        assert fault.fired == 1
        assert _read(store, "hit", 20, 4) == PAYLOADS[20:24]
        assert _read(store, "other", 0, 5) == PAYLOADS[:5]
        assert store.health().status == "green"


def test_a_read_error_of_the_log_fails_one_request_and_no_other():
    disk = _built()
    with opened(disk, SimClock()) as store:
        store.topic("hit").append(b"in the log")
        disk.fail("pread", errno=errno.EIO, path_contains="wal-")

        with pytest.raises(Unavailable):
            store.topic("hit").read(40, 1)

        assert _read(store, "hit", 40, 1) == [b"in the log"]
        store.topic("hit").append(b"and on")


def _built() -> SimDisk:
    """One topic in a segment of its own, two in a shared one, ten blocks and two each."""
    disk = SimDisk()
    with opened(disk, SimClock()) as store:
        for name, count in (("hit", 40), ("other", 5), ("third", 5)):
            store.topic(name).append_many(PAYLOADS[:count])
        store.checkpoint()
    return disk.kill()


def _disk_with(kind: str, *, block: int) -> SimDisk:
    """The same with a flipped bit in one block of a segment."""
    disk = _built()
    content = memoryview(disk.read(_segments(disk, kind)[0]))
    index = index_of(content, store_seed(system_file.read(disk, ROOT)))
    assert index is not None
    return _damaged(disk, kind, offset=int(index.offset[block]) + 60)


def _damaged(disk: SimDisk, kind: str, *, offset: int) -> SimDisk:
    path = _segments(disk, kind)[0]
    return replaced(disk, path, flipped(disk.read(path), offset, 3))


def _segments(disk: SimDisk, kind: str) -> list[str]:
    return [path for path in data_paths(disk) if kind in path]


def _read(store: Store, name: str, after: int, count: int) -> list[bytes]:
    return store.topic(name).read(after, count).data
