"""The retention chapter: deletes by tag, a cap and its tombstone, a checkpoint, a verification."""

from __future__ import annotations

import os
from collections.abc import Iterator

from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.log.repair.verify import verify_store
from strandline.platform.disk import OsDisk
from strandline.records import Tombstone
from strandline.store import Store


def show(stage: Stage, scene: Scene) -> None:
    stage.title("Retention and deletes")
    with Store(scene.store) as store:
        _delete_by_tag(stage, store, scene.orders)
        _cap(stage, store, scene.orders)
        _checkpoint(stage, store)
    _verify(stage, scene.store)


def _delete_by_tag(stage: Stage, store: Store, count: int) -> None:
    orders = store.topic("orders")
    regions = ("eu-west", "eu-north", "us-east", "us-west")
    orders.append_many(
        [f"order {number}".encode() for number in range(count)],
        tags=[regions[number % 4] for number in range(count)],
    )
    result = orders.delete(match="eu*")
    left = orders.read(0, count)
    stage.check(
        result.deleted == count // 2
        and {record.tag for record in left.records} == set(regions[2:]),
        f"delete(match='eu*') deleted {result.deleted:,} of {count:,} orders, without a tombstone",
    )


def _cap(stage: Stage, store: Store, count: int) -> None:
    kept = count // 10
    recent = store.topic("recent", cap_records=kept)
    recent.append_many([f"sample {number}".encode() for number in range(count)])
    page = recent.read(0, kept)
    gap = page.tombstone or Tombstone(gap_from=0, gap_to=0, reason="no tombstone")
    stage.check(
        (gap.gap_from, gap.gap_to, gap.reason) == (1, count - kept, "cap") and len(page) == kept,
        f"a cap keeps {kept:,} records; a read from the beginning reports that "
        f"{gap.gap_from:,} to {gap.gap_to:,} are gone ({gap.reason})",
    )


def _checkpoint(stage: Stage, store: Store) -> None:
    before = store.topics()
    store.checkpoint()
    sizes = [os.path.getsize(path) for path in _files(f"{store.path}/segments")]
    stage.check(
        bool(sizes) and store.topics() == before,
        f"a checkpoint moved the log into {len(sizes)} segments of {sum(sizes) / 1e6:,.1f} MB",
    )


def _verify(stage: Stage, path: str) -> None:
    report = verify_store(OsDisk(), path)
    stage.check(
        report.ok,
        f"verify read {report.bytes_read / 1e6:,.0f} MB in {report.files} files with "
        f"{report.records:,} records: {len(report.problems)} problems",
    )


def _files(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            yield entry.path
