"""The state of a reservoir at one version, in memory: tables, registry, and term of the writer."""

from __future__ import annotations

import msgspec

from strandline.reservoir.checkpoint_registry import RegistryRow
from strandline.reservoir.data_files.data_file_table import FileTable
from strandline.reservoir.data_files.page_table import PageTable


class ReservoirState(msgspec.Struct, kw_only=True, eq=False):
    """The state of one version. Changed only by its writer, under the reservoir's lock."""

    reservoir_id: bytes
    version: int = 0
    """The newest durable checkpoint; 0 when there is none yet."""
    term: int = 0
    kept_term: int = 0
    """Objects of versions up to this one are not deleted: it was created after damage was found."""
    meta: bytes = b""
    pages: PageTable
    files: FileTable
    rows: list[RegistryRow]
    """The registry: checkpoints from the oldest retained one to this version."""

    @property
    def snapshot_version(self) -> int:
        """The newest snapshot, 0 when there is none."""
        return max((row.version for row in self.rows if row.is_snapshot), default=0)

    def since_snapshot(self) -> int:
        """Number of checkpoints from the newest snapshot on, itself included."""
        newest = self.snapshot_version
        return sum(row.version >= newest for row in self.rows)


def empty_state(reservoir_id: bytes) -> ReservoirState:
    return ReservoirState(reservoir_id=reservoir_id, pages=PageTable(), files=FileTable(), rows=[])
