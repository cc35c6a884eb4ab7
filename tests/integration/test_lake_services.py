"""Promise (D12, O1): history moves into a real object store, whatever happens to its gateway.

The store appends, checkpoints and relocates; meanwhile the gateway is killed and comes back. At the
end every record is there once, from the lake and from the local disk.
"""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path

import strandline
from strandline.config.settings import LakeSettings, ObjectSettings, SegmentSettings, Settings
from strandline.errors import StrandlineError
from tests.integration.conftest import Remote

BATCH = 500
SETTINGS = Settings(
    segment=SegmentSettings(seal_records=BATCH, own_bytes_min=1),
    lake=LakeSettings(hot_segments=1, file_bytes=1, zone_rows=100),
)
HASTY = ObjectSettings(attempts_max=2, delay_s_first=0.01, request_s_max=5, retry_s_max=5)
DEADLINE_S = 60.0


def open_store(path: Path, remote: Remote) -> strandline.Store:
    return strandline.open(
        str(path), settings=SETTINGS, objects=remote.open(settings=HASTY), start_jobs=False
    )


def fill(store: strandline.Store, batches: int) -> None:
    topic = store.topic("t")
    for _ in range(batches):
        first = topic.head_seq + 1
        topic.append_many([b"%d" % seq for seq in range(first, first + BATCH)])
        store.checkpoint()


def check(store: strandline.Store) -> None:
    topic = store.topic("t")
    found = topic.read(0, topic.head_seq + 1)
    assert found.data == [b"%d" % seq for seq in range(1, topic.head_seq + 1)]


def test_history_moves_into_the_store_and_is_read_back(remote: Remote, tmp_path: Path):
    with open_store(tmp_path / "data", remote) as store:
        fill(store, 6)
        store.relocate()
        assert store.topic("t")._state.cold.last_seq == 5 * BATCH
        check(store)
        store.topic("t").delete(before=2 * BATCH + 1)
        store.relocate()

    with open_store(tmp_path / "data", remote) as store:
        fill(store, 1)
        store.relocate()
        page = store.topic("t").read(0, 10_000)
        assert page.records[0].seq == 2 * BATCH + 1
        assert len(page.records) == 5 * BATCH


def test_a_gateway_that_dies_again_and_again_costs_nothing(remote: Remote, tmp_path: Path):
    service = remote.service
    rng = random.Random(3)
    with open_store(tmp_path / "data", remote) as store:
        fill(store, 3)
        for _ in range(4):
            fill(store, 1)
            mover = threading.Thread(target=relocate_if_it_can, args=(store,))
            mover.start()
            mover.join(rng.random() * 0.3)
            if service.keeps_objects:
                service.kill()
            fill(store, 1)  # nobody waits for the gateway
            if service.keeps_objects:
                service.restart()
            mover.join(DEADLINE_S)
            assert not mover.is_alive()
        store.relocate()
        assert store.topic("t")._state.cold.last_seq == store.topic("t").head_seq - BATCH
        check(store)
    with open_store(tmp_path / "data", remote) as again:
        check(again)


def relocate_if_it_can(store: strandline.Store) -> None:
    with contextlib.suppress(StrandlineError):
        store.relocate()
