"""Recovery: loads the newest readable version, with one listing and one request per checkpoint.

1. List the objects. The name of a checkpoint is its version.
2. Fetch the end of the newest: footer, registry, and usually the checkpoint itself.
3. Fetch the checkpoints since the last snapshot, exactly the bytes in the registry. If it is the
   snapshot itself, the end of one other checkpoint shows whether both are of the same reservoir.

An object that fails a checksum, is truncated or missing, or has valid content that belongs
elsewhere (another version, another reservoir, or an older copy, whose checksum differs from the
registry's) is fetched once more, since a bit may flip in transit. Then the version before is tried,
and the result lists the versions that were passed over, with reasons. An object store that does
not respond is not damage: it raises.

A writer may be active meanwhile, and delete listed objects: before a version is passed over the
objects are listed again, and if there are newer versions, recovery begins with them.

Nothing is changed here. Data files without a checkpoint, or checkpoints of which none can be read,
are not an empty reservoir, and are not opened as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from strandline.errors import Corrupt, Invalid, NotFound
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import checkpoint_codec as checkpoints
from strandline.reservoir import checkpoint_registry, object_keys, reservoir_state
from strandline.reservoir.checkpoint_codec import FOOTER_SIZE, Checkpoint, CheckpointFooter
from strandline.reservoir.checkpoint_registry import RegistryRow
from strandline.reservoir.data_files.data_file_codec import crc64
from strandline.reservoir.data_files.page_table import ROW, Rows
from strandline.reservoir.reservoir_state import ReservoirState

T = TypeVar("T")

ATTEMPTS_MAX = 16
CANDIDATES_MAX = 64
NEIGHBORS_MAX = 3
TAIL_SIZE = 1024 * 1024
"""Bytes of the newest checkpoint to fetch first."""


class Listing(msgspec.Struct, frozen=True, eq=False):
    """The objects of a reservoir, with their sizes."""

    checkpoints: dict[int, int]
    """Sizes by version."""
    data_files: dict[int, int]
    """Sizes by file id."""
    unknown: dict[str, int]
    """Sizes by key: objects that are not part of the format."""

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of all objects, by key."""
        sizes = {
            object_keys.checkpoint_key(version): size for version, size in self.checkpoints.items()
        }
        sizes |= {object_keys.file_key(file_id): size for file_id, size in self.data_files.items()}
        return sizes | self.unknown

    @property
    def newest(self) -> int:
        """The newest version, readable or not."""
        return max(self.checkpoints, default=0)

    def file_size(self, file_id: int) -> int | None:
        """The size of the object that a file is in, None when that is not listed."""
        if object_keys.is_bundle(file_id):
            return self.checkpoints.get(object_keys.bundle_version(file_id))
        return self.data_files.get(file_id)


class RecoveryResult(msgspec.Struct, kw_only=True, eq=False):
    """A recovered version, and the listing."""

    state: ReservoirState | None
    """None when there are no objects at all."""
    version: int = 0
    """The recovered version, 0 for none."""
    passed_over: tuple[str, ...] = ()
    """Newer versions that could not be read, with reasons."""
    listed: Listing

    @property
    def missing(self) -> list[int]:
        """Files with live pages that are not listed."""
        if self.state is None:
            return []
        return [
            file_id for file_id in self.state.files.live if self.listed.file_size(file_id) is None
        ]


def listing(objects: Objects) -> Listing:
    """List all objects, with one request per thousand."""
    found = Listing({}, {}, {})
    for info in objects.list():
        if (number := object_keys.version_of(info.key)) is not None:
            found.checkpoints[number] = info.size
        elif (file_id := object_keys.file_of(info.key)) is not None:
            found.data_files[file_id] = info.size
        else:
            found.unknown[info.key] = info.size
    return found


def recover(objects: Objects, version: int | None = None, *, at_least: int = 0) -> RecoveryResult:
    """Recover the newest readable version, or exactly ``version``.

    ``at_least`` is a version that exists, even if the listing does not show it yet.
    """
    listed = _listing(objects, at_least)
    for _ in range(ATTEMPTS_MAX):
        _check_listing(objects, version, listed)
        state, passed_over = _newest_readable(objects, listed.checkpoints, version)
        if not passed_over:
            break
        latest = _listing(objects, at_least)
        if latest.newest <= listed.newest:
            break
        listed = latest
    if state is None and passed_over:
        raise Corrupt(
            f"no version can be read ({'; '.join(passed_over)}): restore checkpoints from "
            "elsewhere",
            path=f"{objects.name}/{object_keys.CHECKPOINTS}",
        )
    return RecoveryResult(
        state=state,
        version=0 if state is None else state.version,
        passed_over=tuple(passed_over),
        listed=listed,
    )


