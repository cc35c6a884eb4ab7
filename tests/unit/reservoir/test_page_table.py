"""Promise: the table of pages is a dictionary, however often it is folded, and tells exactly what
has changed since the last checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.reservoir.data_files import page_table as tables
from strandline.reservoir.data_files.page_table import ROW, PageTable

IDS = st.integers(1, 30) | st.sampled_from([(1 << 62) + 1, (1 << 63) - 1])
PLACES = st.tuples(
    st.integers(1, (1 << 64) - 1), st.integers(0, 100), st.integers(0, 100), st.integers(0, 9)
)
CHANGES = st.dictionaries(IDS, PLACES, max_size=12)
NOWHERE = (0, 0, 0, 0)
EVERY_ID = [*range(32), (1 << 62) + 1, (1 << 63) - 1]


def ids_of(ids) -> np.ndarray:
    return np.array(list(ids), dtype="<i8")


def rows_of(places) -> np.ndarray:
    return np.array(list(places), dtype=ROW)


class PageTableMachine(RuleBasedStateMachine):
    """A table that folds at every chance, and dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(tables, "RECENT_MIN", 8)
        self.patch.setattr(tables, "_LOG_FIRST", 2)
        self.table = PageTable()
        self.model: dict[int, tuple[int, ...]] = {}
        self.touched: set[int] = set()
        self.saved: dict[int, tuple[int, ...]] = {}

    def teardown(self) -> None:
        self.patch.undo()

    @rule(changes=CHANGES)
    def put(self, changes):
        old = self.table.put(ids_of(changes), rows_of(changes.values()))

        assert old.tolist() == [self.model.get(page_id, NOWHERE) for page_id in changes]
        self.model.update(changes)
        self.touched |= changes.keys()

    @rule(ids=st.sets(IDS, max_size=8))
    def remove(self, ids):
        old = self.table.remove(ids_of(ids))

        gone = [page_id for page_id in ids if page_id in self.model]
        assert sorted(old.tolist()) == sorted(self.model[page_id] for page_id in gone)
        for page_id in gone:
            del self.model[page_id]
        self.touched |= set(gone)

    @rule()
    def checkpoint(self):
        self.table.checkpointed()
        self.touched = set()
        self.saved = dict(self.model)

    @rule()
    def look_at_everything(self):
        ids, rows = self.table.all_pages()

        assert dict(zip(ids.tolist(), rows.tolist(), strict=True)) == self.model
        assert ids.tolist() == sorted(self.model)

    @rule()
    def reopen(self):
        """What a snapshot and an increment give is the same table."""
        ids, rows, deleted = self.table.changes()
        again = PageTable()
        saved = dict(sorted(self.saved.items()))
        again.load(ids_of(saved), rows_of(saved.values()))
        again.apply([(ids, rows), (deleted, np.zeros(len(deleted), dtype=ROW))])

        assert dict(zip(*(each.tolist() for each in again.all_pages()), strict=True)) == self.model
        assert len(again) == len(self.model)
        self.table, self.saved, self.touched = again, dict(self.model), set()

    @rule(file_id=st.sampled_from([1, 2, 3]), ids=st.sets(IDS, min_size=1, max_size=5))
    def look_for_pages_of_a_file(self, file_id, ids):
        self.put(dict.fromkeys(ids, (file_id, 0, 0, 0)))

        found = self.table.pages_of(file_id).tolist()

        assert found == sorted(n for n, place in self.model.items() if place[0] == file_id)

    @invariant()
    def finds_what_the_model_has(self):
        expected = [self.model.get(page_id) for page_id in EVERY_ID]
        assert [self.table.find(page_id) for page_id in EVERY_ID] == expected
        many = self.table.find_many(ids_of(EVERY_ID)).tolist()
        assert many == [place or NOWHERE for place in expected]
        assert len(self.table) == len(self.model)

    @invariant()
    def tells_what_has_changed(self):
        ids, rows, deleted = self.table.changes()
        changed = dict(zip(ids.tolist(), rows.tolist(), strict=True))
        alive = self.touched & self.model.keys()
        assert changed == {page_id: self.model[page_id] for page_id in alive}
        assert deleted.tolist() == sorted(self.touched - alive)
        assert ids.tolist() == sorted(changed)


TestPageTable = PageTableMachine.TestCase


def test_increments_are_applied_the_oldest_first():
    table = PageTable()
    table.load(ids_of([1, 2, 3]), rows_of([(1, 0, 0, 0)] * 3))

    table.apply(
        [
            (ids_of([2, 4]), rows_of([(2, 0, 0, 0), (2, 1, 0, 0)])),
            (ids_of([1, 4]), np.zeros(2, dtype=ROW)),
            (ids_of([1]), rows_of([(3, 0, 0, 0)])),
        ]
    )

    ids, rows = table.all_pages()
    assert dict(zip(ids.tolist(), rows["file_id"].tolist(), strict=True)) == {1: 3, 2: 2, 3: 1}


def test_a_new_table_has_nothing():
    table = PageTable()

    assert len(table) == 0
    assert table.find(1) is None
    assert [len(each) for each in (*table.all_pages(), *table.changes())] == [0] * 5
