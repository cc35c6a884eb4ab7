"""What a table may be defined as, and what it may become. Pure.

A new version takes every event that an older one took, so rows of all versions are told in the
newest (``upcast.py``). Allowed are:

    a field more, if it is optional
    a required field becomes optional
    u64, i64    -> f64         from 2^53 on a number is rounded to the nearest that f64 has
    date        -> datetime    the first moment of the day in UTC
    enum        -> more variants, or string

Everything else is refused. Fields and variants keep their order, new ones stand behind: how a
definition sorts them changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.errors import Invalid
from strandline.schema import Kind, Schema, checked_fields, kind_of

_WIDENED = {("u64", "f64"), ("i64", "f64"), ("date", "datetime"), ("enum", "string")}

_WHY_NOT = {
    ("f64", "u64"): "fractions would be lost",
    ("f64", "i64"): "fractions would be lost",
    ("u64", "i64"): "numbers from 2^63 on do not fit",
    ("i64", "u64"): "numbers below 0 do not fit",
    ("datetime", "date"): "the time of day would be lost",
    ("string", "enum"): "strings that are no variant do not fit",
}


def check_fields(given: Mapping[str, object]) -> dict[str, str]:
    """The fields of a table, each type in its one way to be written, or a clear error."""
    fields = checked_fields(given)
    if not fields:
        raise Invalid('a table has at least one field: {"plan": "string"}')
    return fields


def check_change(old: Schema, new_fields: dict[str, str]) -> Schema:
    """The next version, the same schema when nothing changes, or a clear error."""
    given = check_fields(new_fields)
    if not old.version:
        return Schema(1, given)
    gone = [name for name in old.fields if name not in given]
    if gone:
        raise Invalid(_gone(gone[0], given))
    fields = {name: _changed(name, old.fields[name], given[name]) for name in old.fields}
    for name, told in given.items():
        if name not in fields:
            fields[name] = _added(name, told)
    return old if fields == old.fields else Schema(old.version + 1, check_fields(fields))


def _gone(name: str, given: dict[str, str]) -> str:
    renamed = [other for other in given if other.lower() == name.lower()]
    hint = f", not {renamed[0]!r}" if renamed else ""
    return f"field {name!r} cannot be removed, events have it: keep it as {name!r}{hint}"


def _added(name: str, told: str) -> str:
    if not kind_of(told, name).optional:
        raise Invalid(
            f"new field {name!r} must be optional, older events lack it: write {told + ' | null'!r}"
        )
    return told


def _changed(name: str, old_text: str, new_text: str) -> str:
    """The type as it is from now on."""
    old, new = kind_of(old_text, name), kind_of(new_text, name)
    if old.optional and not new.optional:
        raise Invalid(
            f"field {name!r} cannot become required, older events may lack it: "
            f"write {new_text + ' | null'!r}"
        )
    if old.name == new.name == "enum":
        return str(_with_variants(name, old, new))
    if old.name != new.name and (old.name, new.name) not in _WIDENED:
        why = _WHY_NOT.get((old.name, new.name), "older events do not fit")
        raise Invalid(
            f"field {name!r} cannot become {new.name}, it is {old.name}: {why}. "
            "Define another field, or another table"
        )
    return str(new)


def _with_variants(name: str, old: Kind, new: Kind) -> Kind:
    gone = [variant for variant in old.variants if variant not in new.variants]
    if gone:
        raise Invalid(
            f"field {name!r} cannot lose the variant {gone[0]!r}, events have it: keep it"
        )
    added = tuple(variant for variant in new.variants if variant not in old.variants)
    return Kind("enum", old.variants + added, new.optional)
