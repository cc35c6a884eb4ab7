"""Promise: whoever applies all changes in turn has what SHOW says, from any cursor on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from strandline.errors import Invalid
from strandline.query.materialized.change_feed import ResultDelta
from tests.unit.query.materialized.test_show import QUERIES
from tests.unit.query.materialized.world import Machine


class Copy:
    """What a follower has made of the changes so far."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[object, ...]] = Counter()
        self.cursor = ""
        self.changes: list[ResultDelta] = []
        self.following: Iterator[ResultDelta] | None = None

    def follow(self, machine: Machine) -> None:
        """Come back for what has changed, and leave."""
        for change in machine.remembered.follow("a", self.cursor, timeout_s=0):
            self.take(change)

    def go_on(self, machine: Machine) -> None:
        """Take the next change of one long following, which ends when there is none."""
        if self.following is None:
            self.following = machine.remembered.follow("a", self.cursor, timeout_s=0)
        change = next(self.following, None)
        if change is None:
            self.following = None
        else:
            self.take(change)

    def take(self, change: ResultDelta) -> None:
        self.changes.append(change)
        self.cursor = change.cursor
        rows = Counter() if change.full else self.rows.copy()
        rows.subtract(told(change.removed))
        rows.update(told(change.added))
        self.rows = +rows


def told(table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def shown(machine: Machine) -> Counter[tuple[object, ...]]:
    return told(machine.show("a").arrow())


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_changes_lead_to_what_show_says(machine: Machine, text: str, comes_back: bool):
    machine.pay(*range(1, 20))
    machine.remember("a", text)
    copy = Copy()
    follow = copy.follow if comes_back else copy.go_on
    follow(machine)
    states = [(copy.rows, shown(machine))]

    for first in range(20, 45, 8):
        machine.pay(first, first + 1, first + 2)
        machine.table("view").store("c1", {"page": "/", "n": first})
        if first == 36:
            machine.delete("DELETE pay WHERE n < 25 AND n > 5")
        if first % 16 == 4:
            machine.show("a")  # somebody else may be first to store the news
        follow(machine)
        states.append((copy.rows, shown(machine)))

    assert all(had == is_shown for had, is_shown in states)


def test_a_follower_of_a_selection_comes_back_for_new_rows_alone(machine: Machine):
    machine.pay(1, 2)
    machine.remember("a", "QUERY pay RETURN [n]")
    copy = Copy()
    copy.follow(machine)
    machine.pay(3)
    for n in range(4, 20):
        machine.pay(n)
        machine.show("a")

    machine.world.reopen()
    copy.follow(machine)

    first, later = copy.changes
    assert first.full
    assert not later.full
    assert later.added["n"].to_pylist() == list(range(3, 20))


def test_groups_that_changed_are_told_as_they_were_and_as_they_are(machine: Machine):
    machine.pay(1, 2, 3)
    machine.remember("a", "QUERY pay COUNT, TOTAL n BY cur")
    changes = machine.remembered.follow("a", timeout_s=0)
    next(changes)

    machine.pay(4)
    change = next(changes)

    assert change.removed.to_pylist() == [{"cur": "USD", "count": 2, "total_n": 3}]
    assert change.added.to_pylist() == [{"cur": "USD", "count": 3, "total_n": 7}]


def test_news_that_change_nothing_are_not_told(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay RETURN [n] WHERE n < 5")
    copy = Copy()
    copy.follow(machine)

    machine.pay(6)
    copy.follow(machine)

    assert len(copy.changes) == 1


def test_a_follower_who_knows_what_is_stored_is_told_nothing(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay COUNT")
    copy = Copy()
    copy.follow(machine)

    copy.follow(machine)

    assert len(copy.changes) == 1


def test_a_follower_of_figures_who_comes_back_late_is_told_everything(machine: Machine):
    machine.pay(1)
    machine.remember("a", "QUERY pay COUNT")
    copy = Copy()
    copy.follow(machine)
    machine.pay(2)
    machine.show("a")

    copy.follow(machine)

    assert copy.changes[-1].full
    assert copy.rows == shown(machine)


def test_rows_that_retention_lets_go_are_told(machine: Machine):
    machine.pay(1, 2)
    machine.remember("a", "QUERY pay RETURN [n]", rows_max=2)
    changes = machine.remembered.follow("a", timeout_s=0)
    next(changes)

    machine.pay(3)
    change = next(changes)

    assert change.removed["n"].to_pylist() == [1]
    assert change.added["n"].to_pylist() == [3]


def test_a_follower_waits_for_news():
    machine = Machine()
    machine.remember("a", "QUERY pay RETURN [n]")
    found: list[int] = []

    def follow() -> None:
        for change in machine.remembered.follow("a"):
            found.extend(change.added["n"].to_pylist())
            if len(found) >= 3:
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    machine.pay(1, 2, 3)
    thread.join(60)

    assert found == [1, 2, 3]


def test_a_cursor_that_is_none_is_refused(machine: Machine):
    machine.remember("a", "QUERY pay")

    with pytest.raises(Invalid, match="is not a cursor"):
        next(machine.remembered.follow("a", "yesterday"))
