"""Verifies a reservoir: every checksum, from the newest footer to the last live page.

1. The newest version can be recovered.
2. Each checkpoint that its registry lists, and each newer one: footer, registry, CRC-64 and columns
   are of this version and reservoir, and those that the newest registry lists.
3. Each file with live pages, garbage that still exists, and the page part of each bundle: its
   CRC-64, header and index; of live pages the checksums and the places in the index.
4. The tables agree with each other.

Damaged data is fetched once more, since a bit may flip in transit. Objects that the newest version
does not name are listed and not read. A writer may continue meanwhile: objects that it has dropped
since then are not damage. Files are in memory completely, a few at once. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from strandline.errors import Corrupt, Invalid, NotFound
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.thread_pool import ThreadPool
from strandline.reservoir import checkpoint_codec as checkpoints
from strandline.reservoir import checkpoint_registry, object_keys, recovery
from strandline.reservoir.cache.downloads import ATTEMPTS_MAX
from strandline.reservoir.checkpoint_codec import FOOTER_SIZE
from strandline.reservoir.checkpoint_registry import RegistryRow
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_codec import Ids
from strandline.reservoir.data_files.data_file_table import GARBAGE_ROW, FileRef, FileTable
from strandline.reservoir.data_files.page_table import ROW, Rows
from strandline.reservoir.inspect import ObjectSummary, unnamed_objects
from strandline.reservoir.recovery import Listing, RecoveryResult
from strandline.reservoir.reservoir_state import ReservoirState

FILES_AT_ONCE = 4

Progress = Callable[[str, int, int], None]
"""Called with the current step, the work done and the total."""


class PageDamage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an object that is not as it was written."""

    object: str
    offset: int
    page: int | None
    """The page that is lost, None if it is not a page."""
    reason: str


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a verification."""

    place: str
    id: str
    version: int
    """The newest recoverable version, 0 for none."""
    checkpoints: int
    files: int
    pages: int
    """Live pages."""
    damage: list[PageDamage]
    set_aside: list[ObjectSummary]
    left_over: list[ObjectSummary]
    unknown: list[ObjectSummary]

    @property
    def ok(self) -> bool:
        return not self.damage


class _File(NamedTuple):
    """A file to check, and its live pages."""

    ref: FileRef
    ids: Ids
    rows: Rows
    is_garbage: bool


def verify(objects: Objects, progress: Progress = lambda what, done, total: None) -> CheckReport:
    """Check all objects. ``NotFound`` when there is no reservoir."""
    damage: list[PageDamage] = []
    found: RecoveryResult | None = None
    try:
        found = recovery.recover(objects)
    except Corrupt as error:
        damage.append(_damage(error, object_keys.CHECKPOINTS))
    listing = recovery.listing(objects)
    if not listing.checkpoints and not listing.data_files:
        raise NotFound(f"there is no reservoir in {objects.name}")
    state = None if found is None else found.state
    own_rows, refs, broken = _check_checkpoints(objects, listing, state, progress)
    damage += broken
    files = [
        _garbage_file(ref) for ref in refs.values() if listing.file_size(ref.file_id) is not None
    ]
    if found is not None and state is not None:
        damage += _passed_over(found, {each.object for each in broken})
        damage += _check_registry(objects, state, own_rows, listing)
        files, broken = _files(state, files)
        damage += broken
    damage += _check_files(objects, files, progress)
    if damage and found is not None:
        damage = _still_needed(objects, damage, found)
    unnamed = None if found is None or state is None else unnamed_objects(listing, found, state)
    return CheckReport(
        place=objects.name,
        id="" if state is None else state.reservoir_id.hex(),
        version=0 if state is None else state.version,
        checkpoints=len(own_rows),
        files=len(files),
        pages=sum(len(each.ids) for each in files),
        damage=damage,
        set_aside=[] if unnamed is None else unnamed.set_aside,
        left_over=[] if unnamed is None else unnamed.left_over,
        unknown=[] if unnamed is None else unnamed.unknown,
    )


def _check_checkpoints(
    objects: Objects, listing: Listing, state: ReservoirState | None, progress: Progress
) -> tuple[dict[int, RegistryRow], dict[int, FileRef], list[PageDamage]]:
    """The rows that intact checkpoints have for themselves, the files that they list, damage."""
    versions = sorted(listing.checkpoints)
    if state is not None:
        rows = {row.version for row in state.rows}
        versions = [each for each in versions if each in rows or each > state.version]
    identity = None if state is None else state.reservoir_id
    own_rows: dict[int, RegistryRow] = {}
    files = FileTable()
    damage = []
    for done, version in enumerate(versions):
        progress("checkpoints", done, len(versions))
        read = partial(_read_checkpoint, objects, version, listing.checkpoints[version], identity)
        try:
            own_rows[version], rows_of_files = _retry_damaged(read)
        except NotFound:
            continue  # deleted since it was listed, or reported by the registry check
        except Corrupt as error:
            damage.append(_damage(error, object_keys.checkpoint_key(version)))
        else:
            files.apply(rows_of_files, np.empty(0, dtype=GARBAGE_ROW))
    progress("checkpoints", len(versions), len(versions))
    return own_rows, {each.ref.file_id: each.ref for each in files.live.values()}, damage


def _read_checkpoint(
    objects: Objects, version: int, size: int, identity: bytes | None
) -> tuple[RegistryRow, Rows]:
    """The registry row of a checkpoint for itself, and the rows of the files that it lists."""
    key = object_keys.checkpoint_key(version)
    label = f"{objects.name}/{key}"
    last = b"" if size < FOOTER_SIZE else objects.get_range(key, size - FOOTER_SIZE, FOOTER_SIZE)
    footer = checkpoints.decode_footer(last, label, size)
    begin = footer.checkpoint_offset
    body = objects.get_range(key, begin, size - FOOTER_SIZE - begin)
    section, listed_rows = (
        body[: footer.registry_offset - begin],
        body[footer.registry_offset - begin :],
    )
    if data_file_codec.crc64(listed_rows) != footer.registry_crc:
        raise Corrupt("a registry fails its checksum", path=label, offset=footer.registry_offset)
    rows = checkpoint_registry.decode(listed_rows, label)
    if not rows or data_file_codec.crc64(section) != rows[-1].crc64:
        raise Corrupt("a checkpoint fails its checksum", path=label, offset=begin)
    row, content = rows[-1], checkpoints.decode(section, label)
    stored = (footer.version, row.version, content.version, row.offset, row.is_bundle)
    if stored != (version, version, version, begin, begin > 0):
        raise Corrupt("a checkpoint is of another version", path=label, offset=begin)
    if {footer.reservoir_id, content.reservoir_id} != {identity or footer.reservoir_id}:
        raise Corrupt("a checkpoint is of another reservoir", path=label, offset=begin)
    return row, content.files


def _passed_over(found: RecoveryResult, reported: set[str]) -> Iterator[PageDamage]:
    """Newer versions that cannot be recovered although their own objects are intact."""
    newer = sorted(
        (each for each in found.listed.checkpoints if each > found.version), reverse=True
    )
    for version, reason in zip(newer, found.passed_over, strict=True):
        key = object_keys.checkpoint_key(version)
        if key not in reported:
            yield PageDamage(object=key, offset=0, page=None, reason=reason)


def _check_registry(
    objects: Objects, state: ReservoirState, own_rows: dict[int, RegistryRow], listing: Listing
) -> Iterator[PageDamage]:
    for row in state.rows:
        key = object_keys.checkpoint_key(row.version)
        if row.version in own_rows:
            if own_rows[row.version] != row:
                yield PageDamage(
                    object=key,
                    offset=row.offset,
                    page=None,
                    reason="a checkpoint is not the one that the newest registry lists",
                )
        elif row.version not in listing.checkpoints and _is_missing(objects, key):
            reason = "a checkpoint is missing: older versions cannot be recovered"
            yield PageDamage(object=key, offset=0, page=None, reason=reason)


def _files(state: ReservoirState, listed: Iterable[_File]) -> tuple[list[_File], list[PageDamage]]:
    """The files to check, with their live pages, and the differences between the tables."""
    live, damage = state.files.live, []
    ids, rows = state.pages.all_pages()
    order = np.argsort(rows["file_id"], kind="stable")
    owners, begins = np.unique(rows["file_id"][order], return_index=True)
    parts = dict(zip(owners.tolist(), np.split(order, begins[1:]), strict=False))
    for file_id in sorted(parts.keys() - live.keys()):
        at = parts[file_id][0]
        damage.append(
            PageDamage(
                object=object_keys.file_key(file_id),
                offset=int(rows[at]["offset"]),
                page=int(ids[at]),
                reason=f"{len(parts[file_id])} pages are in a file that is not listed",
            )
        )
    files = []
    for file_id, entry in sorted(live.items()):
        at = parts.get(file_id, order[:0])
        files.append(_File(entry.ref, ids[at], rows[at], is_garbage=False))
        if len(at) != entry.pages - entry.dead_pages:
            reason = f"{len(at)} pages are live, and {entry.dead_pages} of {entry.pages} dead"
            damage.append(
                PageDamage(object=object_keys.file_key(file_id), offset=0, page=None, reason=reason)
            )
    retained = {row.version for row in state.rows}
    files += [
        each
        for each in listed
        if each.ref.file_id not in live
        and (
            each.ref.file_id in state.files.garbage
            or (
                object_keys.is_bundle(each.ref.file_id)
                and object_keys.bundle_version(each.ref.file_id) in retained
            )
        )
    ]
    return files, damage


def _check_files(objects: Objects, files: list[_File], progress: Progress) -> list[PageDamage]:
    damage: list[PageDamage] = []
    progress("files", 0, len(files))
    with ThreadPool(FILES_AT_ONCE, "strandline-verify") as threads:
        checks = [threads.submit(_check_file, objects, file) for file in files]
        for done, check in enumerate(checks, start=1):
            damage += check.result()
            progress("files", done, len(files))
    return damage


def _check_file(objects: Objects, file: _File) -> list[PageDamage]:
    key = object_keys.file_key(file.ref.file_id)
    try:
        data, is_good = _fetch(objects, key, file.ref)
    except NotFound:
        if file.is_garbage:
            return []  # deleted since it was listed
        reason = f"a data file is missing, with {len(file.ids)} live pages"
        return [PageDamage(object=key, offset=0, page=None, reason=reason)]
    damage = [*_check_index(data, file, key), *_check_pages(data, file, key)]
    if not damage and not is_good:
        reason = "a data file fails its CRC-64, outside of live pages"
        damage.append(PageDamage(object=key, offset=0, page=None, reason=reason))
    return damage


def _check_index(data: bytes, file: _File, key: str) -> Iterator[PageDamage]:
    """Check header and index, and that the file is not truncated."""
    ref = file.ref
    if len(data) < ref.size:
        reason = f"a data file of {ref.size} bytes is truncated"
        yield PageDamage(object=key, offset=len(data), page=None, reason=reason)
        return
    try:
        header, ids, offsets = data_file_codec.decode_index(data, key)
    except Corrupt as error:
        yield _damage(error, key)
        return
    if (header.file_id, header.flags) != (ref.file_id, ref.flags):
        yield PageDamage(object=key, offset=0, page=None, reason="a data file is another one")
    for at in np.flatnonzero(~_are_inside(file, ids, offsets)).tolist():
        yield PageDamage(
            object=key,
            offset=int(file.rows[at]["offset"]),
            page=int(file.ids[at]),
            reason="a page is not at the offset in the index of its file",
        )


def _are_inside(file: _File, ids: Ids, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which live pages are in the index of their file, which lists each page once."""
    if not len(ids):
        return np.zeros(len(file.ids), dtype=bool)
    order = np.argsort(ids)
    at = order[np.minimum(ids[order].searchsorted(file.ids), len(ids) - 1)]
    begins, sizes = offsets[at], np.diff(offsets)[at]
    inside: NDArray[np.bool_] = (
        (ids[at] == file.ids) & (begins == file.rows["offset"]) & (sizes == file.rows["size"])
    )
    return inside


