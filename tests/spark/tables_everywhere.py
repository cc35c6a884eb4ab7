"""A store on a real disk whose event tables are in every place: files of two versions of their
schema, small ones and a merged one, rows that were deleted, and rows that are in no file yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from random import Random
from typing import Any

import strandline
from strandline.config.settings import Settings, SpaceSettings
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from tests.property.query_cases import CONTEXTS, EVENTS, FIELDS, PAUSES_US, VALUES, type_text
from tests.property.query_oracle import Row, Rows

LATER = ("b_bool", "s_string")
"""Fields that only the second version has."""


class Everywhere:
    """A store, and what it holds: plain rows of each event. Its repr is short."""

    def __init__(self, store: Store, rows: Rows) -> None:
        self.store = store
        self.rows = rows


def fields_of(event: str) -> dict[str, str]:
    """A field of each type; in one of the tables all may be missing, in another only the later."""
    ordered = [*(name for name in FIELDS if name not in LATER), *LATER]  # as the table has them
    return {
        name: type_text(FIELDS[name], optional=event == "a" or name in LATER) for name in ordered
    }


@contextmanager
def filled(path: str, seed: int, rows: int) -> Iterator[Everywhere]:
    clock = SimClock()
    settings = Settings(space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0))
    with strandline.open(path, settings=settings, start_jobs=False, clock=clock) as store:
        held = {
            event: _fill(store, clock, event, Random(f"{seed} {event}"), rows) for event in EVENTS
        }
        yield Everywhere(store, held)


def _fill(store: Store, clock: SimClock, event: str, random: Random, count: int) -> list[Row]:
    table = store.table(event, flush_rows=16, zone_rows=256)
    fields = fields_of(event)
    older = {name: kind for name, kind in fields.items() if name not in LATER}
    table.define(older)
    held: list[Row] = []
    for place in range(count):
        if place == count // 2:
            table.flush()
            table.compact()
            table.define(fields)
        if place == count - 7:
            table.flush()
        clock.advance(random.choice(PAUSES_US) / 1e6)
        names = older if place < count // 2 else fields
        row = {name: _value(random, name, told) for name, told in names.items()}
        context = random.choice(CONTEXTS)
        seq = table.store(context, {name: _json(value) for name, value in row.items()}).first_seq
        held.append({"seq": seq, "context": context} | dict.fromkeys(fields) | row)
    for gone in (held[3]["seq"], held[count // 2 + 2]["seq"], held[-2]["seq"]):
        store.run(f"DELETE {event} WHERE seq = {gone}")
        held = [row for row in held if row["seq"] != gone]
    _add_times(store, event, held)
    return held


def _add_times(store: Store, event: str, held: list[Row]) -> None:
    """The time of an append is the store's business."""
    parts = store.table(event).snapshot().read(["seq", "ts"]).tables()
    times = {row["seq"]: row["ts"] for part in parts for row in part.to_pylist()}
    for row in held:
        row["ts"] = times[row["seq"]]


def _value(random: Random, name: str, told: str) -> Any:
    missing = told.endswith("null") and random.random() < 0.25
    return None if missing else random.choice(VALUES[FIELDS[name]])


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
