"""Promise: imports and exports do the same on threads of this process and on Spark, row by row.

The one suite that both engines pass. What only Spark can read goes through Spark alone.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

import strandline
from strandline.errors import Invalid, NotInstalled
from strandline.pipelines import Embedded, Engine, Fields, export, import_files
from strandline.spark import SparkEngine, import_format
from tests.spark.stores import random_store, row_of
from tests.unit.pipelines.transfers import Died, datas, make_store, records, staged, write

pytestmark = pytest.mark.spark


@pytest.fixture(params=["embedded", "spark"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "embedded":
        return Embedded(threads=2)
    return SparkEngine(request.getfixturevalue("spark"))


def make_files(folder: Path) -> list[bytes]:
    """Files of every format, and what their rows are as records."""
    moment = datetime(2026, 11, 16, 8, tzinfo=UTC)
    table = pa.table(
        {
            "n": range(200),
            "at": [moment + timedelta(seconds=number) for number in range(200)],
            "price": [Decimal(number) / 4 for number in range(200)],
            "raw": [b"\xff" * (number % 3) for number in range(200)],
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=30)
    write(folder, "b.jsonl", "".join(f'{{"n": {number}}}\n' for number in range(300)))
    write(folder, "c.csv", "n,m\n" + "".join(f'{number},"x\n"\n' for number in range(100)))
    expected = [
        b'{"n":%d,"at":"%s","price":"%s","raw":"%s"}'
        % (
            row["n"],
            row["at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode(),
            str(row["price"]).encode(),
            [b"", b"/w==", b"//8="][row["n"] % 3],
        )
        for row in table.to_pylist()
    ]
    expected += [b'{"n": %d}' % number for number in range(300)]
    return expected + [b'{"n":%d,"m":"x\\n"}' % number for number in range(100)]


def test_an_import_is_the_source_row_by_row(engine: Engine, data_dir: str, tmp_path: Path):
    make_store(data_dir)
    (tmp_path / "in").mkdir()
    expected = make_files(tmp_path / "in")

    summary = import_files(data_dir, "t", str(tmp_path / "in"), engine=engine, part_bytes=1500)
    again = import_files(data_dir, "t", str(tmp_path / "in"), engine=engine, part_bytes=1500)

    assert datas(data_dir) == expected
    assert (summary.engine, summary.rows, again.rows) == (engine.name, 600, 0)
    assert summary.parts > 4
    assert staged(data_dir) == []


def test_an_import_that_one_engine_began_the_other_ends(
    spark: SparkSession, data_dir: str, tmp_path: Path
):
    make_store(data_dir)
    (tmp_path / "in").mkdir()
    expected = make_files(tmp_path / "in")

    def die(what: str, done: int, total: int) -> None:
        if done == 3:
            raise Died

    with pytest.raises(Died):
        import_files(
            data_dir, "t", str(tmp_path / "in"), part_bytes=1500, progress=die, engine=Embedded()
        )
    summary = import_files(
        data_dir, "t", str(tmp_path / "in"), part_bytes=1500, engine=SparkEngine(spark)
    )

    assert summary.parts_before == 3
    assert datas(data_dir) == expected


def test_a_bad_row_is_named_and_leaves_nothing_staged(
    engine: Engine, data_dir: str, tmp_path: Path
):
    make_store(data_dir)
    path = write(tmp_path, "a.jsonl", '{"n":1}\n' * 20 + "bad\n")

    with pytest.raises(Invalid, match="row 21 of") as caught:
        import_files(data_dir, "t", path, engine=engine, part_bytes=60)

    assert len(str(caught.value).splitlines()) == 1
    assert set(datas(data_dir)) <= {b'{"n":1}'}
    assert staged(data_dir) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_an_export_of_a_random_life_is_the_topic_row_by_row(
    engine: Engine, data_dir: str, tmp_path: Path, seed: int, kind: str
):
    with random_store(data_dir, seed) as store:
        store.topic("back")
        expected = [row_of(record) for record in store.existing_topic("t").read(0, 10_000).records]
    rows = random.Random(seed).randrange(20, 90)
    out = str(tmp_path / "out")
    fields = Fields(
        data="data", key="key", tag="tag", node="node", meta="meta", base64=kind != "parquet"
    )

    summary = export(data_dir, "t", out, engine=engine, format=kind, data="binary", file_rows=rows)
    import_files(data_dir, "back", out, fields=fields, engine=engine)

    assert summary.rows == len(expected)
    assert records(data_dir, "back") == records(data_dir, "t")
    if kind == "parquet":
        names = sorted(Path(out).glob("*.parquet"))
        found = [pq.read_table(path) for path in names]
        seqs = [seq for table in found for seq in table["seq"].to_pylist()]
        assert seqs == [row[0] for row in expected]


def test_both_engines_write_the_same_bytes(spark: SparkSession, data_dir: str, tmp_path: Path):
    with random_store(data_dir, 11):
        pass
    options = {"partition_by": "day", "file_rows": 50}

    export(data_dir, "t", str(tmp_path / "a"), engine=Embedded(), **options)
    export(data_dir, "t", str(tmp_path / "b"), engine=SparkEngine(spark), **options)

    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.parquet")}
        for name in ("a", "b")
    ]
    assert contents[0] == contents[1]
    assert contents[0]


def test_fields_of_json_become_the_same_columns(engine: Engine, data_dir: str, tmp_path: Path):
    with strandline.open(data_dir) as store:
        store.topic("t").append([b'{"a":%d,"b":"x"}' % number for number in range(50)])
        store.topic("t").append(b'{"a":0.5}')

    export(data_dir, "t", str(tmp_path / "out"), engine=engine, data="json", file_rows=10)

    tables = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert pa.concat_tables(tables)["a"].to_pylist() == [*map(float, range(50)), 0.5]


def test_spark_reads_partitions_of_an_export(spark: SparkSession, data_dir: str, tmp_path: Path):
    with strandline.open(data_dir) as store:
        store.topic("t").append([b"one"], tag="eu")
        store.topic("t").append([b"two"])

    export(data_dir, "t", str(tmp_path / "out"), partition_by="tag")
    frame = spark.read.parquet(str(tmp_path / "out")).orderBy("seq")

    assert [(row.seq, bytes(row.data), row.tag) for row in frame.collect()] == [
        (1, b"one", "eu"),
        (2, b"two", None),
    ]


def test_what_only_spark_reads_is_imported_once_with_the_same_json(
    spark: SparkSession, data_dir: str, tmp_path: Path
):
    make_store(data_dir, "t", "u")
    table = pa.table({"n": range(500), "at": [datetime(2026, 11, 16, 8)] * 500, "s": ["é"] * 500})
    orc.write_table(table, tmp_path / "a.orc")
    pq.write_table(
        table.set_column(1, "at", table["at"].cast(pa.timestamp("us", "UTC"))),
        tmp_path / "a.parquet",
    )
    fields = Fields(key="n", tag_value="eu")

    done = import_format(spark, data_dir, "t", str(tmp_path / "a.orc"), "orc", fields=fields)
    again = import_format(spark, data_dir, "t", str(tmp_path / "a.orc"), "orc", fields=fields)
    import_files(data_dir, "u", str(tmp_path / "a.parquet"), fields=fields)

    assert (done.rows, again.rows, again.complete) == (500, 0, True)
    assert records(data_dir, "t") == records(data_dir, "u")


def test_a_format_that_spark_lacks_names_its_package(spark: SparkSession, data_dir: str):
    make_store(data_dir)

    with pytest.raises(NotInstalled, match=r"io.delta:delta-spark"):
        import_format(spark, data_dir, "t", "/nowhere", "delta")
    with pytest.raises(NotInstalled, match="spark-avro"):
        import_format(spark, data_dir, "t", "/nowhere", "avro")
    with pytest.raises(Invalid, match="Path does not exist"):
        import_format(spark, data_dir, "t", "/nowhere", "orc")


def test_a_row_without_data_ends_an_import_through_spark(
    spark: SparkSession, data_dir: str, tmp_path: Path
):
    make_store(data_dir)
    orc.write_table(pa.table({"d": ["x", None]}), tmp_path / "a.orc")

    with pytest.raises(Invalid, match="has no data; nothing was imported"):
        import_format(spark, data_dir, "t", str(tmp_path / "a.orc"), "orc", fields=Fields(data="d"))

    assert datas(data_dir) == []
