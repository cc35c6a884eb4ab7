"""Guarantee: ``verify`` reads every kind of file that a store has, and names the one in which a bit
flipped; the scrub job does so for those that it can read beside the writer.

The kinds are found by walking the folder of a store that uses every feature: a file of a new kind
fails the test until it is listed here, with the check that covers it.
"""

from __future__ import annotations

import random
import re

import msgspec
import pytest

import strandline
from strandline.cli.maintenance.verification import verify_all
from strandline.config.settings import (
    LakeSettings,
    ReservoirSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    ViewSettings,
    WalSettings,
)
from strandline.ingest import delivery_codec
from strandline.pipelines.schedule.run_state import PipelineStateStore
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import flipped, replaced
from tests.unit.views.table import world as tables

PATH = "/data"
COVERED = {
    "SYSTEM": r"SYSTEM",
    "CLOSED": r"CLOSED",
    "checkpoints": r"meta/checkpoint-\d+\.bin",
    "log": r"wal/shard-\d+/wal-\d+\.log",
    "shared segments": r"segments/shared/\d+\.seg",
    "segments of a topic": r"segments/[0-9a-f]+/\d+-\d+\.seg",
    "lake: identity": r"lake/store\.json",
    "lake: terms": r"lake/terms/\d+\.json",
    "lake: names": r"lake/names/[0-9a-f]+-[0-9a-f]+",
    "lake: manifests": r"lake/topics/[0-9a-f]+/manifest/\d+\.json",
    "lake: rows": r"lake/topics/[0-9a-f]+/data/.*\.parquet",
    "lake: indexes of tables": r"lake/topics/[0-9a-f]+/zones/.*\.zones",
    "views: checkpoints": r"views/checkpoints/\d+",
    "views: pages": r"views/data/[0-9a-f]+",
    "schedules": r"schedule/[a-z]+\.json",
    "deliveries": r"incoming/pending/.*\.json",
}
SCRUBBED = [kind for kind in COVERED if "segments" in kind or "lake" in kind]
EMPTY = {
    "lock": r"(LOCK|.*/LOCK|.*\.lock)",
    "ballast": r"BALLAST",
    "spare log file": r"wal/shard-\d+/spare-.*",
    "stream versions": r"views/versions/.*",
}
"""Nothing is read from these: locks hold a text for people, the others nothing or zeros."""
SETTINGS = Settings(
    wal=WalSettings(file_size_first=64 * 1024, file_size_max=256 * 1024),
    segment=SegmentSettings(seal_records=8, own_bytes_min=1, block_records=4),
    lake=LakeSettings(hot_segments=1, zone_rows=5, file_bytes=1),
    views=ViewSettings(reservoir=ReservoirSettings(file_bytes=1024 * 1024)),
    space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
)


@pytest.fixture(scope="module")
def disk() -> SimDisk:
    """A store that uses every feature, closed cleanly."""
    disk = SimDisk()
    store = opened(disk)
    for durability in ("disk", "fsync", "memory", "ephemeral"):
        topic = store.topic(durability, durability=durability)
        for first in range(3):
            topic.append_many([b"%d" % (8 * first + each) for each in range(8)])
            store.checkpoint()
    for number in range(40):  # more than fits into the object of a checkpoint
        store.kv("people").put(f"p{number}", random.Random(number).randbytes(64 * 1024))
    store.queue("jobs").put(b"work")
    store.series("prices").append("x", 1_700_000_000, b"1")
    store.metrics("load").write_lines("cpu value=1 1700000000000000000")
    table = tables.table_of(store)
    tables.fill(table, 1, 70)
    table.flush()
    store.routers.put("copies", source="disk", dest="copied")
    store.run("REMEMBER QUERY pay RETURN [seq, n] AS kept")
    store.relocate()
    store.checkpoint()
    store.topic("disk").append(b"in the log")
    store.close()
    ledger = PipelineStateStore(PATH, disk)
    disk.make_dirs(f"{PATH}/schedule")
    ledger.save("nightly", ledger.new_state(1))
    found = delivery_codec.TopicDelivery(
        store_id=store.id, topic="t", producer="p", number=1, attempt="a", made_us=1, files=()
    )
    disk.make_dirs(f"{PATH}/incoming/pending")
    disk.durable_replace(
        f"{PATH}/incoming/pending/{delivery_codec.name_of('t', 'p', 1)}",
        delivery_codec.encode(found),
    )
    return disk.kill()


