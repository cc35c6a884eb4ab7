"""The names of a fold: measurements, their fields and their series.

The kind of a field is that of the first record with it, and never changes. A write of points of
another kind is rejected; in a plain record they are skipped and counted.

A series is removed when all its points are below the floor. Measurements and fields stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from strandline.views.metrics.storage.column_codec import pack, unpack
from strandline.views.metrics.storage.metadata import Metadata
from strandline.views.metrics.storage.series_index import SeriesTable
from strandline.views.metrics.value_types import INT64_MIN, Ints, ValueKind


class Field(msgspec.Struct, frozen=True, array_like=True):
    """A field of a measurement."""

    number: int
    measurement: int
    name: str
    kind: ValueKind
    defined_by: int
    """The seq of the first record with the field."""


class _StoredMeasurement(msgspec.Struct, array_like=True):
    name: str
    floor: int
    floor_seq: int
    next_series: int


class _Chunk(msgspec.Struct, array_like=True):
    """The times of the last points of some series."""

    count: int
    series: bytes
    last_at: bytes


class Measurement:
    """One measurement. Owned by one thread."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.floor = INT64_MIN
        self.floor_seq = 0
        self.fields: dict[str, Field] = {}
        self.series = SeriesTable()
        self.changed = True
        self.new_series: list[tuple[int, bytes]] = []
        self.gone_series: list[int] = []


class MetricsCatalog:
    """All names of a fold. Owned by one thread."""

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.fields: list[Field] = []
        self._by_name: dict[str, Measurement] = {}
        self.series_count = 0
        self._fields_saved = 0
        self._floors = np.empty(0, dtype="<i8")

    @property
    def ram(self) -> int:
        return sum(measurement.series.ram for measurement in self.measurements)

    def find(self, name: str) -> Measurement | None:
        return self._by_name.get(name)

    def measurement(self, name: str) -> Measurement:
        """The measurement of this name; a new one if there is none."""
        measurement = self._by_name.get(name)
        if measurement is None:
            measurement = Measurement(len(self.measurements), name)
            self._add(measurement)
        return measurement

    def field(self, measurement: Measurement, name: str, kind: ValueKind, seq: int) -> Field | None:
        """The field of this name, or a new one; None if it has another kind."""
        field = measurement.fields.get(name)
        if field is None:
            field = Field(len(self.fields), measurement.number, name, kind, seq)
            measurement.fields[name] = field
            self.fields.append(field)
        return field if field.kind is kind else None

    def numbers_of(self, measurement: Measurement, series: Sequence[bytes]) -> Ints:
        """The numbers of series, by their tags; new series get a number."""
        numbers = list(map(measurement.series.by_tags.get, series))
        if None in numbers:
            numbers = [self.number_of(measurement, packed) for packed in series]
        return np.array(numbers, dtype="<i8")

    def number_of(self, measurement: Measurement, packed: bytes) -> int:
        """The number of one series; a new series gets a number."""
        number = measurement.series.by_tags.get(packed)
        if number is None:
            number = measurement.series.add(packed)
            measurement.new_series.append((number, packed))
            self.series_count += 1
        return number

    def floors(self) -> Ints:
        """The floor of each field."""
        if len(self._floors) != len(self.fields):
            floors = [self.measurements[field.measurement].floor for field in self.fields]
            self._floors = np.array(floors, dtype="<i8")
        return self._floors

    def raise_floor(self, measurement: Measurement, floor: int, seq: int) -> int:
        """Raise a floor; return the seq of the record with the floor before, or 0."""
        before, measurement.floor_seq = measurement.floor_seq, seq
        measurement.floor = max(measurement.floor, floor)
        measurement.changed = True
        self._floors = np.empty(0, dtype="<i8")
        return before

    def forget(self, measurement: Measurement, numbers: Ints) -> None:
        """Remove series without points."""
        if len(numbers):
            measurement.series = measurement.series.without(numbers)
            self.series_count -= len(numbers)
            lost = set(numbers.tolist())
            measurement.gone_series += lost
            measurement.new_series = [one for one in measurement.new_series if one[0] not in lost]

    def save(self, facts: Metadata) -> None:
        """Write changes to the metadata."""
        for field in self.fields[self._fields_saved :]:
            facts.put("f", field.number, fact=field)
        self._fields_saved = len(self.fields)
        for measurement in self.measurements:
            self._save_series(measurement, facts)
            if measurement.changed:
                facts.put("m", measurement.number, fact=_stored(measurement))
                measurement.changed = False

    def load(self, facts: Metadata) -> None:
        """Load the saved names."""
        for (number,), stored in facts.all("m", kind=_StoredMeasurement):
            measurement = Measurement(number, stored.name)
            measurement.floor, measurement.floor_seq = stored.floor, stored.floor_seq
            measurement.changed = False
            self._add(measurement)
            for (_, series), packed in facts.all("s", number, kind=bytes):
                measurement.series.add(packed, series)
            measurement.series.next_number = stored.next_series
            self.series_count += len(measurement.series)
            for _, chunk in facts.all("t", number, kind=_Chunk):
                numbers = unpack(chunk.series, chunk.count, ValueKind.INT)
                measurement.series.record_last_points(
                    numbers, unpack(chunk.last_at, chunk.count, ValueKind.INT)
                )
            measurement.series.pop_changed_chunks()
        for _, field in facts.all("f", kind=Field):
            self.fields.append(field)
            self.measurements[field.measurement].fields[field.name] = field
        self._fields_saved = len(self.fields)

    def _save_series(self, measurement: Measurement, facts: Metadata) -> None:
        number = measurement.number
        for series in measurement.gone_series:
            facts.delete("s", number, series)
        if measurement.new_series or measurement.gone_series:
            facts.put_many("s", [((number, n), packed) for n, packed in measurement.new_series])
            measurement.changed = True
        measurement.new_series, measurement.gone_series = [], []
        for chunk, numbers, last_at in measurement.series.pop_changed_chunks():
            if len(numbers):
                packed = pack(numbers, ValueKind.INT), pack(last_at, ValueKind.INT)
                facts.put("t", number, chunk, fact=_Chunk(len(numbers), *packed))
            else:
                facts.delete("t", number, chunk)

    def _add(self, measurement: Measurement) -> None:
        assert measurement.number == len(self.measurements), "numbers are indices"
        self.measurements.append(measurement)
        self._by_name[measurement.name] = measurement

    def sorted(self) -> Iterator[Measurement]:
        """Measurements by name."""
        for name in sorted(self._by_name):
            yield self._by_name[name]


def _stored(measurement: Measurement) -> _StoredMeasurement:
    return _StoredMeasurement(
        measurement.name, measurement.floor, measurement.floor_seq, measurement.series.next_number
    )
