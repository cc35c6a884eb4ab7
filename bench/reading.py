"""Reading back, recovering, and opening."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

import strandline
from bench.measure import Figure, rate, scaled
from bench.peers import RECORD, Peers
from bench.settings import LAZY
from strandline.log.files import system_file
from strandline.log.files.layout import Layout
from strandline.log.recovery import recover
from strandline.platform.disk import OsDisk


def run(folder: Path, peers: Peers, *, scale: float) -> list[Figure]:
    figures = _recovery(folder, peers, scale)
    figures += _reads(folder, scale)
    figures.append(_open_sealed(folder, scale))
    return figures


def _fill(path: Path, work: Callable[[strandline.Topic], None]) -> None:
    """A store that ends like a crash: its log is all there is."""
    with strandline.open(str(path), settings=LAZY) as store:
        work(store.topic("log"))


def _recovery(folder: Path, peers: Peers, scale: float) -> list[Figure]:
    batches = scaled(5000, scale, least=20)
    many = [RECORD] * 1000

    def fill_many(topic: strandline.Topic) -> None:
        for _ in range(batches):
            topic.append_many(many)

    _fill(folder / "batches", fill_many)
    size = batches * 1000 * 104
    seconds = _recover_seconds(folder / "batches")
    speed = size / seconds
    figures = [
        Figure(
            name="recovery of batches of 1000, verified and indexed",
            value=speed / 1e9,
            unit="GB/s",
            peer="memcpy",
            ratio=speed / peers.memcpy_bytes,
            goal=">= 3 GB/s",
            met=speed >= 3e9,
        )
    ]
    singles = scaled(1_000_000, scale)

    def fill_one(topic: strandline.Topic) -> None:
        for _ in range(singles):
            topic.append(RECORD)

    _fill(folder / "singles", fill_one)
    seconds = _recover_seconds(folder / "singles") * 1_000_000 / singles
    figures.append(
        Figure(
            name="recovery of 1 M single records",
            value=seconds,
            unit="s",
            goal="< 3 s",
            met=seconds < 3,
        )
    )
    return figures


def _recover_seconds(path: Path) -> float:
    disk, layout = OsDisk(), Layout(str(path))
    store_id = system_file.read(disk, str(path))
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        recover.recover(disk, layout, store_id, LAZY).close()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[1]


def _reads(folder: Path, scale: float) -> list[Figure]:
    figures = []
    with strandline.open(str(folder / "batches"), settings=LAZY) as store:
        topic = store.topic("log")
        for place in ("WAL", "segment"):
            shapes: list[tuple[str, Callable[[strandline.Page], object], float]] = [
                ("Arrow", lambda page: page.arrow(), 50),
                ("list[bytes]", lambda page: page.data, 150),
                ("records", lambda page: page.records, 0),
            ]
            for shape, decode, goal in shapes:
                cost = 1e9 / rate(partial(_read_pages, topic, decode, scaled(30, scale)))
                figures.append(
                    Figure(
                        name=f"read 10 k as {shape} from {place}",
                        value=cost,
                        unit="ns/rec",
                        goal=f"< {goal:.0f} ns" if goal else "",
                        met=cost < goal if goal else None,
                    )
                )
            store.checkpoint()
    return figures


def _read_pages(
    topic: strandline.Topic, decode: Callable[[strandline.Page], object], pages: int
) -> int:
    head = topic.head_seq
    for turn in range(pages):
        decode(topic.read(turn * 10_000 % (head - 10_000), 10_000))
    return pages * 10_000


def _open_sealed(folder: Path, scale: float) -> Figure:
    count = scaled(10_000_000, scale, least=50_000)
    batch = pa.record_batch([pa.array([RECORD[:50]] * 50_000, pa.binary())], names=["data"])
    path = str(folder / "sealed")
    with strandline.open(path, settings=LAZY) as store:
        topic = store.topic("log")
        for turn in range(count // 50_000):
            topic.append_arrow(batch)
            if turn % 20 == 19:
                store.checkpoint()
        store.checkpoint()
    start = time.perf_counter()
    with strandline.open(path, settings=LAZY) as store:
        seconds = time.perf_counter() - start
        assert store.topic("log").head_seq == count // 50_000 * 50_000
    return Figure(
        name=f"open with {count / 1e6:.0f} M records sealed",
        value=seconds * 1000,
        unit="ms",
        goal="< 1 s",
        met=seconds < 1,
    )