def opened(disk: SimDisk) -> Store:
    return strandline.open(PATH, disk=disk, clock=SimClock(), settings=SETTINGS, start_jobs=False)


def files(disk: SimDisk, folder: str = PATH) -> list[str]:
    found = []
    for name in disk.list_dir(folder):
        path = f"{folder}/{name}"
        found += files(disk, path) if disk.is_dir(path) else [path]
    return sorted(found)


def kind_of(path: str) -> str:
    name = path.removeprefix(f"{PATH}/")
    kinds = [kind for kind, form in (COVERED | EMPTY).items() if re.fullmatch(form, name)]
    return kinds[0] if kinds else ""


def of_kind(disk: SimDisk, kind: str) -> list[str]:
    return [path for path in files(disk) if kind_of(path) == kind]


def damaged(disk: SimDisk, path: str) -> SimDisk:
    """A copy in which one bit is another, in the middle of what was written to the file."""
    content = disk.read(path)
    middle = len(content.rstrip(b"\0")) // 2
    return replaced(disk, path, flipped(content, middle, 1))


def named(problem: str, path: str) -> bool:
    """Whether a problem's path is that of a file; messages about objects begin with their store."""
    return problem == path or path.endswith(problem) or problem.endswith(path)


def test_every_file_of_a_store_is_of_a_known_kind_and_every_kind_is_there(disk: SimDisk):
    kinds = {path: kind_of(path) for path in files(disk)}

    assert [path for path, kind in kinds.items() if not kind] == []
    assert {*COVERED} - {*kinds.values()} == set()


def test_a_store_with_every_feature_has_no_problem(disk: SimDisk):
    assert verify_all(disk.kill(), PATH).problems == []


@pytest.mark.parametrize("kind", COVERED)
def test_verify_names_the_file_in_which_a_bit_flipped(kind: str, disk: SimDisk):
    missed = [
        path
        for path in of_kind(disk, kind)
        if not any(
            named(problem.path, path) for problem in verify_all(damaged(disk, path), PATH).problems
        )
    ]

    assert missed == []


@pytest.mark.parametrize("kind", SCRUBBED)
def test_the_scrub_job_names_the_file_in_which_a_bit_flipped(kind: str, disk: SimDisk):
    missed = []
    for path in of_kind(disk, kind):
        with opened(damaged(disk, path)) as store:
            findings = store.scrub().findings
        if not any(named(finding.path, path) for finding in findings):
            missed.append(path)

    assert missed == []


def test_the_state_of_a_schedule_of_an_earlier_version_is_read():
    disk = SimDisk()
    disk.make_dirs(f"{PATH}/schedule")
    ledger, path = PipelineStateStore(PATH, disk), f"{PATH}/schedule/nightly.json"
    state = ledger.new_state(1)
    disk.durable_replace(path, msgspec.json.encode(state).replace(b',"checksum":""', b""))

    assert ledger.load("nightly") == state
    assert [*ledger.check()] == []


def test_any_flipped_byte_of_the_state_of_a_schedule_is_noticed():
    disk = SimDisk()
    disk.make_dirs(f"{PATH}/schedule")
    ledger, path = PipelineStateStore(PATH, disk), f"{PATH}/schedule/nightly.json"
    ledger.save("nightly", ledger.new_state(1))
    content = disk.read(path)

    missed = []
    for offset in range(len(content)):
        disk.durable_replace(path, flipped(content, offset, 0))
        if not [*ledger.check()]:
            missed.append(offset)

    assert missed == []
