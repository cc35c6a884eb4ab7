"""Promise: whatever call to the object store fails while a table's files are added, hidden in,
merged and swept, no row is lost and none is there twice.

Every call fails once: before or after it took effect, with refused credentials, with damaged bytes,
or the process dies there. Then the table is opened anew, what was not known to be done is done
again, and all is as if nothing had failed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyroaring import BitMap64

from strandline.errors import StrandlineError
from strandline.lake import object_keys
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import How, SimObjects
from strandline.views.table.files import layout
from tests.unit.views.table.files.small_table import SCHEMA, TABLE_ID, Table, rows_of

HIDDEN = BitMap64([3, 12, 18])
ROWS = rows_of(seq for seq in range(1, 21) if seq not in HIDDEN)
WAYS: list[tuple[How, int]] = [
    ("before", 1),
    ("after", 1),
    ("flipped", 1),
    ("denied", 5),  # of these two every fifth call will do: they end as the first and the third
    ("truncated", 5),
]
Step = Callable[[Table], object]


class Died(BaseException):
    """The process is gone: nothing of it runs on."""


def _merged(table: Table) -> None:
    for _ in range(20):
        if not table.segments.compact_once(SCHEMA):
            return
    raise AssertionError("merging does not end")


def _swept(table: Table) -> None:
    for _ in range(3):
        table.clock.advance(1)
        table.segments.sweep(orphans=True)


STEPS: list[Step] = [
    lambda table: table.add(1, 6),
    lambda table: table.add(7, 10),
    lambda table: table.segments.hide(HIDDEN),
    lambda table: table.add(11, 15),
    lambda table: table.add(16, 20),
    _merged,
    _swept,
]


def _run(table: Table, done: list[int]) -> None:
    for number, step in enumerate(STEPS):
        if number >= len(done):
            step(table)
            done.append(number)


def _calls() -> int:
    table = Table()
    _run(table, [])
    assert table.rows() == ROWS
    assert len(table.segments.files) == 1
    return int(table.objects.calls_total)


CALLS = _calls()


def _visible(done: list[int]) -> list[set[int]]:
    """What may be seen when so many steps are known to be done: with or without the next."""
    seen, states = set[int](), []
    for number, seqs in enumerate(
        [range(1, 7), range(7, 11), range(0), range(11, 16), range(16, 21), range(0), range(0)]
    ):
        states.append((set(seen), number))
        seen |= set(seqs)
        if number >= 2:
            seen -= set(HIDDEN)
    states.append((set(seen), len(STEPS)))
    return [state for state, number in states if number in (len(done), len(done) + 1)]


def _check_whole(objects: SimObjects, clock: SimClock) -> None:
    """Every row once, and every live file with its indexes; nothing else is left after a sweep."""
    table = Table(objects, clock=clock, seed=9)
    assert table.rows() == ROWS
    _swept(table)
    names = {file.name() for file in table.segments.files}
    assert {
        object_keys.last_part(info.key) for info in objects.list(object_keys.data_folder(TABLE_ID))
    } == names
    sides = {layout.data_name(info.key) for info in objects.list(layout.index_folder(TABLE_ID))}
    assert sides == names
    assert table.rows() == ROWS


@pytest.mark.parametrize(("how", "every"), WAYS)
def test_no_row_is_lost_or_twice_whatever_call_fails(how: How, every: int):
    for at in range(1, CALLS + 1, every):
        clock = SimClock()
        objects = SimObjects(clock=clock)
        table = Table(objects, clock=clock)
        objects.fail_at(at, how)
        done: list[int] = []
        try:
            _run(table, done)
        except StrandlineError:
            objects.heal()
            again = Table(objects, clock=clock, seed=1)
            assert set(again.seqs()) in _visible(done), (at, how)
            _run(again, done)
        objects.heal()

        _check_whole(objects, clock)


def test_no_row_is_lost_or_twice_wherever_the_process_dies():
    for at in range(1, CALLS + 1):
        clock = SimClock()
        objects = SimObjects(clock=clock)
        table = Table(objects, clock=clock)
        begun = objects.calls_total

        def die(_operation: str, _key: str, objects=objects, last=begun + at) -> None:
            if objects.calls_total >= last:
                raise Died

        objects.on_call = die
        done: list[int] = []
        try:
            _run(table, done)
        except Died:
            objects.on_call = None
            again = Table(objects, clock=clock, seed=1)
            assert set(again.seqs()) in _visible(done), at
            _run(again, done)
        objects.on_call = None

        _check_whole(objects, clock)


def test_the_same_opening_goes_on_after_a_reply_was_lost():
    for at in range(1, CALLS + 1, 2):
        clock = SimClock()
        objects = SimObjects(clock=clock)
        table = Table(objects, clock=clock)
        objects.fail_at(at, "after")
        done: list[int] = []
        for _ in range(3):
            try:
                _run(table, done)
            except StrandlineError:
                objects.heal()
        objects.heal()
        assert table.rows() == ROWS, at

        _check_whole(objects, clock)
