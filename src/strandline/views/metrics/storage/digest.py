"""A checksum of the content of a metrics view, independent of the layout of its points.

Every column of points, one field of one series, has a checksum of its names, times and bits; the
checksums are added, so the order in which series were created does not matter. The checksum of
names, rules and floors is included.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from xxhash import xxh3_128_digest, xxh3_128_intdigest

from strandline.views.metrics.rule_progress import RuleProgress
from strandline.views.metrics.storage.catalog import Field, Measurement, MetricsCatalog
from strandline.views.metrics.storage.point_reader import PointRange, PointReader
from strandline.views.metrics.value_types import INT64_MAX

_MODULUS = 1 << 128


def digest_of(catalogue: MetricsCatalog, standings: RuleProgress, reader: PointReader) -> bytes:
    """The checksum, of 16 bytes."""
    total = 0
    names = []
    for measurement in catalogue.sorted():
        fields = [measurement.fields[name] for name in sorted(measurement.fields)]
        names.append((measurement.name, measurement.floor, [(f.name, f.kind) for f in fields]))
        for field in fields:
            total += sum(number for _, number in _columns(measurement, field, reader))
    rules = [
        (progress.rule, progress.until, sorted(progress.stale)) for progress in standings.all()
    ]
    header = msgspec.msgpack.encode((names, rules))
    return xxh3_128_digest((total % _MODULUS).to_bytes(16, "little") + header)


def parts_of(
    catalogue: MetricsCatalog, standings: RuleProgress, reader: PointReader
) -> dict[bytes, bytes]:
    """The same in parts: a checksum for each column, the state of each measurement and rule."""
    parts = {}
    for measurement in catalogue.sorted():
        fields = [measurement.fields[name] for name in sorted(measurement.fields)]
        state = (measurement.floor, [(field.name, field.kind) for field in fields])
        parts[b"m" + measurement.name.encode()] = msgspec.msgpack.encode(state)
        for field in fields:
            for name, number in _columns(measurement, field, reader):
                parts[b"p" + name] = number.to_bytes(16, "little")
    for progress in standings.all():
        name = b"r" + " ".join(progress.name).encode()
        parts[name] = msgspec.msgpack.encode(
            (progress.rule, progress.until, sorted(progress.stale))
        )
    return parts


def _columns(
    measurement: Measurement, field: Field, reader: PointReader
) -> Iterator[tuple[bytes, int]]:
    """The name of each column of a field, and its checksum."""
    name = f"{measurement.name}\x00{field.name}\x00{int(field.kind)}\x00".encode()
    series = measurement.series
    stretch = PointRange(field.number, series.numbers(), measurement.floor, INT64_MAX)
    for points in reader.series(stretch):
        starts = np.flatnonzero(np.append(True, points.series[1:] != points.series[:-1]))
        if not len(points.at):
            continue
        packed = series.packed_many(points.series[starts])
        bounds = [*starts.tolist(), len(points.at)]
        for tags, first, after in zip(packed, bounds, bounds[1:], strict=False):
            at, bits = points.at[first:after], points.bits[first:after]
            body = b"".join((name, tags, b"\x01", at.tobytes(), bits.tobytes()))
            yield name + tags, xxh3_128_intdigest(body)
