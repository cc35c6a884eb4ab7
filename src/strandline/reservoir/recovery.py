"""Opening: the newest version that can be put together, from one listing and one request each.

1. List the objects. Checkpoints have their version as their name.
2. Fetch the end of the newest: footer, registry, and mostly the checkpoint itself.
3. Fetch the checkpoints since the last snapshot, each exactly its bytes, as the registry says. When
   it is the snapshot itself, the end of one other tells whether they are of the same reservoir.

What fails a checksum, is cut short or missing, or has a valid content that belongs elsewhere
(another version, another reservoir, an older copy: its checksum is not the one that the registry
has) is fetched once more, since a bit may flip on the way. Then the version before is tried, and
the answer says which were passed over and why. An object store that does not answer is no damage:
it raises.

A writer may be at work meanwhile, and delete what was listed: before anything is passed over the
objects are listed again, and if there are newer versions by now it begins with them.

Nothing is changed here. Where there are data files but no checkpoint, or checkpoints but none that
can be read, this is not an empty reservoir, and it is not opened as one.
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
from strandline.reservoir.checkpoint_codec import FOOTER_SIZE, Checkpoint, Footer
from strandline.reservoir.checkpoint_registry import Row
from strandline.reservoir.data_files.data_file_codec import crc64
from strandline.reservoir.data_files.page_table import ROW, Rows
from strandline.reservoir.reservoir_state import State

T = TypeVar("T")

TRIES = 16
CANDIDATES_MAX = 64
WITNESSES_MAX = 3
TAIL_SIZE = 1024 * 1024
"""What is fetched of the newest checkpoint at first."""


class Listing(msgspec.Struct, frozen=True, eq=False):
    """The objects that there are, with their sizes."""

    checkpoints: dict[int, int]
    """By their versions."""
    data_files: dict[int, int]
    """By their ids."""
    unknown: dict[str, int]
    """By their keys: of nobody's that we know."""

    @property
    def sizes(self) -> dict[str, int]:
        """Of all objects, by their keys."""
        found = {
            object_keys.checkpoint_key(version): size for version, size in self.checkpoints.items()
        }
        found |= {object_keys.file_key(file_id): size for file_id, size in self.data_files.items()}
        return found | self.unknown

    @property
    def newest(self) -> int:
        """The newest version, readable or not."""
        return max(self.checkpoints, default=0)

    def file_size(self, file_id: int) -> int | None:
        """The size of the object that a file is in, None when that is not listed."""
        if object_keys.is_bundle(file_id):
            return self.checkpoints.get(object_keys.bundle_version(file_id))
        return self.data_files.get(file_id)


class Found(msgspec.Struct, kw_only=True, eq=False):
    """A version that was put together, and what else the listing shows."""

    state: State | None
    """None when there is nothing at all."""
    version: int = 0
    """The version that was put together, 0 for none."""
    passed_over: tuple[str, ...] = ()
    """Newer versions that could not be read, and why."""
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
    """What is there, in one request for a thousand objects."""
    found = Listing({}, {}, {})
    for info in objects.list():
        if (number := object_keys.version_of(info.key)) is not None:
            found.checkpoints[number] = info.size
        elif (file_id := object_keys.file_of(info.key)) is not None:
            found.data_files[file_id] = info.size
        else:
            found.unknown[info.key] = info.size
    return found


