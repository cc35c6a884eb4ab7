"""Promise: damage is found (C1), told with an exit code of its own, and repaired only when asked.

A repair gives up what is damaged, says so, and deletes nothing (C8).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import strandline
from strandline.cli.open_store import open_to_read
from strandline.cli.records.read import TopicCursor
from tests.cli.conftest import Command


@pytest.fixture
def damaged(command: Command, data_dir: str) -> Command:
    """A store with three batches in its log, the second of which has a flipped bit."""
    with strandline.open(data_dir) as store:
        topic = store.topic("orders")
        for text in (b"first", b"second", b"third"):
            topic.append_many([text] * 3)
    path = _wal_file(data_dir)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"secondsecond", b"secondsecone"))
    return command


def test_a_good_store_is_called_good(command: Command, data_dir: str):
    command("append", "orders", "tea")
    command("checkpoint")
    command("append", "orders", "cake")
    before = _files(data_dir)

    table = command("verify")
    report = command("verify", "--output", "json").json

    assert table.code == 0
    assert table.lines[-1].split() == ["result", "good"]
    assert (report["ok"], report["problems"], report["topics"]) == (True, [], 1)
    assert report["records"] >= 2
    assert _files(data_dir) == before


def test_a_store_is_verified_beside_its_writer(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("orders").append(b"tea")

        report = command("verify", "--output", "json")

    assert report.code == 0
    assert (report.json["ok"], report.json["in_use"]) == (True, True)


def test_damage_is_listed_with_its_place(damaged: Command, data_dir: str):
    before = _files(data_dir)

    table = damaged("verify")
    lines = damaged("verify", "--output", "jsonl")

    assert table.code == lines.code == 3
    assert table.err.startswith("error: ")
    assert "strandline repair --dry-run" in table.err
    assert str(_wal_file(data_dir)) in table.out
    (report,) = lines.json_lines
    assert report["ok"] is False
    assert report["problems"][0]["path"] == str(_wal_file(data_dir))
    assert _files(data_dir) == before


def test_a_damaged_log_is_not_written_to_but_can_be_read(damaged: Command):
    append = damaged("append", "orders", "x")
    read = damaged("read", "orders", "--output", "jsonl")

    assert append.code == 3
    assert "strandline verify" in append.err
    assert read.code == 0
    assert [line.get("data") for line in read.json_lines] == [*["first"] * 3, None, *["third"] * 3]
    assert read.json_lines[3]["tombstone"]["reason"] == "damaged"


def test_a_hole_is_looked_at_twice_before_it_is_believed(damaged: Command, data_dir: str):
    """What looks like a hole beside a writer may have been read while it was being written."""
    path = _wal_file(data_dir)

    with open_to_read(data_dir) as store:
        path.write_bytes(path.read_bytes().replace(b"secondsecone", b"secondsecond"))
        cursor = TopicCursor(store, "orders", 3, None)
        page = cursor.next_page(100)

    assert page.tombstone is None
    assert page.data == [*[b"second"] * 3, *[b"third"] * 3]


def test_a_dry_run_says_what_a_repair_would_do_and_does_nothing(damaged: Command, data_dir: str):
    before = _files(data_dir)

    table = damaged("repair", "--dry-run")
    report = damaged("repair", "--dry-run", "--output", "json").json

    assert table.code == 0
    assert "would give up 3 records" in table.out
    assert [(lost["topic"], lost["first_seq"], lost["last_seq"]) for lost in report["lost"]] == [
        ("orders", 4, 6)
    ]
    assert _files(data_dir) == before


def test_a_repair_keeps_the_rest_and_deletes_nothing(damaged: Command, data_dir: str):
    before = set(_files(data_dir).values())

    repaired = damaged("repair")
    kept = set(_files(data_dir).values())
    verified = damaged("verify")
    read = damaged("read", "orders", "--output", "jsonl").json_lines
    again = damaged("repair", "--output", "json").json

    assert repaired.code == verified.code == 0
    assert "3 records were given up" in repaired.out
    assert [line.get("data") for line in read] == [*["first"] * 3, None, *["third"] * 3]
    assert again["healthy"] is True
    assert before <= kept
    assert damaged("append", "orders", "fourth").code == 0


def test_a_store_that_is_open_is_not_repaired(command: Command, data_dir: str):
    with strandline.open(data_dir):
        answer = command("repair")

    assert answer.code == 4


def test_inspect_tells_what_a_store_consists_of(command: Command):
    command("append", "orders", "tea", "cake")
    command("checkpoint")
    command("append", "logs", "line")

    table = command("inspect")
    found = command("inspect", "--output", "json").json

    for heading in ("checkpoints", "log files", "segments", "topics"):
        assert heading in table.lines
    assert [(topic["name"], topic["count"]) for topic in found["topics"]] == [
        ("orders", 2),
        ("logs", 1),
    ]
    assert found["segments"][0]["info"]["record_count"] == 2
    assert found["checkpoints"][0]["problem"] == ""
    assert found["clean"] is True
    assert found["wal_shards"] == 1


def test_a_long_list_is_cut_in_a_table_and_whole_in_json(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        for number in range(50):
            store.topic(f"t{number}")

    table = command("inspect")
    found = command("inspect", "--output", "json").json

    heading = table.lines.index("topics (the first 20 of 50)")
    assert len(table.lines[heading + 2 :]) == 20
    assert len(found["topics"]) == 50


def test_inspect_lists_the_frames_of_a_log_file(command: Command, data_dir: str):
    command("append", "orders", "tea", "cake", "--tag", "eu")
    path = str(_wal_file(data_dir))

    table = command("inspect", "--wal", path)
    frames = command("inspect", "--wal", path, "--output", "json").json
    lines = command("inspect", "--wal", path, "--output", "jsonl").json_lines

    assert lines == frames
    blocks = [block for frame in frames for block in frame["blocks"]]
    assert blocks[0]["message"]["type"] == "create"
    assert blocks[0]["message"]["name"] == "orders"
    assert (blocks[1]["first_seq"], blocks[1]["count"], blocks[1]["columns"]) == (1, 2, ["tag"])
    assert blocks[-1]["message"]["type"] == "close"
    assert "topic 1: seqs 1 to 2" in table.out


def test_damage_stands_between_the_frames(damaged: Command, data_dir: str):
    path = str(_wal_file(data_dir))

    table = damaged("inspect", "--wal", path)
    frames = damaged("inspect", "--wal", path, "--output", "json").json

    assert "damage" in frames[2]
    assert frames[2]["damage"]["offset"] == frames[1]["offset"] + frames[1]["size"]
    assert sum(line.startswith("-- ") for line in table.lines) == 1


@pytest.mark.parametrize("name", ["wal-00000000000000000000.log", "."])
def test_a_path_that_is_no_log_file_is_refused(command: Command, tmp_path, name: str):
    answer = command("inspect", "--wal", str(tmp_path / name))

    assert answer.code == 2


def _wal_file(data_dir: str) -> Path:
    return min(Path(data_dir, "wal", "shard-00").glob("wal-*.log"))


def _files(data_dir: str) -> dict[str, str]:
    """Every file of a store, and the digest of its bytes."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path(data_dir).rglob("*")
        if path.is_file()
    }
