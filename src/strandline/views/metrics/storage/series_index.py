"""The series of one measurement: lookup by tags, selection by matchers.

A series is a number, which is never used again. Its tags are stored in columns, one for each tag,
as numbers of the tag's values, 0 for a missing tag: so a hundred thousand series are compared at
once. A missing tag is equal to an empty one::

    host=a     the tag is a               host!=a    it is not a, or missing
    host=      the tag is missing         host!=     it is not missing
    host=~re   the expression matches     host!~re   it does not match the value, "" if missing

Expressions are those of RE2: their time is linear in the text for every expression. They match
anywhere in a value unless they are anchored with ^ and $.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from strandline.errors import Invalid
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.value_types import INT64_MIN, Ints

CHUNK_BITS = 12
"""The times of last points are saved in chunks of 4,096 series."""

Operator = Literal["=", "!=", "=~", "!~"]


class Matcher(msgspec.Struct, frozen=True):
    """A condition on one tag."""

    tag: str
    operator: Operator
    value: str


class _TagColumn:
    """The values of one tag for all series."""

    def __init__(self, rows: int) -> None:
        self.numbers = array("i", bytes(4 * rows))
        self.values: list[str] = [""]
        self.by_value: dict[str, int] = {"": 0}

    def append(self, value: str) -> None:
        number = self.by_value.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        self.numbers.append(number)

    def array(self) -> NDArray[np.int32]:
        return np.array(self.numbers, dtype=np.int32)


class SeriesTable:
    """The series of one measurement. Owned by one thread."""

    def __init__(self) -> None:
        self.next_number = 0
        self.by_tags: dict[bytes, int] = {}
        self._packed: list[bytes] = []
        self._numbers = array("q")
        self._last_at = np.empty(0, dtype="<i8")
        self._tags: dict[str, _TagColumn] = {}
        self._text_bytes = 0
        self._touched: set[int] = set()

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def ram(self) -> int:
        """Approximate bytes of memory of the table."""
        columns = sum(4 * len(tag.numbers) + 160 * len(tag.values) for tag in self._tags.values())
        return (
            sys.getsizeof(self.by_tags)
            + sys.getsizeof(self._packed)
            + self._text_bytes
            + 40 * len(self._packed)
            + columns
        )

    def add(self, packed: bytes, number: int | None = None) -> int:
        """Add a series with these tags and return its number; ``number`` for a saved series."""
        if number is None:
            number = self.next_number
        self.next_number = max(self.next_number, number + 1)
        rows = len(self._packed)
        tags = tags_of(packed)
        for tag in tags:
            if tag not in self._tags:
                self._tags[tag] = _TagColumn(rows)
        for tag, column in self._tags.items():
            column.append(tags.get(tag, ""))
        self.by_tags[packed] = number
        self._packed.append(packed)
        self._numbers.append(number)
        self._text_bytes += sys.getsizeof(packed)
        if rows >= len(self._last_at):
            grown = np.full(max(16, 2 * rows), INT64_MIN, dtype="<i8")
            grown[:rows] = self._last_at[:rows]
            self._last_at = grown
        return number

    def numbers(self) -> Ints:
        """All series, in order."""
        return np.array(self._numbers, dtype="<i8")

    def match(self, matchers: Sequence[Matcher]) -> Ints:
        """The series for which all matchers are true, in order."""
        fits = np.ones(len(self._packed), dtype=bool)
        for matcher in matchers:
            fits &= self._fits(matcher)
        return self.numbers()[fits]

    def packed(self, number: int) -> bytes:
        """The tags of a series in canonical form."""
        return self._packed[int(self._rows(np.array([number]))[0])]

    def packed_many(self, numbers: Ints) -> list[bytes]:
        packed = self._packed
        return [packed[row] for row in self._rows(numbers).tolist()]

    def ranks(self, numbers: Ints) -> Ints:
        """The rank of each of the series in the order of tags."""
        packed = self.packed_many(numbers)
        order = sorted(range(len(packed)), key=packed.__getitem__)
        ranks = np.empty(len(packed), dtype="<i8")
        ranks[order] = np.arange(len(packed))
        return ranks

    def groups(self, numbers: Ints, tags: Sequence[str]) -> tuple[list[dict[str, str]], Ints]:
        """Group series by these tags: the groups in order, and the group of each series."""
        if not len(numbers):
            return [], np.empty(0, dtype="<i8")
        rows = self._rows(numbers)
        columns = [self._tags.get(tag) or _TagColumn(len(self._packed)) for tag in tags]
        keys = np.zeros(len(numbers), dtype="<i8")
        for column in columns:
            # Renumbered densely after each tag, so that the product of two does not overflow.
            keys = keys * len(column.values) + column.array()[rows]
            keys = np.unique(keys, return_inverse=True)[1]
        _, firsts, group = np.unique(keys, return_index=True, return_inverse=True)
        codes = [column.array()[rows[firsts]].tolist() for column in columns]
        values = [
            tuple(column.values[n] for column, n in zip(columns, each, strict=True))
            for each in (zip(*codes, strict=True) if codes else [()])
        ]
        order = sorted(range(len(values)), key=values.__getitem__)
        ranks = np.empty(len(values), dtype="<i8")
        ranks[order] = np.arange(len(values))
        named = [dict(zip(tags, values[number], strict=True)) for number in order]
        return named, ranks[group]

    def record_last_points(self, numbers: Ints, at: Ints) -> None:
        """Record the times of last points of series, each of which is listed once."""
        rows = self._rows(numbers)
        self._last_at[rows] = np.maximum(self._last_at[rows], at)
        self._touched.update(np.unique(numbers >> CHUNK_BITS).tolist())

    def last_at(self, numbers: Ints) -> Ints:
        """The times of the last points of these series, from ``seen``."""
        return self._last_at[self._rows(numbers)]

    def pop_changed_chunks(self) -> list[tuple[int, Ints, Ints]]:
        """Chunks that changed since the last call: number, series, times of last points."""
        numbers = self.numbers()
        chunks = []
        for chunk in sorted(self._touched):
            bounds = numbers.searchsorted([chunk << CHUNK_BITS, (chunk + 1) << CHUNK_BITS])
            part = slice(int(bounds[0]), int(bounds[1]))
            chunks.append((chunk, numbers[part], self._last_at[part]))
        self._touched.clear()
        return chunks

    def count_values(self, numbers: Ints) -> dict[str, int]:
        """The number of values of each tag among these series."""
        rows = self._rows(numbers)
        counts = {}
        for tag, column in sorted(self._tags.items()):
            used = np.unique(column.array()[rows])
            count = int((used > 0).sum())
            if count:
                counts[tag] = count
        return counts

    def without(self, numbers: Ints) -> SeriesTable:
        """A copy of the table without some series."""
        is_kept = np.ones(len(self._packed), dtype=bool)
        is_kept[self._rows(numbers)] = False
        table = SeriesTable()
        for row in np.flatnonzero(is_kept).tolist():
            table.add(self._packed[row], self._numbers[row])
        table._last_at[: len(table)] = self._last_at[: len(is_kept)][is_kept]
        table.next_number = self.next_number
        table._touched = self._touched | set((numbers >> CHUNK_BITS).tolist())
        return table

    def _rows(self, numbers: Ints) -> Ints:
        """The rows of series. Numbers are ascending; without gaps they are the rows."""
        if self.next_number == len(self._packed):
            return numbers
        return self.numbers().searchsorted(numbers)

    def _fits(self, matcher: Matcher) -> NDArray[np.bool_]:
        column = self._tags.get(matcher.tag) or _TagColumn(len(self._packed))
        if matcher.operator in ("=", "!="):
            number = column.by_value.get(matcher.value, -1)
            fits: NDArray[np.bool_] = column.array() == number
        else:
            fits = _match_regex(matcher, column.values)[column.array()]
        return ~fits if matcher.operator.startswith("!") else fits


def _match_regex(matcher: Matcher, values: Sequence[str]) -> NDArray[np.bool_]:
    try:
        matches = pc.match_substring_regex(pa.array(values, pa.string()), matcher.value)
    except pa.ArrowInvalid as error:
        reason = str(error).rpartition("pattern: ")[2] or str(error)
        raise Invalid(f"{matcher.value!r} is not a regular expression: {reason}") from error
    fits: NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False)
    return fits
