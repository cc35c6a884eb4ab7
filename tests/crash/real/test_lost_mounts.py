"""Promise (D6): what a lost file system took of a `disk` topic is reported, a kill takes nothing.

The file system is a real one in a loop device. It is shut down under a writer, as it is when its
device fails; the machine and the boot id stay. Then it is mounted again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline
from strandline.platform.page_cache import mount_id, page_cache_id
from strandline.records import Tombstone
from tests.crash.real.loop_volume import LoopVolume
from tests.crash.real.mount_workers import TOPIC, content, last_acknowledged
from tests.crash.real.nursery import Nursery

pytestmark = pytest.mark.needs_root

APPENDS_MIN = 20_000
WAIT_S_MAX = 60.0
SELDOM_MS = 10_000  # so that there is much to lose


@pytest.fixture
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopVolume]:
    made = LoopVolume(request.param, tmp_path)
    yield made
    made.discard()


@contextlib.contextmanager
def appending(nursery: Nursery, volume: LoopVolume, journal: str) -> Iterator[None]:
    """A writer that has appended much, and is killed at the end."""
    pid = nursery.start(
        "tests.crash.real.mount_workers:append_until_killed",
        directory=str(volume.folder / "data"),
        journal=journal,
        sync_interval_ms=SELDOM_MS,
    )
    deadline = time.monotonic() + WAIT_S_MAX
    while not os.path.exists(journal) or last_acknowledged(journal) < APPENDS_MIN:
        assert time.monotonic() < deadline, nursery.errors()
        time.sleep(0.001)
    yield
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    # A store into the mapping of a file that is gone ends the process, too.
    assert nursery.wait(pid) in (-signal.SIGKILL, -signal.SIGBUS), nursery.errors()


def read_all(topic: strandline.Topic) -> tuple[dict[int, bytes], list[Tombstone]]:
    found: dict[int, bytes] = {}
    tombstones = []
    after = 0
    while True:
        page = topic.read(after, limit=10_000)
        found |= {record.seq: record.data for record in page.records}
        tombstones += [page.tombstone] if page.tombstone else []
        after = page.next
        if page.caught_up:
            return found, tombstones


@pytest.mark.parametrize("volume", ["ext4", "xfs"], indirect=True)
def test_what_a_file_system_took_that_failed_and_was_mounted_again_is_reported(
    nursery: Nursery, volume: LoopVolume, tmp_path: Path
):
    journal = str(tmp_path / "journal")
    directory = str(volume.folder / "data")

    with appending(nursery, volume, journal):
        volume.shut_down()
    volume.unmount()
    volume.mount()

    with strandline.open(directory) as store:
        topic = store.topic(TOPIC)
        found, tombstones = read_all(topic)
        seq = topic.append(b"new").first_seq
    acknowledged = last_acknowledged(journal)
    lost = set(range(1, acknowledged + 1)) - set(found)
    told = {seq for gap in tombstones for seq in range(gap.gap_from, gap.gap_to + 1)}
    assert lost, "the file system lost nothing"
    assert lost <= told
    assert found == {seq: content(seq) for seq in found}
    assert seq > acknowledged


@pytest.mark.parametrize("volume", ["ext4", "xfs", "btrfs", "tmpfs"], indirect=True)
def test_a_kill_on_a_mount_that_stays_loses_nothing_and_reports_nothing(
    nursery: Nursery, volume: LoopVolume, tmp_path: Path
):
    if volume.kind == "tmpfs" and mount_id(str(volume.folder)) is None:
        pytest.skip("before Linux 6.8 a mount of tmpfs has no identity")
    journal = str(tmp_path / "journal")

    with appending(nursery, volume, journal):
        pass

    with strandline.open(str(volume.folder / "data")) as store:
        found, tombstones = read_all(store.topic(TOPIC))
    assert tombstones == []
    assert len(found) >= last_acknowledged(journal)


@pytest.mark.parametrize("volume", ["ext4", "xfs", "btrfs"], indirect=True)
def test_a_kill_in_another_container_of_the_same_file_system_reports_nothing(
    nursery: Nursery, volume: LoopVolume, tmp_path: Path
):
    journal = str(tmp_path / "journal")

    with appending(nursery, volume, journal):
        pass

    with strandline.open(str(volume.bind() / "data")) as store:
        found, tombstones = read_all(store.topic(TOPIC))
    assert tombstones == []
    assert len(found) >= last_acknowledged(journal)


@pytest.mark.parametrize("volume", ["ext4", "xfs", "btrfs", "tmpfs"], indirect=True)
def test_a_mount_again_is_another_page_cache(volume: LoopVolume):
    before = page_cache_id(str(volume.folder))

    volume.unmount()
    volume.mount()

    assert page_cache_id(str(volume.folder)) != before
