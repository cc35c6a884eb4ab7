"""``strandline read`` and ``strandline tail``: records by cursor, by time, and live.

Both open the store read-only, so they work while another process writes. ``tail -f`` polls about
five times a second, less often when a poll itself takes long; a server sends new records.
Lost records are reported in the output at the place where they are missing.
"""

from __future__ import annotations

import sys
import time
from typing import Annotated

from cyclopts import Parameter

from strandline.cli.open_store import (
    find_topic,
    is_served,
    open_target_to_read,
    read_with_refresh,
    refresh,
)
from strandline.cli.options import TARGET, Flag, Target, microseconds
from strandline.cli.output.formatting import OutputRow, RecordRow, tombstone_row
from strandline.cli.output.output import RowPrinter, output
from strandline.errors import Invalid, RecordsLost
from strandline.log.read.page import Page
from strandline.log.topic.topic import Topic
from strandline.records import Record, Tombstone
from strandline.store import Store

_PAGE = 1000
_POLL_S = 0.2


def read(
    topic: str,
    /,
    *,
    after: int | None = None,
    limit: int = 100,
    at: str | None = None,
    node: str | None = None,
    everything: Annotated[Flag, Parameter(name=["--all", "-a"])] = False,
    target: Target = TARGET,
) -> None:
    """Print the records of a topic, oldest first.

    Parameters
    ----------
    topic
        Name of the topic.
    after
        The cursor: print the records after this seq. Default: from the beginning.
    limit
        Print at most this many records.
    at
        Start at this time: 2026-03-28T14:05:00Z, or microseconds since 1970.
    node
        Leave out the records that this node wrote.
    everything
        Print all records.
    """
    if after is not None and at is not None:
        raise Invalid("start --after a seq or --at a time, not both")
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    start = None if at is None else microseconds(at)
    out = output(target.output)
    with open_target_to_read(target) as store:
        if start is not None:
            after = read_with_refresh(store, lambda: find_topic(store, topic).cursor_at(start))
        cursor = TopicCursor(store, topic, after or 0, node)
        left = limit
        while left > 0:
            page = cursor.next_page(_PAGE if everything else min(left, _PAGE))
            _print(out, page)
            left -= 0 if everything else len(page)
            if page.caught_up:
                break
        out.end()
        if not page.caught_up and target.output == "table":
            sys.stdout.flush()
            print(f"more records: --after {page.next} (head {page.head_seq})", file=sys.stderr)


def tail(
    topic: str,
    /,
    *,
    count: Annotated[int, Parameter(name=["--count", "-n"])] = 10,
    follow: Annotated[Flag, Parameter(name=["--follow", "-f"])] = False,
    node: str | None = None,
    target: Target = TARGET,
) -> None:
    """Print the newest records of a topic; -f waits for more.

    Parameters
    ----------
    topic
        Name of the topic.
    count
        Number of records to print first.
    follow
        Continue with new records until interrupted.
    node
        Leave out the records that this node wrote.
    """
    if count < 0:
        raise Invalid("--count is 0 or more")
    out = output(target.output, live=follow)
    with open_target_to_read(target) as store:
        records, cursor = _newest(store, topic, count, node)
        out.rows([RecordRow(record) for record in records])
        try:
            if follow and is_served(store):
                _follow_served(find_topic(store, topic), cursor, out)
            elif follow:
                _follow(store, cursor, out)
        finally:
            out.end()


class TopicCursor:
    """A position in a topic of a store that another process may write."""

    def __init__(self, store: Store, topic: str, after: int, node: str | None) -> None:
        self._store = store
        self._topic = topic
        self._served = find_topic(store, topic) if is_served(store) else None
        self.node = node
        self.epoch: int | None = None
        """The epoch of the topic that the cursor belongs to, after the first read."""
        self.after = after

    def next_page(self, limit: int) -> Page:
        """The next page; the cursor moves to its end."""
        page = read_with_refresh(self._store, lambda: self._read(limit))
        if page.tombstone is not None and page.tombstone.reason == "damaged":
            # The log may have been read during a write: refresh and read again before reporting it.
            refresh(self._store)
            page = read_with_refresh(self._store, lambda: self._read(limit))
        self.after, self.epoch = page.next, page.epoch
        return page

    def _read(self, limit: int) -> Page:
        topic = self._served or find_topic(self._store, self._topic)
        page = topic.read(self.after, limit, node=self.node, epoch=self.epoch)
        page.records  # noqa: B018 - decoded here, where a missing file can still be handled
        return page


def _newest(
    store: Store, name: str, count: int, node: str | None
) -> tuple[list[Record], TopicCursor]:
    """The newest records, and the cursor after them."""
    statistics = read_with_refresh(store, lambda: find_topic(store, name).statistics())
    head, earliest = statistics.head_seq, statistics.earliest_seq
    span = count
    while True:
        after = max(head - span, earliest - 1, 0) if count else head
        cursor = TopicCursor(store, name, after, node)
        cursor.epoch = statistics.epoch
        records: list[Record] = []
        while cursor.after < head:
            page = cursor.next_page(_PAGE)
            records += page.records
            if page.caught_up:  # below the earlier head: the topic was created again
                break
        if len(records) >= count or after <= earliest - 1:
            return records[len(records) - min(count, len(records)) :], cursor
        span = span * 4


def _follow(store: Store, cursor: TopicCursor, out: RowPrinter) -> None:
    pause = _POLL_S
    while True:
        page = cursor.next_page(_PAGE)
        _print(out, page)
        if page.caught_up:
            sys.stdout.flush()
            time.sleep(pause)
            started_at = time.monotonic()
            refresh(store)
            pause = max(_POLL_S, time.monotonic() - started_at)


def _follow_served(topic: Topic, cursor: TopicCursor, out: RowPrinter) -> None:
    """Follow a topic of a server. The client waits while the server is unreachable."""
    while True:
        try:
            for record in topic.follow(cursor.after, node=cursor.node, epoch=cursor.epoch):
                out.rows([RecordRow(record)])
                cursor.after = record.seq
        except RecordsLost as lost:
            gap = Tombstone(gap_from=lost.gap_from, gap_to=lost.gap_to, reason=lost.reason)
            out.notice(tombstone_row(gap))
            cursor.after = lost.gap_to
            if lost.reason == "recreated":  # all records of the new topic are unread
                cursor.after, cursor.epoch = 0, topic.read(0, 1).epoch


def _print(out: RowPrinter, page: Page) -> None:
    if page.tombstone is not None:
        out.notice(tombstone_row(page.tombstone))
    rows: list[OutputRow] = [RecordRow(record) for record in page.records]
    if rows:
        out.rows(rows)
