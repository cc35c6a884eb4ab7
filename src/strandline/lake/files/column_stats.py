"""Statistics of a typed column of a file: its bounds as text, as values, and for a filter. Pure.

    type             a bound as text                  compared as
    u64, i64         12                               numbers
    f64              0.1, 1e+300                      numbers
    bool             false, true                      false first
    datetime         2026-01-02T03:04:05.000000Z      times, which is the order of the texts
    date             2026-01-02                       days, which is the order of the texts
    string, enum     the text, cut as that of a tag   code points

A text is decoded by the type of the column in its file's schema, never compared as text. Only the
first ``STATED_MAX`` fields of a schema have bounds: a topic may have a hundred thousand files, and
each has its own.

A schema changes, files do not. A column of an older file is read as the newest type if that yields
what the newest type would have derived from ``data``, and is null otherwise, until the file is
rewritten: a wrong value would be worse, and so would a read that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from strandline.lake.files.typed_columns import EPOCH, TypedColumns
from strandline.lake.manifest import file_entry
from strandline.lake.manifest.file_entry import ColumnStats, LakeFile
from strandline.schema import FieldType

STATED_MAX = 32

_TEXTS = ("string", "enum")
_RANGES = {"u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1), "f64": (-(2**53), 2**53)}
"""Whole numbers that a column of numbers can hold exactly."""


def stats_of(kind: FieldType, groups: Sequence[Any]) -> ColumnStats | None:
    """Statistics of a column from those of Parquet by row group; None when they have no bounds."""
    filled = [group for group in groups if group.num_values]
    if not all(group.has_min_max for group in filled):
        return None  # a text was too long for Parquet's statistics: its bounds are unknown
    nulls = sum(group.null_count for group in groups)
    if not filled:
        return ColumnStats(None, None, nulls)
    if kind.name == "datetime":
        low, high = min(each.min_raw for each in filled), max(each.max_raw for each in filled)
    else:
        low, high = min(each.min for each in filled), max(each.max for each in filled)
    if kind.name in _TEXTS:
        return file_entry.text_stats(low, high, nulls)
    return ColumnStats(_text(kind, low), _text(kind, high), nulls)


def value_of(kind: FieldType, text: str) -> Any:
    """The value of a bound."""
    if kind.name in ("u64", "i64"):
        return int(text)
    if kind.name == "f64":
        return float(text)
    if kind.name == "bool":
        return text == "true"
    if kind.name == "datetime":
        return datetime.fromisoformat(text)
    return date.fromisoformat(text) if kind.name == "date" else text


def reads_as(kind: FieldType, newest: FieldType, stats: ColumnStats | None) -> bool:
    """Whether a column of an older file can be read as a newer type."""
    if kind.name in _TEXTS and newest.name == "string":
        return True
    if kind.name == newest.name:
        return set(kind.variants) <= set(newest.variants)
    if kind.name not in ("u64", "i64") or newest.name not in _RANGES or stats is None:
        return False
    if stats.min is None or stats.max is None:
        return True
    low, high = _RANGES[newest.name]
    return low <= int(stats.min) and int(stats.max) <= high


class FileGuarantees:
    """Conditions that hold for the files of one schema version. Immutable; safe from many threads.

    A dataset does not read a column that is null by such a condition, so another type in the file
    is harmless.
    """

    def __init__(self, written: TypedColumns | None, newest: TypedColumns) -> None:
        """``written`` has the columns of the files, None when they are unknown."""
        self._columns = [
            _Column(
                name,
                None if written is None else written.kinds.get(name),
                kind,
                newest.columns.field(name).type,
                pc.field(name),
                pc.field(name).is_null(),
            )
            for name, kind in newest.kinds.items()
        ]

    def of(self, file: LakeFile) -> list[Any]:
        """Conditions that the typed columns meet in every row of a file."""
        if not self._columns:
            return []
        stats, conditions = file.column_stats(), []
        for column in self._columns:
            known = stats.get(column.name)
            if column.is_lost(known):
                conditions.append(column.is_null)
            elif known is not None:
                conditions += column.between(known)
        return conditions


class _Column(NamedTuple):
    name: str
    written: FieldType | None
    newest: FieldType
    arrow: pa.DataType
    field: Any
    is_null: Any

    def is_lost(self, stats: ColumnStats | None) -> bool:
        """Whether no value of the column in a file can be read as the newest type."""
        if self.written is None or (stats is not None and stats.min is None):
            return True
        return self.written != self.newest and not reads_as(self.written, self.newest, stats)

    def between(self, stats: ColumnStats) -> list[Any]:
        assert self.written is not None
        bounds = []
        if stats.min is not None:
            low = value_of(self.written, stats.min)
            bounds.append(self.field >= pa.scalar(low, self.arrow))
        if stats.max is not None:
            high = value_of(self.written, stats.max)
            bounds.append(self.field <= pa.scalar(high, self.arrow))
        return [bound | self.is_null for bound in bounds] if stats.nulls else bounds


def _text(kind: FieldType, value: Any) -> str:
    if kind.name == "datetime":
        time = EPOCH + timedelta(microseconds=value)
        return f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    if kind.name == "bool":
        return "true" if value else "false"
    return value.isoformat() if kind.name == "date" else repr(value)
