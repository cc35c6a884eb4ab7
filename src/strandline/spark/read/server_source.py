"""The store of a server: driver and executors read its topics over HTTP, as Arrow.

Executors need this package and the network only. The token is sent with the tasks and never
printed. A part is a range of seqs of one epoch of a topic; if the server no longer has records when
a task requests them, the task raises ``RecordsLost``.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyroaring import BitMap64

from strandline.client.blocking.store import RemoteStore
from strandline.client.settings import ClientSettings
from strandline.config.view_config import ViewConfigs
from strandline.errors import Forbidden, RecordsLost, UnknownTopic
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.lake_selection import is_pattern
from strandline.pipelines.splits import record_schema, split_planner
from strandline.pipelines.splits.predicates import Condition, matching_rows
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.pipelines.splits.split_reader import visible_rows
from strandline.records import Tombstone
from strandline.spark.read.options import ReadOptions, Secret
from strandline.spark.read.tasks import AnyPart, ServerPart

PART_SEQS = 250_000
SETTINGS = ClientSettings()
"""Client settings; a stream continues after a server was unreachable for a while."""
_PAGE_RECORDS = 20_000


class ServerReadLocation:
    """A server. Owned by one thread."""

    def __init__(self, url: str, token: Secret) -> None:
        self.store = RemoteStore(url, token=token.value or None, settings=SETTINGS)
        self._url = url
        self._token = token
        self._id = ""

    def __enter__(self) -> ServerReadLocation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    def refresh(self) -> None:
        """Do nothing: a server is queried at every pin."""

    def pin(self, topics: Sequence[str], *, strict: bool = True) -> StorePosition:
        names = self._matching(topics)
        snapshots = []
        for name in names:
            try:
                snapshots.append(self._snapshot(name))
            except UnknownTopic:
                if strict:
                    raise
        with contextlib.suppress(Forbidden):  # a batch does not need it; a stream checks it
            self._id = self._id or self.store.id
        return StorePosition(store=self._url, store_id=self._id, lake="", topics=tuple(snapshots))

    def hot_parts(
        self,
        position: StorePosition,
        snapshot: TopicSnapshot,
        span: split_planner.SeqRange,
        names: Sequence[str],
        conditions: Sequence[Condition] = (),
    ) -> list[AnyPart]:
        first_seq = max(snapshot.floor, span.first_seq)
        last_seq = min(snapshot.head_seq, span.last_seq)
        for each in conditions:
            if each.column == "ts" and each.operator in (">", ">=", "="):
                first_seq = max(first_seq, self.cursor_at(snapshot, each.value) + 1)
        return [
            ServerPart(
                url=self._url,
                token=self._token,
                snapshot=snapshot,
                first_seq=start,
                last_seq=min(start + PART_SEQS - 1, last_seq),
            )
            for start in range(first_seq, last_seq + 1, PART_SEQS)
        ]

    def cursor_at(self, snapshot: TopicSnapshot, ts: int) -> int:
        return self.store.existing_topic(snapshot.name).cursor_at(ts)

    def views(self, topic: str) -> ViewConfigs | None:
        return self.store.existing_topic(topic).config.views

    def read_view(self, options: ReadOptions, limit: int | None = None) -> pa.Table:
        """A view from the server, now or as of a position."""
        (name,) = options.topics
        schema = "tables" if options.view == "table" else options.view
        relation = f"{name}/{options.measurement}" if options.measurement else name
        quoted = relation.replace('"', '""')
        rows = "" if limit is None else f" limit {limit}"
        text = f'select * from {schema}."{quoted}"{rows}'  # noqa: S608 - quoted, and SQL only reads
        return self.store.sql(text, as_of=options.as_of or None).arrow()

    def _matching(self, topics: Sequence[str]) -> list[str]:
        names = {topic: None for topic in topics if not is_pattern(topic)}
        for topic in topics:
            if is_pattern(topic):
                names |= dict.fromkeys(fnmatch.filter(self.store.topics(), topic))
        return sorted(names)

    def _snapshot(self, name: str) -> TopicSnapshot:
        topic = self.store.existing_topic(name)
        topic_id, created_us = topic.identity
        statistics = topic.statistics()
        gaps = topic.gaps_below(statistics.head_seq)
        if topic.identity != (topic_id, created_us):  # created again during the requests
            return self._snapshot(name)
        return TopicSnapshot(
            topic_id=topic_id,
            name=name,
            epoch=statistics.epoch,
            created_us=created_us,
            head_seq=statistics.head_seq,
            floor=statistics.earliest_seq,
            evict_floor=statistics.evict_floor,
            evict_reason="cap",
            last_ts=statistics.last_ts,
            gaps=tuple((first, last, "lost") for first, last in gaps),
        )


def read(
    part: ServerPart, names: Sequence[str], conditions: Sequence[Condition]
) -> Iterator[pa.Table]:
    """The rows of a part, with these columns, for which every condition holds."""
    with RemoteStore(part.url, token=part.token.value or None, settings=SETTINGS) as store:
        topic = store.existing_topic(part.topic)
        after = part.first_seq - 1
        while after < part.last_seq:
            limit = min(_PAGE_RECORDS, part.last_seq - after)
            page = topic.read(after, limit, epoch=part.snapshot.epoch)
            _check(part, after, page.epoch, page.head_seq, page.tombstone)
            table = visible_rows(page.arrow(), part.first_seq, part.last_seq, BitMap64())
            kept = matching_rows(table, conditions)
            if len(kept):
                yield record_schema.with_columns(kept, names, part.topic)
            if page.next <= after:
                return
            after = page.next


def _check(
    part: ServerPart, after: int, epoch: int, head_seq: int, tombstone: Tombstone | None
) -> None:
    """Raise if the server no longer has records of the position."""
    snapshot = part.snapshot
    if epoch != snapshot.epoch and (epoch < snapshot.epoch or head_seq < part.last_seq):
        raise RecordsLost(part.topic, after + 1, part.last_seq, "recreated")
    if tombstone is None or tombstone.gap_from > part.last_seq:
        return
    known = any(
        first <= max(tombstone.gap_from, part.first_seq) and tombstone.gap_to <= last
        for first, last, _ in snapshot.gaps
    )
    if not known:
        gap_to = min(tombstone.gap_to, part.last_seq)
        raise RecordsLost(part.topic, max(tombstone.gap_from, after + 1), gap_to, tombstone.reason)
