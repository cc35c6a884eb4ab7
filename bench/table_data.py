"""Events to measure with: twelve fields, skewed as real ones are, the same in every run.

Users are few that do much and many that do little; pages likewise. Time goes on, and what happened
arrives up to a minute late. Order numbers are random, so nothing is known of them but equality.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

EVENT = "visit"
FIELDS = {
    "page": "string",
    "referrer": "string | null",
    "country": ["DE", "US", "FR", "IT", "ES", "PL", "NL", "SE", "AT", "CH", "JP", "BR"],
    "device": ["phone", "desktop", "tablet", "tv"],
    "order_id": "string",
    "amount": "f64",
    "quantity": "u64",
    "balance": "i64",
    "paid": "bool",
    "at": "datetime",
    "day": "date",
    "note": "string | null",
}
USERS = 200_000
PAGES = 2_000
START_US = 1_767_225_600_000_000  # 2026-01-01
STEP_US = 400_000
"""Between two events: twenty million of them take three months."""
ROWS_AT_ONCE = 10_000


def chunks(rows: int, seed: int = 7) -> Iterator[pa.Table]:
    """The events in the order of their appends, with their context, as columns."""
    for number, start in enumerate(range(0, rows, ROWS_AT_ONCE)):
        count = min(ROWS_AT_ONCE, rows - start)
        yield _chunk(np.random.default_rng([seed, number]), start, count)


def as_json(table: pa.Table) -> tuple[list[str], list[bytes]]:
    """Contexts and events of a chunk, as they would come from outside."""
    names = list(FIELDS)
    columns = [table[name].to_pylist() for name in names]
    texts = [list(map(_QUOTED[name], column)) for name, column in zip(names, columns, strict=True)]
    shape = "{" + ",".join(f'"{name}":%s' for name in names) + "}"
    events = [(shape % values).encode() for values in zip(*texts, strict=True)]
    return table["context"].to_pylist(), events


def _chunk(chance: np.random.Generator, start: int, count: int) -> pa.Table:
    users = _skewed(chance, USERS, count)
    pages = _skewed(chance, PAGES, count)
    moments = START_US + (start + np.arange(count)) * STEP_US
    moments = moments - chance.integers(0, 60_000_000, count)
    countries, devices = FIELDS["country"], FIELDS["device"]
    amounts = np.round(chance.lognormal(3, 1, count), 2)
    orders = chance.integers(0, 1 << 63, count)
    return pa.table(
        {
            "context": [f"user-{user}" for user in users],
            "page": [f"/shop/{page}" for page in pages],
            "referrer": [
                None if each % 3 else f"https://site{each % 97}.example" for each in pages
            ],
            "country": [countries[each] for each in _skewed(chance, len(countries), count)],
            "device": [devices[each] for each in _skewed(chance, len(devices), count)],
            "order_id": [f"{each:016x}" for each in orders],
            "amount": amounts,
            "quantity": pa.array(chance.integers(1, 20, count), pa.uint64()),
            "balance": chance.integers(-100_000, 100_000, count),
            "paid": chance.random(count) < 0.8,
            "at": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "day": pa.array(moments // 86_400_000_000, pa.int32()).cast(pa.date32()),
            "note": [None if each < 0.9 else "call back" for each in chance.random(count)],
        }
    )


def _skewed(chance: np.random.Generator, among: int, count: int) -> np.ndarray:
    """Numbers below ``among``: a few very often, most seldom."""
    return (among * chance.random(count) ** 3).astype(np.int64)


def _text(value: str | None) -> str:
    return "null" if value is None else f'"{value}"'


_QUOTED = {
    **dict.fromkeys(("page", "referrer", "country", "device", "order_id", "note"), _text),
    "amount": repr,
    "quantity": str,
    "balance": str,
    "paid": lambda value: "true" if value else "false",
    "at": lambda value: f'"{value.isoformat()}"',
    "day": lambda value: f'"{value.isoformat()}"',
}
