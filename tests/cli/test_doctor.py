"""Promise: doctor says of each thing whether it is well and what to do; it changes nothing."""

from __future__ import annotations

import os
from collections import namedtuple

import pytest

import strandline
from strandline.cli.maintenance import doctor
from strandline.ingest import view_handoff_codec as handovers
from strandline.ingest.view_handoff_codec import ViewHandoff
from strandline.platform.objectstore.cloud import open_objects
from tests.cli.conftest import Command

GIB = 1 << 30
Usage = namedtuple("Usage", ["free"])


def found(answer, what: str) -> dict[str, object]:
    return next(line for line in answer.json_lines if line["what"] == what)


def test_a_store_that_is_well_is_ok(command: Command, data_dir: str):
    command("append", "t", "x")
    before = _times(data_dir)

    answer = command("doctor", "--output", "jsonl")

    assert answer.code == 0
    for what in ("python", "disk space", "fsync", "store", "lock", "lake", "clock"):
        assert found(answer, what)["state"] != "fail", what
    assert found(answer, "store")["state"] == "ok"
    assert found(answer, "lock")["found"] == "free"
    assert _times(data_dir) == before


def test_a_store_that_is_open_elsewhere_is_told(command: Command, data_dir: str):
    with strandline.open(data_dir):
        answer = command("doctor", "--output", "jsonl")

    assert answer.code == 0
    assert "another process" in found(answer, "lock")["found"]


def test_no_store_is_a_warning(command: Command):
    answer = command("doctor", "--output", "jsonl")

    assert answer.code == 0
    assert found(answer, "store")["state"] == "warn"
    assert "append" in found(answer, "store")["todo"]


def test_a_damaged_store_fails(command: Command, data_dir: str):
    command("append", "t", "x")
    with open(f"{data_dir}/SYSTEM", "wb") as file:
        file.write(b"nonsense")

    answer = command("doctor", "--output", "jsonl")

    assert answer.code == 1
    assert found(answer, "store")["state"] == "fail"
    assert "verify" in found(answer, "store")["todo"]


@pytest.mark.parametrize(("free", "state"), [(GIB // 10, "fail"), (GIB, "warn"), (9 * GIB, "ok")])
def test_little_room_on_the_disk_is_told(command: Command, monkeypatch, free: int, state: str):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: Usage(free))

    answer = command("doctor", "--output", "jsonl")

    assert found(answer, "disk space")["state"] == state
    assert answer.code == (1 if state == "fail" else 0)


def test_a_missing_package_fails(command: Command, monkeypatch):
    monkeypatch.setattr(doctor, "_NEEDED", ("no_such_package",))

    answer = command("doctor", "--output", "jsonl")

    assert answer.code == 1
    assert found(answer, "package no_such_package")["todo"].startswith("pip install")


def test_a_lake_that_cannot_be_reached_fails(command: Command):
    command("append", "t", "x")

    answer = command("doctor", "--lake-url", "nonsense://bucket", "--output", "jsonl")

    assert found(answer, "lake")["state"] == "fail"
    assert answer.code == 1


def test_a_server_that_is_away_fails(command: Command):
    answer = command("doctor", "--url", "http://127.0.0.1:9", "--output", "jsonl")

    assert answer.code == 1
    assert "does not respond" in found(answer, "server")["found"]


def _times(folder: str) -> dict[str, int]:
    """When each thing was changed; the lock is tried, and so is not among them."""
    names = [name for name in os.listdir(folder) if name != "LOCK"]
    return {name: os.stat(f"{folder}/{name}").st_mtime_ns for name in names}


def test_what_the_store_refused_is_a_warning(command: Command, data_dir: str):
    command("append", "t", "x")
    with strandline.open(data_dir, start_jobs=False) as store:
        made = ViewHandoff(store_id=store.id, kind="kv", name="nobody", attempt="a", made_us=1)
        folder = open_objects(f"{data_dir}/incoming")
        folder.create(made.key(), handovers.encode(made), writer=made.attempt)
        store.ingest_pending()

    answer = command("doctor", "--output", "jsonl")

    assert answer.code == 0
    assert found(answer, "refused")["state"] == "warn"
    assert "view 'nobody' was rejected" in found(answer, "refused")["found"]
