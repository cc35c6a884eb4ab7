"""Every topic, view and event table of a store as temporary views of a session.

    mount(spark, "/data")
    spark.sql("select cur, sum(amount) from pay group by cur")

Names are those of ``store.sql``, with ``_`` in place of the dot, since a temporary view is in no
schema: ``log_orders`` has the records of a topic, ``kv_people`` its map, and ``tables_``,
``queue_``, ``series_``, ``metrics_`` the other views; the bare name is the first view that the
topic has, else its records. Creating the views reads nothing. A query reads the current state of
each, or its state as of ``as_of``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from strandline.errors import Invalid
from strandline.pipelines.splits.record_schema import RECORD
from strandline.pipelines.splits.snapshot_position import (
    TopicOffsets,
    matching,
    open_readonly,
    path_of,
)
from strandline.security.internal_topics import INTERNAL, REMEMBERED
from strandline.spark.errors import plain_errors
from strandline.spark.read import read_plan
from strandline.spark.read.options import FORMAT, LOG, parse
from strandline.spark.read.schema import of_arrow, spark_schema
from strandline.spark.sessions import register
from strandline.spark.source import lazy
from strandline.store import Store

_SCHEMAS = {
    "tables": "table",
    "kv": "kv",
    "queue": "queue",
    "series": "series",
    "metrics": "metrics",
}
"""The view of each SQL schema; a bare name is the first one that the topic has."""
_PRESENT = ("queue", "metrics")
"""Views without a history, which cannot be read as of a position."""


class _Mounted(msgspec.Struct, frozen=True):
    topic: str
    view: str


def mount(
    spark: SparkSession,
    store: str | Store,
    topics: Sequence[str] = (),
    *,
    as_of: str | datetime | None = None,
    lake: str = "",
) -> list[str]:
    """Create temporary views of topics (names or patterns, default all); their names.

    ``store`` is open, or named by its directory. With ``as_of``, a position or a time, queues and
    metrics are omitted, because they have no history, and also topics that are not in the position.
    Internal topics of the store are omitted unless they are named.
    """
    if isinstance(store, str) and "://" in store:
        raise Invalid(f"mount needs the directory of the store, not {store.split('?')[0]}")
    path = path_of(store)
    query_options = read_plan.as_options({"as_of": as_of, "lake": lake})
    known = (
        TopicOffsets.decode(query_options["as_of"]).topics if _is_position(query_options) else None
    )
    mounted: dict[str, _Mounted] = {}
    with open_readonly(path, lake) as opened:
        for name in _chosen(opened, topics):
            if known is None or name in known:
                _add(mounted, opened, name, past=as_of is not None)
    register(spark)
    for view_name, each in mounted.items():
        read_options = {"store": path, "topic": each.topic, "view": each.view, **query_options}
        with plain_errors():
            reader = spark.read.format(FORMAT).schema(_schema(read_options)).options(**read_options)
            reader.load().createOrReplaceTempView(f"`{view_name}`")
    return list(mounted)


def _chosen(store: Store, topics: Sequence[str]) -> list[str]:
    if not topics:
        return [name for name in store.topics() if not name.startswith((INTERNAL, REMEMBERED))]
    return matching(store, topics)


def _add(mounted_views: dict[str, _Mounted], store: Store, topic: str, *, past: bool) -> None:
    configs = store.existing_topic(topic).config.views
    existing = {
        schema: view
        for schema, view in _SCHEMAS.items()
        if getattr(configs, view) is not None and not (past and view in _PRESENT)
    }
    bare = next(iter(existing.values()), LOG)
    names = {topic: bare, f"log_{topic}": LOG}
    names |= {f"{schema}_{topic}": view for schema, view in existing.items()}
    by_lower_name = {name.lower(): mounted for name, mounted in mounted_views.items()}
    for name, view in names.items():
        other = by_lower_name.get(name.lower())
        if other is not None:
            raise Invalid(
                f"two views would be named {name!r}: {other.view} of topic {other.topic!r} and "
                f"{view} of topic {topic!r}; mount one of the topics, or create your own views "
                "with strandline.spark.table"
            )
        mounted_views[name] = _Mounted(topic, view)


def _schema(read_options: dict[str, str]) -> StructType:
    options = parse(read_options)
    return spark_schema(RECORD) if options.view == LOG else of_arrow(lazy.view_schema(options))


def _is_position(options: dict[str, str]) -> bool:
    return options.get("as_of", "").startswith("{")
