"""Small lakes for tests: files that exist, ledgers over a simulated store, and what must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from xxhash import xxh3_128_hexdigest

from strandline.lake import object_keys
from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_codec import ManifestKey, ManifestVersion
from strandline.lake.manifest.manifest_commit import ManifestChange, ManifestCommitter
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects

STORE_ID = bytes(range(16))
TOPIC_ID = 7
STATS = '{"key":["61","7a",0],"tag":["eu","us",3],"node":[null,null,10]}'


def lake_file(
    first_seq: int, last_seq: int, *, salt: int = 0, stats: str = STATS, schema_version: int = 0
) -> LakeFile:
    return LakeFile(
        first_seq=first_seq,
        last_seq=last_seq,
        rows=last_seq - first_seq + 1,
        size=10,
        payload=1000,
        ts_min=1_700_000_000_000_000 + first_seq,
        ts_max=1_700_000_000_000_000 + last_seq,
        content=xxh3_128_hexdigest(f"{first_seq} {last_seq} {salt}".encode()),
        tail_offset=5,
        tail_checksum=2**64 - 1 - first_seq,
        schema_version=schema_version,
        stats=stats,
    )


def upload(objects: Objects, *files: LakeFile) -> None:
    for file in files:
        objects.put(object_keys.data_key(TOPIC_ID, file.name()), bytes(file.size))


def ids() -> Callable[[], bytes]:
    """Ids that are all different, and the same in every run."""
    numbers = itertools.count(1)
    return lambda: (next(numbers) * 0x9E37_79B9_7F4A_7C15 % 2**128).to_bytes(16, "little")


def ledger_of(
    objects: Objects,
    *,
    clock: Clock | None = None,
    random_id: Callable[[], bytes] | None = None,
    topic_id: int = TOPIC_ID,
) -> ManifestCommitter:
    return ManifestCommitter(objects, STORE_ID, topic_id, clock or SimClock(), random_id or ids())


def new_lake(objects: Objects, *, clock: Clock | None = None) -> ManifestCommitter:
    """A ledger of a topic that has its first manifest."""
    ledger = ledger_of(objects, clock=clock)
    ledger.create("orders", epoch=1)
    return ledger


def add(ledger: ManifestCommitter, *files: LakeFile, term: int | None = None) -> Manifest:
    """Upload and commit, as a relocation does."""
    upload(ledger.objects, *files)
    return ledger.commit(adding(*files), term=term)


def adding(*files: LakeFile) -> ManifestChange:
    return lambda manifest: manifest.with_added(files)


def raising(floor: int, at_us: int) -> ManifestChange:
    return lambda manifest: manifest.with_floor(floor, at_us=at_us)


def numbers_in(objects: SimObjects) -> list[int]:
    folder = object_keys.manifest_folder(TOPIC_ID)
    return [object_keys.number_of(key) or 0 for key in sorted(objects.snapshot()) if folder in key]


def data_in(objects: SimObjects) -> set[str]:
    folder = object_keys.data_folder(TOPIC_ID)
    return {object_keys.last_part(key) for key in objects.snapshot() if folder in key}


def readable_versions(objects: SimObjects) -> list[Manifest]:
    """Every version that somebody could read now: its full manifest and all deltas are there."""
    stored = objects.snapshot()
    found: list[ManifestVersion] = []
    for number in numbers_in(objects):
        data, place = stored[object_keys.manifest_key(TOPIC_ID, number)].data, _place(number)
        base = manifest_codec.header_of(data, place).base
        if base == number:
            found.append(manifest_codec.apply_object(None, data, place))
        elif found and found[-1].manifest.number == number - 1:
            found.append(manifest_codec.apply_object(found[-1], data, place))
    return [version.manifest for version in found]


def dangling(objects: SimObjects) -> list[str]:
    """Files that a readable version names and that are not there. Must be empty, always."""
    there = data_in(objects)
    return [
        f"{version.number}: {file.name()}"
        for version in readable_versions(objects)
        for file in version.files
        if file.name() not in there
    ]


def _place(number: int) -> ManifestKey:
    return ManifestKey(STORE_ID, TOPIC_ID, number)
