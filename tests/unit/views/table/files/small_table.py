"""A table's files in a simulated world: small zones, rows that tell their seq."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.config.memory_budget import MemoryShare
from strandline.config.settings import LakeSettings
from strandline.lake.manifest import fencing
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import Schema
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from strandline.views.table.condition import Condition
from strandline.views.table.files.file_set import TableFiles
from strandline.views.table.files.layout import columns_of
from strandline.views.table.files.row_reader import FileRead, read_files
from strandline.views.table.snapshot import Top

STORE_ID = bytes(range(16))
TABLE_ID = 1 << 63 | 77
NAME = "signup:table"
ZONE_ROWS = 4
SCHEMA = Schema(1, {"plan": '["free","pro"]', "amount": "i64", "note": "string | null"})
COLUMNS = ["seq", "context", *SCHEMA.fields]

Row = dict[str, Any]


class Table:
    """The files of a table and the world they live in."""

    def __init__(
        self,
        objects: Objects | None = None,
        *,
        clock: SimClock | None = None,
        cache_bytes: int = 1 << 24,
        share: MemoryShare | None = None,
        term: int | None = None,
        **options: Any,
    ) -> None:
        self.clock = clock or SimClock()
        self.objects = SimObjects(clock=self.clock) if objects is None else objects
        self.share = MemoryShare(cache_bytes) if share is None else share
        self.disk = SimDisk(seed=options.pop("seed", 0))
        self.segments = TableFiles(
            self.objects,
            self.disk,
            self.clock,
            LakeSettings(manifest_retention_s=0, grace_s=0),
            store_id=STORE_ID,
            table_id=TABLE_ID,
            name=NAME,
            epoch=1,
            term=lambda: term,
            spool="/spool",
            share=self.share,
            **{"zone_rows": ZONE_ROWS, "flush_rows": 8, "merge_files": 4, **options},
        )
        self.segments.load()

    def reopened(self, **options: Any) -> Table:
        """Another opening of the same files, with nothing in memory."""
        return Table(self.objects, clock=self.clock, **{"seed": 1, **options})

    def add(self, first_seq: int, last_seq: int, schema: Schema = SCHEMA) -> list[Row]:
        """A flush of rows with all of these seqs."""
        rows = rows_of(range(first_seq, last_seq + 1))
        self.segments.add(table_of(rows, schema), first_seq, last_seq, schema)
        return rows

    def read(
        self,
        columns: Sequence[str] = tuple(COLUMNS),
        where: Condition | None = None,
        *,
        hidden: Iterable[int] = (),
        schema: Schema = SCHEMA,
        after: int = 0,
        until: int = 2**64 - 1,
        top: Top | None = None,
    ) -> FileRead:
        return read_files(
            self.segments.pin(),
            BitMap64(hidden),
            schema,
            columns,
            where,
            after=after,
            until=until,
            top=top,
        )

    def seqs(self, **options: Any) -> list[int]:
        """The seqs of all rows that a reading gives."""
        return sorted(
            seq
            for table in self.read(["seq"], **options).tables()
            for seq in table["seq"].to_pylist()
        )

    def rows(self, **options: Any) -> list[Row]:
        """All rows, in order of seq."""
        return told(self.read(**options))


def told(reading: FileRead) -> list[Row]:
    found = [row for table in reading.tables() for row in table.to_pylist()]
    return sorted(found, key=lambda row: row["seq"])


def row_of(seq: int) -> Row:
    """A row that is the same whenever it is made."""
    return {
        "seq": seq,
        "context": f"user-{seq * 7 % 5}",
        "plan": "pro" if seq % 3 == 0 else "free",
        "amount": seq * 10,
        "note": None if seq % 4 else f"note {seq}",
    }


def rows_of(seqs: Iterable[int]) -> list[Row]:
    return [row_of(seq) for seq in seqs]


def table_of(rows: Sequence[Row], schema: Schema = SCHEMA) -> pa.Table:
    """Rows as a flush brings them, the time of each following from its seq."""
    columns = columns_of(schema)
    stamps = np.array([1_700_000_000_000_000 + row["seq"] for row in rows], dtype="<i8")
    values = {name: [row.get(name) for row in rows] for name in columns.names if name != "ts"} | {
        "ts": pa.array(stamps).cast(columns.field("ts").type)
    }
    return pa.table({name: values[name] for name in columns.names}, schema=columns)


def make_lake(objects: Objects, clock: SimClock) -> None:
    """What a store does before its first write there."""
    fencing.claim_lake(objects, STORE_ID, clock)
