"""The health of a store: green, yellow (look at it) or red (it does not work), and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from strandline.log.files.disk_space import SpaceWatch
from strandline.log.recovery.recover import StoreState
from strandline.log.repair.scrub_job import Scrubber, ScrubProgress
from strandline.platform.background_jobs import TRANSIENT_ERRORS, BackgroundJob, JobHealth

Writing = tuple[SpaceWatch, Scrubber, Callable[[], list[str]]]
"""What only a writer has: disk space, the scrub job, complaints of its inbox."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a store: ``green``, ``yellow`` (look at it) or ``red`` (it does not work)."""

    status: str
    reasons: list[str]
    jobs: list[JobHealth]
    free_bytes: int
    scrub: ScrubProgress
    """The progress and the findings of the check of all files."""


def health_of(
    store: StoreState,
    stand_ins: Mapping[str, object],
    jobs: Sequence[BackgroundJob],
    fatal: list[str],
    writing: Writing | None,
    *,
    closed: bool,
) -> Health:
    """Collect the problems of a store. ``fatal`` are the reasons for which it no longer works."""
    states = [job.health() for job in jobs]
    warns = [f"{job.name}: {job.last_error}" for job in states if job.failures_in_row]
    warns += store.complaints + [damage.reason for damage in store.damage]
    warns += [f"reads use the lake instead of {path}: {error}" for path, error in stand_ins.items()]
    free, scrub = 0, ScrubProgress()
    if writing is not None:
        space, scrubber, complaints = writing
        free, scrub = space.free, scrubber.progress()
        warns += [str(finding) for finding in scrub.findings if finding.outcome == "fenced"]
        try:
            warns += complaints()
        except TRANSIENT_ERRORS as error:
            warns.append(f"some complaints cannot be read: {str(error) or 'out of memory'}")
        warns += space.complaints()
    status = "red" if fatal or closed else "yellow" if warns else "green"
    return Health(status=status, reasons=fatal + warns, jobs=states, free_bytes=free, scrub=scrub)
