"""Promise: the project in ``examples/declarative`` runs as it is, and reads on, run after run."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
import sqlglot
from pyspark.pipelines.cli import load_pipeline_spec

import strandline
from strandline.errors import NotInstalled
from strandline.pipelines.schedule.runner import spark_home
from strandline.spark.sessions import check_java
from tests.house.tree import ROOT

PROJECT = ROOT / "examples" / "declarative"
STORAGE = "file:///tmp/strandline-declarative"
RUN = ("run", "--properties-file", "spark.conf")
SECONDS_MAX = 400

pytestmark = pytest.mark.spark


def test_the_files_of_the_example_load():
    spec = load_pipeline_spec(PROJECT / "spark-pipeline.yml")
    files = sorted(path for each in spec.libraries for path in PROJECT.glob(each.include))

    definitions = ast.parse((PROJECT / "transformations" / "sales.py").read_text())
    sql = sqlglot.parse_one((PROJECT / "transformations" / "items.sql").read_text(), "spark")

    assert spec.storage == STORAGE
    ours = {path.name for path in files if path.is_file() and path.suffix != ".pyc"}
    assert ours == {"items.sql", "sales.py"}
    made = [node.name for node in definitions.body if isinstance(node, ast.FunctionDef)]
    assert made == ["sales", "hourly"]
    assert sql.find(sqlglot.exp.Table).name == "items"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_reads_on_run_after_run(tmp_path: Path):
    try:
        check_java()
    except NotInstalled as error:
        pytest.skip(str(error))
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace(STORAGE, f"file://{tmp_path}/storage"))

    _sell(tmp_path, "tea", "cake", "tea")
    _run(project, tmp_path)
    first = _items(project)
    _sell(tmp_path, "cake")
    _run(project, tmp_path)

    assert first == {"tea": (2, 500), "cake": (1, 250)}
    assert _items(project) == {"tea": (2, 500), "cake": (2, 500)}
    assert sorted(_table(project, "sales")["seq"]) == [1, 2, 3, 4]
    assert sum(_table(project, "hourly")["sold"]) == 4


def _sell(path: Path, *items: str) -> None:
    with strandline.open(str(path / "data")) as store:
        sold = [f'{{"item":"{item}","cents":250}}'.encode() for item in items]
        store.topic("sales").append_many(sold)


def _run(project: Path, path: Path) -> None:
    own = {
        "SPARK_HOME": spark_home(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "STRANDLINE_STORE": str(path / "data"),
    }
    done = subprocess.run(
        [f"{spark_home()}/bin/spark-pipelines", *RUN],
        cwd=project,
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr


def _items(project: Path) -> dict[str, tuple[int, int]]:
    found = _table(project, "items")
    rows = zip(found["item"], found["sold"], found["cents"], strict=True)
    return {item: (sold, cents) for item, sold, cents in rows}


def _table(project: Path, name: str) -> dict[str, list[object]]:
    return ds.dataset(project / "spark-warehouse" / name, format="parquet").to_table().to_pydict()
