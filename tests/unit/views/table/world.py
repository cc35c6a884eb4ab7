"""A store on a simulated machine with an event table on it."""

from __future__ import annotations

from strandline.store import Store
from strandline.views.table.fold import TableFold
from strandline.views.table.table import Table
from strandline.views.view_runner import ViewRunner
from tests.unit.store import world

NAME = "pay"
FIELDS = {
    "amount": "f64",
    "cur": ["EUR", "USD"],
    "note": "string | null",
    "at": "datetime",
    "n": "i64",
}
World = world.World


def table_of(store: Store, **options: object) -> Table:
    """The table, defined: small zones, and files after 64 rows."""
    options = {"zone_rows": 256, "flush_rows": 64} | options
    table = store.table(NAME, **options)
    if not store.readonly and not table.schema.version:
        table.define(FIELDS)
    return table


def event(n: int, **changes: object) -> dict[str, object]:
    """An event that differs from others by its number."""
    plain = {
        "amount": n / 4,
        "cur": "EUR" if n % 3 else "USD",
        "note": None if n % 2 else f"note {n}",
        "at": 1_767_225_600 + n,
        "n": n,
    }
    return plain | changes


def fill(table: Table, first: int, last: int) -> None:
    """Events first to last, in four contexts by turns."""
    for n in range(first, last + 1):
        table.store(f"c{n % 4}", event(n))


def numbers(table: Table, as_of: int | None = None) -> list[int]:
    """Which events are there, by their numbers."""
    found = [
        n for part in table.snapshot(as_of).read(["n"]).tables() for n in part["n"].to_pylist()
    ]
    return sorted(found)


def rows(table: Table) -> list[dict[str, object]]:
    """All rows as they are told, in order of seq."""
    view = table.snapshot()
    found = [row for part in view.read(view.columns.names).tables() for row in part.to_pylist()]
    return sorted(found, key=lambda row: row["seq"])


def host_of(store: Store) -> ViewRunner[TableFold]:
    return store.views.registry.host("table", store.existing_topic(NAME))


def digest(store: Store) -> str:
    return host_of(store).digest()


def rebuilt_digest(store: Store) -> str:
    """What the table would be if it were folded from the log as it is now."""
    store.rebuild("table", NAME)
    return digest(store)
