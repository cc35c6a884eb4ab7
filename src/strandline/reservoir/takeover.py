"""Taking a reservoir over: whoever opens it for writing makes a version of his own at once.

It is an empty step that carries on what was there, created where nothing is. So whoever had the
reservoir open before is fenced: his next checkpoint finds the name taken. The number of this
version is the term, and files carry it: what an older writer still uploads has names of its own,
and is deleted by a later opening. The object stays for good, or nearly
(``reservoir/data_files/data_file_table.py``): its name
must not become free while an older writer sleeps. An opening may sleep, too, between listing and
creating, until the name that it found free is free again; so it lists once more.

An older version that is opened by its number becomes the newest in the same way; the versions in
between are left behind. After a damaged version was passed over the new one tells that what exists
now is deleted by nobody (``gc_policy.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.config.settings import ReservoirSettings
from strandline.errors import AlreadyThere, Conflict, NotFound
from strandline.platform.clock import Clock
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys, recovery, reservoir_state
from strandline.reservoir.checkpoint_writer import Checkpointer
from strandline.reservoir.recovery import Found
from strandline.reservoir.reservoir_state import State

TRIES = 16
ASKED_MAX = 64
"""Of more files that are not listed the listing is believed: it is a disaster, not a delay."""


def open_state(
    objects: Objects,
    *,
    at: int | None,
    readonly: bool,
    settings: ReservoirSettings,
    new_id: Callable[[], bytes],
    clock: Clock,
) -> tuple[State, Checkpointer, Found]:
    """The state to go on from, whoever writes its versions, and how it was found."""
    taken = 0
    for _ in range(TRIES):
        found = recovery.recover(objects, at, at_least=taken)
        if at is not None and (lost := gone(objects, found)):
            raise NotFound(
                f"version {at} cannot be recovered any more: {len(lost)} of its files are deleted; "
                "a larger keep_versions keeps more"
            )
        if readonly and found.state is None:
            raise NotFound(f"there is no reservoir in {objects.name}: open it for writing first")
        made = found.state or reservoir_state.empty(new_id())
        checkpointer = Checkpointer(
            objects,
            made,
            writer_id=new_id(),
            snapshot_interval=settings.snapshot_interval,
            keep_versions=settings.keep_versions,
        )
        if readonly or _take_over(objects, checkpointer, made, found, clock):
            return made, checkpointer, found
        taken = found.listed.newest + 1
    raise Conflict(f"others keep opening {objects.name}: find out who, then try again")


def gone(objects: Objects, found: Found) -> list[int]:
    """Files with live pages that are not there. A listing may be late, so a few are asked for."""
    missing = found.missing
    asked = [file_id for file_id in missing[:ASKED_MAX] if _is_gone(objects, file_id)]
    return [*asked, *missing[ASKED_MAX:]]


def _take_over(
    objects: Objects, checkpointer: Checkpointer, made: State, found: Found, clock: Clock
) -> bool:
    """Whether the next version became ours. If not, somebody came first, or the list was late."""
    made.term = version = found.listed.newest + 1
    if found.passed_over:
        made.kept_term = version
    for each in [*_openings_behind(objects, found), version]:
        made.files.keep_name(object_keys.bundle_id(each), version)
    pending = checkpointer.encode(version, meta=made.meta, now_us=clock.now_us(), is_opening=True)
    try:
        checkpointer.create(pending)
    except AlreadyThere:
        return False
    made.files.checkpointed()
    return not _is_late(objects, version)


def _openings_behind(objects: Objects, found: Found) -> list[int]:
    """Versions that are left behind now, or were passed over, with which openings began: to keep
    their names, too, though the state that we go on from has never heard of them."""
    listed = found.listed.checkpoints
    return [
        version
        for version in sorted(listed)
        if version > found.version and recovery.is_opening(objects, version, listed[version])
    ]


def _is_late(objects: Objects, version: int) -> bool:
    """Whether we slept since we listed: others made our version, more, and deleted it. It is not
    the newest then, and nobody is fenced by it."""
    for info in objects.list(
        object_keys.CHECKPOINTS, start_after=object_keys.checkpoint_key(version)
    ):
        if object_keys.version_of(info.key) is not None:
            objects.delete([object_keys.checkpoint_key(version)])
            return True
    return False


def _is_gone(objects: Objects, file_id: int) -> bool:
    try:
        objects.head(object_keys.file_key(file_id))
    except NotFound:
        return True
    return False
