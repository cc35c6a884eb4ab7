"""Promise: damage of saved views is noted and cured by a rebuild; it is no damage of the log.

Whatever happens to saved views, what they show comes back from the log.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import strandline
from strandline.cli.errors import DAMAGED
from tests.cli.conftest import Command


@pytest.fixture
def saved(command: Command, data_dir: str) -> Command:
    """A view of two thousand keys that was saved a few times."""
    with strandline.open(data_dir) as store:
        for value in (b"old", b"new"):
            topic = store.topic("profiles")
            topic.append_many([value] * 2000, keys=[b"%04d" % number for number in range(2000)])
            store.kv("profiles")
            store.checkpoint()
    return command


def test_saved_views_that_are_whole_are_not_worth_a_note(saved: Command):
    answer = saved("verify", "--output", "json")

    assert (answer.code, answer.json["ok"], answer.json["notes"]) == (0, True, [])


def test_a_damaged_page_is_noted_with_its_cure(saved: Command, data_dir: str):
    damaged = _newest(data_dir)
    _flip(damaged, 300)

    table = saved("verify")
    report = saved("verify", "--output", "json").json
    without = saved("verify", "--no-views", "--output", "json").json

    assert table.code == 0
    assert (report["ok"], report["problems"]) == (True, [])
    (note,) = report["notes"]
    assert note["path"] == str(damaged)
    assert "saved views are damaged" in note["text"]
    assert "strandline view rebuild --all" in note["text"]
    assert without["notes"] == []


def test_a_rebuild_cures_damage(saved: Command, data_dir: str):
    before = saved("view", "digest", "kv", "profiles", "--output", "json").json
    _flip(_newest(data_dir), -1)

    rebuilt = saved("view", "rebuild", "--all", "--output", "json").json
    report = saved("verify", "--output", "json").json

    assert rebuilt[0]["digest"] == before["digest"]
    assert report["notes"] == []


def test_whoever_meets_damage_is_told_to_rebuild(saved: Command, data_dir: str):
    for offset in range(200, 30_000, 200):
        _flip(_newest(data_dir), offset)

    met = saved("kv", "scan", "profiles", "--all")
    rebuilt = saved("view", "rebuild", "kv", "profiles")
    after = saved("kv", "scan", "profiles", "--all", "--output", "jsonl")

    assert met.code == DAMAGED
    assert "hint: the log is not damaged: `strandline view rebuild --all`" in met.err
    assert rebuilt.code == 0
    assert {line["value"] for line in after.json_lines} == {"new"}


def test_views_without_any_version_come_back_when_they_are_moved_away(
    saved: Command, data_dir: str, tmp_path: Path
):
    for path in Path(data_dir, "views", "checkpoints").iterdir():
        path.write_bytes(b"rubbish")

    noted = saved("verify", "--output", "json").json["notes"]
    shutil.move(Path(data_dir, "views"), tmp_path / "away")
    found = saved("kv", "get", "profiles", "0007", "--output", "json")

    assert f"move {data_dir}/views away" in noted[0]["text"]
    assert found.json["value"] == "new"


def test_views_saved_elsewhere_are_verified_there(command: Command, tmp_path: Path):
    url = str(tmp_path / "elsewhere")
    command("kv", "put", "profiles", "u1", "Ada", "--views-url", url)
    _flip(max(Path(url, "checkpoints").iterdir()), -1)

    here = command("verify", "--output", "json").json
    there = command("verify", "--views-url", url, "--output", "json").json

    assert here["notes"] == []
    assert len(there["notes"]) == 1


def _newest(data_dir: str) -> Path:
    return max(Path(data_dir, "views", "checkpoints").iterdir())


def _flip(path: Path, offset: int) -> None:
    stored = bytearray(path.read_bytes())
    stored[offset] ^= 1
    path.write_bytes(stored)
