"""Promise: the lake is listed with its version, filled and swept from the command line.

Listing needs neither the store nor its lock.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import strandline
from strandline.cli.open_store import open_to_write
from tests.cli.conftest import Command
from tests.unit.lake.small_lake import fill, open_small


@pytest.fixture
def cold(command: Command, data_dir: str) -> Command:
    """A store with five sealed segments, four of which are in the lake."""
    with open_small(data_dir) as store:
        fill(store)
    return command


@pytest.fixture
def warm(command: Command, data_dir: str) -> Command:
    """A store with five sealed segments, none of which is in the lake."""
    with open_small(data_dir, hot_segments=9) as store:
        fill(store)
    return command


def test_files_lists_the_live_files_with_their_version(cold: Command):
    whole = cold("lake", "files", "orders", "--output", "json").json
    lines = cold("lake", "files", "orders", "--output", "jsonl").json_lines
    table = cold("lake", "files", "orders")

    assert (whole["topic"], whole["version"], whole["rows"]) == ("orders", 5, 400)
    assert [file["first_seq"] for file in whole["files"]] == [1, 101, 201, 301]
    assert lines == [{"version": 5} | file for file in whole["files"]]
    assert table.lines[2].split() == ["version", "5"]
    assert table.lines[-1].split()[-1] == lines[-1]["url"]
    assert sum(pq.read_metadata(line["url"]).num_rows for line in lines) == 400


def test_files_of_an_older_version_are_listed(cold: Command):
    old = cold("lake", "files", "orders", "--version", "3", "--output", "json").json

    assert (old["version"], old["rows"]) == (3, 200)


def test_files_are_listed_beside_the_writer_and_without_the_store(cold: Command, data_dir: str):
    lake = f"{data_dir}/lake"
    with strandline.open(data_dir):
        beside = cold("lake", "files", "orders", "--output", "json")
    shutil.move(lake, f"{data_dir}-lake")
    shutil.rmtree(data_dir)

    alone = cold("lake", "files", "orders", "--lake-url", f"{data_dir}-lake", "--output", "json")

    assert (beside.code, alone.code) == (0, 0)
    assert beside.json["version"] == alone.json["version"]


def test_topics_lists_what_is_in_the_lake(cold: Command):
    header, line = cold("lake", "topics").lines
    (json,) = cold("lake", "topics", "--output", "json").json

    assert header.split()[:4] == ["TOPIC", "ID", "VERSION", "SEQS"]
    assert line.split()[:8] == ["orders", "1", "5", "1", "to", "400", "4", "400"]
    assert (json["files"], json["first_seq"], json["last_seq"]) == (4, 1, 400)


def test_files_and_topics_tell_the_schema(data_dir: str, command: Command):
    with open_small(data_dir) as store:
        store.topic("orders", schema={"price": "f64"})
        fill(store, batches=2)
        store.topic("orders").alter(schema={"price": "f64", "note": "string | null"})
        fill(store, batches=1)

    table = command("lake", "files", "orders").out
    json = command("lake", "files", "orders", "--output", "json").json
    (listed,) = command("lake", "topics", "--output", "json").json

    assert "price: f64, note: string | null (version 2)" in table
    assert ("version 1" in table, "SCHEMA" in table) == (True, True)
    assert (json["schema"], json["schema_version"]) == (
        {"price": "f64", "note": "string | null"},
        2,
    )
    assert [file["schema_version"] for file in json["files"]] == [1, 2]
    assert listed["schema_version"] == 2


def test_relocate_moves_what_is_due_and_says_what(warm: Command):
    (moved,) = warm("lake", "relocate", "--output", "json").json
    again = warm("lake", "relocate")

    assert (moved["topic"], moved["last_seq"], moved["new_rows"]) == ("orders", 100, 100)
    assert (again.code, again.out, again.err) == (0, "", "nothing to move\n")
    assert warm("read", "orders", "--output", "jsonl").json_lines[0]["data"] == "1"


def test_relocate_may_keep_less_on_the_disk(warm: Command):
    (moved,) = warm("lake", "relocate", "--hot-segments", "0", "--output", "json").json

    assert (moved["files"], moved["last_seq"]) == (1, 500)
    assert warm("lake", "relocate", "--hot-segments", "-1").code == 2


def test_a_lake_may_be_elsewhere(warm: Command, tmp_path: Path):
    url = str(tmp_path / "elsewhere")

    warm("lake", "relocate", "--lake-url", url)

    assert warm("read", "orders", "--limit", "1", "--lake-url", url).code == 0
    without = warm("read", "orders", "--limit", "1")
    assert (without.code, "--lake-url" in without.err) == (3, True)


def test_a_command_that_is_not_asked_to_moves_no_records(warm: Command, data_dir: str):
    warm("append", "orders", "tea")

    with open_to_write(data_dir, create=False) as store:
        store.relocate()

    assert not Path(data_dir, "lake").exists()


def test_sweep_says_what_it_took(cold: Command):
    (swept,) = cold("lake", "sweep", "--orphans", "--output", "json").json

    assert swept == {"topic": "orders", "manifests": 0, "files": 0, "condemned": 0}


@pytest.mark.parametrize(
    ("tokens", "code", "error", "hint"),
    [
        (["files", "order"], 2, "it has 'orders'", "strandline lake topics"),
        (["files", "orders", "--version", "99"], 1, "1 to 5 are kept", "without --version"),
        (["topics", "--lake-url", "nowhere"], 2, "there is no lake in", "strandline"),
        (["topics", "--store", "nowhere"], 2, "is not a store", "--store"),
    ],
)
def test_an_error_is_two_lines(cold: Command, tokens, code, error, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    answer = cold("lake", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == code
    assert first.startswith("error: ")
    assert error in first
    assert hint in second


def test_a_store_without_a_lake_is_told(warm: Command):
    answer = warm("lake", "files", "orders")

    assert (answer.code, answer.out) == (2, "")
    assert "strandline lake relocate" in answer.err


def test_show_inspect_and_verify_know_the_lake(cold: Command):
    shown = cold("topic", "show", "orders", "--output", "json").json
    (topic,) = cold("inspect", "--output", "json").json["topics"]
    report = cold("verify", "--output", "json").json

    assert (shown["cold"]["files"], shown["cold"]["last_seq"]) == (4, 400)
    assert topic["cold"] == shown["cold"]
    assert "seqs 1 to 400, 4 files" in cold("topic", "show", "orders").out
    assert "4 files, seqs 1 to 400" in cold("inspect").out
    assert (report["ok"], report["notes"]) == (True, [])


def test_verify_finds_damage_in_the_lake(cold: Command, data_dir: str):
    path = next(Path(data_dir, "lake").glob("topics/*/data/*.parquet"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)

    answer = cold("verify")

    assert answer.code == 3
    assert "lake" in answer.out
    assert path.name in answer.err