def _listing(objects: Objects, at_least: int) -> Listing:
    found = listing(objects)
    while at_least > found.newest:
        try:
            found.checkpoints[at_least] = objects.head(object_keys.checkpoint_key(at_least)).size
        except NotFound:
            break
        at_least += 1
    return found


def _check_listing(objects: Objects, version: int | None, listed: Listing) -> None:
    if version is not None and version not in listed.checkpoints:
        newest = ", ".join(map(str, sorted(listed.checkpoints)[-5:])) or "none"
        raise Invalid(f"{objects.name} has no version {version}: the newest are {newest}")
    if version == 1 and _is_name_only(listed.checkpoints):
        raise NotFound("version 1 is no longer recoverable: a larger retained_versions keeps more")
    if not listed.checkpoints and listed.data_files:
        raise Corrupt(
            f"there are {len(listed.data_files)} data files and no checkpoint: restore "
            "checkpoints, or use another location",
            path=objects.name,
        )


def _newest_readable(
    objects: Objects, listed: Mapping[int, int], version: int | None
) -> tuple[ReservoirState | None, list[str]]:
    """The newest readable version, None for none, and the reasons for those passed over."""
    reasons: list[str] = []
    candidates = _candidates(listed) if version is None else [version]
    for number in candidates:
        try:
            state = load_version(objects, number, listed[number])
            if state.snapshot_version == number:
                _check_neighbors(objects, state, listed)
            return state, reasons
        except (Corrupt, NotFound) as error:
            if number == version and isinstance(error, NotFound):
                raise NotFound(
                    f"version {version} is no longer recoverable: {error}; a larger "
                    "retained_versions keeps more"
                ) from error
            reasons.append(f"version {number}: {error}")
    return None, reasons


def _candidates(listed: Mapping[int, int]) -> list[int]:
    """Versions to try, the newest first."""
    newest = [each for each in sorted(listed, reverse=True) if each > _is_name_only(listed)]
    return newest[:CANDIDATES_MAX]


def _is_name_only(listed: Mapping[int, int]) -> bool:
    """Whether version 1 stays for its name alone: the next ones are deleted. It is readable, and
    empty, and must not replace a damaged version."""
    return 1 in listed and 2 not in listed and len(listed) > 1


def _check_neighbors(objects: Objects, state: ReservoirState, listed: Mapping[int, int]) -> None:
    """Raise Corrupt when a snapshot, which no other checkpoint proves, is of another reservoir.

    Checkpoints next to it are compared: one of the same reservoir is enough, others may be foreign.
    """
    foreign = 0
    others = sorted(listed.keys() - {state.version}, key=lambda each: abs(each - state.version))
    for version in others[:NEIGHBORS_MAX]:
        try:
            footer = _retry_damaged(partial(_read_footer, objects, version, listed[version]))
        except (Corrupt, NotFound):
            continue
        if footer.reservoir_id == state.reservoir_id:
            return
        foreign += 1
    if foreign:
        raise _foreign(objects, state.version, "it is of another reservoir")


def _read_footer(objects: Objects, version: int, size: int) -> CheckpointFooter:
    key = object_keys.checkpoint_key(version)
    end = _range(objects, key, max(0, size - FOOTER_SIZE), min(size, FOOTER_SIZE))
    return checkpoints.decode_footer(end, f"{objects.name}/{key}", size)


def load_version(objects: Objects, version: int, size: int) -> ReservoirState:
    """Load one version from the object of its checkpoint, which has this size."""
    footer, rows, own = _retry_damaged(lambda: _read_end(objects, version, size))
    chain = checkpoint_registry.chain(rows)
    parts: list[Checkpoint] = []
    for row in chain:
        part = own if row.version == version else None
        part = part or _retry_damaged(partial(_read_checkpoint, objects, row, footer.reservoir_id))
        if parts and part.previous != parts[-1].version:
            raise _foreign(objects, row.version, f"it follows version {part.previous}")
        parts.append(part)
    return _combine(footer.reservoir_id, parts, rows)


