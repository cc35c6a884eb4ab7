"""Reads topics for the wire: pages by cursor, with long polls.

Reads of memory and log, of local segments, and of the lake run in three different pools: history
never delays live reads. A request may exclude the records of several nodes. The store excludes one;
for more, they are filtered here, and pages are read until one has records left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.api.records import RecordFields, encode_records
from strandline.api.topics import DiffRequest, TombstoneResponse
from strandline.log.read.page import Page
from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.server.app_state import AppState
from strandline.server.handlers.topic_cache import topic_of, touch
from strandline.server.thread_pool import ThreadPools

LIMIT = 256
BATCH_BYTES = 1 << 20
BATCH_BYTES_MAX = 8 << 20
WAIT_MS_MAX = 30_000
_PAGES_MAX = 64

_encode = msgspec.json.Encoder().encode


class DiffResult(NamedTuple):
    """The result of a diff."""

    page: Page
    records: list[Record] | None
    """The records of the page without excluded nodes; None: all of them."""
    tombstone: TombstoneResponse | None
    earliest_seq: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to return, and nothing more to read."""
        count = len(self.page) if self.records is None else len(self.records)
        return not count and self.tombstone is None and self.page.caught_up


async def read(parts: AppState, name: str, diff: DiffRequest) -> DiffResult:
    """The records of a diff; waits for some if ``wait_ms`` is set."""
    topic = topic_of(parts, name)
    touch(parts, name)
    result = await _read(parts, topic, diff, diff.from_seq)
    deadline = parts.clock.monotonic() + min(diff.wait_ms, WAIT_MS_MAX) / 1000
    while diff.wait_ms and result.is_empty:
        left_s = deadline - parts.clock.monotonic()
        if left_s <= 0 or not await parts.hub.wait_for(topic, result.page.next, left_s):
            break
        result = await _read(parts, topic, diff, result.page.next)
    return result


def json_of(name: str, result: DiffResult, diff: DiffRequest) -> bytes:
    """The response to a diff as JSON."""
    shown = RecordFields(
        diff.include_tags, diff.include_meta, diff.include_data, diff.include_micros
    )
    page = result.page
    records = page.records if result.records is None else result.records
    return (
        b'{"topic":"%b","records":%b,"next_from_seq":%d,"head_seq":%d,"earliest_seq":%d,'
        b'"caught_up":%b,"tombstone":%b,"lag":%d,"epoch":%d}'
        % (
            name.encode(),
            encode_records(records, shown),
            page.next,
            page.head_seq,
            result.earliest_seq,
            b"true" if page.caught_up else b"false",
            _encode(result.tombstone),
            max(0, page.head_seq - page.next),
            page.epoch,
        )
    )


def arrow_of(
    name: str, result: DiffResult, diff: DiffRequest
) -> tuple[pa.Table, dict[str, object]]:
    """The response to a diff as columns, and its other fields."""
    page = result.page
    table = page.arrow()
    if result.records is not None:
        nodes = pa.array(sorted(_nodes(diff)), pa.string())
        table = table.filter(pc.invert(pc.is_in(table.column("node"), nodes)))
    return table, {
        "topic": name,
        "next_from_seq": page.next,
        "head_seq": page.head_seq,
        "earliest_seq": result.earliest_seq,
        "caught_up": page.caught_up,
        "tombstone": result.tombstone,
        "lag": max(0, page.head_seq - page.next),
        "epoch": page.epoch,
    }


async def _read(parts: AppState, topic: Topic, diff: DiffRequest, after: int) -> DiffResult:
    limit = min(diff.limit or LIMIT, parts.settings.limits.page_records_max)
    return await _pool(parts.bridge, topic, after)(_gather, topic, diff, after, limit)


def _pool(bridge: ThreadPools, topic: Topic, after: int) -> Callable[..., Awaitable[DiffResult]]:
    """The pool for a read after a cursor, by where those records are."""
    if topic.is_in_tail(after):
        return bridge.run
    return bridge.slow if topic.is_local(after) else bridge.lake


def _gather(topic: Topic, diff: DiffRequest, after: int, limit: int) -> DiffResult:
    excluded = _nodes(diff)
    only_node = next(iter(excluded)) if len(excluded) == 1 else None
    size_max = min(diff.max_batch_bytes or BATCH_BYTES, BATCH_BYTES_MAX)
    page = topic.read(after, limit, node=only_node, size_max=size_max, epoch=diff.epoch)
    records = None
    if len(excluded) > 1 and topic.config.dedupe_node:
        for _ in range(_PAGES_MAX):
            records = [record for record in page.records if record.node not in excluded]
            if records or page.caught_up or page.tombstone is not None:
                break
            page = topic.read(page.next, limit, size_max=size_max)
    earliest_seq = topic.estimate().earliest_seq
    return DiffResult(page, records, _tombstone(page, earliest_seq), earliest_seq)


def _tombstone(page: Page, earliest_seq: int) -> TombstoneResponse | None:
    gap = page.tombstone
    if gap is None:
        return None
    return TombstoneResponse(
        reason=gap.reason,
        gap_from=gap.gap_from,
        gap_to=gap.gap_to,
        missed_estimate=gap.missed,
        earliest_seq=earliest_seq,
        head_seq=page.head_seq,
    )


def _nodes(diff: DiffRequest) -> frozenset[str]:
    if diff.node is None:
        return frozenset()
    return frozenset([diff.node] if isinstance(diff.node, str) else diff.node)
