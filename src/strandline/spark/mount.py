"""Every topic, view and event table of a store as temporary views of a session.

    mount(spark, "/data")
    spark.sql("select cur, sum(amount) from pay group by cur")

Names are those of ``store.sql``, with ``_`` in place of the dot, since a temporary view is in no
schema: ``log_orders`` has the records of a topic, ``kv_people`` its map, and ``tables_``,
``queue_``, ``series_``, ``metrics_`` the other views; the bare name is the first view that the
topic has, else its records. Nothing is read when the views are made. A query reads each as it is
then, or as it was at ``as_of``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from strandline.errors import Invalid
from strandline.pipelines.splits.record_schema import RECORD
from strandline.pipelines.splits.snapshot_position import Offsets, matching, open_readonly, path_of
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
"""The view of each schema of SQL; a bare name is the first that the topic has."""
_PRESENT = ("queue", "metrics")
"""Views that know only the present."""


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
    """Make temporary views of topics (names or patterns; all without any); their names.

    ``store`` is open, or named by its folder. With ``as_of``, a position or a time, queues and
    metrics are left out, which know only the present, and so are topics that a position does not
    have. Topics of the store itself are left out unless they are named.
    """
    if isinstance(store, str) and "://" in store:
        raise Invalid(f"mount needs the folder of the store, not {store.split('?')[0]}")
    path = path_of(store)
    others = read_plan.as_options({"as_of": as_of, "lake": lake})
    known = Offsets.decode(others["as_of"]).topics if _is_position(others) else None
    found: dict[str, _Mounted] = {}
    with open_readonly(path, lake) as opened:
        for name in _chosen(opened, topics):
            if known is None or name in known:
                _add(found, opened, name, past=as_of is not None)
    register(spark)
    for named, each in found.items():
        given = {"store": path, "topic": each.topic, "view": each.view, **others}
        with plain_errors():
            reading = spark.read.format(FORMAT).schema(_schema(given)).options(**given)
            reading.load().createOrReplaceTempView(f"`{named}`")
    return list(found)


def _chosen(store: Store, topics: Sequence[str]) -> list[str]:
    if not topics:
        return [name for name in store.topics() if not name.startswith((INTERNAL, REMEMBERED))]
    return matching(store, topics)


def _add(found: dict[str, _Mounted], store: Store, topic: str, *, past: bool) -> None:
    configs = store.existing_topic(topic).config.views
    there = {
        schema: view
        for schema, view in _SCHEMAS.items()
        if getattr(configs, view) is not None and not (past and view in _PRESENT)
    }
    bare = next(iter(there.values()), LOG)
    named = {topic: bare, f"log_{topic}": LOG}
    named |= {f"{schema}_{topic}": view for schema, view in there.items()}
    taken = {name.lower(): mounted for name, mounted in found.items()}
    for name, view in named.items():
        other = taken.get(name.lower())
        if other is not None:
            raise Invalid(
                f"two views would be called {name!r}: {other.view} of topic {other.topic!r} and "
                f"{view} of topic {topic!r}; mount one of the topics, or make views of your own "
                "with strandline.spark.table"
            )
        found[name] = _Mounted(topic, view)


def _schema(given: dict[str, str]) -> StructType:
    options = parse(given)
    return spark_schema(RECORD) if options.view == LOG else of_arrow(lazy.view_schema(options))


def _is_position(options: dict[str, str]) -> bool:
    return options.get("as_of", "").startswith("{")
