"""Why an event does not fit its table, in words: the field, what was expected and what came. Pure.

Slow: only events that were refused come here. One reason is told, the first of these: no JSON
object, an unknown field, a missing one, a value that does not fit, a field that comes twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import MISFITS, reader_of
from strandline.schema import Kind, KindName, Schema

_TOLD_MAX = 60
"""Characters of a value in an error."""
_NAMES_MAX = 32
"""Names in an error."""

_EXPECTED: dict[KindName, str] = {
    "string": "a string",
    "u64": "a whole number from 0 to 2^64 - 1",
    "i64": "a whole number from -2^63 to 2^63 - 1",
    "f64": "a number",
    "bool": "true or false",
    "datetime": "a time (2026-01-02T03:04:05Z, a day, or a number since 1970)",
    "date": "a day (2026-01-02, a time with an offset, or a number since 1970)",
}
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_WITHOUT_OFFSET = msgspec.json.Decoder(Annotated[datetime, Meta(tz=False)])


def refusal(schema: Schema, event: str, data: bytes) -> Invalid:
    """The error for an event that does not fit."""
    name = event or "event"
    try:
        parts = _PARTS.decode(data)
    except msgspec.ValidationError:
        return Invalid(f"{name}: expected a JSON object, got {_told(data)}")
    except UnicodeDecodeError:
        return Invalid(f"{name}: expected a JSON object, got text that is not UTF-8")
    except RecursionError:
        return Invalid(f"{name}: expected a JSON object of plain values, got many in one another")
    except msgspec.DecodeError as error:
        return Invalid(f"{name}: expected a JSON object, got {_told(data)}: {error}")
    prefix = f"{event}." if event else ""
    return Invalid(prefix + _reason(schema, parts, data))


def _reason(schema: Schema, parts: dict[str, msgspec.Raw], data: bytes) -> str:
    for field in parts:
        if field not in schema.fields:
            return _unknown(field, schema)
    kinds = schema.kinds()
    for field, kind in kinds.items():
        if field not in parts and not kind.optional:
            return f"{field}: missing, expected {_expected(kind)}"
    for field, kind in kinds.items():
        if field in parts and not _fits(parts[field], kind):
            return f"{field}: expected {_expected(kind)}, got {_came(parts[field], kind)}"
    twice = keys_twice(data)
    return f"{twice[0] if twice else 'a field'}: comes twice"


def _unknown(field: str, schema: Schema) -> str:
    """An error that says what the field may have been meant to be."""
    told = _told(field.encode(errors="replace"))
    known = {name.lower(): name for name in schema.fields}
    if field.lower() in known:
        return f"{told}: unknown field, it is written {known[field.lower()]!r}"
    near = get_close_matches(field, schema.fields, 1)
    if near:
        return f"{told}: unknown field, did you mean {near[0]!r}?"
    return f"{told}: unknown field, there are {_list(schema.fields)}"


def _fits(part: msgspec.Raw, kind: Kind) -> bool:
    if bytes(part) == b"null":
        return kind.optional
    return reader_of(kind)(part) is not None


def _expected(kind: Kind) -> str:
    if kind.name == "enum":
        told = f"one of {_list(kind.variants)}"
    else:
        told = _EXPECTED[kind.name]
    return f"{told} or null" if kind.optional else told


def _came(part: msgspec.Raw, kind: Kind) -> str:
    """What came instead, and what may be wrong with it."""
    told = _told(bytes(part))
    if told == "null":
        return "null: it is not optional"
    if not told.startswith('"'):
        return told
    text = _read(_TEXT, part)
    if text is None:
        return "text that is not UTF-8, or half of a character"
    if kind.name == "enum":
        alike = [each for each in kind.variants if each.casefold() == text.casefold()]
        if alike:
            return f'{told}: only the case differs from "{alike[0]}"'
    if kind.name in ("datetime", "date") and _read(_WITHOUT_OFFSET, part) is not None:
        return f"{told}: it lacks an offset, such as Z for UTC"
    return told


def _read(decoder: Any, part: msgspec.Raw) -> Any:
    try:
        return decoder.decode(part)
    except MISFITS:
        return None


def keys_twice(data: bytes) -> list[str]:
    """Keys of a JSON object of plain values that come more than once."""
    try:
        pairs = json.loads(data.decode(errors="replace"), object_pairs_hook=list, parse_int=str)
    except (ValueError, RecursionError):
        return ["a field"]  # which holds more than a plain value, and is replaced by another
    counts = Counter(key for key, _ in pairs)
    return [key for key, count in counts.items() if count > 1]


def _list(names: Iterable[str]) -> str:
    names = list(names)
    told = ", ".join(f'"{name}"' for name in names[:_NAMES_MAX])
    return told if len(names) <= _NAMES_MAX else f"{told} and {len(names) - _NAMES_MAX} more"


def _told(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return (text if len(text) <= _TOLD_MAX else text[:_TOLD_MAX] + "…") or "nothing"
