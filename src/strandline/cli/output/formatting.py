"""Values as text for people and as JSON for programs. Pure.

Stored bytes are shown as text when they are UTF-8; otherwise as base64, with the marker ``base64:``
in a table and under ``data_base64`` (``key_base64``, ``meta_base64``) in JSON. In a table nothing
that a terminal could interpret as a command stays unescaped, and a record is one line.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

import msgspec

from strandline.cli.options import EPOCH
from strandline.config.settings import GIB, KIB, MIB
from strandline.records import Record, Tombstone

Json = dict[str, object]
Cells = Mapping[str, str | None]
"""The cells of a line by column; None for a missing value."""


class OutputRow(Protocol):
    """One line of output as JSON and as cells; only the requested form is computed."""

    @property
    def json(self) -> Json: ...

    @property
    def cells(self) -> Cells: ...


class PreparedRow(msgspec.Struct, frozen=True):
    """A row with both forms computed."""

    json: Json
    cells: Cells


class RecordRow(msgspec.Struct, frozen=True):
    """A record. A missing field is null in JSON, and - in a table."""

    record: Record

    @property
    def json(self) -> Json:
        record = self.record
        json: Json = {"seq": record.seq, "ts": record.ts}
        put_bytes(json, "key", record.key)
        json["tag"] = record.tag
        json["node"] = record.node
        put_bytes(json, "meta", record.meta)
        put_bytes(json, "data", record.data)
        return json

    @property
    def cells(self) -> Cells:
        record = self.record
        cells: dict[str, str | None] = {"seq": str(record.seq), "time": time_text(record.ts)}
        for name in ("key", "tag", "node", "meta"):
            value = getattr(record, name)
            cells[name] = None if value is None else plain(value)
        cells["data"] = plain(record.data)
        return cells


def tombstone_row(gap: Tombstone) -> OutputRow:
    """A gap, printed at its place among the records."""
    json: Json = {
        "tombstone": {
            "gap_from": gap.gap_from,
            "gap_to": gap.gap_to,
            "reason": gap.reason,
            "missed": gap.missed,
        }
    }
    text = f"records {gap.gap_from} to {gap.gap_to} are gone ({gap.reason})"
    return PreparedRow(json, {"notice": text})


def row_of(value: msgspec.Struct, cells: Cells | None = None, **more: object) -> OutputRow:
    """A struct: its fields, more fields, and cells if their text differs from the fields."""
    json: Json = {name: jsonable(getattr(value, name)) for name in value.__struct_fields__} | more
    if cells is None:
        cells = {name: text(field) for name, field in json.items()}
    return PreparedRow(json, cells)


def fact_row(json: Json) -> OutputRow:
    """Named values that are printed the same way in a table and in JSON."""
    return PreparedRow(json, {name.replace("_", " "): text(field) for name, field in json.items()})


def jsonable(value: object) -> object:
    """A value as JSON with field names, also for structs that are stored as lists."""
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        named = {name: jsonable(getattr(value, name)) for name in value.__struct_fields__}
        return named if tag is None else {"type": tag, **named}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, dict):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def text(value: object) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(text(item) for item in value) or "-"
    if isinstance(value, dict):
        items = ", ".join(f"{name}={text(item)}" for name, item in value.items())
        return f"({items})" if items else "-"
    return plain(str(value))


def plain(value: bytes | str) -> str:
    """Text on one line without control characters; base64 when the bytes are not UTF-8."""
    if isinstance(value, bytes):
        decoded = utf8(value)
        if decoded is None:
            return "base64:" + base64.b64encode(value).decode()
        value = decoded
    if value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in value
    )


def utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def time_text(ts: int) -> str:
    """Microseconds as ISO 8601 in UTC."""
    try:
        time = EPOCH + timedelta(microseconds=ts)
    except OverflowError:
        return str(ts)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def size(count: int) -> str:
    """A number of bytes, rounded."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def duration(ms: int) -> str:
    """Milliseconds in the largest unit that divides them."""
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")):
        if ms and ms % unit == 0:
            return f"{ms // unit}{name}"
    return f"{ms}ms" if ms else "-"


def schema(fields: Mapping[str, str], version: int) -> str:
    """The fields of a schema, and its version."""
    texts = ", ".join(f"{name}: {plain(field_type)}" for name, field_type in fields.items())
    return f"{texts} (version {version})" if fields else "-"


def put_bytes(json: Json, name: str, value: bytes | None) -> None:
    """Add stored bytes under a name: as text, or as base64 under ``NAME_base64``."""
    decoded = None if value is None else utf8(value)
    if value is not None and decoded is None:
        json[f"{name}_base64"] = base64.b64encode(value).decode()
    else:
        json[name] = decoded
