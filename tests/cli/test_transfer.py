"""Promise: files go into a topic and out again from the command line, with a summary to read."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import strandline
from tests.cli.conftest import Command
from tests.unit.pipelines.transfers import datas, make_store, records, write


@pytest.fixture
def made(command: Command, data_dir: str) -> Command:
    make_store(data_dir)
    return command


def test_import_appends_once_and_says_what_it_did(made: Command, data_dir: str, tmp_path: Path):
    path = write(tmp_path, "a.csv", "id,city\n1,Bern\n2,Ulm\n")
    line = ("pipeline", "run", "import", path, "--topic", "t", "--key", "id", "--tag-value", "eu")

    first = made(*line, "--output", "json").json
    again = made(*line)

    assert (first["rows"], first["files"], first["engine"]) == (2, 1, "embedded")
    assert again.lines[0].split(maxsplit=1) == ["result", "already complete: nothing to do"]
    assert records(data_dir) == [
        (b"1", "eu", None, None, b'{"id":1,"city":"Bern"}'),
        (b"2", "eu", None, None, b'{"id":2,"city":"Ulm"}'),
    ]


def test_a_dry_run_of_an_import_does_nothing(made: Command, data_dir: str, tmp_path: Path):
    path = write(tmp_path, "a.csv", "id\n1\n")

    answer = made("pipeline", "run", "import", path, "--topic", "t", "--dry-run")

    assert "dry run" in answer.lines[0]
    assert datas(data_dir) == []


def test_bad_rows_are_listed_or_end_it(made: Command, data_dir: str, tmp_path: Path):
    path = write(tmp_path, "a.jsonl", '{"n":1}\nbad\n')
    line = ("pipeline", "run", "import", path, "--topic", "t")

    ended = made(*line)
    skipped = made(*line, "--on-bad", "skip")

    assert ended.code == 2
    assert f"row 2 of {path}" in ended.err
    assert skipped.code == 0
    assert "1 bad rows" in skipped.out
    assert skipped.lines[-1].split()[:2] == [path, "2"]


def test_values_that_do_not_fit_the_schema_are_told(
    command: Command, data_dir: str, tmp_path: Path
):
    command("topic", "create", "t", "--schema", "price:f64", "--schema", "name:string")
    path = write(tmp_path, "a.csv", 'price,name\n1.5,tea\n"2,50",7\nfree,cake\n')
    line = ("pipeline", "run", "import", path, "--topic", "t")

    told = command(*line)
    text = command(*line, "--types", "text", "--output", "json").json

    assert ["mismatched", "2", "values"] in [each.split() for each in told.lines]
    assert told.lines[-1].split() == ["price", "f64", "2", '"2,50"']
    assert [(each["field"], each["count"]) for each in text["misfits"]] == [("price", 3)]


def test_import_beside_the_writer(made: Command, data_dir: str, tmp_path: Path):
    path = write(tmp_path, "a.jsonl", '{"n":1}\n')
    with strandline.open(data_dir) as store:
        answer = made("pipeline", "run", "import", path, "--topic", "t")

        assert answer.code == 0
        assert store.existing_topic("t").head_seq == 1


def test_a_format_of_spark_needs_spark(made: Command, tmp_path: Path):
    path = write(tmp_path, "a.orc", "")

    answer = made("pipeline", "run", "import", path, "--topic", "t", "--format", "orc")

    assert answer.code == 2
    assert "--engine spark" in answer.err


def test_import_into_no_topic_and_from_no_file_is_told(made: Command, tmp_path: Path):
    path = write(tmp_path, "a.jsonl", '{"n":1}\n')

    topic = made("pipeline", "run", "import", path, "--topic", "u")
    file = made("pipeline", "run", "import", f"{path}x", "--topic", "t")
    none = made("pipeline", "run", "import", "--topic", "t")

    assert (topic.code, file.code, none.code) == (2, 2, 2)
    assert "--create" in topic.err
    assert "there are no files at" in file.err
    assert "name files to import" in none.err


def test_export_writes_files_and_says_what_it_did(made: Command, data_dir: str, tmp_path: Path):
    with strandline.open(data_dir) as store:
        store.topic("t").append([b"1", b"2", b"3"])
    out = str(tmp_path / "out")
    line = ("pipeline", "run", "export", "--topic", "t", "--to", out, "--columns", "seq,data")

    planned = made(*line, "--dry-run").lines
    done = made(*line, "--output", "json").json
    again = made(*line)

    assert "dry run" in planned[0]
    assert (done["rows"], done["files"], done["lost"]) == (3, 1, [])
    assert "already complete" in again.lines[0]
    (path,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(path).column_names == ["seq", "data"]


def test_export_lists_what_was_lost(made: Command, data_dir: str, tmp_path: Path):
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        topic.append([b"%d" % number for number in range(50)])
        topic.alter(cap_records=10)
        topic.enforce_retention()

    answer = made("pipeline", "run", "export", "--topic", "t", "--to", str(tmp_path / "out"))

    assert "40 seqs" in answer.out
    assert answer.lines[-1].split() == ["1", "40", "cap"]


def test_an_export_into_a_folder_that_is_not_empty_is_refused(made: Command, tmp_path: Path):
    answer = made("pipeline", "run", "export", "--topic", "t", "--to", str(tmp_path))

    assert answer.code == 2
    assert "is not empty" in answer.err
