"""Error messages of events that do not fit their table: field, expected and actual value. Pure.

Slow: only called for rejected events. The message has the first of these reasons: not a JSON
object, an unknown field, a missing one, a value that does not fit, a duplicate field.
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
from strandline.lake.files.typed_columns import DECODE_ERRORS, reader_of
from strandline.schema import FieldType, FieldTypeName, Schema

_EXCERPT_MAX = 60
"""Characters of a value in an error."""
_NAMES_MAX = 32
"""Names in an error."""

_EXPECTED: dict[FieldTypeName, str] = {
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


def validation_error(schema: Schema, event: str, data: bytes) -> Invalid:
    """The error for an event that does not fit."""
    name = event or "event"
    try:
        parts = _PARTS.decode(data)
    except msgspec.ValidationError:
        return Invalid(f"{name}: expected a JSON object, got {_excerpt(data)}")
    except UnicodeDecodeError:
        return Invalid(f"{name}: expected a JSON object, got text that is not UTF-8")
    except RecursionError:
        return Invalid(f"{name}: expected a JSON object of plain values, got deeply nested ones")
    except msgspec.DecodeError as error:
        return Invalid(f"{name}: expected a JSON object, got {_excerpt(data)}: {error}")
    prefix = f"{event}." if event else ""
    return Invalid(prefix + _reason(schema, parts, data))


def _reason(schema: Schema, parts: dict[str, msgspec.Raw], data: bytes) -> str:
    for field in parts:
        if field not in schema.fields:
            return _unknown(field, schema)
    kinds = schema.types()
    for field, kind in kinds.items():
        if field not in parts and not kind.optional:
            return f"{field}: missing, expected {_expected(kind)}"
    for field, kind in kinds.items():
        if field in parts and not _fits(parts[field], kind):
            return f"{field}: expected {_expected(kind)}, got {_actual(parts[field], kind)}"
    duplicates = duplicate_keys(data)
    return f"{duplicates[0] if duplicates else 'a field'}: comes twice"


def _unknown(field: str, schema: Schema) -> str:
    """The error for an unknown field, with a similar field of the schema."""
    text = _excerpt(field.encode(errors="replace"))
    known = {name.lower(): name for name in schema.fields}
    if field.lower() in known:
        return f"{text}: unknown field, it is written {known[field.lower()]!r}"
    near = get_close_matches(field, schema.fields, 1)
    if near:
        return f"{text}: unknown field, did you mean {near[0]!r}?"
    return f"{text}: unknown field, there are {_list(schema.fields)}"


def _fits(part: msgspec.Raw, kind: FieldType) -> bool:
    if bytes(part) == b"null":
        return kind.optional
    return reader_of(kind)(part) is not None


def _expected(kind: FieldType) -> str:
    if kind.name == "enum":
        text = f"one of {_list(kind.variants)}"
    else:
        text = _EXPECTED[kind.name]
    return f"{text} or null" if kind.optional else text


def _actual(part: msgspec.Raw, kind: FieldType) -> str:
    """The actual value, with the probable mistake."""
    excerpt = _excerpt(bytes(part))
    if excerpt == "null":
        return "null: it is not optional"
    if not excerpt.startswith('"'):
        return excerpt
    text = _read(_TEXT, part)
    if text is None:
        return "text that is not UTF-8, or half of a character"
    if kind.name == "enum":
        matches = [each for each in kind.variants if each.casefold() == text.casefold()]
        if matches:
            return f'{excerpt}: only the case differs from "{matches[0]}"'
    if kind.name in ("datetime", "date") and _read(_WITHOUT_OFFSET, part) is not None:
        return f"{excerpt}: it lacks an offset, such as Z for UTC"
    return excerpt


def _read(decoder: Any, part: msgspec.Raw) -> Any:
    try:
        return decoder.decode(part)
    except DECODE_ERRORS:
        return None


def duplicate_keys(data: bytes) -> list[str]:
    """Duplicate keys of a JSON object of plain values."""
    try:
        pairs = json.loads(data.decode(errors="replace"), object_pairs_hook=list, parse_int=str)
    except (ValueError, RecursionError):
        return ["a field"]  # of a nested value, which a duplicate replaces
    counts = Counter(key for key, _ in pairs)
    return [key for key, count in counts.items() if count > 1]


def _list(names: Iterable[str]) -> str:
    names = list(names)
    text = ", ".join(f'"{name}"' for name in names[:_NAMES_MAX])
    return text if len(names) <= _NAMES_MAX else f"{text} and {len(names) - _NAMES_MAX} more"


def _excerpt(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return (text if len(text) <= _EXCERPT_MAX else text[:_EXCERPT_MAX] + "…") or "nothing"
