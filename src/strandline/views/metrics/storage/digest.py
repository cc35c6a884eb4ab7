"""A checksum of what a metrics view shows, however its points are laid out.

Every column of points, one field of one series, has a checksum of its own, over its names, times
and bits; they are added up, so the order in which series became known does not matter. Names, rules
and floors come on top.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from xxhash import xxh3_128_digest, xxh3_128_intdigest

from strandline.views.metrics.rule_progress import Standings
from strandline.views.metrics.storage.catalog import Catalogue, Field, Measurement
from strandline.views.metrics.storage.point_reader import Reader, Stretch
from strandline.views.metrics.value_types import INT64_MAX

_MODULUS = 1 << 128


def digest_of(catalogue: Catalogue, standings: Standings, reader: Reader) -> bytes:
    """The checksum, of 16 bytes."""
    total = 0
    names = []
    for measurement in catalogue.sorted():
        fields = [measurement.fields[name] for name in sorted(measurement.fields)]
        names.append((measurement.name, measurement.floor, [(f.name, f.kind) for f in fields]))
        for field in fields:
            total += sum(number for _, number in _columns(measurement, field, reader))
    rules = [(one.rule, one.until, sorted(one.stale)) for one in standings.all()]
    known = msgspec.msgpack.encode((names, rules))
    return xxh3_128_digest((total % _MODULUS).to_bytes(16, "little") + known)


def parts_of(catalogue: Catalogue, standings: Standings, reader: Reader) -> dict[bytes, bytes]:
    """The same in parts: a checksum for each column, facts of each measurement, each rule."""
    found = {}
    for measurement in catalogue.sorted():
        fields = [measurement.fields[name] for name in sorted(measurement.fields)]
        facts = (measurement.floor, [(field.name, field.kind) for field in fields])
        found[b"m" + measurement.name.encode()] = msgspec.msgpack.encode(facts)
        for field in fields:
            for name, number in _columns(measurement, field, reader):
                found[b"p" + name] = number.to_bytes(16, "little")
    for one in standings.all():
        name = b"r" + " ".join(one.name).encode()
        found[name] = msgspec.msgpack.encode((one.rule, one.until, sorted(one.stale)))
    return found


def _columns(measurement: Measurement, field: Field, reader: Reader) -> Iterator[tuple[bytes, int]]:
    """The name of each column of a field, and its checksum."""
    name = f"{measurement.name}\x00{field.name}\x00{int(field.kind)}\x00".encode()
    series = measurement.series
    wanted = Stretch(field.number, series.numbers(), measurement.floor, INT64_MAX)
    for points in reader.series(wanted):
        starts = np.flatnonzero(np.append(True, points.series[1:] != points.series[:-1]))
        if not len(points.at):
            continue
        packed = series.packed_many(points.series[starts])
        bounds = [*starts.tolist(), len(points.at)]
        for tags, first, following in zip(packed, bounds, bounds[1:], strict=False):
            at, bits = points.at[first:following], points.bits[first:following]
            body = b"".join((name, tags, b"\x01", at.tobytes(), bits.tobytes()))
            yield name + tags, xxh3_128_intdigest(body)
