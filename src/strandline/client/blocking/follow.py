# Made from asynchronous/follow.py by tests/house/blocking.py: change that one.
"""Follows a topic: pages of the stored records, then events for new ones.

    read a page      from the cursor; it reports lost records, and whether the topic was recreated
    read an event    after the last page, from a watch session that starts at the cursor

A broken stream is opened again after its last complete event. A session that the server no longer
has is created again, at the same cursor in the same epoch of the topic. What an event does not
express exactly (a loss, the end of the topic, bytes that SSE does not preserve) is read as a page.
Records come once and in order: those at or before the cursor are dropped, and an event that starts
after the cursor causes a page to be read. At the end the session is deleted on the server; if that
request is lost, the server keeps the session for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from strandline.api.errors import WireError
from strandline.api.live import (
    HEARTBEAT_MS,
    HEARTBEAT_MS_RANGE,
    StartPosition,
    WatchRequest,
    WatchResponse,
)
from strandline.api.topics import DiffRequest
from strandline.client.blocking.connection import RemoteConnection
from strandline.client.blocking.event_stream import RemoteEventStream
from strandline.client.page_codec import page_of
from strandline.client.request import (
    ARROW,
    JSON,
    FailedAttempt,
    Request,
    RequestRetryPolicy,
    StreamTimeout,
    rejection_failure,
)
from strandline.client.sse import SseEvent, decode_error, decode_records
from strandline.errors import NotFound, ObjectStoreUnreachable, RecordsLost
from strandline.log.read.page import Page
from strandline.platform.objectstore.retry_policy import Attempts
from strandline.records import Record

_RECORDS_MAX = 1000
_BATCH_BYTES = 1 << 20
_ARROW_FROM = 64
"""With this many records or more, columns are faster than JSON."""
_RETRY_PAUSE_S_MAX = 1.0
"""Longest pause between attempts to open a stream again."""
_WATCH = Request("POST", "/v0/watch", safe=True, in_loop=True)


class RemoteFollower:
    """A cursor in a topic with its watch session. Owned by one thread."""

    def __init__(
        self,
        connection: RemoteConnection,
        name: str,
        path: str,
        *,
        after: int,
        node: str | None,
        timeout_s: float | None,
        lossy: bool,
        epoch: int | None,
    ) -> None:
        self._connection = connection
        self._name = name
        self._path = path
        self._after = after
        self._epoch = epoch
        self._node = node
        self._timeout_s = timeout_s
        self._lossy = lossy
        self._last_record_s = connection.clock.monotonic()
        """When a record was received last."""
        self._prefers_arrow = True
        self._session: WatchResponse | None = None
        self._forks = 0
        self._last_id = ""
        self._stream: RemoteEventStream | None = None
        self._retry_policy = self._new_retry_policy()

    def records(self) -> Iterator[Record]:
        """Records, until none was received for ``timeout_s``."""
        try:
            while True:
                page = self._read_page()
                for record in page.records:
                    yield record
                if not page.caught_up:
                    continue
                if self._left_s() <= 0:
                    return
                while (records := self._next_records()) is not None:
                    for record in records:
                        yield record
        finally:
            self._close_stream()
            self._delete_session()

    def _read_page(self) -> Page:
        """Read the page after the cursor, and advance the cursor past it."""
        diff = DiffRequest(
            from_seq=self._after,
            limit=_RECORDS_MAX,
            node=self._node,
            epoch=self._epoch,
            include_tags=True,
            include_micros=True,
        )
        request = Request(
            "POST",
            f"{self._path}/diff",
            body=msgspec.json.encode(diff),
            accept=ARROW if self._prefers_arrow else JSON,
            safe=True,
            in_loop=True,
        )
        page = page_of(self._connection.request(request))
        gap = page.tombstone
        if gap is not None and not self._lossy:
            raise RecordsLost(self._name, gap.gap_from, gap.gap_to, gap.reason)
        if page.next > self._after:
            self._last_record_s = self._connection.clock.monotonic()
        self._after, self._epoch, self._prefers_arrow = (
            page.next,
            page.epoch,
            len(page) >= _ARROW_FROM,
        )
        return page

    def _next_records(self) -> list[Record] | None:
        """The records of the next event, with retries; None when a page has to be read."""
        try:
            for attempt in Attempts(self._pause_after, longest_s=_RETRY_PAUSE_S_MAX):
                with attempt:
                    try:
                        return self._read_event()
                    except FailedAttempt:
                        self._close_stream()
                        raise
        except FailedAttempt as failed:
            raise failed.error from failed.__cause__
        raise AssertionError("the last attempt returns or raises")

    def _read_event(self) -> list[Record] | None:
        """The records of the next event; opens a stream if there is none."""
        if self._left_s() <= 0:
            return None
        if self._stream is None:
            self._stream = self._open_stream()
            self._retry_policy = self._new_retry_policy()
        try:
            event = self._stream.event()
        except StreamTimeout:
            if self._left_s() > 0:
                message = f"{self._connection.address.shown} sent nothing until the timeout"
                raise FailedAttempt(
                    ObjectStoreUnreachable(message), not_executed=True, is_transient=True
                ) from None
            self._close_stream()
            return None
        return self._apply(event)

    def _apply(self, event: SseEvent) -> list[Record] | None:
        self._last_id = event.id or self._last_id
        match event.name:
            case "record":
                batch = decode_records(event)
                has_gap = batch.from_seq > self._after and self._node is None
                if has_gap or not event.is_exact:
                    return None
                records = batch.records_after(self._after)
                self._after = max(self._after, batch.to_seq)
                self._last_record_s = self._connection.clock.monotonic()
                return records
            case "tombstone" | "topic-deleted":
                self._close_stream()
                self._delete_session()
                return None
            case ":" if self._timeout_s is not None:
                self._close_stream()  # the remaining time is less than the stream's timeout
                return None
            case "error":
                error = decode_error(event)
                if error.status != 429:  # 429 is a hint; the stream continues
                    pause_s = error.retry_after_ms / 1000 or None
                    problem = WireError(error.status, error.code, error.error, {}, pause_s)
                    raise _stream_failure(problem)
        return []

    def _open_stream(self) -> RemoteEventStream:
        """Open a stream of the session; create the session if there is none."""
        if self._session is None:
            self._session = self._create_session()
            self._last_id = self._session.last_event_id
        heartbeat_s = self._heartbeat_ms() / 1000
        quiet_s = min(self._left_s(), heartbeat_s + self._connection.settings.response_s_max)
        try:
            return RemoteEventStream.open(
                self._connection, self._session.stream_url, last_id=self._last_id, quiet_s=quiet_s
            )
        except FailedAttempt as failed:
            if not isinstance(failed.error, NotFound):
                raise
            self._session = None  # the session expired, or the server was restarted
            raise FailedAttempt(failed.error, not_executed=True, is_transient=True) from failed

    def _create_session(self) -> WatchResponse:
        watch = WatchRequest(
            topics={self._name: StartPosition(from_seq=self._after, epoch=self._epoch)},
            node=self._node,
            limit=_RECORDS_MAX,
            max_batch_bytes=_BATCH_BYTES,
            heartbeat_ms=self._heartbeat_ms(),
            include_tags=True,
            include_micros=True,
        )
        self._forks = self._connection.forks
        request = _WATCH._replace(body=msgspec.json.encode(watch))
        return (self._connection.request(request)).decode(WatchResponse)

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _delete_session(self) -> None:
        """Delete the session on the server, unless it belongs to a parent process."""
        session, self._session = self._session, None
        if session is not None and self._forks == self._connection.forks:
            self._connection.send_once(Request("DELETE", session.stream_url))

    def _left_s(self) -> float:
        """How long to wait for the next record."""
        if self._timeout_s is None:
            return float("inf")
        return self._last_record_s + self._timeout_s - self._connection.clock.monotonic()

    def _heartbeat_ms(self) -> int:
        """The heartbeat interval: the longest with a timeout, as a heartbeat ends the wait."""
        return HEARTBEAT_MS if self._timeout_s is None else HEARTBEAT_MS_RANGE[1]

    def _pause_after(self, error: Exception) -> bool | float:
        return self._retry_policy.pause_after(error)

    def _new_retry_policy(self) -> RequestRetryPolicy:
        return RequestRetryPolicy(_WATCH, self._connection.settings, self._connection.clock)


def _stream_failure(problem: WireError) -> FailedAttempt:
    """The failure for an error event that ends a stream; 410 concerns only the stream."""
    failed = rejection_failure(problem, _WATCH)
    if problem.status != 410:
        return failed
    return FailedAttempt(
        failed.error, not_executed=True, is_transient=True, pause_s=problem.retry_after_s
    )