def is_opening(objects: Objects, version: int, size: int) -> bool:
    """Whether an opening began with this version; False if it cannot be read."""
    try:
        footer, rows, own = _read_end(objects, version, size)
        own = own or _read_checkpoint(objects, rows[-1], footer.reservoir_id)
    except (Corrupt, NotFound):
        return False
    return own.term == version


def _read_end(
    objects: Objects, version: int, size: int
) -> tuple[CheckpointFooter, list[RegistryRow], Checkpoint | None]:
    """Footer, registry, and the checkpoint if the fetched end of the object contains it."""
    key = object_keys.checkpoint_key(version)
    label = f"{objects.name}/{key}"
    start = max(0, size - TAIL_SIZE)
    tail = _range(objects, key, start, size - start)
    footer = checkpoints.decode_footer(tail[-FOOTER_SIZE:], label, size)
    if footer.version != version:
        raise _foreign(objects, version, f"it has version {footer.version}")
    if footer.registry_offset < start:
        start = footer.checkpoint_offset
        tail = _range(objects, key, start, size - start)
    stored = tail[footer.registry_offset - start : -FOOTER_SIZE]
    if crc64(stored) != footer.registry_crc:
        raise Corrupt("a registry fails its checksum", path=label, offset=footer.registry_offset)
    rows = checkpoint_registry.decode(stored, label)
    if not rows or rows[-1].version != version or not any(row.is_snapshot for row in rows):
        raise _foreign(objects, version, "its registry is of another one")
    row = rows[-1]
    if (row.offset, row.offset + row.size) != (footer.checkpoint_offset, footer.registry_offset):
        raise _foreign(objects, version, "its registry has another offset for it")
    own = None
    if row.offset >= start:
        section = tail[row.offset - start : row.offset - start + row.size]
        own = _checked(objects, row, section, footer.reservoir_id)
    return footer, rows, own


def _read_checkpoint(objects: Objects, row: RegistryRow, reservoir_id: bytes) -> Checkpoint:
    section = _range(objects, object_keys.checkpoint_key(row.version), row.offset, row.size)
    return _checked(objects, row, section, reservoir_id)


def _range(objects: Objects, key: str, start: int, length: int) -> bytes:
    try:
        return objects.get_range(key, start, length)
    except Invalid as error:  # it ends before
        path = f"{objects.name}/{key}"
        raise Corrupt("a checkpoint is truncated", path=path, offset=start) from error


def _checked(objects: Objects, row: RegistryRow, section: bytes, reservoir_id: bytes) -> Checkpoint:
    label = f"{objects.name}/{object_keys.checkpoint_key(row.version)}"
    if crc64(section) != row.crc64:
        raise Corrupt(
            "a checkpoint fails its checksum, or is not the one that was written last",
            path=label,
            offset=row.offset,
        )
    checkpoint = checkpoints.decode(section, label)
    if (checkpoint.reservoir_id, checkpoint.version) != (reservoir_id, row.version):
        raise _foreign(objects, row.version, f"it has version {checkpoint.version}")
    if checkpoint.is_snapshot != row.is_snapshot:
        raise _foreign(objects, row.version, "the registry has another kind")
    return checkpoint


def _combine(
    reservoir_id: bytes, parts: Sequence[Checkpoint], rows: list[RegistryRow]
) -> ReservoirState:
    last = parts[-1]
    state = reservoir_state.empty_state(reservoir_id)
    state.version, state.meta, state.kept_term = last.version, last.meta, last.kept_term
    state.rows = rows
    state.pages.load(parts[0].ids, parts[0].rows)
    for part in parts:
        state.files.apply(part.files, part.garbage)
    changes = []
    for part in parts[1:]:
        changes.append((part.ids, part.rows))
        changes.append((part.deleted, _deleted_rows(len(part.deleted))))
    if changes:
        state.pages.apply(changes)
    return state


def _deleted_rows(count: int) -> Rows:
    return np.zeros(count, dtype=ROW)


def _retry_damaged(fetch: Callable[[], T]) -> T:
    """Call ``fetch``, and once more if the first response is damaged."""
    try:
        return fetch()
    except Corrupt:
        return fetch()


def _foreign(objects: Objects, version: int, reason: str) -> Corrupt:
    return Corrupt(
        f"checkpoint {version} is not the one that belongs here: {reason}",
        path=f"{objects.name}/{object_keys.checkpoint_key(version)}",
    )
