"""Promise: line protocol is read as InfluxDB documents it; an error says line, column and why."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.views.metrics.ingest.batch import PointTable
from strandline.views.metrics.ingest.strict_parser import parse
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.value_types import ValueKind, from_bits


def points(tables: list[PointTable]) -> list[tuple]:
    """Measurement, tags, field, kind, time and value of every point, in the order of the text."""
    found = []
    for table in tables:
        for number, at in enumerate(table.at.tolist()):
            place = number if table.rows is None else int(table.rows[number])
            series = table.series[0] if len(table.series) == 1 else table.series[place]
            order = number if table.order is None else int(table.order[number])
            for (field, kind), bits in zip(table.fields, table.columns, strict=True):
                value = from_bits(bits, kind).tolist()[number]
                row = (table.measurement, tags_of(series), field, kind.label, at, value)
                found.append((order, row))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def read(text: str | bytes, precision: str = "ns") -> list[tuple]:
    return points(parse(text, precision=precision, now_ns=77))


def test_a_line_is_measurement_tags_fields_and_time():
    assert read("cpu,host=a,zone=eu load=0.5,jobs=3i 12") == [
        ("cpu", {"host": "a", "zone": "eu"}, "jobs", "int64", 12, 3),
        ("cpu", {"host": "a", "zone": "eu"}, "load", "float64", 12, 0.5),
    ]


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        ("1", ValueKind.FLOAT, 1.0),
        ("-1.", ValueKind.FLOAT, -1.0),
        (".5", ValueKind.FLOAT, 0.5),
        ("+2.5e-3", ValueKind.FLOAT, 0.0025),
        ("1E5", ValueKind.FLOAT, 1e5),
        ("-0", ValueKind.FLOAT, -0.0),
        ("12i", ValueKind.INT, 12),
        ("-9223372036854775808i", ValueKind.INT, -(2**63)),
        ("9223372036854775807i", ValueKind.INT, 2**63 - 1),
        ("12u", ValueKind.INT, 12),
        ("9223372036854775807u", ValueKind.INT, 2**63 - 1),
        ("t", ValueKind.BOOL, True),
        ("True", ValueKind.BOOL, True),
        ("TRUE", ValueKind.BOOL, True),
        ("f", ValueKind.BOOL, False),
        ("false", ValueKind.BOOL, False),
    ],
)
def test_numbers_have_the_kind_that_their_writing_says(raw, kind, value):
    ((*_, label, _, found),) = read(f"m v={raw} 1")

    assert (label, repr(found)) == (kind.label, repr(value))


def test_escapes_are_taken_off_where_they_mean_something():
    text = r"my\ cpu\,x,ho\=st\ 1=a\ b\,c\=d f\ 1\,\==1 7"

    assert read(text) == [("my cpu,x", {"ho=st 1": "a b,c=d"}, "f 1,=", "float64", 7, 1.0)]


def test_a_backslash_that_escapes_nothing_is_itself():
    assert read(r"c\pu,pa\th=C:\\x\, v=1 7")[0][:2] == ("c\\pu", {"pa\\th": "C:\\\\x,"})


def test_an_equals_sign_in_a_measurement_is_itself():
    assert read("a=b v=1 7")[0][0] == "a=b"


def test_comments_empty_lines_carriage_returns_and_blanks_around_are_passed_over():
    text = "# first\n\n  cpu v=1 5  \r\n\t# second\ncpu v=2 6\n"

    assert [row[-2:] for row in read(text)] == [(5, 1.0), (6, 2.0)]


def test_nothing_but_comments_is_no_table():
    assert parse("# only\n\n", precision="ns", now_ns=1) == []


@pytest.mark.parametrize(("precision", "at"), [("ns", 3), ("us", 3000), ("s", 3_000_000_000)])
def test_times_are_in_the_given_precision(precision, at):
    assert read("cpu v=1 3", precision)[0][-2] == at


def test_a_line_without_a_time_is_of_now_in_nanoseconds():
    assert read("cpu v=1", "s")[0][-2] == 77


def test_times_before_1970_are_fine():
    assert read("cpu v=1 -5", "ms")[0][-2] == -5_000_000


def test_tags_are_the_same_series_in_any_order():
    (table,) = parse("cpu,a=1,b=2 v=1 1\ncpu,b=2,a=1 v=2 2", precision="ns", now_ns=0)

    assert len(table.series) == 1


def test_the_place_of_each_row_is_told_when_tables_could_meet():
    text = "cpu v=1 5\ncpu v=2,w=1 5\ncpu v=3 5"

    assert [row[-1] for row in read(text) if row[2] == "v"] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("cpu", 1, 4, "expected a space, then fields"),
        ("cpu v=1 5\ncpu v", 2, 6, "expected ="),
        ("cpu v=", 1, 7, "expected the value of field 'v'"),
        ("cpu,host v=1", 1, 9, "expected ="),
        ("cpu,host= v=1", 1, 10, "expected the value of tag 'host'"),
        ("cpu,=a v=1", 1, 5, "expected a tag"),
        ("cpu =1", 1, 5, "expected a field"),
        ('cpu v="text" 5', 1, 7, "is a string"),
        ('# ok\ncpu a=1,v="te xt\\"" 5', 2, 11, "is a string"),
        ("cpu v=1 soon", 1, 9, "is not a time"),
        ("cpu v=1 1_000", 1, 9, "is not a time"),
        ("cpu v=1 5 6", 1, 11, "expected the end"),
        ("cpu v=1,v=2 5", 1, 9, "field 'v' is there twice"),
        ("cpu,a=1,a=2 v=1", 1, 9, "tag 'a' is there twice"),
        ("cpu v=nan", 1, 7, "is not a number"),
        ("cpu v=1_0", 1, 7, "is not a number"),
        ("cpu v=\u0661", 1, 7, "is not a number"),
        ("cpu v=1e999", 1, 7, "not finite"),
        ("cpu v=-1u", 1, 7, "is not a number"),
        ("cpu v=9223372036854775808i", 1, 7, "64 bits"),
        ("cpu v=18446744073709551615u", 1, 7, "64 bits"),
        ("cpu v=1 9223372036854775807", 1, 9, "is not a time"),
        ("cpu v=1 999999999999999999999999999999999999", 1, 9, "is not a time"),
        (",a=b v=1", 1, 1, "expected a measurement"),
        ("cpu,h\x01=b v=1", 1, 5, "control character"),
        (b"cpu v=1\ncp\xff v=1", 2, 3, "not UTF-8"),
    ],
)
def test_an_error_tells_line_and_column(text, line, column, reason):
    with pytest.raises(Invalid) as caught:
        parse(text, precision="ns", now_ns=0)

    assert str(caught.value).startswith(f"line {line}, column {column}: ")
    assert reason in str(caught.value)
    assert str(caught.value).endswith("nothing was written")


def test_a_time_that_is_too_far_in_a_coarse_precision_is_an_error():
    with pytest.raises(Invalid, match="line 1, column 9"):
        parse("cpu v=1 9223372037", precision="s", now_ns=0)


def test_an_unknown_precision_is_refused():
    with pytest.raises(Invalid, match="ns, us, ms, s"):
        parse("cpu v=1", precision="minutes", now_ns=0)


def test_names_and_tags_have_a_limit():
    with pytest.raises(Invalid, match="more than 1000 bytes"):
        parse(f"{'m' * 1001} v=1", precision="ns", now_ns=0)
    with pytest.raises(Invalid, match="limit is 8192"):
        parse(
            "m," + ",".join(f"t{n}={'x' * 900}" for n in range(10)) + " v=1",
            precision="ns",
            now_ns=0,
        )
