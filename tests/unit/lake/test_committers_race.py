"""Promise (O6): any number of committers at once, and nothing is lost, doubled or mixed."""

from __future__ import annotations

import threading

import pytest
from pyroaring import BitMap64

from strandline.lake import object_keys
from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_codec import ManifestKey
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.platform.clock import SystemClock
from strandline.testing.sim_objects import SimObjects
from tests.unit.lake.histories import (
    STORE_ID,
    TOPIC_ID,
    adding,
    lake_file,
    ledger_of,
    new_lake,
    numbers_in,
    upload,
)

COMMITS = 1000


def _check(objects: SimObjects, files: int, deleted: int) -> None:
    """Each number is one committer's, each version is the one before and one change."""
    numbers = numbers_in(objects)
    headers = [
        manifest_codec.header_of(
            objects.get(object_keys.manifest_key(TOPIC_ID, number)),
            ManifestKey(STORE_ID, TOPIC_ID, number),
        )
        for number in numbers
    ]
    newest = ledger_of(objects).load()
    reader = ledger_of(objects)
    sizes = [_size(reader.load(number)) for number in numbers[-50:]]
    assert numbers == list(range(1, files + deleted + 2))
    assert len({header.attempt for header in headers}) == len(numbers)
    assert [header.parent for header in headers[1:]] == [each.checksum for each in headers[:-1]]
    assert newest.files == tuple(lake_file(seq, seq) for seq in range(1, files + 1))
    assert list(newest.deleted or []) == list(range(5000, 5000 + deleted))
    assert sizes == list(range(newest.number - len(sizes), newest.number))


def _size(manifest: Manifest) -> int:
    return len(manifest.files) + len(manifest.deleted or [])


@pytest.mark.parametrize("committers", [2, 8])
def test_committers_racing_a_thousand_times_lose_nothing(committers):
    objects = SimObjects()
    new_lake(objects)
    upload(objects, *(lake_file(seq, seq) for seq in range(1, COMMITS + 1)))
    barrier = threading.Barrier(committers)
    failures: list[BaseException] = []

    def commit_all(mine: int) -> None:
        ids = _ids_of(mine)
        ledger = ManifestCommitter(objects, STORE_ID, TOPIC_ID, SystemClock(), ids)
        try:
            barrier.wait()
            for seq in range(mine + 1, COMMITS + 1, committers):
                ledger.commit(adding(lake_file(seq, seq)))
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=commit_all, args=(mine,)) for mine in range(committers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    _check(objects, COMMITS, 0)


def test_a_committer_who_is_beaten_every_time_loses_nothing():
    """The same without threads: the other one commits just before each of a thousand commits."""
    objects = SimObjects()
    ours, other = new_lake(objects), ledger_of(objects, random_id=_ids_of(9))
    upload(objects, *(lake_file(seq, seq) for seq in range(1, COMMITS + 1)))

    for seq in range(1, COMMITS + 1):
        rivals = [BitMap64([4999 + seq])]

        def beat(operation: str, _key: str, rivals: list[BitMap64] = rivals) -> None:
            if operation == "create" and rivals:
                seqs = rivals.pop()
                other.commit(lambda each: each.with_deleted(seqs))

        objects.on_call = beat
        ours.commit(adding(lake_file(seq, seq)))
        assert not rivals
    objects.on_call = None

    _check(objects, COMMITS, COMMITS)


def test_threads_of_one_ledger_share_it():
    objects = SimObjects()
    ledger = ManifestCommitter(objects, STORE_ID, TOPIC_ID, SystemClock(), _ids_of(0))
    ledger.create("orders", epoch=1)
    upload(objects, *(lake_file(seq, seq) for seq in range(1, 101)))

    def commit_all(mine: int) -> None:
        for seq in range(mine + 1, 101, 4):
            ledger.commit(adding(lake_file(seq, seq)))

    threads = [threading.Thread(target=commit_all, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    _check(objects, 100, 0)


def _ids_of(committer: int):
    """Random ids of one committer, as all different as real ones."""
    counter = iter(range(1 << 40))
    return lambda: (
        ((next(counter) * 0x9E37_79B9_7F4A_7C15) % 2**64).to_bytes(8, "little")
        + bytes([committer + 1] * 8)
    )
