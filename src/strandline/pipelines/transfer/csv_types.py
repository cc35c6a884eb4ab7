"""Types of the columns of CSV files: which text becomes a JSON number or a boolean. Pure.

1. A column that is a field of the topic's schema has the type of the field: of ``i64`` and ``u64``
   whole numbers become numbers, of ``f64`` all numbers, of ``bool`` the words true and false.
   Other types stay text.
2. Any other column has numbers if all its values in the whole file are numbers, else text.

A number has the syntax of JSON, with at most 18 digits before the dot and an exponent of two
digits: 007, +1, 1,5 and longer numbers are text. A number keeps its digits as they are written. An
empty value is null and does not determine the type of its column. A value that is not of its
column's type stays text: with a schema it is counted as a misfit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.schema import parse_type

CsvType = Literal["whole", "number", "bool", "text"]

_WHOLE = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBER = _WHOLE + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_PATTERNS = {
    "whole": re.compile(_WHOLE, re.ASCII),
    "number": re.compile(_NUMBER, re.ASCII),
    "bool": re.compile("true|false"),
}
_BY_KIND: dict[str, CsvType] = {"i64": "whole", "u64": "whole", "f64": "number", "bool": "bool"}


def schema_types(fields: Mapping[str, str]) -> dict[str, CsvType]:
    """The types that the fields of a schema give to columns."""
    return {
        name: _BY_KIND.get(parse_type(text, name).name, "text") for name, text in fields.items()
    }


class NumberColumns:
    """Finds the columns of a file that have only numbers. Owned by one thread."""

    def __init__(self) -> None:
        self._numbers: dict[str, bool] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Check more rows of the file, as columns of bytes."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not self._numbers.get(name, True) or column.null_count == len(column):
                continue
            matches = pc.match_substring_regex(column, f"^{_NUMBER}$")
            self._numbers[name] = bool(pc.all(matches).as_py())

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, are_numbers in self._numbers.items() if are_numbers)


def column_types(
    fields: Mapping[str, CsvType], numbers: Iterable[str]
) -> tuple[tuple[str, CsvType], ...]:
    """The types of a file's columns, without those that stay text."""
    types: dict[str, CsvType] = {**dict.fromkeys(numbers, "number"), **fields}
    return tuple((name, kind) for name, kind in types.items() if kind != "text")


def typed_values(values: Sequence[str | None], kind: str) -> list[Any]:
    """Texts of a column as JSON values of its type; those of another type stay text."""
    fits = _PATTERNS[kind].fullmatch
    return [
        msgspec.Raw(value.encode()) if value is not None and fits(value) else value
        for value in values
    ]
