"""Resolves names of SQL to relations of the store.

    orders              the first view that the topic has of: table, kv, queue, series, metrics;
                        else its records, as log
    log.orders          the records of a topic, with or without views
    kv.profiles         the keys of a map, and kv_history.profiles all versions in its log
    queue.jobs          the jobs of a queue, and dead.jobs its dead letters
    series.gps          the points of a series
    metrics.telemetry   points of all measurements, metrics."telemetry/cpu" one of them by columns
    tables.signup       the rows of an event table
    remembered.daily    the result of a materialized query, through a hook

Names with other characters than letters, digits and ``_`` are quoted, as in SQL. They are not
case-sensitive, unless two names differ only in case; then a name must match exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from strandline.config.view_config import ViewConfigs
from strandline.errors import UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.query.language.errors import QueryError, did_you_mean
from strandline.query.sql.relations.dead_letters import DeadLetterRows, DeadLetterSource
from strandline.query.sql.relations.event_table import TableSource
from strandline.query.sql.relations.kv import MapSource
from strandline.query.sql.relations.kv_versions import VersionSource
from strandline.query.sql.relations.metrics import CopiedRows, MetricsSource
from strandline.query.sql.relations.queue import QueueSource
from strandline.query.sql.relations.relation import Position, Relation, RelationSource, SqlStore
from strandline.query.sql.relations.series import SeriesSource
from strandline.query.sql.relations.topic import TopicSource
from strandline.query.sql.statement import RelationName, Statement
from strandline.views.queue.dead_letters import node_of
from strandline.views.view_runner import ViewRunner

VIEW_OF = {
    "tables": "table",
    "kv": "kv",
    "kv_history": "kv",
    "queue": "queue",
    "dead": "queue",
    "series": "series",
    "metrics": "metrics",
}
"""The view that a topic must have for each schema."""
_BARE_SCHEMAS = ("tables", "kv", "queue", "series", "metrics")
"""The schemas that a bare name is looked up in, in order."""
SCHEMAS = ("log", *VIEW_OF, "remembered")

Extra = Callable[[str, str], "pa.Table | None"]
"""Returns relations that are not views of the store, by schema and name."""


class _ExtraSource:
    """Rows that are not from a topic."""

    topics: tuple[Topic, ...] = ()
    held: tuple[ViewRunner[Any], ...] = ()

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def at(self, position: Position) -> Relation:
        return CopiedRows(self._table)


class RelationNames:
    """The relations of a store, for one query. Owned by one thread."""

    def __init__(
        self, store: SqlStore, statement: Statement, extra: Extra | None, *, copied: bool
    ) -> None:
        self._store = store
        self._statement = statement
        self._extra = extra
        self._copied = copied

    def find(self, named: RelationName) -> RelationSource:
        """The relation of a name; raises a query error with known names."""
        schema = named.schema.lower()
        if self._extra is not None:
            table = self._extra(schema, named.name)
            if table is not None:
                return _ExtraSource(table)
        if schema and schema not in SCHEMAS:
            hint = did_you_mean(schema, SCHEMAS, called="schemas are")
            raise self._error(f"there is no schema {named.schema!r}", named, hint)
        name, _, measurement = named.name.partition("/")
        topic = self._topic(name)
        if topic is None or schema == "remembered":
            raise self._unknown(named, schema)
        schema = schema or ("metrics" if measurement else _default_schema(topic.config.views))
        view = VIEW_OF.get(schema)
        if measurement and schema != "metrics":
            raise self._unknown(named, schema)
        if view is not None and getattr(topic.config.views, view, None) is None:
            raise self._error(
                f"topic {topic.name!r} has no {view} view",
                named,
                f"log.{_quoted(topic.name)} has its records; store.{view}({topic.name!r}) adds it",
            )
        return self._open(schema, topic, measurement, named)

    def _open(
        self, schema: str, topic: Topic, measurement: str, named: RelationName
    ) -> RelationSource:
        match schema:
            case "log":
                return TopicSource(topic)
            case "kv_history":
                return VersionSource(topic)
            case "dead":
                return self._dead_letters(topic)
        host = self._host(VIEW_OF[schema], topic)
        match schema:
            case "kv":
                return MapSource(host)
            case "queue":
                return QueueSource(host)
            case "series":
                return SeriesSource(host)
            case "tables":
                return TableSource(host)
        if measurement:
            self._check_measurement(host, measurement, named)
        return MetricsSource(host, measurement or None, copied=self._copied)

    def _dead_letters(self, topic: Topic) -> RelationSource:
        try:
            config = topic.config.views.queue
            if config is None or config.dead_letter is None:
                return DeadLetterSource(self._store.existing_topic(f"{topic.name}:dead"))
            shared = self._store.existing_topic(config.dead_letter)
            return DeadLetterSource(shared, node_of(topic.identity[0]))
        except UnknownTopic:  # no job was ever dead-lettered
            return _ExtraSource(DeadLetterRows.schema.empty_table())

    def _host(self, view: str, topic: Topic) -> ViewRunner[Any]:
        views = self._store.views
        views.open(view, topic.name, {})
        return views.registry.host(view, topic)

    def _check_measurement(
        self, host: ViewRunner[Any], measurement: str, named: RelationName
    ) -> None:
        with host.reading() as fold:
            known = [each.name for each in fold.catalogue.sorted() if each.fields]
        if measurement not in known:
            hint = did_you_mean(measurement, known, called="measurements are")
            message = f"metrics {host.name!r} have no measurement {measurement!r}"
            raise self._error(message, named, hint)

    def _topic(self, name: str) -> Topic | None:
        names = self._store.topics()
        if name not in names:
            matches = [each for each in names if each.lower() == name.lower()]
            if len(matches) != 1:
                return None
            (name,) = matches
        return self._store.existing_topic(name)

    def _unknown(self, named: RelationName, schema: str) -> QueryError:
        path = f"{named.schema}.{named.name}" if named.schema else named.name
        view = VIEW_OF.get(schema)
        known = [
            each
            for each in self._store.topics()
            if view is None or getattr(self._store.existing_topic(each).config.views, view, None)
        ]
        if schema == "remembered":
            known = []
        hint = did_you_mean(named.name, known, called="relations are")
        return self._error(f"there is no relation {path!r}", named, hint)

    def _error(self, message: str, named: RelationName, hint: str) -> QueryError:
        return QueryError(message, self._statement.text, named.at, hint=hint)


def _default_schema(views: ViewConfigs) -> str:
    for schema in _BARE_SCHEMAS:
        if getattr(views, VIEW_OF[schema], None) is not None:
            return schema
    return "log"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
