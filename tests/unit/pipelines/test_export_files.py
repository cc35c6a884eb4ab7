"""Promise: others read what is exported: DuckDB, Polars, and an import, to equal records."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strandline
from strandline.errors import Invalid
from strandline.pipelines import Fields, export, import_files
from strandline.testing.model import RecordValues
from strandline.testing.strategies import batches
from tests.unit.pipelines.transfers import records

READ = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}
BACK = Fields(data="data", key="key", tag="tag", node="node", meta="meta")


def make(data_dir: str, values: list[RecordValues]) -> None:
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        store.topic("back")
        for each in values:
            topic.append(each.data, key=each.key, tag=each.tag, node=each.node, meta=each.meta)


def of(*datas: bytes, tag: str | None = None) -> list[RecordValues]:
    return [RecordValues(data=data, key=None, tag=tag, node=None, meta=None) for data in datas]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=batches(count_max=12),
    kind=st.sampled_from(list(READ)),
    file_rows=st.integers(1, 7),
    part_bytes=st.integers(50, 4000),
)
def test_what_is_exported_and_imported_again_is_equal(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[RecordValues],
    kind: str,
    file_rows: int,
    part_bytes: int,
):
    folder = tmp_path_factory.mktemp("trip")
    data_dir, out = str(folder / "data"), str(folder / "out")
    make(data_dir, values)
    fields = Fields(**{name: name for name in BACK.columns()}, base64=kind != "parquet")

    export(data_dir, "t", out, format=kind, data="binary", file_rows=file_rows)
    import_files(data_dir, "back", out, fields=fields, part_bytes=part_bytes)

    assert records(data_dir, "back") == records(data_dir, "t")


@pytest.mark.parametrize("kind", list(READ))
def test_partitions_by_tag_come_back_with_their_tags(data_dir: str, tmp_path: Path, kind: str):
    tags = [None, "eu", "us", None, "eu"]
    make(data_dir, [each for tag in tags for each in of(b"x", tag=tag)])
    out = str(tmp_path / "out")

    export(data_dir, "t", out, format=kind, partition_by="tag")
    import_files(data_dir, "back", out, fields=Fields(data="data", tag="tag"))

    assert sorted(str(record[1]) for record in records(data_dir, "back")) == sorted(map(str, tags))


@pytest.mark.parametrize("kind", list(READ))
@pytest.mark.parametrize("by", ["", "day", "hour", "tag"])
def test_duckdb_reads_every_format_and_partition(data_dir: str, tmp_path: Path, kind: str, by: str):
    make(data_dir, of(b"one", b'q"\n', "é".encode(), tag="eu"))
    out = tmp_path / "out"

    export(data_dir, "t", str(out), format=kind, partition_by=by, data="text", file_rows=2)
    hive = ", hive_partitioning=true" if by else ""
    read = f"select seq, tag, data from {READ[kind]}('{out}/**/*.{kind}'{hive}) order by seq"

    assert duckdb.sql(read).fetchall() == [(1, "eu", "one"), (2, "eu", 'q"\n'), (3, "eu", "é")]


def test_polars_reads_partitions(data_dir: str, tmp_path: Path):
    make(data_dir, of(b"one", b"two", tag="eu"))

    export(data_dir, "t", str(tmp_path / "out"), partition_by="tag")
    frame = pl.read_parquet(f"{tmp_path}/out/**/*.parquet", hive_partitioning=True)

    assert frame.select("seq", "data", "tag").rows() == [(1, b"one", "eu"), (2, b"two", "eu")]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_fields_of_json_become_columns(data_dir: str, tmp_path: Path, kind: str):
    make(
        data_dir,
        of(
            b'{"n":1,"x":1,"s":"a","b":true,"o":{"k": [1]},"seq":7}',
            b'{"n":null,"x":2.5,"s":"b","m":1}',
            b'{"m":"text"}',
        ),
    )

    export(data_dir, "t", str(tmp_path / "out"), format=kind, data="json", file_rows=1)
    read = f"select * from {READ[kind]}('{tmp_path}/out/*.{kind}', union_by_name=true) order by seq"
    found = duckdb.sql(read).pl().drop("ts", "key", "tag", "node", "meta")

    assert found.columns == ["seq", "n", "x", "s", "b", "o", "data_seq", "m"]
    assert found.rows() == [
        (1, 1, 1.0, "a", True, '{"k":[1]}', 7, None),
        (2, None, 2.5, "b", None, None, None, "1"),
        (3, None, None, None, None, None, None, '"text"'),
    ]


def test_json_in_lines_of_json_is_itself(data_dir: str, tmp_path: Path):
    make(data_dir, of(b'{"a": 1.50}', b"[1,\n2]"))

    export(data_dir, "t", str(tmp_path / "out"), format="jsonl", data="json", columns=["data"])
    (path,) = (tmp_path / "out").glob("*.jsonl")

    assert path.read_bytes() == b'{"data":{"a": 1.50}}\n{"data":[1,2]}\n'


@pytest.mark.parametrize(
    ("data", "form", "kind", "message"),
    [
        (b"\xff", "text", "parquet", "data of record 2 is not text"),
        (b"\xff", "text", "csv", "data of record 2 is not text"),
        (b"{", "json", "parquet", "record 2 is not a JSON object"),
        (b"[1]", "json", "csv", "record 2 is not a JSON object"),
        (b"nothing", "json", "jsonl", "record 2 is not JSON"),
    ],
)
def test_data_that_is_not_what_was_said_is_named(
    data_dir: str, tmp_path: Path, data: bytes, form: str, kind: str, message: str
):
    make(data_dir, of(b"{}", data))

    with pytest.raises(Invalid, match=message):
        export(data_dir, "t", str(tmp_path / "out"), format=kind, data=form)

    assert not (tmp_path / "out/_SUCCESS").exists()


def test_a_tag_that_cannot_name_a_folder_is_refused(data_dir: str, tmp_path: Path):
    make(data_dir, of(b"x", tag="a/b"))

    with pytest.raises(Invalid, match="'a/b' cannot name a folder"):
        export(data_dir, "t", str(tmp_path / "out"), partition_by="tag")


def test_columns_are_those_that_were_asked_for(data_dir: str, tmp_path: Path):
    make(data_dir, of(b"one", tag="eu"))

    export(data_dir, "t", str(tmp_path / "out"), format="jsonl", columns=["tag", "data"])
    (path,) = (tmp_path / "out").glob("*.jsonl")

    assert json.loads(path.read_text()) == {"tag": "eu", "data": "one"}
