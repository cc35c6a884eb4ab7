"""The state of views without the store's folder: reservoir and lake, each in its object store.

What is told is the newest checkpoint of the view. Behind it, records are folded in that have moved
to the lake by then; as a rule none has, since what is new is the last to move. A queue is told as
it was saved: its jobs and leases move at different times, and only together do they mean something.

Most values are in the state itself. Large ones are in the log alone: what of that has not moved to
the lake is not to be had here. Then a read is refused with the columns that can be read without;
of a queue, whose jobs are all in the log, such columns are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.config.view_config import ViewConfigs
from strandline.errors import Invalid, NotFound
from strandline.log.read.page import Page, Row
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import split_planner, split_reader
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.record_schema import RECORD, arrow_schema
from strandline.pipelines.splits.snapshot_position import Position
from strandline.views.saved_view_reader import SavedViews
from strandline.views.view_runner import Host

_SCHEMA = arrow_schema(RECORD)
_FIELDS = ("key", "tag", "node", "meta")
_SEQS_AT_ONCE = 100_000
_COLUMNS = {"kv": "value and text", "series": "payload and text"}
"""What can be left out, when it is in the log alone."""


class LakeTopic:
    """What a lake has of a topic, as a view reads it. Owned by one thread."""

    def __init__(
        self,
        kind: str,
        name: str,
        identity: tuple[int, int],
        applied: int,
        views: ViewConfigs,
        position: Position | None,
    ) -> None:
        """``applied`` is how far the view of this kind goes, ``position`` where the lake is."""
        self._kind = kind
        self.name = name
        self.identity = identity
        self.config = _Config(views)
        self._position = position
        self._snapshot: Snapshot | None = None if position is None else position.topics[0]
        self.moved_seq = 0 if self._snapshot is None else self._snapshot.head_seq
        """Up to here the lake answers for the records."""
        self.head_seq = applied if kind == "queue" else max(applied, self.moved_seq)
        self.epoch = 0 if self._snapshot is None else self._snapshot.epoch

    def read(self, after: int, limit: int) -> Page:
        """Some records behind a cursor."""
        del limit  # footers are read for every page: it is worth its while
        following = min(after + _SEQS_AT_ONCE, self.head_seq)
        table = self._rows(split_planner.Range(after + 1, following), ())
        return self._page(table, following)

    def pick(self, seqs: Sequence[int]) -> Page:
        """These records; ``NotFound`` for those that have not moved, unless it is a queue's."""
        behind = sum(1 for seq in seqs if seq > self.moved_seq)
        if behind and self._kind in _COLUMNS:
            raise NotFound(
                f"{behind} records of topic {self.name!r} are not in the lake yet, which goes up "
                f"to seq {self.moved_seq}: leave out the columns {_COLUMNS[self._kind]}, name the "
                "folder of the store or a server (url), or read again later"
            )
        wanted = tuple(seq for seq in seqs if seq <= self.moved_seq)
        if not wanted:
            return self._page(_SCHEMA.empty_table(), self.head_seq)
        span = split_planner.Range(min(wanted), max(wanted))
        return self._page(self._rows(span, [Condition("seq", "in", wanted)]), self.head_seq)

    def gaps_below(self, seq: int) -> list[tuple[int, int]]:
        del seq  # nobody here knows of any
        return []

    def _rows(self, wanted: split_planner.Range, conditions: Sequence[Condition]) -> pa.Table:
        if self._position is None or self._snapshot is None:
            return _SCHEMA.empty_table()
        files, _ = split_planner.file_parts(self._position, self._snapshot, wanted, conditions)
        batches = split_reader.read(files, RECORD, conditions)
        return pa.Table.from_batches(batches, _SCHEMA)

    def _page(self, table: pa.Table, following: int) -> Page:
        stamps = table["ts"].cast(pa.int64()).to_pylist()
        fields = [table[name].cast(pa.binary()).to_pylist() for name in _FIELDS]
        rows: list[Row] = [
            (seq, ts, said, data)
            for seq, ts, said, data in zip(
                table["seq"].to_pylist(),
                stamps,
                zip(*fields, strict=True),
                table["data"].to_pylist(),
                strict=True,
            )
        ]
        found: list[Any] = [rows] if rows else []
        return Page(
            found, following=following, head_seq=self.head_seq, epoch=self.epoch, tombstone=None
        )


class _Config(msgspec.Struct, frozen=True):
    """As much of a topic's options as a view asks for."""

    views: ViewConfigs


def host_of(saved: SavedViews, view: str, topic: str, position: Position | None) -> Host[Any]:
    """A view as it was saved, and what the lake has behind that.

    The position is that of the topic in the lake, taken before the views were opened; None when
    nothing of the topic has moved.
    """
    topic_id = None if position is None else position.topics[0].topic_id
    found = saved.find(view, topic, topic_id)
    if found.topics[0][0] != topic_id:
        position = None  # the lake has an earlier topic of this name
    configs = saved.configs(view, found)
    logs = [(topic, position), (f"{topic}:leases", None)]
    topics = [
        LakeTopic(view, name, identity, applied, configs, place)
        for (name, place), identity, applied in zip(logs, found.topics, found.applied, strict=False)
    ]
    return saved.host(view, found, topics)


def refuse_past(as_of: str) -> None:
    """Raise when a saved state is asked for another moment than its own."""
    if as_of:
        raise Invalid(
            "views in a reservoir are read as they were saved last: leave as_of out, or name the "
            "folder of the store or a server (url)"
        )
