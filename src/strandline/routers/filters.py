"""Which records a router takes: a condition on the tag, the node or the key. Pure.

Written as the topics API writes it:

    ["tag", "Eq", "eu"]            this tag
    ["tag", "Glob", "eu-*"]        tags that begin so
    ["tag", "In", ["eu", "us"]]    one of these tags
    "eu"  "eu-*"                   the first two, in short

``node`` and ``key`` stand where ``tag`` does. A record without the field is never taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from strandline.errors import Invalid
from strandline.log.read.page import Columns

Field = Literal["tag", "node", "key"]
Operator = Literal["Eq", "Glob", "In"]

VALUES_MAX = 1_000
VALUE_SIZE_MAX = 4096


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A condition that a record meets or does not. Make one with ``parse``."""

    field: Field
    operator: Operator
    value: str | tuple[str, ...]

    def places(self, columns: Columns) -> list[int]:
        """The places of the records that meet it, in order."""
        values = _texts(columns, self.field)
        if self.operator == "Glob":
            beginning = str(self.value)[:-1]
            return [
                place
                for place, value in enumerate(values)
                if value is not None and value.startswith(beginning)
            ]
        wanted = {self.value} if isinstance(self.value, str) else set(self.value)
        return [place for place, value in enumerate(values) if value in wanted]


def parse(given: object) -> Filter | None:
    """The filter that somebody has written, or a clear error; None takes everything."""
    if given is None or isinstance(given, Filter):
        return given
    if isinstance(given, str):
        given = ["tag", "Glob" if given.endswith("*") else "Eq", given]
    if not isinstance(given, Sequence) or len(given) != 3:
        raise Invalid(
            'a filter is ["tag", "Eq", VALUE], ["tag", "Glob", "BEGINNING*"] or '
            f'["tag", "In", [VALUES]], not {given!r}'
        )
    field, operator, value = given
    if field not in get_args(Field):
        raise Invalid(f"a filter looks at tag, node or key, not at {field!r}")
    if operator not in get_args(Operator):
        raise Invalid(f"a filter compares with Eq, Glob or In, not with {operator!r}")
    return Filter(field, operator, _checked(operator, value))


def _checked(operator: Operator, value: object) -> str | tuple[str, ...]:
    if operator == "In":
        if not isinstance(value, (list, tuple)) or not 0 < len(value) <= VALUES_MAX:
            raise Invalid(f"In wants a list of 1 to {VALUES_MAX} values")
        return tuple(_text(each) for each in value)
    text = _text(value)
    if operator == "Glob" and (not text.endswith("*") or "*" in text[:-1]):
        raise Invalid(f"Glob takes a beginning and one * at its end, not {text!r}")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(f"a filter compares with text, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"a filter's value is not valid Unicode: {error}") from error
    if size > VALUE_SIZE_MAX:
        raise Invalid(f"a filter's value has {VALUE_SIZE_MAX} bytes at most")
    return value


def _texts(columns: Columns, field: Field) -> Sequence[str | None]:
    if field == "tag":
        return columns.tags
    if field == "node":
        return columns.nodes
    # A key that is no text equals none: what cannot be decoded is kept apart by its escapes.
    return [None if key is None else key.decode("utf-8", "surrogateescape") for key in columns.keys]
