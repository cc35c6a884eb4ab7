"""The view that rows are written to: its requirements, read on the driver before the write.

The columns of the rows are compared with those of the view, by name and type, so that unsuitable
columns are rejected at once and not by the first task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.errors import Invalid, NotFound
from strandline.pipelines.splits.snapshot_position import check_lake, matching, open_readonly
from strandline.schema import Schema, shown_columns
from strandline.spark.read.options import FAIL, WriteOptions
from strandline.spark.read.view_state import host_of
from strandline.spark.row_mappers.row_encoder import (
    EVENT,
    Encoder,
    EventEncoder,
    JobEncoder,
    KvEncoder,
    MetricsEncoder,
    PointEncoder,
)
from strandline.store import Store

_TEXT = (BinaryType, StringType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_FIELDS: dict[str, tuple[type[DataType], ...]] = {
    "string": (StringType,),
    "enum": (StringType,),
    "i64": _WHOLE,
    "u64": (*_WHOLE, DecimalType),
    "f64": (*_WHOLE, FloatType, DoubleType),
    "bool": (BooleanType,),
    "datetime": (TimestampType, DateType),
    "date": (DateType,),
}
_UNITS = ("s", "ms", "us", "ns")

Kinds = Mapping[str, tuple[type[DataType], ...]]


def encoder_for(options: WriteOptions, schema: StructType) -> Encoder:
    """The encoder of rows with these columns, or an error with the reason why there is none."""
    if options.create:
        raise Invalid(
            "createTopic creates plain topics: create the view first, for example with "
            f"store.{options.view}({options.topic!r})"
        )
    with open_readonly(options.store, options.lake) as store:
        others = [] if options.on_invalid == FAIL else [options.on_invalid]
        matching(store, [options.topic, *others])
        check_lake(store)
        configs = store.existing_topic(options.topic).config.views
        if getattr(configs, options.view) is None:
            raise NotFound(
                f"topic {options.topic!r} has no {options.view} view: create it with "
                f"store.{options.view}({options.topic!r}), or write records with view=log"
            )
        return _encoder(store, options, schema)


def _encoder(store: Store, options: WriteOptions, schema: StructType) -> Encoder:
    match options.view:
        case "kv":
            known: Kinds = {"key": _TEXT, "value": _TEXT, "expires": (TimestampType,)}
            _check(schema, known, ["key", "value"], "kv")
            return KvEncoder()
        case "queue":
            _check(schema, dict.fromkeys(("data", "key", "tag"), _TEXT), ["data"], "queue")
            return JobEncoder()
        case "series":
            return _points(store, options, schema)
        case "table":
            return _events(store, options, schema)
    return _measures(store, options, schema)


def _events(store: Store, options: WriteOptions, schema: StructType) -> Encoder:
    with host_of(store, "table", options.topic).reading() as fold:
        fields: Schema = fold.schema
    if not fields.version:
        raise Invalid(f"event {options.topic!r} has no fields yet: DEFINE it first")
    context = shown_columns(fields)["context"]
    if EVENT in schema.names and EVENT not in fields.fields:
        _check(schema, {context: _TEXT, EVENT: _TEXT}, [context, EVENT], "table")
    else:
        kinds = fields.types()
        known: Kinds = {
            context: _TEXT,
            **{name: _FIELDS[kind.name] for name, kind in kinds.items()},
        }
        needed = [context, *(name for name, kind in kinds.items() if not kind.optional)]
        _check(schema, known, needed, "table")
    return EventEncoder(table=options.topic, schema=fields)


def _points(store: Store, options: WriteOptions, schema: StructType) -> Encoder:
    with host_of(store, "series", options.topic).reading() as fold:
        unit, floor = fold.config.unit, fold.floor
    has_time = "at" not in schema.names
    if has_time and unit not in _UNITS:
        raise Invalid(f"the series counts in {unit!r}: give the column 'at', a number of those")
    time_columns: Kinds = {"time": (TimestampType,)} if has_time else {"at": _WHOLE}
    known = {"source": (*_TEXT, *_WHOLE), **time_columns, "payload": _TEXT, "version": _WHOLE}
    _check(schema, known, ["source", *time_columns, "payload"], "series")
    return PointEncoder(unit=unit, floor=floor)


def _measures(store: Store, options: WriteOptions, schema: StructType) -> Encoder:
    with host_of(store, "metrics", options.topic).reading() as fold:
        measurement = fold.catalogue.find(options.measurement)
        kinds = (
            {}
            if measurement is None
            else {name: each.kind for name, each in measurement.fields.items()}
        )
        floor = -(2**63) if measurement is None else measurement.floor
    time_columns: Kinds = {"time": (TimestampType,), "ns": (LongType,)}
    fields = [
        name for name in schema.names if name not in time_columns and name not in options.tags
    ]
    numbers: tuple[type[DataType], ...] = (*_WHOLE, FloatType, DoubleType, BooleanType)
    known: Kinds = {
        **time_columns,
        **dict.fromkeys(options.tags, (StringType,)),
        **dict.fromkeys(fields, numbers),
    }
    time_column = "ns" if "ns" in schema.names else "time"
    _check(schema, known, [time_column, *options.tags], "metrics")
    if not fields:
        raise Invalid("there is no column left for a field: all are times and tags")
    return MetricsEncoder(
        measurement=options.measurement, tags=options.tags, kinds=kinds, floor=floor
    )


def _check(schema: StructType, known: Kinds, needed: Sequence[str], view: str) -> None:
    """Raise if columns are missing, unknown, duplicate, or of an unsuitable type."""
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in known:
            raise Invalid(
                f"column {field.name!r} ({kind}) is not a column of view={view}, which takes "
                f"{', '.join(known)}: drop it, or rename it to one of those"
            )
        if not isinstance(field.dataType, known[field.name]):
            expected = " or ".join(each().simpleString() for each in known[field.name])
            raise Invalid(f"column {field.name!r} is {kind}, not {expected}: cast it")
        if schema.names.count(field.name) > 1:
            raise Invalid(f"column {field.name!r} exists twice: drop one")
    for name in needed:
        if name not in schema.names:
            raise Invalid(f"column {name!r} is missing: view={view} needs {', '.join(needed)}")