def recover(objects: Objects, version: int | None = None, *, at_least: int = 0) -> Found:
    """The newest version that is whole, or exactly the one that is named.

    A version is there as ``at_least`` says, though the listing may not show it yet.
    """
    listed = _listing(objects, at_least)
    for _ in range(TRIES):
        _check_listing(objects, version, listed)
        found, passed_over = _newest_whole(objects, listed.checkpoints, version)
        if not passed_over:
            break
        now = _listing(objects, at_least)
        if now.newest <= listed.newest:
            break
        listed = now
    if found is None and passed_over:
        raise Corrupt(
            f"no version can be read ({'; '.join(passed_over)}): restore checkpoints from "
            "elsewhere",
            path=f"{objects.name}/{object_keys.CHECKPOINTS}",
        )
    return Found(
        state=found,
        version=0 if found is None else found.version,
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
        raise NotFound("version 1 cannot be recovered any more: a larger keep_versions keeps more")
    if not listed.checkpoints and listed.data_files:
        raise Corrupt(
            f"there are {len(listed.data_files)} data files and no checkpoint: restore "
            "checkpoints, or name another place",
            path=objects.name,
        )


def _newest_whole(
    objects: Objects, listed: Mapping[int, int], version: int | None
) -> tuple[State | None, list[str]]:
    """A version, None for none; and those that were passed over."""
    reasons: list[str] = []
    wanted = _candidates(listed) if version is None else [version]
    for number in wanted:
        try:
            found = load(objects, number, listed[number])
            if found.snapshot_version == number:
                _check_kin(objects, found, listed)
            return found, reasons
        except (Corrupt, NotFound) as error:
            if number == version and isinstance(error, NotFound):
                raise NotFound(
                    f"version {version} cannot be recovered any more: {error}; a larger "
                    "keep_versions keeps more"
                ) from error
            reasons.append(f"version {number}: {error}")
    return None, reasons


def _candidates(listed: Mapping[int, int]) -> list[int]:
    """Versions to try, the newest first."""
    newest = [each for each in sorted(listed, reverse=True) if each > _is_name_only(listed)]
    return newest[:CANDIDATES_MAX]


def _is_name_only(listed: Mapping[int, int]) -> bool:
    """Whether version 1 is there for its name alone: those behind it are deleted. It is readable,
    and empty, and must not stand in for what is damaged."""
    return 1 in listed and 2 not in listed and len(listed) > 1


def _check_kin(objects: Objects, found: State, listed: Mapping[int, int]) -> None:
    """Complain when a snapshot, which nothing else vouches for, is of another reservoir.

    The objects next to it tell: one that is its kin is enough, for a stranger may be among them.
    """
    strangers = 0
    others = sorted(listed.keys() - {found.version}, key=lambda each: abs(each - found.version))
    for version in others[:WITNESSES_MAX]:
        try:
            footer = _again(partial(_read_footer, objects, version, listed[version]))
        except (Corrupt, NotFound):
            continue
        if footer.reservoir_id == found.reservoir_id:
            return
        strangers += 1
    if strangers:
        raise _foreign(objects, found.version, "it is of another reservoir")


def _read_footer(objects: Objects, version: int, size: int) -> Footer:
    key = object_keys.checkpoint_key(version)
    end = _range(objects, key, max(0, size - FOOTER_SIZE), min(size, FOOTER_SIZE))
    return checkpoints.decode_footer(end, f"{objects.name}/{key}", size)


def load(objects: Objects, version: int, size: int) -> State:
    """One version, from the object of its checkpoint, which has this size."""
    footer, rows, own = _again(lambda: _read_end(objects, version, size))
    chain = checkpoint_registry.chain(rows)
    found: list[Checkpoint] = []
    for row in chain:
        part = own if row.version == version else None
        part = part or _again(partial(_read_checkpoint, objects, row, footer.reservoir_id))
        if found and part.previous != found[-1].version:
            raise _foreign(objects, row.version, f"it follows version {part.previous}")
        found.append(part)
    return _put_together(footer.reservoir_id, found, rows)


def is_opening(objects: Objects, version: int, size: int) -> bool:
    """Whether an opening began with this version, as far as it can be read."""
    try:
        footer, rows, own = _read_end(objects, version, size)
        own = own or _read_checkpoint(objects, rows[-1], footer.reservoir_id)
    except (Corrupt, NotFound):
        return False
    return own.term == version


def _read_end(
    objects: Objects, version: int, size: int
) -> tuple[Footer, list[Row], Checkpoint | None]:
    """Footer, registry, and the checkpoint when the end of the object holds all of it."""
    key = object_keys.checkpoint_key(version)
    label = f"{objects.name}/{key}"
    start = max(0, size - TAIL_SIZE)
    tail = _range(objects, key, start, size - start)
    footer = checkpoints.decode_footer(tail[-FOOTER_SIZE:], label, size)
    if footer.version != version:
        raise _foreign(objects, version, f"it says version {footer.version}")
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
        raise _foreign(objects, version, "its registry tells another place for it")
    own = None
    if row.offset >= start:
        section = tail[row.offset - start : row.offset - start + row.size]
        own = _checked(objects, row, section, footer.reservoir_id)
    return footer, rows, own


def _read_checkpoint(objects: Objects, row: Row, reservoir_id: bytes) -> Checkpoint:
    section = _range(objects, object_keys.checkpoint_key(row.version), row.offset, row.size)
    return _checked(objects, row, section, reservoir_id)


def _range(objects: Objects, key: str, start: int, length: int) -> bytes:
    try:
        return objects.get_range(key, start, length)
    except Invalid as error:  # it ends before
        path = f"{objects.name}/{key}"
        raise Corrupt("a checkpoint is cut short", path=path, offset=start) from error


def _checked(objects: Objects, row: Row, section: bytes, reservoir_id: bytes) -> Checkpoint:
    label = f"{objects.name}/{object_keys.checkpoint_key(row.version)}"
    if crc64(section) != row.crc64:
        raise Corrupt(
            "a checkpoint fails its checksum, or is not the one that was written last",
            path=label,
            offset=row.offset,
        )
    found = checkpoints.decode(section, label)
    if (found.reservoir_id, found.version) != (reservoir_id, row.version):
        raise _foreign(objects, row.version, f"it says version {found.version}")
    if found.is_snapshot != row.is_snapshot:
        raise _foreign(objects, row.version, "the registry tells another kind")
    return found


def _put_together(reservoir_id: bytes, parts: Sequence[Checkpoint], rows: list[Row]) -> State:
    last = parts[-1]
    made = reservoir_state.empty(reservoir_id)
    made.version, made.meta, made.kept_term = last.version, last.meta, last.kept_term
    made.rows = rows
    made.pages.load(parts[0].ids, parts[0].rows)
    for part in parts:
        made.files.apply(part.files, part.garbage)
    changes = []
    for part in parts[1:]:
        changes.append((part.ids, part.rows))
        changes.append((part.deleted, _nowhere(len(part.deleted))))
    if changes:
        made.pages.apply(changes)
    return made


def _nowhere(count: int) -> Rows:
    return np.zeros(count, dtype=ROW)


def _again(fetch: Callable[[], T]) -> T:
    """What it gives, at the second try when the first was damaged on its way."""
    try:
        return fetch()
    except Corrupt:
        return fetch()


def _foreign(objects: Objects, version: int, reason: str) -> Corrupt:
    return Corrupt(
        f"checkpoint {version} is not the one that belongs here: {reason}",
        path=f"{objects.name}/{object_keys.checkpoint_key(version)}",
    )
