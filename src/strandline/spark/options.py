"""What a read may be told: ``spark.read.format("strandline").option(…)``. Checked here, once.

| option | |
|---|---|
| `store`, or the path given to `load` | folder of the store |
| `topic` | a name, names with commas between them, or patterns with `*` |
| `lake` | where the lake is, when it is not in the store's folder |
| `columns` | names with commas between them; all when absent |
| `from`, `to` | the first record, and the first one not: a seq, or a time in ISO format |
| `as_of` | only what was there at a position (as ``position`` tells it) or a time |
| `maxRecordsPerTrigger` | stream: records of one batch at most |
| `onLoss` | stream: `fail` or `report` |
| `pinned` | what ``table`` tells its own hot part |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime

import msgspec

from strandline.errors import Invalid
from strandline.spark import columns
from strandline.spark.conditions import Condition, microseconds
from strandline.spark.positions import Offsets, is_pattern

_NAMES = {
    name.lower(): name
    for name in (
        *("store", "path", "topic", "lake", "columns", "from", "to", "as_of"),
        *("maxRecordsPerTrigger", "onLoss", "pinned"),
    )
}


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One read, as it was asked for."""

    store: str
    topics: tuple[str, ...]
    """Names and patterns."""
    many: bool
    """Whether the read is of several topics, and so has a column for their names."""
    lake: str = ""
    columns: tuple[str, ...]
    begin: str = ""
    end: str = ""
    as_of: str = ""
    on_loss: str = ""
    records_max: int = 0
    pinned: str = ""

    def conditions(self) -> tuple[Condition, ...]:
        """What ``from``, ``to`` and a time in ``as_of`` say about rows."""
        made = []
        if self.begin:
            made.append(_bound(self.begin, ">="))
        if self.end:
            made.append(_bound(self.end, "<"))
        if self.as_of and not self.as_of.startswith("{"):
            made.append(Condition("ts", "<=", time_of(self.as_of)))
        return tuple(made)

    def offsets(self) -> Offsets | None:
        """The position in ``as_of``."""
        return Offsets.decode(self.as_of) if self.as_of.startswith("{") else None


def parse(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, or ``Invalid`` that names the bad one."""
    told = {}
    for name, value in given.items():
        if name.lower() not in _NAMES:
            raise Invalid(f"unknown option {name!r}: known are {', '.join(_NAMES.values())}")
        told[_NAMES[name.lower()]] = str(value).strip()
    store = told.get("store") or told.get("path", "")
    if not store:
        raise Invalid('name the store: .option("store", "/folder"), or load("/folder")')
    store = store.removeprefix("file://")
    if not os.path.isabs(store):
        raise Invalid(f"name the store by its whole path, not {store!r}: workers run elsewhere")
    topics = tuple(part.strip() for part in told.get("topic", "").split(",") if part.strip())
    if not topics:
        raise Invalid('name the topic: .option("topic", "orders"), "a,b" or "eu-*" for several')
    many = len(topics) > 1 or any(is_pattern(topic) for topic in topics)
    on_loss = told.get("onLoss", "")
    if on_loss not in ("", "fail", "report"):
        raise Invalid(f"onLoss is fail or report, not {on_loss!r}")
    wanted = [part.strip() for part in told["columns"].split(",")] if "columns" in told else None
    options = ReadOptions(
        store=os.path.normpath(store),
        topics=topics,
        many=many,
        lake=told.get("lake", ""),
        columns=columns.chosen(wanted, many=many, lost=on_loss == "report"),
        begin=told.get("from", ""),
        end=told.get("to", ""),
        as_of=told.get("as_of", ""),
        on_loss=on_loss,
        records_max=_count(told.get("maxRecordsPerTrigger", "0")),
        pinned=told.get("pinned", ""),
    )
    if options.begin not in ("earliest", "latest"):
        options.conditions()
        options.offsets()
    return options


def time_of(text: str) -> int:
    """Microseconds of a time in ISO format; UTC unless it says otherwise."""
    try:
        return microseconds(datetime.fromisoformat(text))
    except ValueError:
        raise Invalid(f"{text!r} is no time: write 2026-11-16T08:00:00Z") from None


def _bound(text: str, operator: str) -> Condition:
    if text.isdecimal():
        return Condition("seq", operator, int(text))
    try:
        return Condition("ts", operator, time_of(text))
    except Invalid:
        raise Invalid(
            f"{text!r} is neither a seq nor a time: write 12345 or 2026-11-16T08:00:00Z"
        ) from None


def _count(text: str) -> int:
    if not text.isdecimal():
        raise Invalid(f"maxRecordsPerTrigger is a number, not {text!r}")
    return int(text)
