"""Writes a version: encodes the changes, creates its object, and updates the state.

The object's name is the version, and creating it fails if it exists. So of two writers one
succeeds, and the other is fenced. After a lost response it is unknown whether the object exists; it
stays here and is created again, with the same bytes, before the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from strandline.errors import Fenced, Invalid, ObjectExists
from strandline.platform.disk import Buffer
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import checkpoint_codec as checkpoints
from strandline.reservoir import checkpoint_registry, object_keys
from strandline.reservoir.checkpoint_codec import Checkpoint, CheckpointFooter
from strandline.reservoir.checkpoint_registry import RegistryRow
from strandline.reservoir.data_files.data_file_builder import DataFile
from strandline.reservoir.data_files.data_file_codec import crc64
from strandline.reservoir.reservoir_state import ReservoirState

_NO_IDS = np.empty(0, dtype="<i8")


class PendingCheckpoint(msgspec.Struct, frozen=True, eq=False):
    """A version whose object may not exist yet."""

    version: int
    meta: bytes
    rows: list[RegistryRow]
    dropped: list[RegistryRow]
    """Checkpoints that are not needed once it exists."""
    bundle: DataFile | None
    body: Buffer


class CheckpointWriter:
    """Writes the versions of one opening. Owned by the holder of the pool's ``committing``."""

    def __init__(
        self,
        objects: Objects,
        state: ReservoirState,
        *,
        writer_id: bytes,
        snapshot_interval: int,
        retained_versions: int,
    ) -> None:
        self._objects = objects
        self._state = state
        self._writer_id = writer_id
        self._snapshot_interval = snapshot_interval
        self._keep_versions = retained_versions
        self.pending: PendingCheckpoint | None = None

    def encode(
        self,
        version: int,
        *,
        meta: bytes,
        now_us: int,
        bundle: DataFile | None = None,
        is_opening: bool = False,
    ) -> PendingCheckpoint:
        """Encode all changes since the last checkpoint as the object of the next one.

        The object of an opening stays for its name, so it is small: only the first is a snapshot.
        """
        if version > object_keys.VERSION_MAX:
            raise Invalid(f"version {version} is above the maximum, {object_keys.VERSION_MAX}")
        state = self._state
        is_snapshot = not state.rows or (self.is_snapshot_due() and not is_opening)
        section = checkpoints.encode(
            self._content(version, meta=meta, now_us=now_us, is_snapshot=is_snapshot),
            compress=True,
        )
        offset = 0 if bundle is None else bundle.entry.ref.size
        flags = checkpoint_registry.FLAG_SNAPSHOT * is_snapshot
        flags |= checkpoint_registry.FLAG_BUNDLE * (bundle is not None)
        row = RegistryRow(version, flags, crc64(section), offset, len(section))
        rows = checkpoint_registry.retained_rows([*state.rows, row], version - self._keep_versions)
        listed = checkpoint_registry.encode(rows)
        footer = CheckpointFooter(
            state.reservoir_id, version, offset, offset + len(section), crc64(listed)
        )
        body = b"".join(
            (
                *(() if bundle is None else bundle.chunks()),
                section,
                listed,
                checkpoints.encode_footer(footer),
            )
        )
        dropped = state.rows[: len(state.rows) + 1 - len(rows)]
        return PendingCheckpoint(version, meta, rows, dropped, bundle, body)

    def is_snapshot_due(self) -> bool:
        return self._state.since_snapshot() >= self._snapshot_interval

    def is_snapshot_overdue(self) -> bool:
        """Whether there were many openings, each a version, without a snapshot between them."""
        return self._state.since_snapshot() > 2 * self._snapshot_interval

    def create(self, pending: PendingCheckpoint) -> None:
        """Create the newest version, or raise ``ObjectExists``."""
        self._objects.create(object_keys.checkpoint_key(pending.version), pending.body)
        state = self._state
        state.version, state.meta, state.rows = pending.version, pending.meta, pending.rows

    def create_pending(self, done: Callable[[PendingCheckpoint], None]) -> None:
        """Create the pending version, if any; raise ``Fenced`` when another writer has opened."""
        pending = self.pending
        if pending is None:
            return
        try:
            self.create(pending)
        except ObjectExists as error:
            raise Fenced(
                f"another writer has opened {self._objects.name} and created version "
                f"{pending.version}: stop, or open it again to fence that writer"
            ) from error
        self.pending = None
        done(pending)

    def _content(self, version: int, *, meta: bytes, now_us: int, is_snapshot: bool) -> Checkpoint:
        state = self._state
        if is_snapshot:
            (ids, rows), deleted = state.pages.all_pages(), _NO_IDS
        else:
            ids, rows, deleted = state.pages.changes()
        return Checkpoint(
            reservoir_id=state.reservoir_id,
            version=version,
            previous=state.version,
            term=state.term,
            kept_term=state.kept_term,
            made_us=now_us,
            writer_id=self._writer_id,
            is_snapshot=is_snapshot,
            ids=ids,
            rows=rows,
            deleted=deleted,
            files=state.files.rows(changed_only=not is_snapshot),
            garbage=state.files.garbage_rows(changed_only=not is_snapshot),
            meta=meta,
        )


def check_meta(meta: bytes) -> None:
    """Raise Invalid when a checkpoint cannot store this ``meta``."""
    if not isinstance(meta, bytes):
        raise Invalid(f"meta must be bytes, not {type(meta).__name__}")
    if len(meta) > checkpoints.META_BYTES_MAX:
        raise Invalid(f"{len(meta)} bytes of meta: the maximum is {checkpoints.META_BYTES_MAX}")
