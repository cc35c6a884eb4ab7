"""Promise: backups are taken, listed, verified, pruned and restored from the command line."""

from __future__ import annotations

import os

import pytest

import strandline
from strandline.cli.errors import DAMAGED, WRONG_USE


@pytest.fixture
def place(tmp_path) -> str:
    return str(tmp_path / "backups")


@pytest.fixture
def target(tmp_path) -> str:
    return str(tmp_path / "restored")


def test_a_backup_is_taken_listed_verified_and_restored(command, place, target):
    command("append", "t", "one", "two")
    taken = command("backup", "--to", place, "--output", "json")
    command("append", "t", "three")
    command("backup", "--to", place)

    listed = command("backup", "list", "--from", place, "--output", "jsonl")
    verified = command("backup", "verify", "--from", place)
    restored = command("restore", "--from", place, "--to", target, "--output", "json")

    assert taken.json["number"] == 1
    assert [line["number"] for line in listed.json_lines] == [1, 2]
    assert listed.json_lines[1]["from_us"] == listed.json_lines[0]["until_us"]
    assert "good" in verified.out
    assert restored.json["backup"] == 2
    read = command("read", "t", "--store", target, "--output", "jsonl")
    assert [line["data"] for line in read.json_lines] == ["one", "two", "three"]


def test_a_restore_goes_back_to_a_record(command, place, target):
    command("append", "t", "one")
    command("append", "t", "two")
    command("backup", "--to", place)

    command("restore", "--from", place, "--to", target, "--at", "t=1")

    read = command("read", "t", "--store", target, "--output", "jsonl")
    assert [line["data"] for line in read.json_lines] == ["one"]


def test_a_store_that_another_process_writes_is_backed_up(program, data_dir, place, target):
    with strandline.open(data_dir) as store:
        topic = store.topic("t", durability="fsync")
        topic.append([b"x"] * 1000)
        first = program.run("backup", "--to", place)
        store.checkpoint()
        topic.append([b"y"] * 10)
        second = program.run("backup", "--to", place)
        topic.append(b"later")

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert program.run("restore", "--from", place, "--to", target).code == 0
    with strandline.open(target) as store:
        assert store.topic("t").head_seq == 1010


def test_what_is_damaged_is_told_with_its_own_exit_code(command, place):
    command("append", "t", "one")
    command("backup", "--to", place)
    folder = os.path.join(place, "wal", "00")
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name), "r+b") as file:
        file.seek(100)
        file.write(b"?")

    answer = command("backup", "verify", "--from", place)

    assert answer.code == DAMAGED
    assert name in answer.out
    assert answer.err.count("\n") == 2
    assert "create a new backup" in answer.err
    assert command("backup", "verify", "--quick", "--from", place).code == 0


def test_a_moment_that_nobody_has_is_one_line_and_a_hint(command, place, target):
    command("append", "t", "one")
    command("backup", "--to", place)

    answer = command("restore", "--from", place, "--to", target, "--at", "2020-01-01")

    assert answer.code == WRONG_USE
    assert "no backup covers 2020-01-01T00:00:00.000000Z: the nearest times are" in answer.err
    assert f"hint: `strandline backup list --from {place}`" in answer.err
    assert not os.path.exists(target)


def test_a_moment_that_is_none_is_told(command, place, target):
    command("append", "t", "one")
    command("backup", "--to", place)

    answer = command("restore", "--from", place, "--to", target, "--at", "yesterday")

    assert answer.code == WRONG_USE
    assert "'yesterday' is not a restore point" in answer.err


def test_a_directory_that_is_not_empty_is_refused(command, place, data_dir):
    command("append", "t", "one")
    command("backup", "--to", place)

    answer = command("restore", "--from", place, "--to", data_dir)

    assert answer.code == WRONG_USE
    assert "is not empty" in answer.err


def test_old_backups_are_pruned(command, place):
    for number in range(3):
        command("append", "t", str(number))
        command("checkpoint")
        command("backup", "--to", place)

    pruned = command("backup", "prune", "--keep", "1", "--grace", "0", "--from", place, "--yes")

    assert "1, 2" in pruned.out
    listed = command("backup", "list", "--from", place, "--output", "jsonl")
    assert [line["number"] for line in listed.json_lines] == [3]
    assert command("backup", "verify", "--from", place).code == 0


def test_no_store_and_no_backup_are_told(command, place, tmp_path):
    nowhere = str(tmp_path / "nowhere")

    no_store = command("backup", "--to", place, "--store", nowhere)
    no_backup = command("backup", "verify", "--from", nowhere)

    assert no_store.code == WRONG_USE
    assert "is not a store" in no_store.err
    assert no_backup.code == WRONG_USE
    assert "there is no backup" in no_backup.err
    assert not os.path.exists(nowhere)
