"""Garbage collection policy: which objects may be deleted, and when. Pure.

A file without live pages stays while a recoverable version may refer to it; so does a checkpoint
from which such a version is recovered. A bundle is both, and is deleted when neither applies.

Objects that the tables do not name are left over from a writer that was interrupted or fenced. The
next opening deletes them, unless it had to pass over a damaged version, to which they may belong.
Then that opening deletes nothing, and objects that existed before it (``kept_term``) are only
deleted by ``Reservoir.clean``.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.reservoir import object_keys
from strandline.reservoir.checkpoint_registry import RegistryRow
from strandline.reservoir.compaction import is_movable
from strandline.reservoir.reservoir_state import ReservoirState


def dead_files(state: ReservoirState, version: int) -> list[int]:
    """Files without live pages that the checkpoint of this version may drop."""
    return [
        file_id
        for file_id, entry in state.files.live.items()
        if entry.is_dead and is_movable(entry, version, state.snapshot_version)
    ]


def unlisted_files(state: ReservoirState, version: int) -> list[int]:
    """Files without live pages that the checkpoint of this version would be the first to list: no
    version needs them."""
    return [
        file_id
        for file_id, entry in state.files.live.items()
        if entry.is_dead and entry.added_at >= version
    ]


def old_files(state: ReservoirState, retained_versions: int) -> list[int]:
    """Garbage that no recoverable version needs."""
    oldest = state.version - retained_versions
    first_row = state.rows[0].version
    return [
        file_id
        for file_id, deleted_at in state.files.garbage.items()
        if deleted_at < oldest
        and object_keys.origin_of(file_id) > state.kept_term
        and not (
            object_keys.is_bundle(file_id) and object_keys.bundle_version(file_id) >= first_row
        )
    ]


def old_checkpoints(state: ReservoirState, dropped: Iterable[RegistryRow]) -> list[int]:
    """Versions that left the registry and whose objects are not needed."""
    return [
        row.version
        for row in dropped
        if row.version > state.kept_term and not _is_needed(state, row.version)
    ]


def leftover_objects(
    state: ReservoirState, checkpoints: Iterable[int], data_files: Iterable[int]
) -> tuple[list[int], list[int]]:
    """Listed objects that the tables do not name: versions of checkpoints, and data files."""
    known = {row.version for row in state.rows}
    versions = [
        version
        for version in checkpoints
        if state.kept_term < version < state.version
        and version not in known
        and not _is_needed(state, version)
    ]
    files = [
        file_id
        for file_id in data_files
        if state.kept_term < object_keys.origin_of(file_id) < state.term
        and file_id not in state.files.live
        and file_id not in state.files.garbage
    ]
    return versions, files


def _is_needed(state: ReservoirState, version: int) -> bool:
    """Whether the object of a version stays for its pages, or for its name."""
    files, file_id = state.files, object_keys.bundle_id(version)
    return file_id in files.live or file_id in files.garbage or file_id in files.names
