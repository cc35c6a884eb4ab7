"""Values as text for people and as JSON for programs. Pure.

Stored bytes are shown as text when they are UTF-8; otherwise as base64, with the marker ``base64:``
in a table and under ``data_base64`` (``key_base64``, ``meta_base64``) in JSON. In a table nothing
that a terminal could take for a command leaves here unescaped, and a record is one line.
"""

from __future__ import annotations

import base64
from datetime import timedelta

import msgspec

from strandline.cli.options import EPOCH
from strandline.record import Record, Tombstone
from strandline.settings import GIB, KIB, MIB

Json = dict[str, object]


class Row(msgspec.Struct, frozen=True):
    """One thing in both shapes."""

    json: Json
    cells: dict[str, str]


def record_row(record: Record) -> Row:
    """A record: the columns that it lacks are null in JSON and absent in the table."""
    json: Json = {"seq": record.seq, "ts": record.ts}
    cells = {"seq": str(record.seq), "time": moment(record.ts)}
    for name in ("key", "tag", "node", "meta"):
        value = getattr(record, name)
        _put(json, name, value)
        if value is not None:
            cells[name] = plain(value)
    _put(json, "data", record.data)
    cells["data"] = plain(record.data)
    return Row(json, cells)


def tombstone_row(gap: Tombstone) -> Row:
    """Loss, said where it happened."""
    json: Json = {
        "tombstone": {
            "gap_from": gap.gap_from,
            "gap_to": gap.gap_to,
            "reason": gap.reason,
            "missed": gap.missed,
        }
    }
    text = f"records {gap.gap_from} to {gap.gap_to} are gone ({gap.reason})"
    return Row(json, {"notice": text})


def row_of(value: msgspec.Struct, **cells: str) -> Row:
    """Any of our structs; its fields as text, with better text for some."""
    json = msgspec.to_builtins(value)
    texts = {name: text(found) for name, found in json.items()}
    return Row(json, texts | cells)


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
        return ", ".join(f"{name}={text(item)}" for name, item in value.items()) or "-"
    return plain(str(value))


def plain(value: bytes | str) -> str:
    """Text on one line without control characters; base64 when the bytes are no text."""
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


def moment(ts: int) -> str:
    """Microseconds as ISO 8601 in UTC."""
    try:
        return (EPOCH + timedelta(microseconds=ts)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return str(ts)


def size(count: int) -> str:
    """Bytes, rounded for reading."""
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


def _put(json: Json, name: str, value: bytes | str | None) -> None:
    if isinstance(value, bytes):
        decoded = utf8(value)
        if decoded is None:
            json[f"{name}_base64"] = base64.b64encode(value).decode()
            return
        value = decoded
    json[name] = value
