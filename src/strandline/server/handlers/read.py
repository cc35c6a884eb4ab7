"""Reads topics for the wire: pages by cursor, with long polls, and single records.

Reads of memory and log, of local segments, and of the lake run in three different pools: history
never holds up what is live. Who names several nodes is spared the records of all of them;
the store knows one, so the others are left out here, and pages go on until one has something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.api.records import Shown, told_page
from strandline.api.topics import Diff, TombstoneTold
from strandline.log.read.page import Page
from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.server.app_state import Parts
from strandline.server.handlers.topic_cache import topic_of, touch
from strandline.server.thread_pool import Bridge

LIMIT = 256
BATCH_BYTES = 1 << 20
BATCH_BYTES_MAX = 8 << 20
WAIT_MS_MAX = 30_000
_PAGES_MAX = 64

_encode = msgspec.json.Encoder().encode


class Found(NamedTuple):
    """What a diff found."""

    page: Page
    records: list[Record] | None
    """What is left of the page when several nodes are left out; None: all of it."""
    tombstone: TombstoneTold | None
    earliest_seq: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell, and nothing more to read."""
        count = len(self.page) if self.records is None else len(self.records)
        return not count and self.tombstone is None and self.page.caught_up


async def read(parts: Parts, name: str, diff: Diff) -> Found:
    """The records that a diff asks for; waits for some if it says so."""
    topic = topic_of(parts, name)
    touch(parts, name)
    found = await _read(parts, topic, diff, diff.from_seq)
    deadline = parts.clock.monotonic() + min(diff.wait_ms, WAIT_MS_MAX) / 1000
    while diff.wait_ms and found.is_empty:
        left_s = deadline - parts.clock.monotonic()
        if left_s <= 0 or not await parts.hub.wait_for(topic, found.page.next, left_s):
            break
        found = await _read(parts, topic, diff, found.page.next)
    return found


def json_of(name: str, found: Found, diff: Diff) -> bytes:
    """A diff's answer as JSON."""
    shown = Shown(diff.include_tags, diff.include_meta, diff.include_data, diff.include_micros)
    page = found.page
    records = page.records if found.records is None else found.records
    return (
        b'{"topic":"%b","records":%b,"next_from_seq":%d,"head_seq":%d,"earliest_seq":%d,'
        b'"caught_up":%b,"tombstone":%b,"lag":%d,"epoch":%d}'
        % (
            name.encode(),
            told_page(records, shown),
            page.next,
            page.head_seq,
            found.earliest_seq,
            b"true" if page.caught_up else b"false",
            _encode(found.tombstone),
            max(0, page.head_seq - page.next),
            page.epoch,
        )
    )


def arrow_of(name: str, found: Found, diff: Diff) -> tuple[pa.Table, dict[str, object]]:
    """The same as columns, and what is said besides them."""
    page = found.page
    table = page.arrow()
    if found.records is not None:
        nodes = pa.array(sorted(_nodes(diff)), pa.string())
        table = table.filter(pc.invert(pc.is_in(table.column("node"), nodes)))
    return table, {
        "topic": name,
        "next_from_seq": page.next,
        "head_seq": page.head_seq,
        "earliest_seq": found.earliest_seq,
        "caught_up": page.caught_up,
        "tombstone": found.tombstone,
        "lag": max(0, page.head_seq - page.next),
        "epoch": page.epoch,
    }


async def _read(parts: Parts, topic: Topic, diff: Diff, after: int) -> Found:
    limit = min(diff.limit or LIMIT, parts.settings.limits.page_records_max)
    return await _pool(parts.bridge, topic, after)(_gather, topic, diff, after, limit)


def _pool(bridge: Bridge, topic: Topic, after: int) -> Callable[..., Awaitable[Found]]:
    """The pool for a read of what follows a cursor, by where that is."""
    if topic.is_near(after):
        return bridge.run
    return bridge.slow if topic.is_local(after) else bridge.lake


def _gather(topic: Topic, diff: Diff, after: int, limit: int) -> Found:
    nodes = _nodes(diff)
    alone = next(iter(nodes)) if len(nodes) == 1 else None
    size_max = min(diff.max_batch_bytes or BATCH_BYTES, BATCH_BYTES_MAX)
    page = topic.read(after, limit, node=alone, size_max=size_max, epoch=diff.epoch)
    records = None
    if len(nodes) > 1 and topic.config.dedupe_node:
        for _ in range(_PAGES_MAX):
            records = [record for record in page.records if record.node not in nodes]
            if records or page.caught_up or page.tombstone is not None:
                break
            page = topic.read(page.next, limit, size_max=size_max)
    earliest_seq = topic.estimate().earliest_seq
    return Found(page, records, _tombstone(page, earliest_seq), earliest_seq)


def _tombstone(page: Page, earliest_seq: int) -> TombstoneTold | None:
    gap = page.tombstone
    if gap is None:
        return None
    return TombstoneTold(
        reason=gap.reason,
        gap_from=gap.gap_from,
        gap_to=gap.gap_to,
        missed_estimate=gap.missed,
        earliest_seq=earliest_seq,
        head_seq=page.head_seq,
    )


def _nodes(diff: Diff) -> frozenset[str]:
    if diff.node is None:
        return frozenset()
    return frozenset([diff.node] if isinstance(diff.node, str) else diff.node)
