"""How long does it take to open and to change a lake of many files, and how much memory?"""

from __future__ import annotations

import time
import tracemalloc

from bench.measure import Figure, scaled
from strandline.lake import object_keys
from strandline.lake.manifest.file_entry import ColumnStats, LakeFile, encode_stats
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.testing.sim_objects import SimObjects

STORE_ID = bytes(16)
TOPIC_ID = 1
ROWS = 1_000_000
CHANGES = 15  # as many deltas as there can be


def run(*, scale: float) -> list[Figure]:
    """Figures of a lake of 100,000 files. The store is in memory: what is measured is ours."""
    count = scaled(100_000, scale)
    objects = SimObjects()
    ledger = _ledger(objects)
    ledger.create("orders", epoch=1)
    _add(ledger, [_file(number) for number in range(count)])
    commits = []
    for number in range(count, count + CHANGES):
        start = time.perf_counter()
        _add(ledger, [_file(number)])
        commits.append(time.perf_counter() - start)
    before = objects.calls["get"]
    start = time.perf_counter()
    manifest = _ledger(objects).load()
    seconds = time.perf_counter() - start
    gets = objects.calls["get"] - before
    tracemalloc.start()
    manifest = _ledger(objects).load()
    size = tracemalloc.get_traced_memory()[0] / len(manifest.files)
    tracemalloc.stop()
    return [
        Figure(
            name=f"open a lake of {count:,} files",
            value=seconds,
            unit="s",
            goal="under 2 s",
            met=seconds < 2,
            note=f"{gets} objects read",
        ),
        Figure(name="commit one file to it", value=sorted(commits)[len(commits) // 2], unit="s"),
        Figure(
            name="memory per lake file", value=size, unit="B", goal="under 1 KB", met=size < 1000
        ),
    ]


def _ledger(objects: SimObjects) -> ManifestCommitter:
    return ManifestCommitter(objects, STORE_ID, TOPIC_ID, SystemClock(), OsDisk().random_id)


def _add(ledger: ManifestCommitter, files: list[LakeFile]) -> None:
    for file in files:
        ledger.objects.put(object_keys.data_key(TOPIC_ID, file.name()), bytes(file.size))
    ledger.commit(lambda manifest: manifest.with_added(files))


def _file(number: int) -> LakeFile:
    """An entry with statistics as long as they get in practice."""
    bounds = ColumnStats(f"{number:032x}", f"{number + 1:032x}", 0)
    return LakeFile(
        first_seq=number * ROWS + 1,
        last_seq=(number + 1) * ROWS,
        rows=ROWS,
        size=8,
        payload=200 * ROWS,
        ts_min=1_700_000_000_000_000 + number,
        ts_max=1_700_000_000_000_000 + number + 1,
        content=f"{number:016x}{number:016x}",
        tail_offset=1 << 40,
        tail_checksum=2**64 - 1 - number,
        stats=encode_stats({"key": bounds, "tag": bounds, "node": bounds}),
    )
