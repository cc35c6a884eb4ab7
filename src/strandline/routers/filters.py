"""Filter of a router: a condition on the tag, the node or the key of a record. Pure.

The form is that of the topics API:

    ["tag", "Eq", "eu"]            this tag
    ["tag", "Glob", "eu-*"]        tags with this prefix
    ["tag", "In", ["eu", "us"]]    one of these tags
    "eu"  "eu-*"                   short forms of the first two

``node`` and ``key`` may replace ``tag``. A record without the field never matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from strandline.errors import Invalid
from strandline.log.read.page import PageColumns

Field = Literal["tag", "node", "key"]
Operator = Literal["Eq", "Glob", "In"]

VALUES_MAX = 1_000
VALUE_SIZE_MAX = 4096


class RouterFilter(msgspec.Struct, frozen=True, array_like=True):
    """A condition on records. Create one with ``parse``."""

    field: Field
    operator: Operator
    value: str | tuple[str, ...]

    def matching_indices(self, columns: PageColumns) -> list[int]:
        """The indices of the matching records, in order."""
        values = _texts(columns, self.field)
        if self.operator == "Glob":
            prefix = str(self.value)[:-1]
            return [
                index
                for index, value in enumerate(values)
                if value is not None and value.startswith(prefix)
            ]
        accepted = {self.value} if isinstance(self.value, str) else set(self.value)
        return [index for index, value in enumerate(values) if value in accepted]


def parse_filter(source: object) -> RouterFilter | None:
    """Parse a filter in one of the forms above; raise Invalid. None matches all records."""
    if source is None or isinstance(source, RouterFilter):
        return source
    if isinstance(source, str):
        source = ["tag", "Glob" if source.endswith("*") else "Eq", source]
    if not isinstance(source, Sequence) or len(source) != 3:
        raise Invalid(
            'a filter is ["tag", "Eq", VALUE], ["tag", "Glob", "BEGINNING*"] or '
            f'["tag", "In", [VALUES]], not {source!r}'
        )
    field, operator, value = source
    if field not in get_args(Field):
        raise Invalid(f"a filter compares tag, node or key, not {field!r}")
    if operator not in get_args(Operator):
        raise Invalid(f"a filter compares with Eq, Glob or In, not with {operator!r}")
    return RouterFilter(field, operator, _check_value(operator, value))


def _check_value(operator: Operator, value: object) -> str | tuple[str, ...]:
    if operator == "In":
        if not isinstance(value, (list, tuple)) or not 0 < len(value) <= VALUES_MAX:
            raise Invalid(f"In needs a list of 1 to {VALUES_MAX} values")
        return tuple(_check_text(each) for each in value)
    text = _check_text(value)
    if operator == "Glob" and (not text.endswith("*") or "*" in text[:-1]):
        raise Invalid(f"Glob needs a prefix with one * at its end, not {text!r}")
    return text


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(f"a filter compares with text, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"a filter's value is not valid Unicode: {error}") from error
    if size > VALUE_SIZE_MAX:
        raise Invalid(f"a filter's value has {VALUE_SIZE_MAX} bytes at most")
    return value


def _texts(columns: PageColumns, field: Field) -> Sequence[str | None]:
    if field == "tag":
        return columns.tags
    if field == "node":
        return columns.nodes
    # A key that is not UTF-8 equals no value: surrogate escapes never occur in a filter's value.
    return [None if key is None else key.decode("utf-8", "surrogateescape") for key in columns.keys]
