"""Verifies a store and its derived files, which ``log/repair/verify.py`` does not cover.

    lake        the indexes of tables; it covers rows and manifests
    views/      every checkpoint and page of the reservoir of saved views
    schedule/   state of declared pipelines
    incoming/   deliveries that wait for the writer

Nothing is changed. While another process writes, a problem is reported only if it is found twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from strandline.config.settings import Settings
from strandline.errors import Corrupt, NotFound, Unavailable, UnsupportedFormat
from strandline.ingest.delivery_codec import check_pending
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress, silent
from strandline.log.repair.verify import VerifyProblem, VerifyReport, verify_store
from strandline.pipelines.schedule.run_state import PipelineStateStore
from strandline.platform.disk import Disk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import verify as reservoir_check
from strandline.views.table.files.verify import check_indexes


def verify_all(
    disk: Disk,
    path: str,
    settings: Settings | None = None,
    progress: Progress = silent,
    *,
    objects: Objects | None = None,
    lake: bool = True,
    views: bool = True,
) -> VerifyReport:
    """Verify a store with its lake, its saved views and its other files."""
    settings = settings or Settings()
    report = verify_store(disk, path, settings, progress, objects=objects, lake=lake)
    problems = list(_problems(disk, path, settings, report, objects, lake=lake, views=views))
    if problems and report.in_use:
        again = _problems(disk, path, settings, report, objects, lake=lake, views=views)
        problems = [each for each in again if each in problems]
    report.problems += problems
    return report


def _problems(
    disk: Disk,
    path: str,
    settings: Settings,
    report: VerifyReport,
    objects: Objects | None,
    *,
    lake: bool,
    views: bool,
) -> Iterator[VerifyProblem]:
    layout = Layout(path)
    if lake and report.store_id:
        yield from _of_indexes(disk, layout, settings, bytes.fromhex(report.store_id), objects)
    if views:
        yield from _of_views(disk, layout)
    yield from _of_errors("schedule", PipelineStateStore(path, disk).check())
    if disk.exists(layout.incoming):
        with contextlib.closing(open_objects(layout.incoming, disk=disk)) as incoming:
            yield from _of_errors("delivery", check_pending(incoming))


def _of_indexes(
    disk: Disk, layout: Layout, settings: Settings, store_id: bytes, objects: Objects | None
) -> Iterator[VerifyProblem]:
    url, object_settings = settings.lake.url or layout.lake, settings.lake.objects
    lake_objects = objects or open_objects(url, settings=object_settings, disk=disk)
    try:
        steps = check_indexes(lake_objects, store_id)
        yield from _of_errors("lake", (step for step in steps if not isinstance(step, int)))
    except Unavailable:
        return  # verify_store has reported it
    finally:
        if objects is None:
            lake_objects.close()


def _of_views(disk: Disk, layout: Layout) -> Iterator[VerifyProblem]:
    if not disk.exists(layout.views):
        return
    with contextlib.closing(open_objects(layout.views, disk=disk)) as objects:
        try:
            report = reservoir_check.verify(objects)
        except (NotFound, UnsupportedFormat):
            return
        for each in report.damage:
            yield VerifyProblem(
                path=f"{layout.views}/{each.object}",
                kind="views",
                reason=f"{each.reason}: the views are rebuilt from the log",
                offset=each.offset,
            )


def _of_errors(kind: str, errors: Iterator[Corrupt]) -> Iterator[VerifyProblem]:
    for error in errors:
        yield VerifyProblem(path=error.path, kind=kind, reason=error.reason, offset=error.offset)
