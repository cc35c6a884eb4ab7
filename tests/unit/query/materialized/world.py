"""A store on a simulated machine with event tables on it, and queries that are remembered."""

from __future__ import annotations

import math
from collections.abc import Sequence

from strandline.query.execute.executor import run
from strandline.query.execute.result import Result
from strandline.query.language.ast import DeleteEvents, Query, Remember
from strandline.query.language.binding import bind
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.parser import parse
from strandline.query.language.periods import DEFAULT_CALENDAR, Calendar
from strandline.query.materialized.describe import Description
from strandline.query.materialized.manifest import ResultRetention
from strandline.query.materialized.materialized_queries import MaterializedQueries
from strandline.schema import Schema
from strandline.store import Store
from strandline.views.table.table import Table
from strandline.views.table.table_snapshot import PinnedTable
from tests.unit.store import world

PAY = {"amount": "f64 | null", "cur": ["EUR", "USD"], "n": "i64", "user": "string | null"}
VIEW = {"page": "string", "n": "i64"}
World = world.World


class Machine:
    """A world, and what it remembers. Small tables: files after 16 rows."""

    def __init__(
        self,
        surroundings: World | None = None,
        *,
        frame_bytes: int = 4096,
        calendar: Calendar = DEFAULT_CALENDAR,
    ) -> None:
        self.world = surroundings or World()
        self.calendar = calendar
        self.frame_bytes = frame_bytes
        self.table("pay").define(PAY)
        self.table("view").define(VIEW)

    @property
    def store(self) -> Store:
        return self.world.store

    @property
    def remembered(self) -> MaterializedQueries:
        return remembered_in(
            self.store, self.world, frame_bytes=self.frame_bytes, calendar=self.calendar
        )

    def table(self, name: str) -> Table:
        return self.store.table(name, zone_rows=256, flush_rows=16)

    def remember(self, alias: str, text: str, **keep: int) -> Description:
        query = parse(text)
        assert isinstance(query, Query)
        told = ResultRetention(**keep)
        return self.remembered.remember(
            Remember(
                query=query,
                alias=alias,
                text=text,
                rows_max=told.rows_max,
                age_max_us=told.age_max_us,
            )
        )

    def pay(self, *numbers: int, **changes: object) -> None:
        for n in numbers:
            self.table("pay").store(f"c{n % 3}", paid(n) | changes)

    def delete(self, text: str) -> int:
        command = parse(text)
        assert isinstance(command, DeleteEvents)
        bound = bind(command, lambda name: schema_of(self.store, name), text)
        where = bound.events[0].where
        assert where is not None
        return self.table(bound.events[0].name).delete(where)

    def fresh(self, text: str, as_of: int | None = None) -> Result:
        """The query, asked as if nothing were remembered."""
        return run(self.bound(text), lambda name: self.table(name).snapshot(as_of))

    def bound(self, text: str) -> BoundQuery:
        return bound_of(self.store, text, self.calendar)

    def show(self, alias: str) -> Result:
        return self.remembered.show(alias)


def paid(n: int) -> dict[str, object]:
    return {
        "amount": None if n % 7 == 0 else n / 4,
        "cur": "USD" if n % 3 else "EUR",
        "n": n,
        "user": None if n % 5 == 0 else f"user {n % 4}",
    }


def remembered_in(
    store: Store,
    surroundings: World,
    *,
    frame_bytes: int = 4096,
    calendar: Calendar = DEFAULT_CALENDAR,
) -> MaterializedQueries:
    def snapshot(name: str) -> PinnedTable:
        return store.table(name).snapshot()

    return MaterializedQueries(
        store,
        surroundings.clock,
        snapshots=snapshot,
        bind=lambda text: bound_of(store, text, calendar),
        frame_bytes=frame_bytes,
    )


def bound_of(store: Store, text: str, calendar: Calendar = DEFAULT_CALENDAR) -> BoundQuery:
    query = parse(text)
    assert isinstance(query, Query)
    return bind(query, lambda name: schema_of(store, name), text, calendar=calendar)


def schema_of(store: Store, name: str) -> Schema | None:
    return store.table(name).schema if name in store.topics(name) else None


def alike(shown: Result, asked: Result) -> bool:
    """Whether two answers are the same, but for the last digits of doubles."""
    if shown.schema != asked.schema or len(shown) != len(asked):
        return False
    return all(map(_alike, shown.tuples(), asked.tuples()))


def _alike(first: Sequence[object], second: Sequence[object]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(first, second, strict=True)
    )
