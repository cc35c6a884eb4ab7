"""Lake files against plain pyarrow: the same rows with the same options, the same files scanned."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from bench.measure import Figure, scaled
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.files.file_writer import ZONE_ROWS, LakeFileWriter, parquet_options
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.disk import OsDisk, ReadFile

FILE_ROWS = 1_000_000
BATCH_ROWS = 50_000
TOPIC_ID = 7
THREADS = os.cpu_count() or 1


def run(folder: Path, *, scale: float) -> list[Figure]:
    total = scaled(10_000_000, scale)
    rows = sample_rows(min(FILE_ROWS, total))
    count = total // len(rows)
    entries: list[LakeFile] = []

    def write_ours() -> None:
        entries[:] = [_write(folder / f"ours-{place}", rows) for place in range(count)]

    def write_plain() -> None:
        for place in range(count):
            _write_plain(folder / f"plain-{place}", rows)

    figures = [
        _compared("write lake files", write_ours, write_plain, count * len(rows), 0.5, "pyarrow")
    ]
    paths = [str(folder / f"ours-{place}") for place in range(count)]
    files = [OsDisk().open_read(path) for path in paths]
    scan = partial(_scan, files, entries)
    peer = partial(_scan_dataset, paths)
    figures.append(
        _compared("scan lake files as Arrow", scan, peer, count * len(rows), 0.7, "dataset")
    )
    figures.append(_range_read(files[0], entries[0]))
    return figures


def _compared(
    name: str,
    ours: Callable[[], None],
    peer: Callable[[], None],
    rows: int,
    goal: float,
    peer_name: str,
) -> Figure:
    """Ours and the peer in turn, so that both meet the same machine."""
    peer()
    taken = [(_seconds(ours), _seconds(peer)) for _ in range(5)]
    ratio = statistics.median(theirs / own for own, theirs in taken)
    return Figure(
        name=name,
        value=rows / statistics.median(own for own, _ in taken),
        unit="rec/s",
        peer=peer_name,
        ratio=ratio,
        goal=f">= {goal} x",
        met=ratio >= goal,
    )


def _range_read(file: ReadFile, entry: LakeFile) -> Figure:
    """Zones that a thousand records take, at worst, from a file that was never opened."""
    worst = 0
    for first_seq in range(1, entry.rows - 1000, 4999):
        fetched = []

        def fetch(start: int, length: int, into: list[int] = fetched) -> bytes:
            into.append(length)
            return file.pread(length, start)

        reader = LakeFileReader(fetch, entry, TOPIC_ID, "")
        last = reader.zone_at(first_seq + 999)
        for place in range(reader.zone_at(first_seq), last + 1):
            reader.zone(place)
        worst = max(worst, len(fetched) - 1)
    return Figure(
        name="row groups read for 1000 records of a cold file",
        value=worst,
        unit="groups",
        goal="<= 2",
        met=worst <= 2,
    )


def sample_rows(count: int) -> pa.Table:
    """Records of 200 bytes of JSON with a key of many, a tag of few and a node."""
    chance = random.Random(1)
    distinct = [_payload(chance) for _ in range(min(count, 100_000))]
    data = pa.array(distinct, pa.binary())
    repeats = -(-count // len(distinct))
    keys = [b"user-%06d" % chance.randrange(500_000) for _ in range(count)]
    stamps = np.arange(count, dtype="<i8") * 37 + 1_700_000_000_000_000
    columns = [
        pa.array(np.arange(1, count + 1, dtype="<u8")),
        pa.array(stamps).cast(SCHEMA.types[1]),
        pa.array(keys, pa.binary()),
        pa.array([chance.choice(("eu", "us", "asia")) for _ in range(count)]),
        pa.array(["node-1"] * count),
        pa.nulls(count, pa.binary()),
        pa.concat_arrays([data] * repeats).slice(0, count),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _payload(chance: random.Random) -> bytes:
    text = (
        f'{{"order":{chance.randrange(10**9)},"user":"u{chance.randrange(10**5):05d}",'
        f'"amount":{chance.random() * 1000:.2f},"status":"{chance.choice(["paid", "open"])}",'
        f'"trace":"{chance.getrandbits(160):040x}","note":"'
    )
    return text.ljust(198, "x").encode() + b'"}'


def _write(path: Path, rows: pa.Table) -> LakeFile:
    file = OsDisk().create(str(path))
    writer = LakeFileWriter(file, topic_id=TOPIC_ID, store_id=bytes(16))
    for start in range(0, len(rows), BATCH_ROWS):
        writer.add(rows.slice(start, BATCH_ROWS))
    entry = writer.finish(1, len(rows))
    file.commit()
    return entry


def _write_plain(path: Path, rows: pa.Table) -> None:
    options = parquet_options(rows.schema)
    pq.write_table(rows, path, row_group_size=ZONE_ROWS, **options)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _scan(files: list[ReadFile], entries: list[LakeFile]) -> None:
    """Verified, decoded, and let go."""
    with ThreadPoolExecutor(THREADS) as threads:
        for file, entry in zip(files, entries, strict=True):
            reader = LakeFileReader(partial(_pread, file), entry, TOPIC_ID, "")
            found = sum(len(table) for table in reader.tables(threads=threads))
            assert found == entry.rows


def _scan_dataset(paths: list[str]) -> None:
    for batch in pyarrow.dataset.dataset(paths, format="parquet").to_batches():
        assert batch.num_columns == len(SCHEMA)


def _pread(file: ReadFile, start: int, length: int) -> bytes:
    return file.pread(length, start)


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
