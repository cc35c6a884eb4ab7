"""Promise: every column has one form in JSON; a row that cannot be a record is named or skipped."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.errors import Invalid
from strandline.pipelines import Fields, import_files
from strandline.pipelines.transfer.json_rows import json_rows, json_values
from tests.unit.pipelines.transfers import datas, make_store, records, staged, write

FORMS = [
    (pa.array([True, None]), [True, None]),
    (pa.array([2**63, None], pa.uint64()), [2**63, None]),
    (pa.array([1.5, float("nan")]), [1.5, None]),
    (pa.array(["é", ""]), ["é", ""]),
    (pa.array([b"\0\xff", None]), ["AP8=", None]),
    (pa.array([b"ab"], pa.binary(2)), ["YWI="]),
    (pa.array([Decimal("12.50"), None]), ["12.50", None]),
    (pa.array([date(2026, 11, 16)]), ["2026-11-16"]),
    (pa.array([time(8, 15)]), ["08:15:00.000000"]),
    (pa.array([timedelta(seconds=2)], pa.duration("ms")), [2000]),
    (
        pa.array([datetime(2026, 11, 16, 8, tzinfo=UTC)], pa.timestamp("ms", "Europe/Berlin")),
        ["2026-11-16T08:00:00.000Z"],
    ),
    (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
    (pa.array([[1], None, []], pa.list_(pa.int8())), [[1], None, []]),
    (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    (pa.array([{"a": b"x"}, None]), [{"a": "eA=="}, None]),
    (pa.array([[(1, "x")], None], pa.map_(pa.int8(), pa.string())), [{"1": "x"}, None]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    (pa.nulls(2), [None, None]),
]


@pytest.mark.parametrize(("column", "values"), FORMS, ids=[str(form[0].type) for form in FORMS])
def test_every_type_has_one_form(column: pa.Array, values: list):
    padded = pa.concat_arrays([column, column])

    whole = json_rows(["c"], [json_values(column, "c")])
    cut = json_rows(["c"], [json_values(padded.slice(len(column)), "c")])

    assert [msgspec.json.decode(row)["c"] for row in whole] == values
    assert cut == whole


def test_a_type_without_a_form_is_refused():
    column = pa.array([None], pa.month_day_nano_interval())

    with pytest.raises(Invalid, match="no form in JSON"):
        json_values(column, "c")


def test_columns_become_fields(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    table = pa.table(
        {
            "d": pa.array([b"\xff", b""], pa.binary()),
            "k": pa.array(["key", None]),
            "t": pa.array([7, None], pa.int32()),
            "m": pa.array([{"a": 1}, None]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    fields = Fields(data="d", key="k", tag="t", meta="m", node_value="n1")

    import_files(data_dir, "t", str(tmp_path / "a.parquet"), fields=fields)

    assert records(data_dir) == [
        (b"key", "7", "n1", b'{"a":1}', b"\xff"),
        (None, None, "n1", None, b""),
    ]


def test_fields_of_lines_of_json(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "a.jsonl", '{"d": {"x": 1.0}, "k": 7}\n  {"d":"\\u00e9","k":null}  \n')

    import_files(data_dir, "t", path, fields=Fields(data="d", key="k"))

    assert records(data_dir) == [
        (b"7", None, None, None, b'{"x": 1.0}'),
        (None, None, None, None, "é".encode()),
    ]


def test_a_line_of_json_is_kept_as_it_stands(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "a.jsonl", ' {"b": 1.50, "a": 12345678901234567890123} \r\n\r\n[1]\n')

    import_files(data_dir, "t", path)

    assert datas(data_dir) == [b'{"b": 1.50, "a": 12345678901234567890123}', b"[1]"]


def test_values_of_csv_are_text_and_nothing_is_null(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "a.csv", '\ufeffzip,note\r\n00123,"a\nb"\r\n,""\r\n')

    import_files(data_dir, "t", path)

    assert datas(data_dir) == [b'{"zip":"00123","note":"a\\nb"}', b'{"zip":null,"note":""}']


@pytest.mark.parametrize("content", ["", "a,b", "a,b\n"])
def test_csv_without_rows_is_nothing(data_dir: str, tmp_path: Path, content: str):
    make_store(data_dir)

    summary = import_files(data_dir, "t", write(tmp_path, "a.csv", content))

    assert summary.rows == 0


BAD = {
    "broken.jsonl": ('{"n":0}\n{"n":\n', 2, "not valid JSON"),
    "latin.jsonl": (b'{"n":0}\n{"n":"\xe9"}\n', 2, "not valid JSON"),
    "missing.jsonl": ('{"n":0}\n\n{"m":1}\n', 3, "no data"),
    "null.csv": ("n,m\n0,1\n,2\n", 3, "no data"),
    "short.csv": ("n,m\n0,1\n2\n", 3, "1 values, not 2"),
    "latin.csv": (b"n,m\n0,1\n\xe9,2\n", 3, "not text"),
    "large.csv": ("n,m\n0,1\n" + "x" * (1 << 20) + "x,2\n", 3, "is over 1048576"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_ends_the_import_and_is_named(data_dir: str, tmp_path: Path, name: str):
    content, row, reason = BAD[name]
    make_store(data_dir)
    fields = Fields() if name == "broken.jsonl" else Fields(data="n")

    with pytest.raises(Invalid, match=rf"row {row} of .*{name}: .*{reason}"):
        import_files(data_dir, "t", write(tmp_path, name, content), fields=fields)

    assert datas(data_dir) == []
    assert staged(data_dir) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_skipped_when_told(data_dir: str, tmp_path: Path, name: str):
    content, row, _ = BAD[name]
    make_store(data_dir)
    path = write(tmp_path, name, content)

    summary = import_files(data_dir, "t", path, fields=Fields(data="n"), on_bad="skip")

    assert datas(data_dir) == [b"0"]
    assert (summary.rows, summary.rows_skipped) == (1, 1)
    assert [(bad.file, bad.row) for bad in summary.bad] == [(path, row)]


def test_a_bad_row_far_inside_a_cut_file_is_named_by_its_line(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    good = "".join(f'{{"n":{number}}}\n' for number in range(50))
    path = write(tmp_path, "a.jsonl", good + "bad\n" + good)

    with pytest.raises(Invalid, match="row 51 of"):
        import_files(data_dir, "t", path, part_bytes=70)

    before = datas(data_dir)
    assert before == [b'{"n":%d}' % number for number in range(len(before))]
    assert staged(data_dir) == []


def test_a_missing_column_names_those_there_are(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "a.csv", "a,b\n1,2\n")

    with pytest.raises(Invalid, match="no column 'c': columns are a, b"):
        import_files(data_dir, "t", path, fields=Fields(key="c"))


def test_a_file_of_another_format_is_told_of(data_dir: str, tmp_path: Path):
    make_store(data_dir)

    with pytest.raises(Invalid, match=r"a\.parquet cannot be read as Parquet"):
        import_files(data_dir, "t", write(tmp_path, "a.parquet", "a,b\n"), part_bytes=1)
    with pytest.raises(Invalid, match="not a JSON array"):
        import_files(data_dir, "t", write(tmp_path, "a.json", "[1, 2"))


def test_what_is_not_base64_is_bad(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "a.jsonl", '{"d":"AP8="}\n{"d":"%%"}\n')
    fields = Fields(data="d", base64=True)

    summary = import_files(data_dir, "t", path, fields=fields, on_bad="skip")

    assert datas(data_dir) == [b"\0\xff"]
    assert "not base64" in summary.bad[0].reason
