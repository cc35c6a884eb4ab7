"""Which definitions of a table are valid, and which changes of one. Pure.

A new version accepts every event that an older one accepted, so rows of all versions are returned
in the newest (``upcast.py``). Allowed are:

    a new field, if it is optional
    a required field becomes optional
    u64, i64    -> f64         numbers from 2^53 on are rounded to the nearest f64
    date        -> datetime    midnight in UTC
    enum        -> more variants, or string

Every other change is rejected. Fields and variants keep their order and new ones are appended, in
whatever order a new definition lists them.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.errors import Invalid
from strandline.schema import FieldType, Schema, checked_fields, parse_type

_WIDENED = {("u64", "f64"), ("i64", "f64"), ("date", "datetime"), ("enum", "string")}

_WHY_NOT = {
    ("f64", "u64"): "fractions would be lost",
    ("f64", "i64"): "fractions would be lost",
    ("u64", "i64"): "numbers from 2^63 on do not fit",
    ("i64", "u64"): "numbers below 0 do not fit",
    ("datetime", "date"): "the time of day would be lost",
    ("string", "enum"): "strings that are not a variant do not fit",
}


def check_fields(definition: Mapping[str, object]) -> dict[str, str]:
    """The fields of a table with their types in canonical form, or an error."""
    fields = checked_fields(definition)
    if not fields:
        raise Invalid('a table has at least one field: {"plan": "string"}')
    return fields


def check_change(old: Schema, new_fields: dict[str, str]) -> Schema:
    """The next version, the same schema if nothing changes, or an error."""
    checked = check_fields(new_fields)
    if not old.version:
        return Schema(1, checked)
    removed = [name for name in old.fields if name not in checked]
    if removed:
        raise Invalid(_removal_error(removed[0], checked))
    fields = {name: _changed_type(name, old.fields[name], checked[name]) for name in old.fields}
    for name, text in checked.items():
        if name not in fields:
            fields[name] = _check_added(name, text)
    return old if fields == old.fields else Schema(old.version + 1, check_fields(fields))


def _removal_error(name: str, fields: dict[str, str]) -> str:
    renamed = [other for other in fields if other.lower() == name.lower()]
    hint = f", not {renamed[0]!r}" if renamed else ""
    return f"field {name!r} cannot be removed, events have it: keep it as {name!r}{hint}"


def _check_added(name: str, text: str) -> str:
    if not parse_type(text, name).optional:
        raise Invalid(
            f"new field {name!r} must be optional, older events lack it: write {text + ' | null'!r}"
        )
    return text


def _changed_type(name: str, old_text: str, new_text: str) -> str:
    """The resulting type of a field."""
    old, new = parse_type(old_text, name), parse_type(new_text, name)
    if old.optional and not new.optional:
        raise Invalid(
            f"field {name!r} cannot become required, older events may lack it: "
            f"write {new_text + ' | null'!r}"
        )
    if old.name == new.name == "enum":
        return str(_merge_variants(name, old, new))
    if old.name != new.name and (old.name, new.name) not in _WIDENED:
        why = _WHY_NOT.get((old.name, new.name), "older events do not fit")
        raise Invalid(
            f"field {name!r} cannot become {new.name}, it is {old.name}: {why}. "
            "Define another field, or another table"
        )
    return str(new)


def _merge_variants(name: str, old: FieldType, new: FieldType) -> FieldType:
    removed = [variant for variant in old.variants if variant not in new.variants]
    if removed:
        raise Invalid(
            f"field {name!r} cannot lose the variant {removed[0]!r}, events have it: keep it"
        )
    added = tuple(variant for variant in new.variants if variant not in old.variants)
    return FieldType("enum", old.variants + added, new.optional)
