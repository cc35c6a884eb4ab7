"""Promise: CSV and Arrow hold what JSON holds, for other programs."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

import strandline
from strandline.cli.output.columnar import CsvOutput
from strandline.cli.output.formatting import PreparedRow
from strandline.errors import Invalid
from tests.cli.conftest import Command, Program, Terminal


def test_csv_has_a_line_of_names_and_a_line_for_each_record(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        topic.append(b'say "hi", twice\nor so', key=b"k", tag="eu")
        topic.append(b"\xff\x00")

    answer = command("read", "t", "--output", "csv")

    header, first, second = csv.reader(io.StringIO(answer.out))
    assert header == ["seq", "ts", "key", "tag", "node", "meta", "data"]
    assert (first[2], first[3], first[6]) == ("k", "eu", 'say "hi", twice\nor so')
    assert (second[2], second[6]) == ("", "base64:/wA=")


def test_csv_of_other_lists_has_objects_as_json(command: Command):
    command("kv", "put", "profiles", "ada", "1")

    header, line = csv.reader(io.StringIO(command("view", "ls", "--output", "csv").out))

    assert header[:2] == ["kind", "name"]
    assert line[header.index("options")].startswith("{")


def test_csv_refuses_columns_that_come_too_late(capsys):
    out = CsvOutput()
    out.rows([PreparedRow({"a": 1}, {})])

    with pytest.raises(Invalid, match="columns after the first row: b"):
        out.rows([PreparedRow({"a": 1, "b": 2}, {})])


def test_arrow_of_records_has_the_columns_of_the_lake(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("t").append_many([b"%d" % number for number in range(2500)])

    process = program.start("read", "t", "--all", "--output", "arrow")
    content, _ = process.communicate(timeout=60)

    table = pa.ipc.open_stream(content).read_all()
    assert table.column_names == ["seq", "ts", "key", "tag", "node", "meta", "data"]
    assert table.schema.field("data").type == pa.binary()
    assert table["seq"].to_pylist() == list(range(1, 2501))
    assert table["data"][2499].as_py() == b"2499"


def test_arrow_of_other_lists_and_of_answers(program: Program):
    program.run("append", "t", "a", "b", "--tag", "eu")

    topics = program.start("topic", "ls", "--output", "arrow").communicate(timeout=60)[0]
    answer = program.start(
        "sql", "select seq, tag from t where seq > 5", "--output", "arrow"
    ).communicate(timeout=60)[0]

    listed = pa.ipc.open_stream(topics).read_all()
    empty = pa.ipc.open_stream(answer).read_all()
    assert (listed["name"].to_pylist(), listed["count"].to_pylist()) == (["t"], [2])
    assert (empty.column_names, empty.num_rows) == (["seq", "tag"], 0)


def test_arrow_is_not_for_a_terminal(program: Program, terminal: Terminal):
    program.run("append", "t", "a")

    process = program.start("read", "t", "--output", "arrow", stdout=terminal.theirs)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 2
    assert b"not text for a terminal" in err


@pytest.mark.parametrize("shape", ["csv", "arrow"])
def test_lost_records_are_told_beside_the_rows(program: Program, data_dir: str, shape: str):
    with strandline.open(data_dir) as store:
        topic = store.topic("t", cap_records=2)
        topic.append_many([b"x"] * 5)

    process = program.start("read", "t", "--after", "1", "--output", shape)
    _, err = process.communicate(timeout=60)

    assert b"are gone (cap)" in err
