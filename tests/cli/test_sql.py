"""Promise: a question in SQL is answered beside whoever writes, in the shape that was asked for."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

import strandline
from strandline.cli.errors import WRONG_USE
from tests.cli.conftest import SECONDS_MAX, Command, Program


@pytest.fixture
def shop(command: Command, data_dir: str) -> Command:
    with strandline.open(data_dir) as store:
        store.topic("orders").append_many([b"tea", b"\xff", b"a,b"], tags=["eu", None, "eu"])
        store.kv("profiles").put("ada", b"1")
    return command


def test_an_answer_is_a_table(shop: Command):
    answer = shop("sql", "select tag, count(*) as n from orders group by 1 order by 1")

    assert [line.split() for line in answer.lines] == [["TAG", "N"], ["eu", "2"], ["-", "1"]]


def test_an_answer_is_json_with_bytes_that_are_no_text_in_base64(shop: Command):
    answer = shop("sql", "select seq, data, tag from orders order by seq", "--output", "json")

    assert answer.json == [
        {"seq": 1, "data": "tea", "tag": "eu"},
        {"seq": 2, "data_base64": "/w==", "tag": None},
        {"seq": 3, "data": "a,b", "tag": "eu"},
    ]


def test_columns_of_one_name_are_told_apart(shop: Command):
    answer = shop("sql", "select 1 as x, 2 as x", "--output", "jsonl")

    assert answer.json_lines == [{"x": 1, "x_2": 2}]


def test_lists_maps_and_times_have_a_form_in_json(shop: Command):
    text = "select [1, 2] as l, {'a': date '2026-01-02'} as s, timestamp '2026-01-02 03:04:05' as t"

    answer = shop("sql", text, "--output", "jsonl")

    assert answer.json_lines == [
        {"l": [1, 2], "s": {"a": "2026-01-02"}, "t": "2026-01-02T03:04:05"}
    ]


def test_an_answer_is_csv(shop: Command):
    answer = shop("sql", "select seq, text from orders order by seq", "--write", "csv")

    assert list(csv.reader(io.StringIO(answer.out))) == [
        ["seq", "text"],
        ["1", "tea"],
        ["2", ""],
        ["3", "a,b"],
    ]


def test_an_answer_is_a_stream_of_arrow(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("orders").append([b"1", b"2"])
    process = program.start("sql", "select seq, data from orders", "--write", "arrow")

    out, _ = process.communicate(b"", timeout=60)

    assert pa.ipc.open_stream(out).read_all().to_pylist() == [
        {"seq": 1, "data": b"1"},
        {"seq": 2, "data": b"2"},
    ]


def test_a_question_comes_from_stdin(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("orders").append(b"1")

    answer = program.run("sql", "--output", "jsonl", stdin=b"select count(*) as n\nfrom orders\n")

    assert answer.json_lines == [{"n": 1}]
    assert answer.err == ""


def test_parameters_are_numbers_or_text(shop: Command):
    text = "select $a + 1 as a, $b || '!' as b, $c || '!' as c, $d as d"

    answer = shop(
        *("sql", text, "--output", "jsonl"),
        *("--param", "a=2", "--param", "b=two", "--param", 'c="2"', "--param", "d=null"),
    )

    assert answer.json_lines == [{"a": 3, "b": "two!", "c": "2!", "d": None}]


def test_the_past_is_asked_by_time_and_by_position(shop: Command, data_dir: str):
    with strandline.open(data_dir, readonly=True) as store:
        epoch = store.topic("orders").epoch
        position = '{"store": "%s", "topics": {"orders": {"epoch": %d, "seq": 2}}}'
        position %= (store.id, epoch)
    text = "select count(*) as n from orders"

    before = shop("sql", text, "--as-of", "2001-01-01", "--output", "jsonl")
    between = shop("sql", text, "--as-of", position, "--output", "jsonl")

    assert before.json_lines == [{"n": 0}]
    assert between.json_lines == [{"n": 2}]


def test_a_time_zone_says_how_times_are_shown(shop: Command):
    text = "select timestamptz '2026-01-01 23:30:00Z' as t"

    answer = shop("sql", text, "--timezone", "Europe/Berlin", "--output", "jsonl")

    assert answer.json_lines == [{"t": "2026-01-02T00:30:00+01:00"}]


@pytest.mark.parametrize(
    ("tokens", "error", "hint"),
    [
        (["select sq from orders"], "line 1, column 8: there is no column 'sq'", "'seq'"),
        (["from order_s"], "there is no relation 'order_s'", "'orders'"),
        (["copy orders to 'x'"], "COPY is not allowed", "sql.md"),
        (["select $a", "--param", "a"], "write it as NAME=VALUE", ""),
    ],
)
def test_what_is_wrong_is_told_in_two_lines(shop: Command, tokens, error, hint):
    answer = shop("sql", *tokens)

    assert answer.code == WRONG_USE
    first, second = answer.err.splitlines()
    assert error in first
    assert hint in second


def test_a_question_makes_no_store(program: Program, data_dir: str, tmp_path):
    missing = tmp_path / "nowhere"

    answer = program.run("sql", "select 1", "--store", str(missing))

    assert answer.code == WRONG_USE
    assert not missing.exists()


NULLS = "select 1 as n, null as nothing, cast(null as varchar) as text"


@pytest.mark.parametrize("shape", ["table", "json", "jsonl", "csv", "arrow"])
def test_a_column_of_nulls_is_printed_in_every_shape(program: Program, data_dir: str, shape: str):
    with strandline.open(data_dir):
        pass

    answer = program.start("sql", NULLS, "--output", shape)
    out, err = answer.communicate(timeout=SECONDS_MAX)

    assert answer.returncode == 0, err
    if shape == "arrow":
        assert pa.ipc.open_stream(out).read_all().column_names == ["n", "nothing", "text"]
    else:
        head = out.decode().lower()
        assert all(name in head for name in ("nothing", "text"))


def test_a_column_of_nulls_of_a_query_is_printed(command: Command):
    command("run", 'DEFINE pay FIELDS {a: i64, b: "i64 | null"}')
    command("run", 'STORE pay FOR x PAYLOAD {"a": 1}')

    lines = command("run", "QUERY pay RETURN [a, b]").lines

    assert [line.split() for line in lines] == [["A", "B"], ["1", "-"]]


def test_values_that_do_not_fit_are_told_on_stderr(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        sales = store.topic("sales", schema={"price": "f64"})
        sales.append_many([b'{"price": "2,50"}', b'{"price": "free"}'])

    answer = command("sql", "select sum(price) as s from sales")

    assert [line.split() for line in answer.lines] == [["S"], ["-"]]
    told = '2 values of sales.price are not f64 and are null here, the first is "2,50" of seq 1'
    assert answer.err == f"note: {told}\n"
