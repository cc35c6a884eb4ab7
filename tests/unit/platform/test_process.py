"""Promise (E10): a forked child cannot touch its parent's store, nor hold its lock."""

from __future__ import annotations

import fcntl
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import strandline
from strandline.errors import Closed
from strandline.platform import process
from strandline.platform.disk import OsDisk
from tests.unit.store.world import payloads

DEADLINE_S = 30


def _in_child(work: Callable[[], str]) -> str:
    """What a forked child says about its work."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is the point
        child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE_S)
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - the parent wants to know, whatever it is
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize(
    "verb", ["append", "append_many", "topic", "sync", "checkpoint", "delete_topic", "read"]
)
def test_every_verb_is_closed_in_a_child(data_dir, verb):
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        topic.append(b"mine")
        calls: dict[str, Callable[[], object]] = {
            "append": lambda: topic.append(b"x"),
            "append_many": lambda: topic.append_many([b"x"]),
            "topic": lambda: store.topic("t"),
            "sync": store.sync,
            "checkpoint": store.checkpoint,
            "delete_topic": lambda: store.delete_topic("t"),
            "read": topic.read,
        }

        answer = _in_child(lambda: repr(calls[verb]()))

        assert answer.startswith(Closed.__name__)
        assert "fork" in answer or verb.startswith("append")
        assert topic.append(b"still mine").first_seq == 2
        assert payloads(topic) == [b"mine", b"still mine"]


def test_closing_in_the_child_leaves_the_parent_alone(data_dir):
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        topic.append(b"1")

        answer = _in_child(lambda: repr(store.close()))

        topic.append(b"2")
    assert answer == "None"
    with strandline.open(data_dir) as store:
        assert payloads(store.topic("t")) == [b"1", b"2"]
        assert store.health().status == "green"


def test_a_child_that_lives_on_does_not_keep_the_lock(data_dir):
    store = strandline.open(data_dir)
    store.topic("t").append(b"1")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE_S)
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)

    store.close()
    with strandline.open(data_dir) as again:
        found = payloads(again.topic("t"))

    os.close(writing)
    os.waitpid(child, 0)
    assert found == [b"1"]


def test_a_lock_is_of_the_file_that_has_the_name(tmp_path, monkeypatch):
    """Removed by its last owner and made anew by another between opening and locking."""
    disk = OsDisk()
    path = str(tmp_path / "LOCK")
    flock = fcntl.flock

    def replaced_first(fd: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        os.unlink(path)
        Path(path).touch()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", replaced_first)
    held = disk.lock(path, b"me")
    second = disk.lock(path, b"you")

    assert held is not None
    assert second is None


def test_a_child_that_was_never_told_does_not_keep_the_lock(tmp_path):
    """As one that is forked in C, or that has not come to its senses yet."""
    disk = OsDisk()
    path = str(tmp_path / "LOCK")
    lock = disk.lock(path, b"me")
    assert lock is not None
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE_S)
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)

    lock.release()
    again = disk.lock(path, b"again")

    os.close(writing)
    os.waitpid(child, 0)
    assert again is not None
    again.release()


def test_a_child_can_open_the_store_when_the_parent_has_closed_it(data_dir):
    with strandline.open(data_dir) as store:
        store.topic("t").append(b"1")

    def work() -> str:
        with strandline.open(data_dir) as store:
            store.topic("t").append(b"2")
        return "done"

    assert _in_child(work) == "done"
    with strandline.open(data_dir) as store:
        assert payloads(store.topic("t")) == [b"1", b"2"]


def test_things_that_are_gone_are_not_told():
    told = []

    class Thing:
        def forked(self) -> None:
            told.append(os.getpid())

    kept, dropped = Thing(), Thing()
    process.register_forkable(kept)
    process.register_forkable(dropped)
    del dropped

    answer = _in_child(lambda: str(len(told)))

    assert answer == "1"
    assert told == []


def test_tuning_can_be_asked_for_twice():
    process.tune_for_throughput()
    process.tune_for_throughput()
