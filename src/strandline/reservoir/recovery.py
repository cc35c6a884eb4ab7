"""Opening: the newest version that can be put together, from one listing and one request each.

1. List the objects. Checkpoints have their version as their name.
2. Fetch the end of the newest: footer, registry, and mostly the checkpoint itself.
3. Fetch the checkpoints since the last snapshot, each exactly its bytes, as the registry says.

What fails a checksum, is cut short or missing, or has a valid content that belongs elsewhere
(another version, another reservoir, an older copy: its checksum is not the one that the registry
has) is fetched once more, since a bit may flip on the way. Then the version before is tried, and
the answer says which were passed over and why. An object store that does not answer is no damage:
it raises.

Nothing is changed here. Where there are data files but no checkpoint, or checkpoints but none that
can be read, this is not an empty reservoir, and it is not opened as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from strandline.env.objects import Objects
from strandline.errors import Corrupt, Invalid, NotFound
from strandline.reservoir import checkpoint as checkpoints
from strandline.reservoir import keys, registry, state
from strandline.reservoir.checkpoint import FOOTER_SIZE, Checkpoint, Footer
from strandline.reservoir.codec import crc64
from strandline.reservoir.pages import ROW, Rows
from strandline.reservoir.registry import Row
from strandline.reservoir.state import State

T = TypeVar("T")

TAIL_SIZE = 1024 * 1024
"""What is fetched of the newest checkpoint at first."""


class Found(msgspec.Struct, kw_only=True, eq=False):
    """A version that was put together, and what else the listing shows."""

    state: State | None
    """None when there is nothing at all."""
    version: int = 0
    """The version that was put together, 0 for none."""
    passed_over: tuple[str, ...] = ()
    """Newer versions that could not be read, and why."""
    newest: int = 0
    """The newest version that is listed, readable or not."""
    checkpoints: frozenset[int] = frozenset()
    data_files: frozenset[int] = frozenset()

    @property
    def missing(self) -> list[int]:
        """Files with live pages that are not listed."""
        if self.state is None:
            return []
        return [file_id for file_id in self.state.files.live if not self._is_listed(file_id)]

    def _is_listed(self, file_id: int) -> bool:
        if keys.is_bundle(file_id):
            return keys.bundle_version(file_id) in self.checkpoints
        return file_id in self.data_files


def recover(objects: Objects, version: int | None = None, *, at_least: int = 0) -> Found:
    """The newest version that is whole, or exactly the one that is named.

    A version is there as ``at_least`` says, though the listing may not show it yet.
    """
    listed: dict[int, int] = {}
    data_files = set()
    for info in objects.list():
        if (number := keys.version_of(info.key)) is not None:
            listed[number] = info.size
        elif (file_id := keys.file_of(info.key)) is not None:
            data_files.add(file_id)
    while at_least > max(listed, default=0):
        try:
            listed[at_least] = objects.head(keys.checkpoint_key(at_least)).size
        except NotFound:
            break
        at_least += 1
    if version is not None and version not in listed:
        there = ", ".join(map(str, sorted(listed)[-5:])) or "none"
        raise Invalid(f"{objects.name} has no version {version}: the newest are {there}")
    if not listed and data_files:
        raise Corrupt(
            f"there are {len(data_files)} data files and no checkpoint: restore checkpoints, or "
            "name another place",
            path=objects.name,
        )
    found, passed_over = _newest_whole(objects, listed, version)
    return Found(
        state=found,
        version=0 if found is None else found.version,
        passed_over=tuple(passed_over),
        newest=max(listed, default=0),
        checkpoints=frozenset(listed),
        data_files=frozenset(data_files),
    )


def _newest_whole(
    objects: Objects, listed: Mapping[int, int], version: int | None
) -> tuple[State | None, list[str]]:
    reasons: list[str] = []
    wanted = sorted(listed, reverse=True) if version is None else [version]
    for number in wanted:
        try:
            return load(objects, number, listed[number]), reasons
        except (Corrupt, NotFound) as error:
            reasons.append(f"version {number}: {error}")
    if reasons:
        raise Corrupt(
            f"no version can be read ({'; '.join(reasons)}): restore checkpoints from elsewhere",
            path=f"{objects.name}/{keys.CHECKPOINTS}",
        )
    return None, []


def load(objects: Objects, version: int, size: int) -> State:
    """One version, from the object of its checkpoint, which has this size."""
    footer, rows, own = _again(lambda: _read_end(objects, version, size))
    chain = registry.chain(rows)
    found: list[Checkpoint] = []
    for row in chain:
        part = own if row.version == version else None
        part = part or _again(partial(_read_checkpoint, objects, row, footer.reservoir_id))
        if found and part.previous != found[-1].version:
            raise _foreign(objects, row.version, f"it follows version {part.previous}")
        found.append(part)
    return _put_together(footer.reservoir_id, found, rows)


def read_registry(objects: Objects, version: int, size: int) -> tuple[Footer, list[Row]]:
    """Footer and registry of a checkpoint, checked."""
    footer, rows, _ = _again(lambda: _read_end(objects, version, size))
    return footer, rows


def _read_end(
    objects: Objects, version: int, size: int
) -> tuple[Footer, list[Row], Checkpoint | None]:
    """Footer, registry, and the checkpoint when the end of the object holds all of it."""
    key = keys.checkpoint_key(version)
    label = f"{objects.name}/{key}"
    start = max(0, size - TAIL_SIZE)
    tail = objects.get_range(key, start, size - start)
    footer = checkpoints.decode_footer(tail[-FOOTER_SIZE:], label, size)
    if footer.version != version:
        raise _foreign(objects, version, f"it says version {footer.version}")
    if footer.registry_offset < start:
        start = footer.checkpoint_offset
        tail = objects.get_range(key, start, size - start)
    stored = tail[footer.registry_offset - start : -FOOTER_SIZE]
    if crc64(stored) != footer.registry_crc:
        raise Corrupt("a registry fails its checksum", path=label, offset=footer.registry_offset)
    rows = registry.decode(stored, label)
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
    key = keys.checkpoint_key(row.version)
    try:
        section = objects.get_range(key, row.offset, row.size)
    except Invalid as error:  # the object ends before
        raise Corrupt(f"a checkpoint is cut short ({error})", path=key) from error
    return _checked(objects, row, section, reservoir_id)


def _checked(objects: Objects, row: Row, section: bytes, reservoir_id: bytes) -> Checkpoint:
    label = f"{objects.name}/{keys.checkpoint_key(row.version)}"
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
    made = state.empty(reservoir_id)
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
        path=f"{objects.name}/{keys.checkpoint_key(version)}",
    )
