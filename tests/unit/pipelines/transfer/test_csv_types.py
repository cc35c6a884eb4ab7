"""Promise: numbers of CSV files become JSON numbers by a rule, and values that do not fit are told.

The rule is checked against another reading of the same text: Python's csv and json.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline
from strandline.errors import Invalid
from strandline.pipelines import import_files
from strandline.pipelines.transfer.csv_types import typed_values
from tests.unit.pipelines.transfers import write

PLAIN = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?")


def imported(data_dir: str, path: str, **options: object) -> list[object]:
    with strandline.open(data_dir):
        pass
    import_files(data_dir, "t", path, create=True, **options)
    with strandline.open(data_dir, readonly=True) as store:
        return [msgspec.json.decode(data) for data in store.topic("t").read(0, 10_000).data]


def test_a_column_of_numbers_becomes_numbers_and_any_other_stays_text(data_dir: str, tmp_path):
    text = "n,price,zip,mixed,word,none,big\n"
    text += "1,2.50,00123,1,a,,12345678901234567890\n-2,1e3,04711,x,b,,1\n,,,,,,\n"

    rows = imported(data_dir, write(tmp_path, "a.csv", text))

    assert rows[0] == {
        "n": 1,
        "price": 2.5,
        "zip": "00123",
        "mixed": "1",
        "word": "a",
        "none": None,
        "big": "12345678901234567890",
    }
    assert rows[1]["price"] == 1000
    assert (rows[1]["n"], rows[2]["n"], rows[1]["mixed"]) == (-2, None, "x")


def test_digits_are_kept_as_they_are_written(data_dir: str, tmp_path):
    path = write(tmp_path, "a.csv", "a,b\n2.50,0.10000000000000000555\n")
    with strandline.open(data_dir):
        pass
    import_files(data_dir, "t", path, create=True)

    with strandline.open(data_dir, readonly=True) as store:
        assert store.topic("t").read(0).data == [b'{"a":2.50,"b":0.10000000000000000555}']


def test_text_keeps_every_value_as_text(data_dir: str, tmp_path):
    path = write(tmp_path, "a.csv", "n,s\n1,x\n")

    assert imported(data_dir, path, types="text") == [{"n": "1", "s": "x"}]


def test_a_value_far_behind_the_first_block_decides_about_the_whole_column(data_dir, tmp_path):
    lines = [f"{number},{number}" for number in range(20_000)]
    path = write(tmp_path, "a.csv", "\n".join(["a,b", *lines, "x,1"]) + "\n")

    with strandline.open(data_dir):
        pass
    import_files(data_dir, "t", path, create=True, splittable=True, part_bytes=40_000)

    with strandline.open(data_dir, readonly=True) as store:
        assert store.topic("t").read(0, 1).data == [b'{"a":"0","b":0}']


def test_the_schema_of_the_topic_goes_before_the_look_of_the_values(data_dir: str, tmp_path):
    with strandline.open(data_dir) as store:
        store.topic(
            "t", schema={"zip": "string", "price": "f64", "n": "i64", "ok": "bool", "at": "date"}
        )
    path = write(
        tmp_path,
        "a.csv",
        "zip,price,n,ok,at,other\n123,2,1,true,2026-01-02,5\n456,x,1.5,yes,never,6\n",
    )

    summary = import_files(data_dir, "t", path)

    with strandline.open(data_dir, readonly=True) as store:
        first, second = (json.loads(data) for data in store.topic("t").read(0).data)
        sums = store.sql("select sum(price) s, count(n) c from t").rows()
    assert first == {"zip": "123", "price": 2, "n": 1, "ok": True, "at": "2026-01-02", "other": 5}
    assert second == {
        "zip": "456",
        "price": "x",
        "n": "1.5",
        "ok": "yes",
        "at": "never",
        "other": 6,
    }
    assert sums == [{"s": 2.0, "c": 1}]
    told = {each.field: (each.type, each.count, each.example) for each in summary.misfits}
    assert told == {
        "price": ("f64", 1, '"x"'),
        "n": ("i64", 1, '"1.5"'),
        "ok": ("bool", 1, '"yes"'),
        "at": ("date", 1, '"never"'),
    }


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_values_that_do_not_fit_are_counted_over_all_parts(data_dir: str, tmp_path, kind: str):
    with strandline.open(data_dir) as store:
        store.topic("t", schema={"n": "u64", "s": "string"})
    values = [number if number % 3 else -number - 1 for number in range(3000)]
    if kind == "csv":
        text = "n,s\n" + "".join(f"{value},x\n" for value in values)
    else:
        text = "".join(f'{{"n":{value},"s":"x"}}\n' for value in values)
    path = write(tmp_path, f"a.{kind}", text)

    summary = import_files(data_dir, "t", path, splittable=True, part_bytes=4000)

    (misfit,) = summary.misfits
    assert (misfit.field, misfit.count, misfit.example) == ("n", 1000, "-1")
    assert summary.parts > 2


def test_what_is_missing_or_null_fits(data_dir: str, tmp_path):
    with strandline.open(data_dir) as store:
        store.topic("t", schema={"n": "u64", "gone": "f64"})
    path = write(tmp_path, "a.jsonl", '{"n":1}\n{"n":null,"gone":null}\n{"other":"\\"n\\":5"}\n')

    assert import_files(data_dir, "t", path).misfits == []


def test_an_import_that_was_begun_as_text_goes_on_as_text(data_dir: str, tmp_path):
    path = write(tmp_path, "a.csv", "n\n1\n2\n")
    with strandline.open(data_dir):
        pass
    import_files(data_dir, "t", path, create=True, types="text")

    again = import_files(data_dir, "t", path, create=True)
    wanted = import_files(data_dir, "t", path, create=True, types="infer")

    assert (again.complete, again.rows) == (True, 0)
    assert (wanted.complete, wanted.rows) == (False, 2)


def test_an_unknown_way_to_type_is_refused(data_dir: str, tmp_path):
    path = write(tmp_path, "a.csv", "n\n1\n")

    with pytest.raises(Invalid, match="types is auto, infer or text"):
        import_files(data_dir, "t", path, types="guess")


@given(st.lists(st.text("0123456789.eE+-x ", max_size=8), min_size=1, max_size=6))
def test_a_typed_value_is_the_json_number_that_python_reads(values: list[str]):
    typed = typed_values(values, "number")

    for text, value in zip(values, typed, strict=True):
        if PLAIN.fullmatch(text):
            assert json.loads(msgspec.json.encode(value)) == json.loads(text)
        else:
            assert value == text


def test_every_row_is_what_another_reader_makes_of_it(data_dir: str, tmp_path: Path):
    rows = [[str(n), f"{n}.5", f"name {n}", "" if n % 2 else "7"] for n in range(500)]
    out = io.StringIO()
    csv.writer(out).writerows([["a", "b", "c", "d"], *rows])

    found = imported(data_dir, write(tmp_path, "a.csv", out.getvalue()))

    assert found == [
        {"a": int(a), "b": float(b), "c": c, "d": int(d) if d else None} for a, b, c, d in rows
    ]
