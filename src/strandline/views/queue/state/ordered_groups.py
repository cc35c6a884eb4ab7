"""Ordered groups of jobs: one job after the other, in the order of their seqs.

The oldest job of a group is its head. The head may be claimed; all others are BLOCKED. Each job has
the seq of the next one, and a table has the last job of every group. When the head ends, the next
job becomes the head.

A job that ends before it was head (it expired) stays as a GHOST until the head passes it. Groups
whose keys have the same hash are one group: they wait for each other, and nothing is lost.
"""

from __future__ import annotations

import numpy as np

from strandline.views.queue.state.job_chunk import BLOCKED, GHOST, GONE, JobChunk
from strandline.views.queue.state.job_table import JobTable
from strandline.views.queue.state.key_index import KeyIndex


class OrderedGroups:
    """The groups of a job table. Owned by one thread."""

    def __init__(self, board: JobTable) -> None:
        self._board = board
        self._tails = KeyIndex(board, "group", GHOST)

    def __len__(self) -> int:
        return len(self._tails)

    @property
    def nbytes(self) -> int:
        return self._tails.nbytes

    def join(self, group: int, chunk: JobChunk, row: int, seq: int) -> bool:
        """Add a new job to a group; return whether it must wait for an older one."""
        board, at = self._board, np.array((row,))
        board.set_column(chunk, "group", at, group)
        tail = self._tails.get(group)
        if tail:
            location = board.locate(tail)
            assert location is not None, "the last of a group is a job or a ghost"
            board.set_column(location[0], "following", np.array((location[1],)), seq)
        self._tails.put(group, seq)
        return tail != 0

    def leave(self, chunk: JobChunk, row: int, seq: int) -> None:
        """Remove a job that has ended from its group."""
        board, at = self._board, np.array((row,))
        if chunk.state[row] == BLOCKED:
            board.move(chunk, at, GHOST)
            return
        group, following = chunk.value("group", row), chunk.value("following", row)
        if not following:
            self._tails.remove(group, seq)
        board.move(chunk, at, GONE)
        if following:
            self._lead(group, following)

    def load(self) -> None:
        """Rebuild the table of last jobs from the columns."""
        self._tails.load()

    def _lead(self, group: int, seq: int) -> None:
        """Make the first job from ``seq`` on the head; remove the ghosts before it."""
        board = self._board
        while seq:
            location = board.locate(seq)
            assert location is not None, "the next of a group is a job or a ghost"
            chunk, row = location
            if chunk.state[row] != GHOST:
                board.make_wait(chunk, np.array((row,)))
                return
            following = chunk.value("following", row)
            if not following:
                self._tails.remove(group, seq)
            board.move(chunk, np.array((row,)), GONE)
            seq = following
