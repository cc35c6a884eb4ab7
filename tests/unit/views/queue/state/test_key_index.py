"""Promise: a table of hashes answers as a dict does, through growth, removal and loading."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.views.queue.state.job_chunk import BLOCKED, GONE, READY
from strandline.views.queue.state.job_table import JobTable
from strandline.views.queue.state.key_index import KeyIndex, hash_of

TOP = (1 << 64) - 1
HASHES = st.one_of(
    st.integers(1, TOP),
    st.integers(0, 5).map(lambda low: (0xFF << 56) | low),  # at the very end: no wrapping around
    st.integers(1, 6),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(HASHES, st.booleans()), max_size=120))
def test_a_table_answers_as_a_dict(steps):
    board = JobTable()
    table = KeyIndex(board, "unique", BLOCKED)
    model: dict[int, int] = {}

    for seq, (key_hash, removes) in enumerate(steps, start=1):
        if removes and key_hash in model:
            gone = model.pop(key_hash)
            table.remove(key_hash, gone + 10**9)  # of another job: nothing happens
            assert table.get(key_hash) == gone
            table.remove(key_hash, gone)
            _move(board, gone, GONE)
        else:
            _put(board, seq, key_hash)
            old = model.get(key_hash)
            table.put(key_hash, seq)
            model[key_hash] = seq
            if old is not None:
                _move(board, old, GONE)
        assert table.get(key_hash) == model.get(key_hash, 0)

    assert len(table) == len(model)
    assert {key_hash: table.get(key_hash) for key_hash in model} == model
    loaded = KeyIndex(board, "unique", BLOCKED)
    loaded.load()
    assert {key_hash: loaded.get(key_hash) for key_hash in model} == model
    assert len(loaded) == len(model)


def test_an_entry_takes_no_more_than_14_bytes():
    board = JobTable()
    table = KeyIndex(board, "unique", BLOCKED)
    for seq in range(1, 10_001):
        key_hash = hash_of(b"%d" % seq)
        _put(board, seq, key_hash)
        table.put(key_hash, seq)

        assert seq < 1000 or table.nbytes / seq <= 14


def test_a_table_gives_memory_back():
    board = JobTable()
    table = KeyIndex(board, "unique", BLOCKED)
    for seq in range(1, 2001):
        _put(board, seq, hash_of(b"%d" % seq))
        table.put(hash_of(b"%d" % seq), seq)
    full = table.nbytes

    for seq in range(1, 2000):
        table.remove(hash_of(b"%d" % seq), seq)

    assert table.nbytes < full / 10
    assert table.get(hash_of(b"2000")) == 2000


def test_no_key_has_the_hash_that_stands_for_none():
    assert hash_of(b"") > 0


def _put(board: JobTable, seq: int, key_hash: int) -> None:
    chunk = board.chunk(seq >> 14)
    rows = np.array([seq - chunk.base])
    board.set_column(chunk, "unique", rows, np.uint64(key_hash))
    board.move(chunk, rows, READY)


def _move(board: JobTable, seq: int, state: int) -> None:
    chunk = board.chunks[seq >> 14]
    board.move(chunk, np.array([seq - chunk.base]), state)
