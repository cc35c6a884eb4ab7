"""Promise: what is wrong with a write is told before anything is written, with the column named.

The data source is asked as Spark asks it; no Spark runs.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.errors import Invalid, NotAStore, TooLarge, UnknownTopic
from strandline.ingest import staged_files
from strandline.ingest.delivery_codec import NUMBER_MAX
from strandline.ingest.staged_files import COLUMNS
from strandline.pipelines.delivery_client import deliver
from strandline.spark.read.options import parse_write
from strandline.spark.source.source import StrandlineSource
from strandline.spark.source.writers import BatchWriter, StagedRows, StreamWriter, _record
from tests.spark.stores import fill, open_store
from tests.spark.writing import empty_store, nothing_happened
from tests.unit.ingest.deliveries import rows
from tests.unit.pipelines.owners import contents, delivered_in, owner, stage, staged_in

BYTES, TEXT, INT, LONG = BinaryType(), StringType(), IntegerType(), LongType()
GOOD = [("data", BYTES)]


def schema_of(columns: list[tuple[str, DataType]]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


def writer(path: str, columns=GOOD, *, overwrite: bool = False, **options: str):
    """What Spark asks for before a batch write."""
    source = StrandlineSource({"path": path, "topic": "t", **options})
    return source.writer(schema_of(columns), overwrite)


@pytest.mark.parametrize(
    "columns",
    [
        GOOD,
        [("data", TEXT)],
        [("key", TEXT), ("tag", BYTES), ("node", TEXT), ("meta", TEXT), ("data", BYTES)],
        [("meta", BYTES), ("data", TEXT), ("tag", TEXT)],
    ],
)
def test_bytes_and_text_fit_every_column(data_dir, columns):
    empty_store(data_dir)

    assert isinstance(writer(data_dir, columns), BatchWriter)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([("seq", LONG), *GOOD], "'seq'.*drop"),
        ([("ts", TimestampType()), *GOOD], "'ts'.*drop"),
        ([("topic", TEXT), *GOOD], "'topic'.*drop"),
        ([("lost", BooleanType()), *GOOD], "'lost'.*drop"),
        ([*GOOD, ("colour", TEXT)], r"'colour' \(string\).*to_json"),
        ([("data", INT)], "'data' is int.*cast"),
        ([("key", LONG), *GOOD], "'key' is bigint.*cast"),
        ([("tag", ArrayType(TEXT)), *GOOD], "'tag' is array<string>.*cast"),
        ([("node", schema_of([("a", INT)])), *GOOD], "'node' is struct<a:int>.*cast"),
        ([("meta", MapType(TEXT, TEXT)), *GOOD], "'meta' is map<string,string>.*cast"),
        ([*GOOD, *GOOD], "'data' exists twice"),
        ([("tag", TEXT)], "'data' is missing"),
        ([("Data", BYTES)], "'Data'"),
    ],
)
@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_a_column_that_does_not_fit_is_named(data_dir, columns, told, streaming):
    empty_store(data_dir)
    source = StrandlineSource({"path": data_dir, "topic": "t"})
    ask = source.streamWriter if streaming else source.writer

    with pytest.raises(Invalid, match=told):
        ask(schema_of(columns), overwrite=False)

    assert nothing_happened(data_dir)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"topic": "ordres"}, UnknownTopic, "ordres"),
        ({"topic": "a,b"}, Invalid, "one topic"),
        ({"topic": "a*"}, Invalid, "one topic"),
        ({"topic": ""}, Invalid, "one topic"),
        ({"createTopic": "yes"}, Invalid, "createTopic"),
        ({"patience": "long"}, Invalid, "patience"),
        ({"patience": "-1"}, Invalid, "patience"),
        ({"colour": "red"}, Invalid, "colour"),
        ({"from": "1"}, Invalid, "from"),
        ({"path": "relative"}, Invalid, "absolute path"),
        ({"writeId": "x" * 300}, TooLarge, "producer"),
    ],
)
def test_a_wrong_option_is_named(data_dir, options, error, told):
    empty_store(data_dir)

    with pytest.raises(error, match=told):
        writer(**{"path": data_dir, **options})

    assert nothing_happened(data_dir)


def test_a_log_is_not_overwritten(data_dir):
    empty_store(data_dir)

    with pytest.raises(Invalid, match="append"):
        writer(data_dir, overwrite=True)
    with pytest.raises(Invalid, match="append"):
        StrandlineSource({"path": data_dir, "topic": "t"}).streamWriter(
            schema_of(GOOD), overwrite=True
        )


def test_a_missing_topic_is_fine_when_it_is_to_be_made(data_dir):
    empty_store(data_dir)

    made = writer(data_dir, topic="new", createTopic="True")

    assert made.options.create
    assert contents(data_dir, "new") == []


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path):
    with pytest.raises(NotAStore):
        writer(str(tmp_path / "nowhere"))

    assert not (tmp_path / "nowhere").exists()


def test_a_stream_is_known_by_its_checkpoint_and_takes_sparks_own_options(data_dir):
    empty_store(data_dir)
    told = {"path": data_dir, "topic": "t", "checkpointLocation": "/c", "queryName": "q"}

    made = StrandlineSource(told).streamWriter(schema_of(GOOD), overwrite=False)
    with pytest.raises(Invalid, match="checkpoint"):
        StrandlineSource({**told, "writeId": "x"}).streamWriter(schema_of(GOOD), overwrite=False)

    assert isinstance(made, StreamWriter)


def test_rows_become_records_in_the_types_of_a_record():
    batch = pa.RecordBatch.from_pydict(
        {"data": pa.array(["ü", ""]), "tag": pa.array([b"eu", None]), "key": pa.array(["k", None])}
    )

    record = _record(batch)

    assert record.schema == pa.schema([COLUMNS.field(name) for name in ("key", "tag", "data")])
    assert record.to_pydict() == {
        "key": [b"k", None],
        "tag": ["eu", None],
        "data": ["ü".encode(), b""],
    }


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"data": [b"x", None]}, "'data' is null"),
        ({"data": [b"x", b"y"], "tag": [b"\xff", b""]}, "text"),
        ({"data": [b"x", b"y"], "node": [b"\xff", b""]}, "text"),
    ],
)
def test_a_row_that_is_no_record_is_refused(columns, told):
    with pytest.raises(Invalid, match=told):
        _record(pa.RecordBatch.from_pydict(columns))


def options_of(path: str):
    return parse_write({"path": path, "topic": "t"})


@pytest.mark.parametrize("create", ["false", "true"])
def test_a_lake_that_is_not_the_stores_is_refused(data_dir, tmp_path, create):
    lake = str(tmp_path / "elsewhere")
    with open_store(data_dir, url=lake) as store:
        fill(store, store.topic("t"), 3)
        store.relocate()
    with open_store(str(tmp_path / "other")) as other:
        fill(other, other.topic("t"), 3)
        other.relocate()

    for wrong in ("", f"{tmp_path}/other/lake", f"{tmp_path}/nothing"):
        with pytest.raises(Invalid, match="is not the lake of the store"):
            writer(data_dir, lake=wrong, createTopic=create)

    assert isinstance(writer(data_dir, lake=lake, createTopic=create), BatchWriter)


def test_a_task_with_many_rows_stages_several_files_and_their_order_is_kept(data_dir, monkeypatch):
    empty_store(data_dir)
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 2)
    monkeypatch.setattr(staged_files, "FILE_BYTES", 1)
    made = BatchWriter(options_of(data_dir))

    tasks = [made.write(iter([rows(*data)])) for data in ([b"a", b"b", b"c"], [b"d"] * 5)]
    files = len(staged_in(data_dir))
    made.commit(tasks)

    assert [len(task.files) for task in tasks] == [2, 3]
    assert files == 5
    assert contents(data_dir) == [b"a", b"b", b"c", *[b"d"] * 5]
    assert (staged_in(data_dir), delivered_in(data_dir)) == ([], [])


def test_an_abort_removes_what_its_tasks_have_staged(data_dir):
    empty_store(data_dir)
    made = BatchWriter(options_of(data_dir))
    kept = stage(data_dir, b"another write's")
    done = [StagedRows((stage(data_dir, b"a"),)), None, StagedRows(())]

    made.abort(done)
    StreamWriter(options_of(data_dir)).abort(
        [StagedRows((stage(data_dir, b"b"),), "query"), None], 3
    )

    assert staged_in(data_dir) == [kept.key.rpartition("/")[2]]


def test_an_abort_after_a_delivery_leaves_it_whole(data_dir):
    """Spark aborts a write whose commit failed, and this one may have been delivered."""
    empty_store(data_dir)
    rows = StagedRows((stage(data_dir, b"a"),), "query")
    options = parse_write({"path": data_dir, "topic": "t", "patience": "0.1"})
    made = StreamWriter(options)

    with owner(data_dir, jobs=False):
        with pytest.raises(Exception, match="delivered and safe"):
            made.commit([rows], 3)
        made.abort([rows], 3)
    made.commit([StagedRows((stage(data_dir, b"again"),), "query")], 3)

    assert contents(data_dir) == [b"a"]
    assert (staged_in(data_dir), delivered_in(data_dir)) == ([], [])


def test_a_batch_without_rows_delivers_nothing(data_dir):
    empty_store(data_dir)

    BatchWriter(options_of(data_dir)).commit([None, StagedRows(())])
    StreamWriter(options_of(data_dir)).commit([None, StagedRows((), "query")], 1)
    StreamWriter(options_of(data_dir)).commit([], 2)

    assert nothing_happened(data_dir)


def test_two_queries_count_for_themselves(data_dir):
    empty_store(data_dir)
    made = StreamWriter(options_of(data_dir))

    for query in ("one", "two", "one"):
        made.commit([StagedRows((stage(data_dir, query.encode()),), query)], 0)

    assert contents(data_dir) == [b"one", b"two"]


def test_the_number_of_a_batch_has_room_for_every_batch_of_a_query(data_dir):
    empty_store(data_dir)
    file = stage(data_dir, b"a")

    deliver(data_dir, "t", [file], producer="p", number=NUMBER_MAX - 1, attempt="a" * 32)

    assert contents(data_dir) == [b"a"]
