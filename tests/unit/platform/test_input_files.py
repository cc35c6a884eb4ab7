"""Promise: paths, folders and patterns stand for the files a person would expect, in one order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strandline.errors import Invalid, NotFound
from strandline.platform.input_files import find_sources, open_source
from tests.unit.pipelines.transfers import write


def found(*given: str) -> list[str]:
    return [os.path.basename(file.url) for file in find_sources(given)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "b.csv",
        "a b.csv",
        "c/d.csv",
        "c/e.json",
        "_note.csv",
        ".hid/x.csv",
        "c/_t/y.csv",
    ):
        write(tmp_path, name, "1")
    return tmp_path


def test_a_folder_is_all_that_is_below_it_but_notes(tree: Path):
    assert found(str(tree)) == ["a b.csv", "b.csv", "d.csv", "e.json"]


def test_a_pattern_is_what_fits(tree: Path):
    assert found(f"{tree}/*.csv") == ["a b.csv", "b.csv"]
    assert found(f"{tree}/**/*.csv") == ["a b.csv", "b.csv", "d.csv"]


def test_a_file_that_is_named_is_taken_whatever_its_name(tree: Path):
    assert found(f"{tree}/_note.csv") == ["_note.csv"]
    assert found(f"file://{tree}/b.csv") == ["b.csv"]


def test_a_file_that_is_named_twice_is_there_once(tree: Path):
    assert found(f"{tree}/c/d.csv", str(tree), f"{tree}/b.csv") == [
        "d.csv",
        "a b.csv",
        "b.csv",
        "e.json",
    ]


def test_nothing_at_a_place_is_told(tree: Path):
    with pytest.raises(Invalid, match=r"no files at .*nothing"):
        find_sources([f"{tree}/nothing"])
    with pytest.raises(Invalid, match="no files at"):
        find_sources([f"{tree}/*.orc"])


def test_folders_tell_columns(tmp_path: Path):
    write(tmp_path, "in/day=2026-11-16/tag=a%20b/x.csv", "1")

    (file,) = find_sources([str(tmp_path / "in")])

    assert file.folders == (("day", "2026-11-16"), ("tag", "a b"))


def test_a_changed_file_has_another_version(tmp_path: Path):
    path = write(tmp_path, "x.csv", "1")
    (before,) = find_sources([path])
    os.utime(path, ns=(1, 1))

    (after,) = find_sources([path])

    assert before.version != after.version


def test_a_file_that_went_or_grew_since_is_told(tmp_path: Path):
    path = write(tmp_path, "x.csv", "1")
    (file,) = find_sources([path])
    write(tmp_path, "x.csv", "12")

    with pytest.raises(Invalid, match="has changed since"):
        open_source(file)
    os.remove(path)
    with pytest.raises(NotFound, match="no longer exists"):
        open_source(file)
