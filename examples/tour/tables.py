"""The tables chapter: events with a schema, queried while they arrive and after a restart."""

from __future__ import annotations

from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.errors import Invalid
from strandline.pipelines import Embedded, Engine, materialize
from strandline.store import Store

_CITIES = ("Oslo", "Rome", "Bern")


def show(stage: Stage, scene: Scene) -> None:
    stage.title("Queries over events")
    count = max(300, scene.orders // 3)
    with Store(scene.store) as store:
        store.run(
            'DEFINE visit FIELDS {city: ["Oslo","Rome","Bern"], seconds: "u64", paid: "bool"}'
        )
        _store(store, count)
        _reject_invalid(stage, store, count)
        _query(stage, store, count)
        store.run("REMEMBER QUERY visit COUNT, AVG seconds BY city AS cities")
        store.run("FLUSH")
    with Store(scene.store) as store:
        _store(store, 3)
        rows = store.run("SHOW cities").rows()
        stage.check(
            sum(row["count"] for row in rows) == count + 3,
            "a materialized query is refreshed from its position, also after a restart",
        )
        kept_fresh(stage, store, Embedded())


def kept_fresh(stage: Stage, store: Store, engine: Engine) -> None:
    """Refresh a materialized query with a pipeline while this process writes."""
    before = store.run("QUERY visit COUNT").rows()[0]["count"]
    count = max(100, before // 4)
    _store(store, count)
    (refreshed,) = materialize(store.path, ["cities"], engine=engine).refreshed
    stored = store.queries.remembered.describe("cities")
    rows = store.run("SHOW cities").rows()
    stage.check(
        (refreshed.engine, refreshed.behind, stored.behind) == (engine.name, count, 0)
        and sum(row["count"] for row in rows) == before + count,
        f"a pipeline refreshes a materialized query ({engine.name}): {count:,} new events in "
        f"{refreshed.seconds:.2f} s, delivered to the process that has the store",
    )


def _store(store: Store, count: int) -> None:
    table = store.table("visit")
    events = [
        {"city": _CITIES[number % 3], "seconds": number % 97, "paid": number % 10 == 0}
        for number in range(count)
    ]
    table.store_many([f"user-{number % 49}" for number in range(count)], events)


def _reject_invalid(stage: Stage, store: Store, count: int) -> None:
    try:
        store.run('STORE visit FOR user-1 PAYLOAD {"city": "Paris", "seconds": 1, "paid": false}')
        rejected = False
    except Invalid:
        rejected = True
    rows = store.run("QUERY visit COUNT").rows()[0]["count"]
    stage.check(
        rejected and rows == count,
        "an event that does not match its schema is rejected, all others are rows",
    )


def _query(stage: Stage, store: Store, count: int) -> None:
    by_city = store.run("QUERY visit COUNT BY city").rows()
    pairs = store.run(
        "QUERY visit FOLLOWED BY visit WITHIN 1 DAY WHERE visit.paid AND NOT visit2.paid COUNT"
    ).rows()
    total = store.sql("select sum(seconds) as total from visit").rows()[0]["total"]
    stage.check(
        sum(row["count"] for row in by_city) == count
        and pairs[0]["count"] > 0
        and total == sum(number % 97 for number in range(count)),
        f"{count:,} events counted by city, in sequences of a user, and with SQL",
    )
