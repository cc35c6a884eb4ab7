"""The state of views without the folder of the store: reservoir and lake, in object stores.

A read returns the newest checkpoint of the view. Later records that have moved to the lake are
applied to it; usually there are none, because the newest records move last. A queue is returned as
it was saved: its jobs and leases move at different times and are valid only together.

Most values are in the state itself. Large values are in the log only, and unavailable until they
move to the lake. A read of such values is rejected with the columns to leave out; the jobs of a
queue are all in the log, and their columns are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from strandline.config.view_config import ViewConfigs
from strandline.errors import Invalid, NotFound
from strandline.log.read.page import Page, Row
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner, split_reader
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.record_schema import RECORD, arrow_schema
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.views.saved_view_reader import SavedViews
from strandline.views.view_runner import ViewRunner

_SCHEMA = arrow_schema(RECORD)
_FIELDS = ("key", "tag", "node", "meta")
_PAGE_SEQS = 100_000
_COLUMNS = {"kv": "value and text", "series": "payload and text"}
"""Columns of values that may be in the log only."""


class SavedViewTopic:
    """The records of a topic in a lake, for a view. Owned by one thread."""

    def __init__(
        self,
        kind: str,
        name: str,
        identity: tuple[int, int],
        applied: int,
        views: ViewConfigs,
        position: StorePosition | None,
    ) -> None:
        """``applied`` is the last seq in the saved view, ``position`` that of the lake."""
        self._kind = kind
        self.name = name
        self.identity = identity
        self.config = _Config(views)
        self._position = position
        self._snapshot: TopicSnapshot | None = None if position is None else position.topics[0]
        self.moved_seq = 0 if self._snapshot is None else self._snapshot.head_seq
        """The last seq in the lake."""
        self.head_seq = applied if kind == "queue" else max(applied, self.moved_seq)
        self.epoch = 0 if self._snapshot is None else self._snapshot.epoch

    def read(self, after: int, limit: int) -> Page:
        """A page of records after a cursor."""
        del limit  # footers are read for every page, so pages are large
        following = min(after + _PAGE_SEQS, self.head_seq)
        table = self._rows(split_planner.SeqRange(after + 1, following), ())
        return self._page(table, following)

    def get_many(self, seqs: Sequence[int]) -> Page:
        """These records; ``NotFound`` if some have not moved, except for a queue."""
        missing = sum(1 for seq in seqs if seq > self.moved_seq)
        if missing and self._kind in _COLUMNS:
            raise NotFound(
                f"{missing} records of topic {self.name!r} are not in the lake yet, which goes up "
                f"to seq {self.moved_seq}: leave out the columns {_COLUMNS[self._kind]}, name the "
                "folder of the store or a server (url), or read again later"
            )
        available = tuple(seq for seq in seqs if seq <= self.moved_seq)
        if not available:
            return self._page(_SCHEMA.empty_table(), self.head_seq)
        span = split_planner.SeqRange(min(available), max(available))
        return self._page(self._rows(span, [Condition("seq", "in", available)]), self.head_seq)

    def gaps_below(self, seq: int) -> list[tuple[int, int]]:
        del seq  # gaps are not known here
        return []

    def _rows(self, seqs: split_planner.SeqRange, conditions: Sequence[Condition]) -> pa.Table:
        if self._position is None or self._snapshot is None:
            return _SCHEMA.empty_table()
        files, _ = split_planner.file_parts(self._position, self._snapshot, seqs, conditions)
        batches = split_reader.read(files, RECORD, conditions)
        return pa.Table.from_batches(batches, _SCHEMA)

    def _page(self, table: pa.Table, following: int) -> Page:
        stamps = table["ts"].cast(pa.int64()).to_pylist()
        fields = [table[name].cast(pa.binary()).to_pylist() for name in _FIELDS]
        rows: list[Row] = [
            (seq, ts, values, data)
            for seq, ts, values, data in zip(
                table["seq"].to_pylist(),
                stamps,
                zip(*fields, strict=True),
                table["data"].to_pylist(),
                strict=True,
            )
        ]
        parts: list[Any] = [rows] if rows else []
        return Page(
            parts, following=following, head_seq=self.head_seq, epoch=self.epoch, tombstone=None
        )


class _Config(msgspec.Struct, frozen=True):
    """The part of the configuration of a topic that a view reads."""

    views: ViewConfigs


def host_of(
    saved: SavedViews, view: str, topic: str, position: StorePosition | None
) -> ViewRunner[Any]:
    """A saved view, and the records of the lake after it.

    The position is that of the topic in the lake, read before the views are opened; None if no
    record of the topic has moved.
    """
    topic_id = None if position is None else position.topics[0].topic_id
    saved_view = saved.find(view, topic, topic_id)
    if saved_view.topics[0][0] != topic_id:
        position = None  # the lake has an earlier topic of this name
    configs = saved.configs(view, saved_view)
    logs = [(topic, position), (f"{topic}:leases", None)]
    topics = [
        SavedViewTopic(view, name, identity, applied, configs, log_position)
        for (name, log_position), identity, applied in zip(
            logs, saved_view.topics, saved_view.applied, strict=False
        )
    ]
    return saved.host(view, saved_view, topics)


def reject_past(as_of: str) -> None:
    """Raise for a read of a saved state as of another position than its own."""
    if as_of:
        raise Invalid(
            "views in a reservoir are read as of their last save: leave as_of out, or name the "
            "folder of the store or a server (url)"
        )
