"""Opens a reservoir for writing: takes it over by creating a new version at once.

This version has no changes; its object must not exist. So an earlier writer is fenced: its next
checkpoint finds the name taken. The number of this version is the term, which is part of file ids:
files that an older writer still uploads have other names, and a later opening deletes them. The
object stays for a very long time (``reservoir/data_files/data_file_table.py``): its name must not
become free while an older writer is paused. An opening may be paused too, between listing and
creating, until the name that it found free is free again; so it lists once more.

An older version that is opened by its number becomes the newest in the same way; the versions
between are dropped. After a damaged version was passed over, the new one records that existing
objects must not be deleted (``gc_policy.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.config.settings import ReservoirSettings
from strandline.errors import Conflict, NotFound, ObjectExists
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys, recovery, reservoir_state
from strandline.reservoir.checkpoint_writer import CheckpointWriter
from strandline.reservoir.recovery import RecoveryResult
from strandline.reservoir.reservoir_state import ReservoirState

ATTEMPTS_MAX = 16
UNLISTED_CHECKS_MAX = 64
"""Maximum number of unlisted files to check one by one; more are taken for missing, not delayed."""


def open_state(
    objects: Objects,
    *,
    at: int | None,
    readonly: bool,
    settings: ReservoirSettings,
    new_id: Callable[[], bytes],
    clock: Clock,
) -> tuple[ReservoirState, CheckpointWriter, RecoveryResult]:
    """The state to continue from, the writer of its versions, and the recovered version."""
    existing = 0
    for _ in range(ATTEMPTS_MAX):
        found = recovery.recover(objects, at, at_least=existing)
        if at is not None and (lost := missing_files(objects, found)):
            raise NotFound(
                f"version {at} is no longer recoverable: {len(lost)} of its files are deleted; a "
                "larger retained_versions keeps more"
            )
        if readonly and found.state is None:
            raise NotFound(f"there is no reservoir in {objects.name}: open it for writing first")
        state = found.state or reservoir_state.empty_state(new_id())
        checkpointer = CheckpointWriter(
            objects,
            state,
            writer_id=new_id(),
            snapshot_interval=settings.snapshot_interval,
            retained_versions=settings.retained_versions,
        )
        if readonly or _take_over(objects, checkpointer, state, found, clock):
            return state, checkpointer, found
        existing = found.listed.newest + 1
    raise Conflict(f"other writers keep opening {objects.name}: stop them, then try again")


def missing_files(objects: Objects, found: RecoveryResult) -> list[int]:
    """Missing files with live pages. A listing may lag, so a few are checked by a request."""
    missing = found.missing
    checked = [
        file_id for file_id in missing[:UNLISTED_CHECKS_MAX] if _is_missing(objects, file_id)
    ]
    return [*checked, *missing[UNLISTED_CHECKS_MAX:]]


def _take_over(
    objects: Objects,
    checkpointer: CheckpointWriter,
    state: ReservoirState,
    found: RecoveryResult,
    clock: Clock,
) -> bool:
    """Create the next version; False if another writer was first, or the listing lagged."""
    state.term = version = found.listed.newest + 1
    if found.passed_over:
        state.kept_term = version
    for each in [*_openings_after(objects, found), version]:
        state.files.keep_name(object_keys.bundle_id(each), version)
    pending = checkpointer.encode(version, meta=state.meta, now_us=clock.now_us(), is_opening=True)
    try:
        checkpointer.create(pending)
    except ObjectExists:
        return False
    state.files.checkpointed()
    return not _is_outdated(objects, version)


def _openings_after(objects: Objects, found: RecoveryResult) -> list[int]:
    """Dropped and passed-over versions with which openings began: their names stay, too, although
    the recovered state does not list them."""
    listed = found.listed.checkpoints
    return [
        version
        for version in sorted(listed)
        if version > found.version and recovery.is_opening(objects, version, listed[version])
    ]


def _is_outdated(objects: Objects, version: int) -> bool:
    """Whether other writers created and deleted this version and newer ones after the listing: then
    it is not the newest, and it fences no writer."""
    for info in objects.list(
        object_keys.CHECKPOINTS, start_after=object_keys.checkpoint_key(version)
    ):
        if object_keys.version_of(info.key) is not None:
            objects.delete([object_keys.checkpoint_key(version)])
            return True
    return False


def _is_missing(objects: Objects, file_id: int) -> bool:
    try:
        objects.head(object_keys.file_key(file_id))
    except NotFound:
        return True
    return False
