"""Line protocol: any text is tables of points or ``Invalid``, and all parsers agree."""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import StrandlineError
from strandline.views.metrics.ingest.strict_parser import PointTable, parse, parse_exactly

SEEDS = (
    b"cpu,host=a usage=0.5,idle=1i 1700000000",
    b"cpu,host=a usage=0.5 1\ncpu,host=a usage=0.6 2\ncpu,host=b usage=0.7 3",
    b'weather text="a \\"b\\"",ok=t\n# comment\n\n',
    b"a\\ b,c\\=d=e\\,f g=1u,h=-2e5 -1\r\n",
)
_NOW = 1_700_000_000_000_000_000


def check(data: bytes) -> None:
    found = _tables(lambda: parse(data, precision="s", now_ns=_NOW))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert found is None
        return
    exact = _tables(lambda: parse_exactly(text, unit=1_000_000_000, now_ns=_NOW))
    assert (found is None) == (exact is None)
    if found is not None and exact is not None:
        assert _points(found) == _points(exact)


def _tables(read: Callable[[], list[PointTable]]) -> list[PointTable] | None:
    try:
        return read()
    except StrandlineError:
        return None


def _points(tables: list[PointTable]) -> list[str]:
    """Every field of every row with its series and time, in no order."""
    found = []
    for table in tables:
        for row, at in enumerate(table.at):
            place = row if table.rows is None else table.rows[row]
            series = table.series[0 if len(table.series) == 1 else place]
            for (field, kind), column in zip(table.fields, table.columns, strict=True):
                found.append(repr((table.measurement, series, field, kind, int(at), column[row])))
    return sorted(found)
