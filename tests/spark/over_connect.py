"""What a session of Spark Connect can do. Run by ``test_connect.py``, in a process of its own."""

from __future__ import annotations

import pytest

import strandline
from strandline.errors import Invalid, UnknownTopic
from strandline.spark import SparkEngine, frame, mount, plain_errors, run, table
from strandline.spark.sessions import is_connect
from tests.spark.stores import cold_store, records

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_a_stream_copies_records_of_lake_and_log_and_a_table_has_the_copies(spark, data_dir):
    cold_store(data_dir).close()
    expected = [bytes(row[-1]) for row in records(data_dir)]

    live = spark.readStream.format("strandline").option("topic", "t").load(data_dir)
    copy = live.select("data").writeStream.format("strandline").option("topic", "copy")
    copy = copy.option("createTopic", "true").option("checkpointLocation", f"{data_dir}-checkpoint")
    copy.trigger(availableNow=True).start(data_dir).awaitTermination()

    assert is_connect(spark)
    found = table(spark, data_dir, "copy").select("data").collect()
    assert sorted(bytes(row.data) for row in found) == sorted(expected)


def test_progress_counts_the_tasks_of_the_action(spark, data_dir):
    with strandline.open(data_dir) as store:
        pay = store.table("pay")
        pay.define({"n": "i64"})
        pay.store_many("c", [{"n": n} for n in range(50)])
        shown = []

        found = run(spark, store, "QUERY pay TOTAL n", progress=lambda *step: shown.append(step))

    assert found.tuples() == [(1225,)]
    assert shown[-1][0] == "tasks of Spark"
    assert shown[-1][1] == shown[-1][2] > 0


def test_a_frame_can_be_used_and_refined_later(spark, data_dir):
    with strandline.open(data_dir) as store:
        pay = store.table("pay")
        pay.define({"n": "i64", "text": "string"})
        pay.store_many("c", [{"n": n, "text": "{n} `x`"} for n in range(50)])

        made = frame(spark, store, 'QUERY pay WHERE text = "{n} `x`"')

        assert made.where("n >= 40").count() == 10
        assert made.count() == 50


def test_errors_of_ours_come_back_as_they_were(spark, data_dir):
    with strandline.open(data_dir) as store:
        store.topic("t")

    with pytest.raises(UnknownTopic, match="there is no topic 'other'"), plain_errors():
        spark.read.format("strandline").option("topic", "other").load(data_dir).collect()


def test_pipelines_say_that_they_need_another_session(spark):
    with pytest.raises(Invalid, match="classic Spark session"):
        list(SparkEngine(spark).run(str, [1]))


def test_a_store_is_mounted_and_a_table_of_the_catalog_refused(spark, data_dir):
    with strandline.open(data_dir) as store:
        store.topic("t").append_many([b"a", b"b"])
    rows = spark.createDataFrame([("new",)], "data string")

    mount(spark, data_dir)

    assert spark.sql("select count(*) as c from t").first().c == 2
    writer = rows.write.option("store", data_dir).option("topic", "t").mode("append")
    with pytest.raises(Invalid, match=r"strandline\.spark\.mount"):
        writer.format("strandline").saveAsTable("made")
    with pytest.raises(Invalid, match=r"strandline\.spark\.mount"):
        rows.writeTo("made").using("strandline")
