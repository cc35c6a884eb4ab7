"""Rows of Spark as the records of a view: validated as by the view itself, then staged.

An encoder is data, created on the driver, which reads the requirements of the view from the store,
and used by executors. It encodes a batch or rejects it as a whole;
``spark/write/row_validation.py`` finds the invalid rows.

    kv        key, value; optionally expires. A null value deletes the key.
    table     context (``__context`` if a field has that name), and the fields as columns or all
              of them as JSON in ``event``, unless a field has that name
    series    source, at or time, payload; optionally version
    metrics   time or ns, columns that are tags; all other columns are fields
    queue     data; optionally key and tag: plain jobs
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from strandline.errors import Invalid
from strandline.ingest.staged_files import COLUMNS
from strandline.schema import Schema, shown_columns
from strandline.views.kv.meta_codec import DELETED, EXPIRES_US_MAX, expiry_meta
from strandline.views.kv.values import plain_key
from strandline.views.metrics.ingest.column_input import tables_of
from strandline.views.metrics.ingest.record_codec import draft_points
from strandline.views.metrics.value_types import ValueKind
from strandline.views.series.meta import NORMAL, encode
from strandline.views.series.payload_versions import check_version
from strandline.views.series.values import check_at, name_of
from strandline.views.table.table import check_context
from strandline.views.table.validation import validator_of

EVENT = "event"
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Encoder(Protocol):
    """Encodes rows as records. Immutable."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of all rows, or ``Invalid`` if one row is invalid."""
        ...


class KvEncoder(msgspec.Struct, frozen=True):
    """Puts and deletes."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = [plain_key(_not_null(key, "key")) for key in batch["key"].to_pylist()]
        ends: list[Any] = [None] * len(batch)
        if "expires" in batch.schema.names:
            ends = batch["expires"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        values = batch["value"].cast(pa.binary()).to_pylist()
        metas = [
            DELETED if value is None else None if end is None else expiry_meta(_check_expiry(end))
            for value, end in zip(values, ends, strict=True)
        ]
        return _records(keys=keys, metas=metas, data=[value or b"" for value in values])


class EventEncoder(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a table, each checked by the validator of the table."""

    table: str
    schema: Schema

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        name = shown_columns(self.schema)["context"]
        contexts = batch[name].cast(pa.string()).to_pylist()
        keys = [check_context(_not_null(context, name)) for context in contexts]
        data = self._events(batch)
        validator_of(self.schema, self.table).decode_many(data)
        return _records(keys=keys, data=data)

    def _events(self, batch: pa.RecordBatch) -> list[bytes]:
        if EVENT in batch.schema.names and EVENT not in self.schema.fields:
            return [_not_null(each, EVENT) for each in batch[EVENT].cast(pa.binary()).to_pylist()]
        fields = [name for name in self.schema.fields if name in batch.schema.names]
        columns = [map(_json_value, batch[name].to_pylist()) for name in fields]
        return [
            msgspec.json.encode(
                {name: value for name, value in zip(fields, row, strict=True) if value is not None}
            )
            for row in zip(*columns, strict=True)
        ]


class PointEncoder(msgspec.Struct, frozen=True, kw_only=True):
    """Points of a series; points before its floor are rejected."""

    unit: str
    floor: int

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = [name_of(_not_null(source, "source")) for source in batch["source"].to_pylist()]
        versions = [0] * len(batch)
        if "version" in batch.schema.names:
            versions = [version or 0 for version in batch["version"].to_pylist()]
        metas = []
        for at, version in zip(self._ats(batch), versions, strict=True):
            check_at("at", _not_null(at, "at"))
            check_version(version)
            if at < self.floor:
                raise Invalid(f"a point at {at} is before the floor {self.floor}: it is too late")
            # The newest point of the source at the time of the append is not known here.
            metas.append(encode(NORMAL, version, at))
        payloads = batch["payload"].cast(pa.binary()).to_pylist()
        return _records(
            keys=keys, metas=metas, data=[_not_null(each, "payload") for each in payloads]
        )

    def _ats(self, batch: pa.RecordBatch) -> list[Any]:
        if "at" in batch.schema.names:
            ats: list[Any] = batch["at"].cast(pa.int64()).to_pylist()
            return ats
        micros = batch["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        scale = _PER_SECOND[self.unit]
        return [None if each is None else each * scale // 1_000_000 for each in micros]


class MetricsEncoder(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one measurement; ``kinds`` are the types of its known fields."""

    measurement: str
    tags: tuple[str, ...]
    kinds: dict[str, ValueKind]
    floor: int

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        at = "ns" if "ns" in batch.schema.names else "time"
        if at == "ns" and "time" in batch.schema.names:
            batch = batch.drop_columns(["time"])
        tables = tables_of(self.measurement, batch, at=at, tags=self.tags, kind_of=self.kinds.get)
        for table in tables:
            for name, kind in table.fields:
                known = self.kinds.get(name, kind)
                if known is not kind:
                    raise Invalid(
                        f"field {name!r} of {self.measurement!r} is {known.label}, not {kind.label}"
                    )
            if int(table.at.min()) < self.floor:
                raise Invalid(
                    f"a point of {self.measurement!r} at {int(table.at.min())} is too old: points "
                    f"before {self.floor} are gone"
                )
        if not tables:
            return _records(metas=[], data=[])
        draft = draft_points(tables)
        return _records(metas=draft.metas, data=draft.data)


class JobEncoder(msgspec.Struct, frozen=True):
    """Plain jobs: default priority, no delay, no expiry."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["data"].null_count:
            raise Invalid("column 'data' is null: it holds the job itself")
        fields = [field for field in COLUMNS if field.name in batch.schema.names]
        columns = [batch[field.name].cast(field.type) for field in fields]
        return pa.record_batch(columns, schema=pa.schema(fields))


def _records(
    *,
    data: Sequence[bytes],
    keys: Sequence[bytes] | None = None,
    metas: Sequence[bytes | None] | None = None,
) -> pa.RecordBatch:
    columns = {"key": keys, "meta": metas, "data": data}
    fields = [field for field in COLUMNS if columns.get(field.name) is not None]
    arrays = [pa.array(columns[field.name], field.type) for field in fields]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _not_null(value: Any, name: str) -> Any:
    if value is None:
        raise Invalid(f"column {name!r} is null")
    return value


def _check_expiry(expires_us: int) -> int:
    if not 0 < expires_us <= EXPIRES_US_MAX:
        raise Invalid(f"a key cannot expire {expires_us} microseconds after 1970")
    return expires_us


def _json_value(value: Any) -> Any:
    """A value of a column as a JSON type."""
    if isinstance(value, Decimal):
        return int(value)
    return value.isoformat() if isinstance(value, date | datetime) else value
