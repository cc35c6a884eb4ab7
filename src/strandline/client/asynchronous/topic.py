"""One topic of a server: append, read, follow, delete, alter, statistics.

An append has an idempotency key, generated unless the caller gives one: when its response is lost
and the request is repeated, the server recognizes it and appends nothing twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar, Unpack
from urllib.parse import quote

import msgspec
import pyarrow as pa

from strandline.api.topics import (
    AppendResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DiffRequest,
    PickRequest,
    PickResponse,
    ProducerResponse,
    ProducersResponse,
    SeekResponse,
    TopicInfo,
)
from strandline.client.append_codec import AppendTerms, Body, encode_records, encode_table
from strandline.client.asynchronous.connection import AsyncConnection
from strandline.client.asynchronous.follow import AsyncFollower
from strandline.client.page_codec import merged_pages, merged_picks, page_of
from strandline.client.request import ARROW, JSON, Request, Response
from strandline.config.settings import LimitSettings, TopicConfig, topic_config
from strandline.errors import Invalid, TooLarge, UnknownTopic
from strandline.lake.cold_index import ColdSummary
from strandline.log.append.batch import AppendOptions, IdempotencyKey, check_options, checked_fields
from strandline.log.read.page import Page
from strandline.log.state.statistics import TopicStatistics
from strandline.log.topic.delete import DeleteResult
from strandline.log.topic.topic import PAGE_SIZE
from strandline.log.topic.validation import check_timeout, check_whole
from strandline.records import AppendResult, Record

_READ_SIZE_MAX = 64 << 20
_RESPONSE_SIZE_MAX = 8 << 20
_RESPONSE_RECORDS_MAX = 1000
_WAIT_S_MAX = 25.0
_ARROW_FROM = 64
"""With this many records or more, columns are faster than JSON."""
_PICK_SEQS_MAX = 10_000
_PAGE_RECORDS_MAX = LimitSettings().page_records_max

Kind = TypeVar("Kind")


class AsyncTopic:
    """An ordered log of records under a name. Safe from many tasks of one loop."""

    def __init__(
        self, connection: AsyncConnection, name: str, window_ms: int | None = None
    ) -> None:
        self.name = name
        self._connection = connection
        self._path = f"/v0/topics/{quote(name, safe='')}"
        self._window_s = None if window_ms is None else window_ms / 1000

    def __repr__(self) -> str:
        return f"AsyncTopic({self.name!r})"

    @property
    async def config(self) -> TopicConfig:
        return (await self.statistics()).config

    @property
    async def head_seq(self) -> int:
        """The newest published seq; 0 if there never was a record."""
        return (await self._state()).head_seq

    @property
    async def epoch(self) -> int:
        """Changes when cursors become invalid: the topic was recreated, or lost its tail."""
        return (await self._state()).epoch

    @property
    async def identity(self) -> tuple[int, int]:
        """The id of the topic and its epoch: names are reused, these never are."""
        return (await self._state()).identity

    async def gaps_below(self, seq: int) -> list[tuple[int, int]]:
        """First and last seqs of records that were lost before a seq."""
        return [gap for gap in (await self._state()).gaps if gap[0] < seq]

    async def append(
        self, data: bytes | Sequence[bytes], **options: Unpack[AppendOptions]
    ) -> AppendResult:
        """Append one record, or a list of them that share the options' key, tag, node and meta."""
        check_options(options)
        key, tag = options.get("key"), options.get("tag")
        node, meta = options.get("node"), options.get("meta")
        fields = checked_fields(key, tag, node, meta)
        columns = {"key": fields[0], "tag": tag, "node": node, "meta": meta}
        once = options.get("idempotency_key")
        terms = self._terms(options.get("expected_head"), once)
        if isinstance(data, bytes):
            body = encode_records([data], columns, terms, checked=once is None)
        else:
            body = encode_records(data, columns, terms)
        return await self._append(body, once)

    async def append_many(
        self,
        data: Sequence[bytes],
        *,
        keys: Sequence[bytes | str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        nodes: Sequence[str | None] | None = None,
        metas: Sequence[bytes | None] | None = None,
        expected_head: int | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> AppendResult:
        """Append records as one batch: all of them become durable, or none."""
        columns = {"key": keys, "tag": tags, "node": nodes, "meta": metas}
        terms = self._terms(expected_head, idempotency_key)
        return await self._append(encode_records(data, columns, terms), idempotency_key)

    async def append_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        expected_head: int | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> AppendResult:
        """Append the rows of an Arrow batch: column data, and if present key, tag, node, meta."""
        terms = self._terms(expected_head, idempotency_key)
        return await self._append(encode_table(batch, terms), idempotency_key)

    async def last_number(self, producer: str) -> int | None:
        """The highest number that this topic accepted from a producer; None if there is none."""
        path = f"/producers/{quote(producer, safe='')}"
        return (await self._request("GET", path, ProducerResponse)).number

    async def producers(self, prefix: str = "") -> list[str]:
        """The names of the producers whose numbers this topic stores."""
        response = await self._request(
            "GET", "/producers", ProducersResponse, query={"prefix": prefix}
        )
        return response.producers

    async def read(
        self,
        after: int = 0,
        limit: int = PAGE_SIZE,
        *,
        node: str | None = None,
        size_max: int = _READ_SIZE_MAX,
        epoch: int | None = None,
    ) -> Page:
        """The records after a cursor, at most ``limit``, without those of ``node``."""
        check_whole(after=after, limit=limit, size_max=size_max)
        if after < 0 or limit < 1 or size_max < 1:
            raise Invalid("after is 0 or a seq, limit and size_max are at least 1")
        if limit > _PAGE_RECORDS_MAX:
            raise TooLarge(f"limit is over page_records_max ({_PAGE_RECORDS_MAX})")
        if node is not None and not isinstance(node, str):
            raise Invalid(f"node is text, not {type(node).__name__}")
        if epoch is not None:
            check_whole(epoch=epoch)
        diff = DiffRequest(from_seq=after, limit=limit, node=node, epoch=epoch)
        return await self._read(diff, size_max)

    async def get_many(self, seqs: Sequence[int]) -> Page:
        """Those of these records that exist, in order of seq."""
        ordered = sorted(set(seqs))
        responses = []
        for first in range(0, max(1, len(ordered)), _PICK_SEQS_MAX):
            body = PickRequest(seqs=ordered[first : first + _PICK_SEQS_MAX], include_micros=True)
            responses.append(await self._request("POST", "/pick", PickResponse, body=body))
        return merged_picks(responses)

    async def cursor_at(self, ts: int) -> int:
        """The cursor from which a read returns the records of a time (microseconds) and later."""
        check_whole(ts=ts)
        query = {"ts_us": str(max(-(2**63 - 1), min(ts, 2**63 - 1)))}
        return (await self._request("GET", "/seek", SeekResponse, query=query)).from_seq

    async def wait_for(self, after: int, timeout_s: float | None = None) -> bool:
        """Wait until the head is past a cursor; False after the timeout or if the topic is gone."""
        check_whole(after=after)
        check_timeout(timeout_s)
        clock = self._connection.clock
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            left = _WAIT_S_MAX if until is None else until - clock.monotonic()
            wait_s = max(0.0, min(_WAIT_S_MAX, left))
            diff = DiffRequest(from_seq=max(0, after), limit=1, include_data=False)
            try:
                page = page_of(await self._diff(diff, wait_s=wait_s))
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
    ) -> AsyncIterator[Record]:
        """Records after a cursor, then live ones, until none came for ``timeout_s``.

        Lost records raise ``RecordsLost`` unless ``lossy`` is set. With the ``epoch`` of a page,
        so does a cursor of an earlier topic of this name. If the server is unavailable for a
        while, the call waits for it; no record is left out or returned twice.
        """
        check_whole(after=after)
        check_timeout(timeout_s)
        follower = AsyncFollower(
            self._connection,
            self.name,
            self._path,
            after=after,
            node=node,
            timeout_s=timeout_s,
            lossy=lossy,
            epoch=epoch,
        )
        return follower.records()

    async def delete(self, *, before: int | None = None, match: str | None = None) -> DeleteResult:
        """Delete records permanently: below a seq, with a tag (``"eu*"`` for a prefix), or both."""
        if before is None and match is None:
            raise Invalid("select the records to delete: before=SEQ, match=TAG, or both")
        if before is not None:
            check_whole(before=before)
            if before < 1:
                raise Invalid("before is a seq: at least 1")
        if match is not None and not isinstance(match, str):
            raise Invalid(f"match is a tag, not {type(match).__name__}")
        deletion = DeleteRecordsRequest(before_seq=before, match=_as_match(match))
        response = await self._request(
            "POST", "/delete", DeleteRecordsResponse, body=deletion, safe=False
        )
        return DeleteResult(
            deleted=response.deleted, earliest_seq=response.earliest_seq, head_seq=response.head_seq
        )

    async def alter(self, **options: object) -> TopicConfig:
        """Change the configuration from now on; records that the old one evicted stay evicted."""
        topic_config(TopicConfig(), options)
        body = msgspec.json.encode(options)
        await self._connection.request(Request("PATCH", self._path, body=body, safe=True))
        config = await self.config
        self._window_s = config.idempotency_window_ms / 1000
        return config

    async def statistics(self) -> TopicStatistics:
        """The current statistics of the topic."""
        state = await self._state()
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

    async def _append(self, body: Body, once: IdempotencyKey | None) -> AppendResult:
        request = Request(
            "POST",
            self._path,
            body.query,
            body.content,
            body.media_type,
            safe=True,
            window_s=self._window_s,
        )
        response = await self._connection.request(request)
        appended = response.decode(AppendResponse)
        deduped = (
            appended.deduped and once is not None
        )  # a generated key repeats only our own request
        return AppendResult(appended.first_seq, appended.last_seq, appended.head_seq, deduped)

    def _terms(self, expected_head: int | None, once: IdempotencyKey | None) -> AppendTerms:
        return AppendTerms(expected_head, self._connection.new_key() if once is None else once)

    async def _read(self, diff: DiffRequest, size_max: int) -> Page:
        """A page of the requested size, from as many responses as necessary."""
        pages: list[Page] = []
        left, size = diff.limit, 0
        while True:
            diff.limit = min(left, _RESPONSE_RECORDS_MAX)
            diff.max_batch_bytes = min(size_max - size, _RESPONSE_SIZE_MAX)
            page = page_of(await self._diff(diff, many=diff.limit >= _ARROW_FROM))
            if pages and (page.tombstone is not None or page.epoch != pages[0].epoch):
                return merged_pages(pages)  # the next read reports the tombstone
            pages.append(page)
            left -= len(page)
            size += 0 if left < 1 or page.caught_up else sum(map(len, page.data))
            if left < 1 or size >= size_max or page.caught_up:
                return merged_pages(pages)
            diff.from_seq = page.next

    async def _diff(
        self, diff: DiffRequest, *, wait_s: float = 0.0, many: bool = False
    ) -> Response:
        diff.include_tags = diff.include_micros = True
        diff.wait_ms = round(wait_s * 1000)
        request = Request(
            "POST",
            f"{self._path}/diff",
            body=msgspec.json.encode(diff),
            accept=ARROW if many else JSON,
            safe=True,
            wait_s=wait_s,
        )
        return await self._connection.request(request)

    async def _state(self) -> TopicInfo:
        return await self._request("GET", "", TopicInfo)

    async def _request(
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
        request = Request(method, self._path + path, query or {}, content, safe=safe)
        return (await self._connection.request(request)).decode(kind)


def _as_match(match: str | None) -> str | list[str] | None:
    """A tag in the syntax of the server: a text without a trailing ``*`` is matched literally."""
    if match is None or not match.endswith("*"):
        return match
    return ["tag", "Glob", match]
