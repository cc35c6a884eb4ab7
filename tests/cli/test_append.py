"""Promise: append stores its arguments or the lines of stdin, and tells the seqs it was given."""

from __future__ import annotations

import os

import pytest

import strandline
from tests.cli.conftest import SECONDS_MAX, Command, Program, read_until


def test_arguments_become_records_of_one_batch(command: Command):
    answer = command("append", "greetings", "hello", "world", "--output", "json")

    assert answer.code == 0
    assert answer.json == {
        "topic": "greetings",
        "records": 2,
        "first_seq": 1,
        "last_seq": 2,
        "head_seq": 2,
        "deduped": False,
    }


def test_a_person_is_told_the_seqs(command: Command):
    command("append", "greetings", "hello")

    answer = command("append", "greetings", "my", "world")

    assert answer.lines == ["topic    greetings", "records  2", "seqs     2 to 3"]


def test_every_field_reaches_the_record(command: Command, data_dir: str):
    fields = ["--key", "k", "--tag", "eu", "--node", "n1", "--meta", "m"]

    command("append", "greetings", "hello", *fields)

    with strandline.open(data_dir, readonly=True) as store:
        (record,) = store.existing_topic("greetings").read().records
    assert (record.key, record.tag, record.node, record.meta) == (b"k", "eu", "n1", b"m")
    assert record.data == b"hello"


def test_data_that_is_no_text_is_stored_as_it_is(command: Command, data_dir: str):
    command("append", "greetings", os.fsdecode(b"\xff\xfe"), "--", "--dash")

    with strandline.open(data_dir, readonly=True) as store:
        assert store.existing_topic("greetings").read().data == [b"\xff\xfe", b"--dash"]


def test_the_durability_is_for_a_topic_that_is_new(command: Command):
    made = command("append", "orders", "tea", "--durability", "fsync")
    same = command("append", "orders", "tea", "--durability", "fsync")
    other = command("append", "orders", "tea", "--durability", "memory")
    shown = command("topic", "show", "orders", "--output", "json")

    assert (made.code, same.code, other.code) == (0, 0, 2)
    assert shown.json["config"]["durability"] == "fsync"
    assert shown.json["head_seq"] == 2


def test_an_idempotency_key_appends_once(command: Command):
    first = command("append", "orders", "tea", "--idempotency-key", "k", "--output", "jsonl")
    second = command("append", "orders", "tea", "--idempotency-key", "k", "--output", "jsonl")

    assert first.json_lines[0]["deduped"] is False
    assert second.json_lines[0]["deduped"] is True
    assert second.json_lines[0]["first_seq"] == first.json_lines[0]["first_seq"] == 1


def test_batches_split_the_arguments_and_are_told_one_by_one_as_jsonl(command: Command):
    answer = command("append", "t", "a", "b", "c", "--batch", "2", "--output", "jsonl")

    told = [(line["records"], line["first_seq"], line["last_seq"]) for line in answer.json_lines]
    assert told == [(2, 1, 2), (1, 3, 3)]


def test_what_was_acknowledged_before_a_failure_is_still_told(command: Command):
    command("topic", "create", "small", "--cap-records", "2", "--discard", "reject")

    answer = command("append", "small", "a", "b", "c", "--batch", "1", "--output", "json")

    assert answer.code == 1
    assert "topic trim" in answer.err
    assert (answer.json["records"], answer.json["last_seq"]) == (2, 2)


def test_lines_of_a_piped_stdin_become_records(program: Program):
    lines = b"".join(b"line %d\n" % number for number in range(2500)) + b"\nlast"

    answer = program.run("append", "lines", "--output", "json", stdin=lines)

    assert answer.code == 0, answer.err
    assert (answer.json["records"], answer.json["last_seq"]) == (2502, 2502)
    with strandline.open(program.environment["STRANDLINE_STORE"], readonly=True) as store:
        data = store.existing_topic("lines").read(limit=3000).data
    assert data == [*(b"line %d" % number for number in range(2500)), b"", b"last"]


def test_stdin_is_one_batch_when_it_must_be_appended_once(program: Program, data_dir: str):
    lines = b"".join(b"line %d\n" % number for number in range(1500))
    once = ("append", "lines", "--stdin", "--idempotency-key", "k", "--output", "jsonl")

    first = program.run(*once, stdin=lines)
    second = program.run(*once, stdin=lines)

    assert [line["records"] for line in first.json_lines] == [1500]
    assert second.json_lines[0]["deduped"] is True


def test_a_line_is_stored_without_waiting_for_more(program: Program):
    process = program.start("append", "lines", "--output", "jsonl")

    process.stdin.write(b"slow\n")
    process.stdin.flush()
    told = read_until(process.stdout, b"\n")

    assert b'"last_seq":1' in told
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(SECONDS_MAX) == 0


def test_a_line_over_the_limit_is_refused(program: Program):
    answer = program.run("append", "lines", stdin=b"x" * (2 << 20))

    assert answer.code == 2
    assert "longer than" in answer.err


def test_a_file_as_stdin_needs_no_option(program: Program, tmp_path):
    (tmp_path / "lines.txt").write_bytes(b"one\ntwo\n")

    with open(tmp_path / "lines.txt", "rb") as file:
        process = program.start("append", "lines", stdin=file)
        out, _ = process.communicate(timeout=SECONDS_MAX)

    assert b"1 to 2" in out
    assert process.returncode == 0


def test_a_file_is_appended_line_by_line(command: Command, tmp_path):
    (tmp_path / "lines").write_text("one\ntwo\n")

    answer = command("append", "t", "--file", str(tmp_path / "lines"), "--output", "json")
    none = command("append", "t", "--file", str(tmp_path / "none"))
    both = command("append", "t", "x", "--file", str(tmp_path / "lines"))

    assert answer.json["records"] == 2
    assert (none.code, both.code) == (2, 2)
    assert "cannot read" in none.err


def test_lines_of_json_have_fields_of_their_own(command: Command, tmp_path):
    lines = ['{"data": "tea", "key": "k", "tag": "eu", "seq": 9, "ts": 1}', ""]
    lines += ['{"data": {"price": 3.20}, "meta": [1]}', '{"data_base64": "/w==", "node": "n"}']
    (tmp_path / "lines").write_text("\n".join(lines))

    command("append", "t", "--ndjson", "-f", str(tmp_path / "lines"), "--tag", "us")
    read = command("read", "t", "--output", "jsonl").json_lines

    assert [(each["key"], each["tag"], each["node"]) for each in read] == [
        ("k", "eu", None),
        (None, "us", None),
        (None, "us", "n"),
    ]
    assert (read[0]["data"], read[1]["data"], read[1]["meta"]) == ("tea", '{"price": 3.20}', "[1]")
    assert read[2]["data_base64"] == "/w=="


@pytest.mark.parametrize(
    "line", ["tea", '{"key": "k"}', '{"data": "x", "tga": "y"}', '{"data_base64": "?"}']
)
def test_a_line_that_is_no_record_is_named_and_none_of_its_batch_is_appended(
    command: Command, tmp_path, line: str
):
    (tmp_path / "lines").write_text(f'{{"data": "good"}}\n{line}\n')

    answer = command("append", "t", "--ndjson", "-f", str(tmp_path / "lines"))

    assert answer.code == 2
    assert "line 2 is not a record" in answer.err
    assert command("topic", "info", "t", "--output", "json").json["head_seq"] == 0
