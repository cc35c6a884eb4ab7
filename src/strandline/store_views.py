"""The views, consumer groups, routers and queries of a store. No rules.

Most processes never use them: a view's module is imported when the view is first opened
(``views/lazy.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from strandline.config.settings import Settings
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.routers.routers import Routers
from strandline.views.lazy import load_groups
from strandline.views.open_view import Views

if TYPE_CHECKING:
    from strandline.query.execute.result import Result
    from strandline.query.query_service import QueryService
    from strandline.views.groups.consumer_group import Group
    from strandline.views.groups.group_registry import GroupRegistry
    from strandline.views.kv.kv import Kv
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.queue.queue import Queue
    from strandline.views.series.series import Series
    from strandline.views.table.table import Table


class StoreViews(ABC):
    """The objects that a store offers besides its topics. Safe from many threads."""

    _views: Views
    _routers: Routers
    _clock: Clock
    _disk: Disk
    _settings: Settings

    @abstractmethod
    def _check(self) -> None:
        """Raise Closed when the store is closed."""

    @abstractmethod
    def _check_writable(self) -> None:
        """Raise Closed when the store is closed, Invalid when it is open read-only."""

    def kv(self, name: str, **options: object) -> Kv:
        """The key-value map over a topic's keys, created with these options if there is none."""
        view: Kv = self._views.open("kv", name, options)
        return view

    def queue(self, name: str, **options: object) -> Queue:
        """The work queue whose jobs are a topic's records, created if there is none."""
        view: Queue = self._views.open("queue", name, options)
        return view

    def series(self, name: str, **options: object) -> Series:
        """A topic's records by source and time, created if there is none."""
        view: Series = self._views.open("series", name, options)
        return view

    def metrics(self, name: str, **options: object) -> Metrics:
        """Measurements with tags and numeric fields, in a topic, created if there is none."""
        view: Metrics = self._views.open("metrics", name, options)
        return view

    def table(self, name: str, **options: object) -> Table:
        """A topic's records as an event table, created with these options if there is none."""
        view: Table = self._views.open("table", name, options)
        return view

    def group(self, topic: str, name: str, **options: object) -> Group:
        """The consumer group of this name on a topic, created with these options."""
        self._check_writable()
        return self.groups.open(topic, name, options)

    @cached_property
    def groups(self) -> GroupRegistry:
        """The consumer groups of all topics."""
        groups: GroupRegistry = load_groups()(self, self.kv, self._clock)
        return groups

    @property
    def views(self) -> Views:
        """All views: their names, options and digests."""
        self._check()
        return self._views

    @property
    def routers(self) -> Routers:
        """The routers, which forward records from topic to topic: docs/guide/routers.md."""
        self._check()
        return self._routers

    def rebuild(self, kind: str, name: str) -> None:
        """Discard the state of a view and fold the log again."""
        self._check_writable()
        self._views.rebuild(kind, name)

    @cached_property
    def queries(self) -> QueryService:
        """The query language, materialized queries, users and SQL."""
        service: QueryService = import_module("strandline.query.query_service").QueryService(
            self,
            self._clock,
            self._disk.random_id,
            self._settings.query,
            record_bytes_max=self._settings.limits.record_bytes_max,
        )
        return service

    def run(self, command: str) -> Result:
        """Run a command of the query language: docs/guide/queries.md."""
        self._check()
        return self.queries.run(command)

    def sql(
        self,
        text: str,
        *,
        as_of: object = None,
        params: Mapping[str, Any] | list[Any] | None = None,
    ) -> Result:
        """Run a SELECT over topics, views and tables, all at one position: docs/guide/sql.md."""
        self._check()
        return self.queries.sql(text, as_of=as_of, params=params)

    def _close_views(self) -> None:
        self._routers.close()
        if "groups" in vars(self):
            self.groups.close()
        if "questions" in vars(self):
            self.queries.close()
        self._views.registry.close()
