"""Summary of a reservoir: its checkpoints, its files, and objects that it does not use.

It takes the requests of a recovery, a listing, and a request for the header of each checkpoint.
Nothing is changed, and a writer can continue meanwhile. Objects that the newest version does not
name are

    set aside   of a term up to ``kept_term``, or all of them while a newer version is damaged:
                only ``clean`` deletes them
    left over   of a writer that was interrupted, or of one that is active: the next opening for
                writing deletes them
    unknown     with a name that a reservoir does not use: never deleted
"""

from __future__ import annotations

import msgspec

from strandline.errors import Corrupt, Invalid, NotFound
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import checkpoint_codec as checkpoints
from strandline.reservoir import object_keys, recovery
from strandline.reservoir.checkpoint_registry import RegistryRow
from strandline.reservoir.recovery import Listing, RecoveryResult
from strandline.reservoir.reservoir_state import ReservoirState


class ObjectSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An object in a listing."""

    key: str
    size: int


class ReservoirCheckpointSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint from which versions can be recovered."""

    version: int
    kind: str
    """``snapshot`` or ``changes``."""
    bundle: bool
    """Whether its object begins with the pages that it lists."""
    made_us: int | None
    pages: int | None
    """Pages with a new place; of a snapshot all pages."""
    deleted: int | None
    size: int | None
    """Bytes of its object; None when it is missing."""
    problem: str = ""


class FileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A file with live pages."""

    file_id: str
    key: str
    pages: int
    live_pages: int
    size: int
    live_bytes: int
    live_ratio: float
    since: int
    """The first version that lists it."""
    missing: bool


class GarbageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A file that only older versions need."""

    file_id: str
    key: str
    since: int
    """The first version that does not need it."""
    size: int


class ReservoirSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a reservoir."""

    place: str
    id: str
    version: int
    pages: int
    live_bytes: int
    meta_bytes: int
    size: int
    """Bytes of all objects."""
    checkpoints: list[ReservoirCheckpointSummary]
    files: list[FileSummary]
    garbage: list[GarbageSummary]
    set_aside: list[ObjectSummary]
    left_over: list[ObjectSummary]
    unknown: list[ObjectSummary]
    passed_over: list[str]
    """Newer versions that cannot be read, with reasons."""


class _UnnamedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that the newest version does not name."""

    set_aside: list[ObjectSummary]
    left_over: list[ObjectSummary]
    unknown: list[ObjectSummary]


def inspect(objects: Objects) -> ReservoirSummary:
    """Summarize a reservoir. ``NotFound`` when there is none."""
    found = recovery.recover(objects)
    state = found.state
    if state is None:
        raise NotFound(f"there is no reservoir in {objects.name}")
    listing = recovery.listing(objects)  # after the version, so it has all of its objects
    unnamed = unnamed_objects(listing, found, state)
    files = [_file(file_id, state, listing) for file_id in sorted(state.files.live)]
    return ReservoirSummary(
        place=objects.name,
        id=state.reservoir_id.hex(),
        version=state.version,
        pages=len(state.pages),
        live_bytes=sum(each.live_bytes for each in files),
        meta_bytes=len(state.meta),
        size=sum(listing.sizes.values()),
        checkpoints=[_checkpoint(objects, row, listing) for row in state.rows],
        files=files,
        garbage=[
            GarbageSummary(
                file_id=f"{file_id:016x}", key=object_keys.file_key(file_id), since=since, size=size
            )
            for file_id, since in sorted(state.files.garbage.items())
            if (size := listing.file_size(file_id)) is not None
        ],
        set_aside=unnamed.set_aside,
        left_over=unnamed.left_over,
        unknown=unnamed.unknown,
        passed_over=list(found.passed_over),
    )


def unnamed_objects(
    listing: Listing, found: RecoveryResult, state: ReservoirState
) -> _UnnamedObjects:
    """The objects that the newest version does not name. Pure."""
    rows = {row.version for row in state.rows}
    files = state.files.live.keys() | state.files.garbage.keys() | state.files.names
    by_term: list[tuple[int, ObjectSummary]] = [
        (version, ObjectSummary(key=object_keys.checkpoint_key(version), size=size))
        for version, size in sorted(listing.checkpoints.items())
        if version not in rows and object_keys.bundle_id(version) not in files
    ]
    by_term += [
        (
            object_keys.origin_of(file_id),
            ObjectSummary(key=object_keys.file_key(file_id), size=size),
        )
        for file_id, size in sorted(listing.data_files.items())
        if file_id not in files
    ]
    # Objects that a damaged version may need will be set aside by the next opening.
    is_kept = bool(found.passed_over)
    return _UnnamedObjects(
        set_aside=[each for term, each in by_term if is_kept or term <= state.kept_term],
        left_over=[each for term, each in by_term if not (is_kept or term <= state.kept_term)],
        unknown=[
            ObjectSummary(key=key, size=size) for key, size in sorted(listing.unknown.items())
        ],
    )


def _checkpoint(objects: Objects, row: RegistryRow, listing: Listing) -> ReservoirCheckpointSummary:
    header, problem = None, ""
    key = object_keys.checkpoint_key(row.version)
    try:
        first = objects.get_range(key, row.offset, checkpoints.HEADER_SIZE)
        header = checkpoints.decode_header(first, f"{objects.name}/{key}")
    except (Corrupt, Invalid, NotFound) as error:
        problem = str(error)
    return ReservoirCheckpointSummary(
        version=row.version,
        kind="snapshot" if row.is_snapshot else "changes",
        bundle=row.is_bundle,
        made_us=None if header is None else header.made_us,
        pages=None if header is None else header.pages,
        deleted=None if header is None else header.deleted,
        size=listing.checkpoints.get(row.version),
        problem=problem,
    )


def _file(file_id: int, state: ReservoirState, listing: Listing) -> FileSummary:
    entry = state.files.live[file_id]
    return FileSummary(
        file_id=f"{file_id:016x}",
        key=object_keys.file_key(file_id),
        pages=entry.pages,
        live_pages=entry.pages - entry.dead_pages,
        size=entry.ref.size,
        live_bytes=entry.live_bytes,
        live_ratio=round(entry.live_bytes / entry.ref.size, 3),
        since=entry.added_at,
        missing=listing.file_size(file_id) is None,
    )
