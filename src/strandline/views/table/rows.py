"""Rows of a table from events: validated rows become columns, and plain records become rows. Pure.

Columns are made from all values of a field at once. A moment becomes its age since 1970 before it
is handed to Arrow, which asks moments for their zone otherwise and takes four times as long.

An enum becomes a dictionary of its variants, in their order. That costs as much as plain text, and
then is written to Parquet in 0.6, sorted in 0.15 and grouped by DuckDB in 0.4 of the time. Other
text stays plain: nobody knows how many values it has, and with a thousand of them Parquet already
takes 1.4 times as long with a dictionary.

A plain record is a row of the table when it has a key, which is text and its context, and data that
fits the schema. Others are misfits.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import repeat
from types import NoneType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType

from strandline.lake.files.typed_columns import ARROW, EPOCH, array_of
from strandline.schema import Kind, Schema
from strandline.views.table.dictionary import VARIANT
from strandline.views.table.snapshot import CONTEXT, CORE, SEQ, TS
from strandline.views.table.validation import validator_of
from strandline.views.view import Rows

_MOMENT = ARROW["datetime"]
_DAYS = {date, NoneType}
_ABSENT = {None: -1, UNSET: -1}


class _Columns(NamedTuple):
    """How rows of one schema become columns."""

    schema: pa.Schema
    makers: list[Callable[[Sequence[msgspec.Struct]], pa.Array]]


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a table."""
    fields = [pa.field(name, ARROW[kind.name]) for name, kind in schema.columns().items()]
    return pa.schema([*CORE, *fields])


def table_of(
    schema: Schema,
    seqs: Sequence[int],
    stamps: Sequence[int],
    contexts: Sequence[str] | pa.Array,
    rows: Sequence[msgspec.Struct],
) -> pa.Table:
    """Rows that a validator of this schema has decoded, as columns."""
    columns = _columns(tuple(schema.fields.items()))
    core = [
        pa.array(seqs, CORE.field(SEQ).type),
        pa.array(stamps, pa.int64()).view(CORE.field(TS).type),
        contexts
        if isinstance(contexts, pa.Array)
        else pa.array(contexts, CORE.field(CONTEXT).type),
    ]
    arrays = [*core, *(make(rows) for make in columns.makers)]
    return pa.Table.from_arrays(arrays, schema=columns.schema)


def fold_rows(schema: Schema, rows: Rows) -> tuple[pa.Table, list[int]]:
    """Plain records as rows, and the seqs of those that are none."""
    found = validator_of(schema).fitting(rows.data)
    good = [row for row in found if row is not None]
    contexts = _contexts(rows.keys)
    if contexts is not None and len(good) == len(found):
        return table_of(schema, rows.seqs, rows.stamps, contexts, good), []
    kept, misfits = [], []
    for seq, stamp, key, row in zip(rows.seqs, rows.stamps, rows.keys, found, strict=True):
        context = _context(key)
        if row is None or context is None:
            misfits.append(seq)
        else:
            kept.append((seq, stamp, context, row))
    seqs, stamps, texts, good_ones = zip(*kept, strict=True) if kept else ((), (), (), ())
    return table_of(schema, seqs, stamps, texts, good_ones), misfits


def misfits_among(schema: Schema, rows: Rows) -> int:
    """How many plain records are no rows: known without making columns."""
    if not schema.version:
        return len(rows.seqs)  # from before the first DEFINE
    found = validator_of(schema).fitting(rows.data)
    pairs = zip(rows.keys, found, strict=True)
    return sum(row is None or _context(key) is None for key, row in pairs)


def plain_row(
    schema: Schema, seq: int, stamp: int, context: str, row: msgspec.Struct
) -> dict[str, Any]:
    """One row as ``evaluate.matches`` takes it."""
    values: dict[str, Any] = {SEQ: seq, TS: stamp, CONTEXT: context}
    for place, (name, kind) in enumerate(schema.columns().items()):
        value = getattr(row, f"f{place}")
        if kind.name in ("datetime", "date") and isinstance(value, (int, float)):
            value = array_of([value], kind)[0].as_py()
        values[name] = None if value is UNSET else value
    return values


@functools.lru_cache(maxsize=256)
def _columns(fields: tuple[tuple[str, str], ...]) -> _Columns:
    kinds = Schema(1, dict(fields)).columns()
    makers = [_maker(place, kind) for place, kind in enumerate(kinds.values())]
    types = [pa.field(name, _memory_type(kind)) for name, kind in kinds.items()]
    return _Columns(pa.schema([*CORE, *types]), makers)


def _memory_type(kind: Kind) -> pa.DataType:
    return VARIANT if kind.name == "enum" else ARROW[kind.name]


def _maker(place: int, kind: Kind) -> Callable[[Sequence[msgspec.Struct]], pa.Array]:
    getter = operator.attrgetter(f"f{place}")
    if kind.name == "enum":
        codes = {variant: code for code, variant in enumerate(kind.variants)}
        variants = pa.array(kind.variants, pa.string())
        return lambda rows: _coded(map(getter, rows), len(rows), codes | _ABSENT, variants)
    return lambda rows: _column(list(map(getter, rows)), kind)


def _coded(
    values: Iterable[Any], count: int, codes: dict[Any, int], variants: pa.Array
) -> pa.Array:
    found = np.fromiter(map(codes.__getitem__, values), np.int16, count)
    absent = found < 0 if found.min(initial=0) < 0 else None
    places = pa.array(found.astype(np.uint8), mask=absent)
    return pa.DictionaryArray.from_arrays(places, variants)


def _column(values: list[Any], kind: Kind) -> pa.Array:
    if kind.optional and UnsetType in map(type, values):
        values = [None if value is UNSET else value for value in values]
    if kind.name == "datetime":
        try:
            ages = list(map(operator.sub, values, repeat(EPOCH)))
        except TypeError:  # a number, or None
            return array_of(values, kind)
        return pa.array(ages, pa.duration("us")).view(_MOMENT)
    if kind.name == "date" and not _DAYS.issuperset(map(type, values)):
        return array_of(values, kind)
    return pa.array(values, ARROW[kind.name])


def _contexts(keys: Sequence[bytes | None]) -> pa.Array | None:
    """Keys as text, None unless all are contexts."""
    if not all(keys):
        return None
    try:
        return pa.array(keys, pa.string())
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None


def _context(key: bytes | None) -> str | None:
    try:
        return key.decode() if key else None
    except UnicodeDecodeError:
        return None
