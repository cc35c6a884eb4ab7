"""Promise: a rebuild that was killed goes on with the tasks that were done, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from strandline.errors import Corrupt
from strandline.pipelines import Embedded, rebuild
from strandline.pipelines.splits import split_planner
from tests.unit.pipelines.lives import host, live, open_lively
from tests.unit.pipelines.view_rebuild.test_rebuild_view import (
    SMALL,
    digest,
    left_in_the_lake,
    make,
)


class Ended(BaseException):
    """As if the process had been killed: nobody catches it."""


class Ending(Embedded):
    """Dies when so many tasks are done and noted."""

    def __init__(self, tasks: int) -> None:
        super().__init__(1)
        self._left = tasks

    def run(self, work, tasks: Sequence[object]) -> Iterator[tuple[int, object]]:
        for found in super().run(work, tasks):
            if not self._left:
                raise Ended
            self._left -= 1
            yield found


class Counting(Embedded):
    """Counts the tasks that are done."""

    tasks = 0

    def run(self, work, tasks: Sequence[object]) -> Iterator[tuple[int, object]]:
        self.tasks += len(tasks)
        return super().run(work, tasks)


def tasks_of(path: str, kind: str, **options: object) -> int:
    engine = Counting(1)
    rebuild(path, kind, kind, rows_max=SMALL, engine=engine, **options)
    return engine.tasks


def notes_in(path: str) -> list[str]:
    """What a rebuild could go on with."""
    return [name for name in left_in_the_lake(path) if name.startswith("rebuilt-")]


def end(path: str, kind: str, tasks: int, **options: object) -> None:
    with pytest.raises(Ended):
        rebuild(path, kind, kind, rows_max=SMALL, engine=Ending(tasks), **options)


@pytest.mark.parametrize(
    ("kind", "replace"),
    [("kv", False), ("kv", True), ("queue", True), ("series", True), ("metrics", False)],
)
def test_a_rebuild_that_was_killed_goes_on_where_it_was(data_dir, kind, replace):
    expected = make(data_dir, kind)
    whole = tasks_of(data_dir, kind)
    taken_over = 0
    for done in sorted({1, whole // 2, whole - 1}):  # each time a little further
        end(data_dir, kind, done - taken_over, replace=replace)
        taken_over = done

    engine = Counting(1)
    found = rebuild(data_dir, kind, kind, replace=replace, rows_max=SMALL, engine=engine)

    assert (found.taken_over, engine.tasks) == (whole - 1, 1)
    assert found.same
    assert notes_in(data_dir) == []
    assert tasks_of(data_dir, kind) == whole, "nothing is left to go on with"
    with open_lively(data_dir) as store:
        assert store.views.digest(kind, kind) == expected == digest(data_dir, kind)


@pytest.mark.parametrize("kind", ["kv", "queue"])  # others are in one task
def test_what_is_new_since_a_rebuild_was_killed_is_read_and_the_rest_is_not(
    data_dir, kind, monkeypatch
):
    monkeypatch.setattr(split_planner, "TASK_ROWS", 150)  # of files: one task each
    make(data_dir, kind)
    with open_lively(data_dir) as store:  # what a view lets go of when it is saved has left by then
        host(store, kind)
        store.topic(kind).append(b"plain", key=b"x")
        store.checkpoint()
        store.relocate()
    whole = tasks_of(data_dir, kind)
    end(data_dir, kind, whole - 1)
    with open_lively(data_dir) as store:
        store.topic(kind).append_many([b"plain %d" % n for n in range(50)], keys=[b"x"] * 50)

    found = rebuild(data_dir, kind, kind, rows_max=SMALL)

    assert found.taken_over
    assert found.same
    assert notes_in(data_dir) == []


def test_another_view_other_options_and_a_topic_made_anew_take_nothing_over(data_dir):
    make(data_dir, "kv")
    make(data_dir, "series")
    whole = tasks_of(data_dir, "kv")
    end(data_dir, "kv", whole - 1)

    other = rebuild(data_dir, "series", "series", rows_max=SMALL)
    with open_lively(data_dir) as store:
        store.views.alter("kv", "kv", history=2)
    changed = rebuild(data_dir, "kv", "kv", rows_max=SMALL)
    end(data_dir, "kv", 2)
    with open_lively(data_dir) as store:
        store.delete_topic("kv")
        live(store, "kv")
    anew = rebuild(data_dir, "kv", "kv", rows_max=SMALL)

    assert (other.taken_over, changed.taken_over, anew.taken_over) == (0, 0, 0)
    assert other.same
    assert changed.same
    assert anew.same


@pytest.mark.parametrize(
    ("damage", "what"),
    [("gone", "-run-"), ("flipped", "-run-"), ("flipped", "-marks-"), ("flipped", "rebuilt-")],
)
def test_what_a_killed_rebuild_has_left_is_not_trusted(data_dir, what, damage):
    make(data_dir, "kv")
    with open_lively(data_dir) as store:
        host(store, "kv").fold._live.delete(b"key-3")  # so that marks are looked at
        store.kv("kv").put("last", b"so that it is saved")
    whole = tasks_of(data_dir, "kv")
    end(data_dir, "kv", whole - 1)
    for name in left_in_the_lake(data_dir):
        if what in name:
            _spoil(f"{data_dir}/lake/incoming/{name}", damage)

    try:
        found = rebuild(data_dir, "kv", "kv", rows_max=SMALL)
    except Corrupt:  # which it says, and does not go on with it again
        assert damage == "flipped"
        found = rebuild(data_dir, "kv", "kv", rows_max=SMALL)

    assert [name for each in found.differences for name in each.names] == ["key-3"]
    assert notes_in(data_dir) == []


def test_two_rebuilds_of_one_view_do_not_disturb_each_other(data_dir):
    make(data_dir, "kv")
    found = []

    class Beside(Embedded):
        """Another run, from the beginning to the end, when the first tasks are done."""

        def run(self, work, tasks: Sequence[object]) -> Iterator[tuple[int, object]]:
            yield from super().run(work, tasks)
            if not found:
                found.append(rebuild(data_dir, "kv", "kv", rows_max=SMALL))

    first = rebuild(data_dir, "kv", "kv", rows_max=SMALL, engine=Beside(1))

    assert first.same
    assert found[0].same
    assert (first.taken_over, found[0].taken_over) == (0, 0)
    assert left_in_the_lake(data_dir) == []


def _spoil(path: str, damage: str) -> None:
    if damage == "gone":
        Path(path).unlink()
        return
    data = bytearray(Path(path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(path).write_bytes(data)
