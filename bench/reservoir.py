"""The reservoir against bare files: writing, reading, recovery, and what a store is asked."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import strandline
from bench.measure import Figure, fixed, rate, scaled
from strandline.config.settings import ReservoirSettings
from strandline.platform.clock import SystemClock
from strandline.platform.direct_file import DIRECT_BLOCK, aligned_memory
from strandline.platform.disk import OsDisk
from strandline.reservoir import takeover
from strandline.reservoir.data_files.data_file_table import FileEntry, FileRef
from strandline.reservoir.data_files.page_table import ROW
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_objects import SimObjects

PAGE_BYTES = 1024
PAGES = 1_000_000
BATCH = 10_000
LIVE_PAGES = 5_000_000
READS = 200_000
ENTRIES = 300_000
CHANGES = (1_000, 10_000, 100_000)
"""Pages that change in each of the 19 increments behind a snapshot."""


def run(folder: Path, *, scale: float) -> list[Figure]:
    figures = _writing(folder, scaled(PAGES, scale, least=BATCH))
    figures += [_reading(folder, direct=False), _reading(folder, direct=True)]
    figures += [_recovery(*_pages(changes, scale)) for changes in CHANGES]
    figures += _requests()
    figures += _map(folder, scaled(ENTRIES, scale))
    return figures


def _pages(changes: int, scale: float) -> tuple[int, int]:
    """Live pages, and how many of them change."""
    changes = fixed(changes, scale)
    return scaled(LIVE_PAGES, scale, least=changes), changes


def _writing(folder: Path, count: int) -> list[Figure]:
    """A million pages and one checkpoint; beside it the same bytes into one file, synced."""
    pages = [os.urandom(PAGE_BYTES) for _ in range(BATCH)]
    size = count * PAGE_BYTES

    def bare() -> int:
        with (folder / "bare").open("wb", buffering=0) as file:
            for _ in range(count // BATCH):
                file.write(b"".join(pages))
            os.fsync(file.fileno())
        return size

    def ours(write: Callable[[strandline.Session, int], None]) -> Callable[[], int]:
        def work() -> int:
            with (
                strandline.reservoir(str(folder / "pages")) as reservoir,
                reservoir.session() as session,
            ):
                for first in range(1, count + 1, BATCH):
                    write(session, first)
                session.commit()
                reservoir.checkpoint()
            return size

        return work

    def one_by_one(session: strandline.Session, first: int) -> None:
        for page_id, data in enumerate(pages, first):
            session.write(page_id, data)

    def many(session: strandline.Session, first: int) -> None:
        session.write_many(range(first, first + BATCH), pages)

    figures = []
    for name, write in (("write", one_by_one), ("write_many", many)):
        rates, peers = [], []
        for _ in range(5):  # in turn, so that both meet the same disk
            os.sync()
            peers.append(rate(bare, rounds=1))
            (folder / "bare").unlink()
            os.sync()
            rates.append(rate(ours(write), rounds=1))
            shutil.rmtree(folder / "pages")
        ratio = max(rates) / max(peers)
        figures.append(
            Figure(
                name=f"reservoir: {name} {count:,} pages of 1 KiB, checkpoint",
                value=max(rates) / 1e6,
                unit="MB/s",
                peer="write + fsync of the bytes",
                ratio=ratio,
                goal=">= 0.4 x",
                met=ratio >= 0.4,
            )
        )
    return figures


def _reading(folder: Path, *, direct: bool) -> Figure:
    """Pages by chance out of a warm cache; beside it bare reads of the same bytes and files."""
    objects, count = SimObjects(), 4 * BATCH
    reads = READS // 20 if direct else READS
    pages = [os.urandom(PAGE_BYTES) for _ in range(count)]
    cache = folder / f"cache-{direct}"
    settings = ReservoirSettings(cache_direct_io=direct)
    with Reservoir(objects, cache_folder=str(cache), settings=settings) as reservoir:
        with reservoir.session() as session:
            session.write_many(range(1, count + 1), pages)
            session.commit()
        reservoir.checkpoint()
        wanted = [random.randrange(1, count + 1) for _ in range(reads)]
        places = [reservoir.place(page_id) for page_id in wanted]
        found = {
            int(path.name, 16): path
            for path in cache.rglob("*")
            if path.is_file() and len(path.name) == 16
        }
        flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)
        files = {file_id: os.open(path, flags) for file_id, path in found.items()}
        ranges = [(files[place.file_id], place.offset) for place in places if place]
        block = aligned_memory(DIRECT_BLOCK)

        def ours() -> int:
            read = reservoir.read
            for page_id in wanted:
                read(page_id)
            return reads

        def bare() -> int:
            for file, offset in ranges:
                if direct:
                    os.preadv(file, [block], offset // len(block) * len(block))
                else:
                    os.pread(file, PAGE_BYTES, offset)
            return reads

        bare(), ours()
        taken = [(rate(bare, rounds=1), rate(ours, rounds=1)) for _ in range(5)]
        for file in files.values():
            os.close(file)
    theirs, own = (max(each) for each in zip(*taken, strict=True))
    return Figure(
        name=f"reservoir: read pages by chance, {'direct' if direct else 'page-cached'} cache",
        value=1e6 / own,
        unit="us/page",
        peer=f"{'O_DIRECT' if direct else 'os.pread'} (times as long)",
        ratio=theirs / own,
        goal="<= 3 x",
        met=theirs / own <= 3,
    )


def _recovery(live: int, changes: int) -> Figure:
    """A snapshot of many pages, 19 increments; how long until it is open."""
    objects = SimObjects()
    settings = ReservoirSettings(snapshot_interval=20, compact_share=0)
    state, checkpointer, _ = takeover.open_state(
        objects,
        at=None,
        readonly=False,
        settings=settings,
        new_id=OsDisk().random_id,
        clock=SystemClock(),
    )
    generator = np.random.default_rng(7)

    def places(count: int) -> np.ndarray:
        rows = np.empty(count, dtype=ROW)
        rows["file_id"], rows["size"] = 1 << 32, PAGE_BYTES
        rows["offset"] = np.arange(count) * PAGE_BYTES % (1 << 26)
        rows["checksum"] = generator.integers(0, 1 << 63, count)
        return rows

    state.files.add(FileEntry(ref=FileRef(1 << 32, 1 << 26, 0), pages=live, added_at=1))
    state.rows = []  # so the next one is a snapshot
    for number in range(20):
        count = changes if number else live
        ids = (
            np.sort(generator.choice(live, count, replace=False)) + 1
            if number
            else np.arange(1, live + 1)
        )
        state.pages.put(ids.astype("<i8"), places(count))
        checkpointer.create(checkpointer.encode(state.version + 1, meta=b"", now_us=0))
        state.pages.checkpointed()
    before = objects.calls.copy()
    start = time.perf_counter()
    opened = Reservoir(objects, settings=settings, readonly=True)
    seconds = time.perf_counter() - start
    assert len(opened) == live
    asked = objects.calls - before
    opened.close()
    return Figure(
        name=f"reservoir: open {live:,} pages, 19 x {changes:,} changed",
        value=seconds,
        unit="s",
        note=f"{asked['list']} list, {asked['get_ranges']} ranges",
    )


def _requests() -> list[Figure]:
    """What twenty small checkpoints ask of the object store."""
    objects = SimObjects()
    with Reservoir(objects) as reservoir, reservoir.session() as session:
        before = objects.calls.copy()
        for number in range(20):
            session.write(number + 1, os.urandom(PAGE_BYTES))
            session.commit()
            reservoir.checkpoint()
        asked = objects.calls - before
    puts = asked["create"] + asked["put"]
    others = asked["get"] + asked["get_ranges"] + asked["head"] + asked["list"]
    before = objects.calls.copy()
    Reservoir(objects, readonly=True).close()
    opened = objects.calls - before
    return [
        Figure(
            name="reservoir: requests of 20 small checkpoints",
            value=puts,
            unit="PUT",
            goal="20 PUT, no GET, no LIST",
            met=puts == 20 and not others,
            note=f"{others} GET, HEAD and LIST; {asked['delete']} DELETE",
        ),
        Figure(
            name="reservoir: requests to open it again",
            value=opened["list"] + opened["get_ranges"] + opened["head"],
            unit="LIST+GET",
            note=f"{opened['list']} list, {opened['get_ranges']} ranges",
        ),
    ]


def _map(folder: Path, count: int) -> list[Figure]:
    """An ordered map on pages; beside it SQLite, a table with the key as its primary key."""
    generator = random.Random(7)
    keys = [generator.randbytes(16) for _ in range(count)]
    asked = generator.sample(keys, len(keys))
    value = b"v" * 32
    database = sqlite3.connect(folder / "map.sqlite", isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("create table map (key blob primary key, value blob) without rowid")

    def sqlite_put() -> int:
        database.execute("begin")
        for key in keys:
            database.execute("insert into map values (?, ?)", (key, value))
        database.execute("commit")
        return count

    def sqlite_get() -> int:
        for key in asked:
            database.execute("select value from map where key = ?", (key,)).fetchone()
        return count

    def sqlite_scan() -> int:
        return sum(1 for _ in database.execute("select key, value from map order by key"))

    with strandline.reservoir(str(folder / "map")) as reservoir, reservoir.session() as session:
        ordered = strandline.PagedMap(session)

        def put() -> int:
            for key in keys:
                ordered.put(key, value)
            ordered.checkpoint(reservoir)
            return count

        def get() -> int:
            for key in asked:
                ordered.get(key)
            return count

        def scan() -> int:
            return sum(1 for _ in ordered.range())

        works = {
            "put by chance, checkpoint": (put, sqlite_put),
            "get by chance": (get, sqlite_get),
            "scan in order": (scan, sqlite_scan),
        }
        figures = []
        for name, (ours, theirs) in works.items():
            own, peer = rate(ours, rounds=1), rate(theirs, rounds=1)
            figures.append(
                Figure(
                    name=f"map of {count:,}: {name}",
                    value=own,
                    unit="entry/s",
                    peer="SQLite",
                    ratio=own / peer,
                )
            )
    database.close()
    return figures
