"""Rows of a table from events: validated rows become columns, and plain records become rows. Pure.

Columns are made from all values of a field at once. A moment becomes its age since 1970 before it
is handed to Arrow, which asks moments for their zone otherwise and takes four times as long.

A plain record is a row of the table when it has a key, which is text and its context, and data that
fits the schema. Others are misfits.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from datetime import date
from itertools import repeat
from types import NoneType
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from strandline.lake.typed import ARROW, EPOCH, array_of
from strandline.schema import Kind, Schema
from strandline.views.table.snapshot import CONTEXT, CORE, SEQ, TS
from strandline.views.table.validation import validator_of
from strandline.views.view import Rows

_MOMENT = ARROW["datetime"]
_DAYS = {date, NoneType}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a table."""
    fields = [pa.field(name, ARROW[kind.name]) for name, kind in schema.kinds().items()]
    return pa.schema([*CORE, *fields])


def table_of(
    schema: Schema,
    seqs: Sequence[int],
    stamps: Sequence[int],
    contexts: Sequence[str] | pa.Array,
    rows: Sequence[msgspec.Struct],
) -> pa.Table:
    """Rows that a validator of this schema has decoded, as columns."""
    arrays = [
        pa.array(seqs, CORE.field(SEQ).type),
        pa.array(stamps, pa.int64()).view(CORE.field(TS).type),
        contexts
        if isinstance(contexts, pa.Array)
        else pa.array(contexts, CORE.field(CONTEXT).type),
    ]
    for place, kind in enumerate(schema.kinds().values()):
        arrays.append(_column(list(map(operator.attrgetter(f"f{place}"), rows)), kind))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def fold_rows(schema: Schema, rows: Rows) -> tuple[pa.Table, list[int]]:
    """Plain records as rows, and the seqs of those that are none."""
    found = validator_of(schema).fitting(rows.data)
    contexts = _contexts(rows.keys)
    if contexts is not None and None not in found:
        return table_of(schema, rows.seqs, rows.stamps, contexts, found), []  # type: ignore[arg-type]  # no None is in it
    kept, misfits = [], []
    for seq, stamp, key, row in zip(rows.seqs, rows.stamps, rows.keys, found, strict=True):
        context = _context(key)
        if row is None or context is None:
            misfits.append(seq)
        else:
            kept.append((seq, stamp, context, row))
    seqs, stamps, texts, good = zip(*kept, strict=True) if kept else ((), (), (), ())
    return table_of(schema, seqs, stamps, texts, good), misfits


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


def _column(values: list[Any], kind: Kind) -> pa.Array:
    if kind.optional and UNSET in values:
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
