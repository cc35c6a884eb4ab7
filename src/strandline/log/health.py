"""How a store is doing: green, yellow (look at it) or red (it does not work), and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from strandline.log.files.disk_space import SpaceWatch
from strandline.log.recovery.recover import Recovered
from strandline.log.repair.scrub_job import Scrubber, ScrubProgress
from strandline.platform.background_jobs import PASSING, Job, JobHealth

Writing = tuple[SpaceWatch, Scrubber, Callable[[], list[str]]]
"""What only a writer has: room on the disk, the check of all files, complaints of its inbox."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a store is doing: ``green``, ``yellow`` (look at it) or ``red`` (it does not work)."""

    status: str
    reasons: list[str]
    jobs: list[JobHealth]
    free_bytes: int
    scrub: ScrubProgress
    """How far the check of all files is, and what it found."""


def health_of(
    found: Recovered,
    stand_ins: Mapping[str, object],
    jobs: Sequence[Job],
    deaths: list[str],
    writing: Writing | None,
    *,
    closed: bool,
) -> Health:
    """What is wrong with a store. ``deaths`` are reasons for which it no longer works."""
    told = [job.health() for job in jobs]
    weak = [f"{job.name}: {job.last_error}" for job in told if job.failures_in_row]
    weak += found.complaints + [damage.reason for damage in found.damage]
    weak += [f"the lake stands in for {path}: {error}" for path, error in stand_ins.items()]
    free, scrub = 0, ScrubProgress()
    if writing is not None:
        space, scrubber, complaints = writing
        free, scrub = space.free, scrubber.progress()
        weak += [str(finding) for finding in scrub.findings if finding.outcome == "fenced"]
        try:
            weak += complaints()
        except PASSING as error:
            weak.append(f"some complaints cannot be read: {str(error) or 'out of memory'}")
        weak += space.complaints()
    status = "red" if deaths or closed else "yellow" if weak else "green"
    return Health(status=status, reasons=deaths + weak, jobs=told, free_bytes=free, scrub=scrub)
