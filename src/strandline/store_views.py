"""How users get at the shapes of a store's topics: views, groups, tables, questions. No rules.

Most processes never use them: what is behind a door is loaded when somebody opens it
(``views/lazy.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from strandline.config.settings import Settings
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.routers.routers import Routers
from strandline.views.lazy import load_groups, load_questions
from strandline.views.open_view import Views

if TYPE_CHECKING:
    from strandline.query.execute.result import Result
    from strandline.query.query_service import Questions
    from strandline.views.groups.consumer_group import Group
    from strandline.views.groups.group_registry import Groups
    from strandline.views.kv.kv import Kv
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.queue.queue import Queue
    from strandline.views.series.series import Series
    from strandline.views.table.table import Table


class Doors(ABC):
    """What a store shows besides its topics. Safe from many threads."""

    _views: Views
    _routers: Routers
    _clock: Clock
    _disk: Disk
    _settings: Settings

    @abstractmethod
    def _check(self) -> None:
        """Raise when the store is closed."""

    @abstractmethod
    def _check_writable(self) -> None:
        """Raise when the store is closed or open read-only."""

    def kv(self, name: str, **options: object) -> Kv:
        """The key-value map over a topic's keys, made with these options if there is none."""
        found: Kv = self._views.open("kv", name, options)
        return found

    def queue(self, name: str, **options: object) -> Queue:
        """The work queue whose jobs are a topic's records, made if there is none."""
        found: Queue = self._views.open("queue", name, options)
        return found

    def series(self, name: str, **options: object) -> Series:
        """A topic's records by source and time, made if there is none."""
        found: Series = self._views.open("series", name, options)
        return found

    def metrics(self, name: str, **options: object) -> Metrics:
        """Measurements with tags and numeric fields, in a topic, made if there is none."""
        found: Metrics = self._views.open("metrics", name, options)
        return found

    def table(self, name: str, **options: object) -> Table:
        """A topic's records as an event table, made with these options if there is none."""
        found: Table = self._views.open("table", name, options)
        return found

    def group(self, topic: str, name: str, **options: object) -> Group:
        """The consumer group of this name on a topic, made with these options."""
        self._check_writable()
        return self.groups.open(topic, name, options)

    @cached_property
    def groups(self) -> Groups:
        """The consumer groups of all topics."""
        found: Groups = load_groups()(self, self.kv, self._clock)
        return found

    @property
    def views(self) -> Views:
        """All views: their names, options and digests."""
        self._check()
        return self._views

    @property
    def routers(self) -> Routers:
        """What forwards records from topic to topic: docs/guide/routers.md."""
        self._check()
        return self._routers

    def rebuild(self, kind: str, name: str) -> None:
        """Throw the state of a view away and fold the log again."""
        self._check_writable()
        self._views.rebuild(kind, name)

    @cached_property
    def questions(self) -> Questions:
        """The command language, remembered queries, users and SQL."""
        found: Questions = load_questions()(
            self,
            self._clock,
            self._disk.random_id,
            self._settings.query,
            record_bytes_max=self._settings.limits.record_bytes_max,
        )
        return found

    def run(self, command: str) -> Result:
        """Do what a command says: docs/guide/queries.md."""
        self._check()
        return self.questions.run(command)

    def sql(
        self,
        text: str,
        *,
        as_of: object = None,
        params: Mapping[str, Any] | list[Any] | None = None,
    ) -> Result:
        """Ask a SELECT over topics, views and tables, all at one moment: docs/guide/sql.md."""
        self._check()
        return self.questions.sql(text, as_of=as_of, params=params)

    def _close_doors(self) -> None:
        self._routers.close()
        if "groups" in vars(self):
            self.groups.close()
        if "questions" in vars(self):
            self.questions.close()
        self._views.shelf.close()
