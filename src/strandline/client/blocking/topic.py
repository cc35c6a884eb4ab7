# Made from asynchronous/topic.py by tests/house/blocking.py: change that one.
"""One topic of a server: append, read, follow, delete, alter, statistics.

An append carries an idempotency key of the client's own unless the caller gives one: when its
answer is lost, the server knows it again and appends nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, Unpack
from urllib.parse import quote

import msgspec
import pyarrow as pa

from strandline.api.topics import (
    AppendAnswer,
    Deletion,
    DeletionAnswer,
    Diff,
    Pick,
    PickAnswer,
    Producers,
    ProducerTaken,
    SeekAnswer,
    TopicState,
)
from strandline.client.append_codec import Body, Terms, of_records, of_table
from strandline.client.blocking.connection import RemoteConnection
from strandline.client.blocking.follow import RemoteFollowing
from strandline.client.page_codec import joined, page_of, picked
from strandline.client.request import ARROW, JSON, Ask, Reply
from strandline.config.settings import LimitSettings, TopicConfig, topic_config
from strandline.errors import Invalid, TooLarge, UnknownTopic
from strandline.lake.cold_index import ColdSummary
from strandline.log.append.batch import AppendOptions, Once, check_options, checked_fields
from strandline.log.read.page import Page
from strandline.log.state.statistics import TopicStatistics
from strandline.log.topic.delete import Deleted
from strandline.log.topic.topic import PAGE_SIZE
from strandline.log.topic.validation import check_timeout, check_whole
from strandline.records import Appended, Record

_READ_SIZE_MAX = 64 << 20
_ANSWER_SIZE_MAX = 8 << 20
_ANSWER_RECORDS_MAX = 1000
_WAIT_S_MAX = 25.0
_ARROW_FROM = 64
"""Records from which on columns are quicker than JSON."""
_PICKED_AT_ONCE = 10_000
_PAGE_RECORDS_MAX = LimitSettings().page_records_max

Kind = TypeVar("Kind")


class RemoteTopic:
    """An ordered log of records under a name. Safe from many threads."""

    def __init__(
        self, connection: RemoteConnection, name: str, window_ms: int | None = None
    ) -> None:
        self.name = name
        self._connection = connection
        self._path = f"/v0/topics/{quote(name, safe='')}"
        self._window_s = None if window_ms is None else window_ms / 1000

    def __repr__(self) -> str:
        return f"RemoteTopic({self.name!r})"

    @property
    def config(self) -> TopicConfig:
        return (self.statistics()).config

    @property
    def head_seq(self) -> int:
        """The newest published seq, 0 when there never was a record."""
        return (self._state()).head_seq

    @property
    def epoch(self) -> int:
        """Changes when a cursor could lie: the topic was made anew, or lost its tail."""
        return (self._state()).epoch

    @property
    def identity(self) -> tuple[int, int]:
        """Which topic this is, and which life of it: names are used again, these never are."""
        return (self._state()).identity

    def gaps_below(self, seq: int) -> list[tuple[int, int]]:
        """First and last seqs of records that were lost before a seq."""
        return [gap for gap in (self._state()).gaps if gap[0] < seq]

    def append(self, data: bytes | Sequence[bytes], **options: Unpack[AppendOptions]) -> Appended:
        """Append one record, or a list of them that share the options' key, tag, node and meta."""
        check_options(options)
        key, tag = options.get("key"), options.get("tag")
        node, meta = options.get("node"), options.get("meta")
        fields = checked_fields(key, tag, node, meta)
        columns = {"key": fields[0], "tag": tag, "node": node, "meta": meta}
        once = options.get("idempotency_key")
        terms = self._terms(options.get("expected_head"), once)
        if isinstance(data, bytes):
            body = of_records([data], columns, terms, checked=once is None)
        else:
            body = of_records(data, columns, terms)
        return self._append(body, once)

    def append_many(
        self,
        data: Sequence[bytes],
        *,
        keys: Sequence[bytes | str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        nodes: Sequence[str | None] | None = None,
        metas: Sequence[bytes | None] | None = None,
        expected_head: int | None = None,
        idempotency_key: Once | None = None,
    ) -> Appended:
        """Append records as one batch: all of them become durable, or none."""
        columns = {"key": keys, "tag": tags, "node": nodes, "meta": metas}
        terms = self._terms(expected_head, idempotency_key)
        return self._append(of_records(data, columns, terms), idempotency_key)

    def append_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        expected_head: int | None = None,
        idempotency_key: Once | None = None,
    ) -> Appended:
        """Append the rows of an Arrow batch: column data, and if present key, tag, node, meta."""
        terms = self._terms(expected_head, idempotency_key)
        return self._append(of_table(batch, terms), idempotency_key)

    def taken(self, producer: str) -> int | None:
        """The highest number that a producer has had taken here, None when it had none."""
        path = f"/producers/{quote(producer, safe='')}"
        return (self._told("GET", path, ProducerTaken)).number

    def producers(self, prefix: str = "") -> list[str]:
        """The names of the producers who have had numbers taken here, and are not forgotten."""
        found = self._told("GET", "/producers", Producers, query={"prefix": prefix})
        return found.producers

    def read(
        self,
        after: int = 0,
        limit: int = PAGE_SIZE,
        *,
        node: str | None = None,
        size_max: int = _READ_SIZE_MAX,
        epoch: int | None = None,
    ) -> Page:
        """The records after a cursor, at most so many. ``node`` is spared its own records."""
        check_whole(after=after, limit=limit, size_max=size_max)
        if after < 0 or limit < 1 or size_max < 1:
            raise Invalid("after is 0 or a seq, limit and size_max are at least 1")
        if limit > _PAGE_RECORDS_MAX:
            raise TooLarge(f"limit is over page_records_max ({_PAGE_RECORDS_MAX})")
        if node is not None and not isinstance(node, str):
            raise Invalid(f"node is text, not {type(node).__name__}")
        if epoch is not None:
            check_whole(epoch=epoch)
        asked = Diff(from_seq=after, limit=limit, node=node, epoch=epoch)
        return self._read(asked, size_max)

    def pick(self, seqs: Sequence[int]) -> Page:
        """The live ones of these records, in order of seq."""
        wanted = sorted(set(seqs))
        answers = []
        for place in range(0, max(1, len(wanted)), _PICKED_AT_ONCE):
            some = Pick(seqs=wanted[place : place + _PICKED_AT_ONCE], include_micros=True)
            answers.append(self._told("POST", "/pick", PickAnswer, body=some))
        return picked(answers)

    def cursor_at(self, ts: int) -> int:
        """The cursor from which a read gives the records of a time (microseconds) and later."""
        check_whole(ts=ts)
        query = {"ts_us": str(max(-(2**63 - 1), min(ts, 2**63 - 1)))}
        return (self._told("GET", "/seek", SeekAnswer, query=query)).from_seq

    def wait_for(self, after: int, timeout_s: float | None = None) -> bool:
        """Wait until the head is past a cursor; False when the time is over or the topic gone."""
        check_whole(after=after)
        check_timeout(timeout_s)
        clock = self._connection.clock
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            left = _WAIT_S_MAX if until is None else until - clock.monotonic()
            wait_s = max(0.0, min(_WAIT_S_MAX, left))
            asked = Diff(from_seq=max(0, after), limit=1, include_data=False)
            try:
                page = page_of(self._diff(asked, wait_s=wait_s))
            except UnknownTopic:
                return False
            if page.head_seq > after:
                return True
            if left <= wait_s and until is not None:
                return False

    def follow(
        self,
        after: int = 0,
        *,
        node: str | None = None,
        timeout_s: float | None = None,
        lossy: bool = False,
        epoch: int | None = None,
    ) -> Iterator[Record]:
        """Records after a cursor, then live ones, until nothing came for ``timeout_s``.

        Lost records raise ``RecordsLost`` unless the caller says that it does not mind. With the
        ``epoch`` that a page told, so does a cursor of an earlier topic of this name. A server
        that is away for a while is waited for, and nothing is left out or told twice.
        """
        check_whole(after=after)
        check_timeout(timeout_s)
        place = RemoteFollowing(
            self._connection,
            self.name,
            self._path,
            after=after,
            node=node,
            timeout_s=timeout_s,
            lossy=lossy,
            epoch=epoch,
        )
        return place.records()

    def delete(self, *, before: int | None = None, match: str | None = None) -> Deleted:
        """Delete records for good: below a seq, with a tag (``"eu*"`` for a beginning), or both."""
        if before is None and match is None:
            raise Invalid("say what to delete: before=SEQ, match=TAG, or both")
        if before is not None:
            check_whole(before=before)
            if before < 1:
                raise Invalid("before is a seq: at least 1")
        if match is not None and not isinstance(match, str):
            raise Invalid(f"match is a tag, not {type(match).__name__}")
        asked = Deletion(before_seq=before, match=_as_match(match))
        done = self._told("POST", "/delete", DeletionAnswer, body=asked, safe=False)
        return Deleted(deleted=done.deleted, earliest_seq=done.earliest_seq, head_seq=done.head_seq)

    def alter(self, **options: object) -> TopicConfig:
        """Change the configuration from here on; what the old one evicted stays evicted."""
        topic_config(TopicConfig(), options)
        body = msgspec.json.encode(options)
        self._connection.ask(Ask("PATCH", self._path, body=body, safe=True))
        config = self.config
        self._window_s = config.idempotency_window_ms / 1000
        return config

    def statistics(self) -> TopicStatistics:
        """The topic's numbers at this moment."""
        state = self._state()
        return TopicStatistics(
            name=state.topic,
            epoch=state.epoch,
            head_seq=state.head_seq,
            earliest_seq=state.earliest_seq,
            evict_floor=state.evict_floor,
            count=state.count,
            payload_bytes=state.bytes,
            last_ts=state.last_ts_us,
            config=msgspec.convert(state.settings, TopicConfig),
            cold=None if state.cold is None else msgspec.convert(state.cold, ColdSummary),
        )

    def _append(self, body: Body, once: Once | None) -> Appended:
        ask = Ask(
            "POST",
            self._path,
            body.query,
            body.content,
            body.media_type,
            safe=True,
            window_s=self._window_s,
        )
        reply = self._connection.ask(ask)
        told = reply.told(AppendAnswer)
        deduped = told.deduped and once is not None  # with our own key it is the first time
        return Appended(told.first_seq, told.last_seq, told.head_seq, deduped)

    def _terms(self, expected_head: int | None, once: Once | None) -> Terms:
        return Terms(expected_head, self._connection.new_key() if once is None else once)

    def _read(self, asked: Diff, size_max: int) -> Page:
        """A page as large as was asked for, however many answers that takes."""
        pages: list[Page] = []
        left, size = asked.limit, 0
        while True:
            asked.limit = min(left, _ANSWER_RECORDS_MAX)
            asked.max_batch_bytes = min(size_max - size, _ANSWER_SIZE_MAX)
            page = page_of(self._diff(asked, many=asked.limit >= _ARROW_FROM))
            if pages and (page.tombstone is not None or page.epoch != pages[0].epoch):
                return joined(pages)  # who reads on is told of it
            pages.append(page)
            left -= len(page)
            size += 0 if left < 1 or page.caught_up else sum(map(len, page.data))
            if left < 1 or size >= size_max or page.caught_up:
                return joined(pages)
            asked.from_seq = page.next

    def _diff(self, asked: Diff, *, wait_s: float = 0.0, many: bool = False) -> Reply:
        asked.include_tags = asked.include_micros = True
        asked.wait_ms = round(wait_s * 1000)
        ask = Ask(
            "POST",
            f"{self._path}/diff",
            body=msgspec.json.encode(asked),
            accept=ARROW if many else JSON,
            safe=True,
            wait_s=wait_s,
        )
        return self._connection.ask(ask)

    def _state(self) -> TopicState:
        return self._told("GET", "", TopicState)

    def _told(
        self,
        method: str,
        path: str,
        kind: type[Kind],
        *,
        query: dict[str, str] | None = None,
        body: object = None,
        safe: bool = True,
    ) -> Kind:
        content = b"" if body is None else msgspec.json.encode(body)
        ask = Ask(method, self._path + path, query or {}, content, safe=safe)
        return (self._connection.ask(ask)).told(kind)


def _as_match(match: str | None) -> str | list[str] | None:
    """A tag as the server takes it: a plain text is always meant as it stands."""
    if match is None or not match.endswith("*"):
        return match
    return ["tag", "Glob", match]