def _check_pages(data: bytes, file: _File, key: str) -> Iterator[PageDamage]:
    content = memoryview(data)
    ends = file.rows["offset"].astype("<i8") + file.rows["size"]
    pages = [
        content[begin:end]
        for begin, end in zip(file.rows["offset"].tolist(), ends.tolist(), strict=True)
    ]
    sums = data_file_codec.page_checksums(pages, file.ids, file.ref.file_id)
    for at in np.flatnonzero(sums != file.rows["checksum"]).tolist():
        yield PageDamage(
            object=key,
            offset=int(file.rows[at]["offset"]),
            page=int(file.ids[at]),
            reason="a page fails its checksum",
        )


def _fetch(objects: Objects, key: str, ref: FileRef) -> tuple[bytes, bool]:
    """A whole file, or the rest of it, and whether it is intact after two attempts."""
    for _ in range(ATTEMPTS_MAX):
        data = _prefix(objects, key, ref.size)
        is_good = len(data) == ref.size and data_file_codec.crc64(data) == ref.crc64
        if is_good:
            break
    return data, is_good


def _prefix(objects: Objects, key: str, size: int) -> bytes:
    try:
        return objects.get_range(key, 0, size)
    except Invalid:  # the object ends before the file does
        return objects.get(key)


def _still_needed(
    objects: Objects, damage: list[PageDamage], found: RecoveryResult
) -> list[PageDamage]:
    """The damage without objects that a writer has dropped since the begin."""
    try:
        latest = recovery.recover(objects)
    except Corrupt:
        return damage
    if latest.state is None or latest.version <= found.version:
        return damage
    needed = {object_keys.file_key(file_id) for file_id in latest.state.files.live}
    needed |= {object_keys.checkpoint_key(row.version) for row in latest.state.rows}
    return [
        each
        for each in damage
        if each.object in needed or (object_keys.version_of(each.object) or 0) > latest.version
    ]


def _garbage_file(ref: FileRef) -> _File:
    return _File(ref, np.empty(0, dtype="<i8"), np.empty(0, dtype=ROW), is_garbage=True)


def _is_missing(objects: Objects, key: str) -> bool:
    """Whether an unlisted object does not exist: a listing may lag."""
    try:
        objects.head(key)
    except NotFound:
        return True
    return False


def _retry_damaged(read: Callable[[], tuple[RegistryRow, Rows]]) -> tuple[RegistryRow, Rows]:
    try:
        return read()
    except Corrupt:
        return read()


def _damage(error: Corrupt, key: str) -> PageDamage:
    return PageDamage(object=key, offset=error.offset, page=None, reason=error.reason)
