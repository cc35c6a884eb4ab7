"""Promise: pipelines run from the command line, beside a writer, and tell what they did."""

from __future__ import annotations

import shutil

import pytest

from strandline.lake import external_reader
from tests.cli.conftest import Command
from tests.unit.lake.small_lake import fill, open_small


@pytest.fixture
def cold(command: Command, data_dir: str) -> Command:
    """A store with five sealed segments, four of which are in the lake."""
    with open_small(data_dir) as store:
        fill(store)
    return command


def _damage(data_dir: str) -> str:
    path = external_reader.files(f"{data_dir}/lake", "orders").files[1].url
    with open(path, "r+b") as file:
        file.seek(300)
        byte = file.read(1)
        file.seek(300)
        file.write(bytes([byte[0] ^ 1]))
    return path


def test_list_names_the_pipelines(command: Command):
    listed = command("pipeline", "list", "--output", "jsonl").json_lines

    assert [row["pipeline"] for row in listed] == [
        "compact",
        "scrub",
        "materialize",
        "import",
        "export",
        "rebuild",
        "rollup",
    ]


def test_compact_merges_and_sums_up(cold: Command, data_dir: str):
    done = cold("pipeline", "run", "compact", "--output", "json").json

    assert (done["files_before"], done["files_after"], done["groups"]) == (4, 1, 1)
    assert (done["rows_after"], done["rows_dropped"], done["skipped"]) == (400, 0, [])
    assert done["engine"] == "embedded"
    assert len(external_reader.files(f"{data_dir}/lake", "orders").files) == 1
    records = cold("read", "orders", "--all", "--output", "jsonl").json_lines
    assert [record["seq"] for record in records] == list(range(1, 501))


def test_compact_works_beside_the_writer(command: Command, data_dir: str):
    with open_small(data_dir) as store:
        topic = fill(store)

        answer = command("pipeline", "run", "compact", "orders")

        assert answer.code == 0
        assert answer.lines[1].split() == ["result", "1", "groups", "of", "files", "merged"]
        topic.append(b"501", tag="odd")
        assert len(topic.read(0, limit=1000).records) == 501


def test_a_dry_run_says_what_would_be_done(cold: Command, data_dir: str):
    told = cold("pipeline", "run", "compact", "--dry-run")

    assert told.code == 0
    assert "1 groups of files would be merged" in told.out
    assert "4 before, 1 after" in told.out
    assert len(external_reader.files(f"{data_dir}/lake", "orders").files) == 4


def test_compact_needs_only_the_lake(cold: Command, data_dir: str):
    shutil.move(f"{data_dir}/lake", f"{data_dir}-lake")
    shutil.rmtree(data_dir)

    answer = cold("pipeline", "run", "compact", "--lake-url", f"{data_dir}-lake")

    assert answer.code == 0
    assert len(external_reader.files(f"{data_dir}-lake", "orders").files) == 1


@pytest.mark.parametrize("pipeline", ["compact", "scrub"])
def test_damage_ends_with_code_three_and_names_the_file(
    cold: Command, data_dir: str, pipeline: str
):
    path = _damage(data_dir)

    answer = cold("pipeline", "run", pipeline, "--output", "json")

    assert answer.code == 3
    assert path.rpartition("/")[2] in answer.err + answer.out
    assert answer.err.startswith("error: ")


def test_scrub_reads_the_lake_and_the_store(cold: Command, data_dir: str):
    whole = cold("pipeline", "run", "scrub", "--output", "json")
    lake = cold("pipeline", "run", "scrub", "--no-local", "--output", "json")
    dry = cold("pipeline", "run", "scrub", "--dry-run", "--output", "json")

    assert (whole.code, whole.json["ok"], whole.json["files"]) == (0, True, 4)
    assert whole.json["local_files"] > 3
    assert lake.json["local_files"] == 0
    assert whole.json["bytes_read"] > lake.json["bytes_read"] > dry.json["bytes_read"] > 0


def test_scrub_finds_damage_in_a_segment(cold: Command, data_dir: str, tmp_path):
    [segment] = [path for path in tmp_path.rglob("*.seg") if "0000000001" in str(path.parent)][-1:]
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)

    found = cold("pipeline", "run", "scrub", "--output", "json")

    assert found.code == 3
    assert [each["kind"] for each in found.json["findings"]] == ["segment"]


def test_wrong_input_is_told_in_a_line(cold: Command):
    topic = cold("pipeline", "run", "compact", "order")
    size = cold("pipeline", "run", "compact", "--file-bytes", "much")
    share = cold("pipeline", "run", "compact", "--dead-share", "7")
    unknown = cold("pipeline", "run", "polish")

    assert [answer.code for answer in (topic, size, share, unknown)] == [2, 2, 2, 2]
    assert "there is no topic 'order' in the lake" in topic.err
    assert "'much' is not a size" in size.err
    assert "dead_share from 0 to 1" in share.err


def test_spark_that_is_not_installed_is_told_with_the_command(cold: Command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    answer = cold("pipeline", "run", "compact", "--engine", "spark")
    auto = cold("pipeline", "run", "compact", "--threshold", "0", "--output", "json")

    assert answer.code == 2
    assert "pip install 'strandline[spark]'" in answer.err
    assert auto.json["engine"] == "embedded"
