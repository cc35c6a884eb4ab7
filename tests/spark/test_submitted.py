"""Promise: a declared pipeline runs by ``spark-submit`` on a master of its own, and is told of."""

from __future__ import annotations

import pytest

import strandline
from strandline.assembly import RUNS_TOPIC
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings
from strandline.errors import NotInstalled
from strandline.lake import external_reader
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.runner import RunOrder, command_of, spark_home
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.spark.sessions import check_java
from tests.unit.lake.small_lake import fill, open_small

pytestmark = pytest.mark.spark


def test_a_declared_compaction_runs_by_spark_submit(data_dir: str):
    try:
        check_java()
    except NotInstalled as error:
        pytest.skip(str(error))
    with open_small(data_dir) as store:
        fill(store)
    declared = DeclaredPipeline(
        name="nightly", pipeline="compact", every="1d", engine="spark", master="local[2]"
    )
    schedule = PipelineScheduler(data_dir, PipelineSettings(declared=(declared,)))

    schedule.start("nightly")
    schedule.wait()

    (run,) = schedule.take_ended()
    with open(f"{data_dir}/schedule/nightly.log", encoding="utf-8") as log:
        printed = log.read()
    assert (run.outcome, run.rows, run.engine) == ("done", 400, "spark"), printed
    assert len(external_reader.files(f"{data_dir}/lake", "orders").files) == 1
    with strandline.open(data_dir, readonly=True) as store:
        (line,) = runs_in(store.topic(RUNS_TOPIC))
    assert line.run == run


def test_the_command_is_pysparks_own_and_tells_master_and_arguments_but_no_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    order = RunOrder(
        store="/data",
        pipeline="compact",
        arguments={"topics": ["orders"]},
        due="20261117T033000Z",
        number=1,
        outcome="/data/schedule/nightly.outcome",
        master="spark://host:7077",
    )

    submit, *rest = command_of("spark", order)

    assert submit == f"{spark_home()}/bin/spark-submit"
    assert rest[:2] == ["--master", "spark://host:7077"]
    assert '"topics":["orders"]' in rest[-1]
    assert "hush-hush" not in " ".join(rest)
