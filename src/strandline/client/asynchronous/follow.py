"""Following a topic: pages of what is there, then events of what comes.

    look      a page from the cursor: it says what was lost, and whether the topic is another one
    listen    once there is no more, a watch session from the cursor on: the server tells

A stream that breaks is opened again behind the last event that came whole; a session that the
server has forgotten is made anew, from the same cursor in the same life of the topic. Whatever an
event cannot say exactly (a loss, the end of the topic, bytes that SSE does not keep) is looked at
in a page. Records come once and in order: those at or before the cursor are dropped, and an event
that begins behind the cursor is a reason to look. Who stops following says so to the server, which
would keep the session for minutes; when that is not heard, it does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from strandline.api.errors import Problem
from strandline.api.live import HEARTBEAT_MS, HEARTBEAT_MS_RANGE, From, WatchAnswer, WatchRequest
from strandline.api.topics import Diff
from strandline.client.asynchronous.connection import AsyncConnection
from strandline.client.asynchronous.event_stream import AsyncListening
from strandline.client.page_codec import page_of
from strandline.client.request import ARROW, JSON, Ask, Failed, Patience, Quiet, refused
from strandline.client.sse import Event, told_error, told_records
from strandline.errors import NotFound, RecordsLost, Unreachable
from strandline.log.read.page import Page
from strandline.platform.objectstore.retry_policy import Attempts
from strandline.records import Record

_RECORDS_MAX = 1000
_BATCH_BYTES = 1 << 20
_ARROW_FROM = 64
"""Records from which on columns are quicker than JSON."""
_PAUSE_S_MAX = 1.0
"""Between attempts to open a stream again."""
_WATCHING = Ask("POST", "/v0/watch", safe=True, in_loop=True)


class AsyncFollowing:
    """A place in a topic that moves on. Owned by one task."""

    def __init__(
        self,
        connection: AsyncConnection,
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
        self._since = connection.clock.monotonic()
        """When something came last."""
        self._many = True
        self._session: WatchAnswer | None = None
        self._forks = 0
        self._last_id = ""
        self._stream: AsyncListening | None = None
        self._patience = self._fresh_patience()

    async def records(self) -> AsyncIterator[Record]:
        """Records, until nothing came for the time that was given."""
        try:
            while True:
                page = await self._look()
                for record in page.records:
                    yield record
                if not page.caught_up:
                    continue
                if self._left_s() <= 0:
                    return
                while (told := await self._told()) is not None:
                    for record in told:
                        yield record
        finally:
            await self._hang_up()
            await self._forget()

    async def _look(self) -> Page:
        """The page behind the cursor, which moves behind it."""
        diff = Diff(
            from_seq=self._after,
            limit=_RECORDS_MAX,
            node=self._node,
            epoch=self._epoch,
            include_tags=True,
            include_micros=True,
        )
        ask = Ask(
            "POST",
            f"{self._path}/diff",
            body=msgspec.json.encode(diff),
            accept=ARROW if self._many else JSON,
            safe=True,
            in_loop=True,
        )
        page = page_of(await self._connection.ask(ask))
        gap = page.tombstone
        if gap is not None and not self._lossy:
            raise RecordsLost(self._name, gap.gap_from, gap.gap_to, gap.reason)
        if page.next > self._after:
            self._since = self._connection.clock.monotonic()
        self._after, self._epoch, self._many = page.next, page.epoch, len(page) >= _ARROW_FROM
        return page

    async def _told(self) -> list[Record] | None:
        """The records of the next event; None when it is time to look."""
        try:
            async for attempt in Attempts(self._pause_after, longest_s=_PAUSE_S_MAX):
                with attempt:
                    try:
                        return await self._listen()
                    except Failed:
                        await self._hang_up()
                        raise
        except Failed as failed:
            raise failed.error from failed.__cause__
        raise AssertionError("the last attempt returns or raises")

    async def _listen(self) -> list[Record] | None:
        """The records of an event, of any stream that can be had."""
        if self._left_s() <= 0:
            return None
        if self._stream is None:
            self._stream = await self._opened()
            self._patience = self._fresh_patience()
        try:
            event = await self._stream.event()
        except Quiet:
            if self._left_s() > 0:
                told = f"{self._connection.address.shown} has said nothing for long"
                raise Failed(Unreachable(told), undone=True, passing=True) from None
            await self._hang_up()
            return None
        return await self._taken(event)

    async def _taken(self, event: Event) -> list[Record] | None:
        self._last_id = event.id or self._last_id
        match event.name:
            case "record":
                told = told_records(event)
                has_hole = told.from_seq > self._after and self._node is None
                if has_hole or not event.is_exact:
                    return None
                found = told.behind(self._after)
                self._after = max(self._after, told.to_seq)
                self._since = self._connection.clock.monotonic()
                return found
            case "tombstone" | "topic-deleted":
                await self._hang_up()
                await self._forget()
                return None
            case ":" if self._timeout_s is not None:
                await self._hang_up()  # what is left of the time is less than the stream waits
                return None
            case "error":
                error = told_error(event)
                if error.status != 429:  # which is a hint
                    pause_s = error.retry_after_ms / 1000 or None
                    problem = Problem(error.status, error.code, error.error, {}, pause_s)
                    raise _ended(problem)
        return []

    async def _opened(self) -> AsyncListening:
        """A stream of the session, which is made if there is none."""
        if self._session is None:
            self._session = await self._watched()
            self._last_id = self._session.last_event_id
        beat_s = self._beat_ms() / 1000
        quiet_s = min(self._left_s(), beat_s + self._connection.settings.answer_s_max)
        try:
            return await AsyncListening.begin(
                self._connection, self._session.stream_url, last_id=self._last_id, quiet_s=quiet_s
            )
        except Failed as failed:
            if not isinstance(failed.error, NotFound):
                raise
            self._session = None  # the server has forgotten it, or is another one
            raise Failed(failed.error, undone=True, passing=True) from failed

    async def _watched(self) -> WatchAnswer:
        request = WatchRequest(
            topics={self._name: From(from_seq=self._after, epoch=self._epoch)},
            node=self._node,
            limit=_RECORDS_MAX,
            max_batch_bytes=_BATCH_BYTES,
            heartbeat_ms=self._beat_ms(),
            include_tags=True,
            include_micros=True,
        )
        self._forks = self._connection.forks
        ask = _WATCHING._replace(body=msgspec.json.encode(request))
        return (await self._connection.ask(ask)).told(WatchAnswer)

    async def _hang_up(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()

    async def _forget(self) -> None:
        """Tell the server that the session is over, unless it is that of a parent process."""
        session, self._session = self._session, None
        if session is not None and self._forks == self._connection.forks:
            await self._connection.mention(Ask("DELETE", session.stream_url))

    def _left_s(self) -> float:
        """How long nothing may come from now on."""
        if self._timeout_s is None:
            return float("inf")
        return self._since + self._timeout_s - self._connection.clock.monotonic()

    def _beat_ms(self) -> int:
        """Who counts the time is not to be disturbed."""
        return HEARTBEAT_MS if self._timeout_s is None else HEARTBEAT_MS_RANGE[1]

    def _pause_after(self, error: Exception) -> bool | float:
        return self._patience.pause_after(error)

    def _fresh_patience(self) -> Patience:
        return Patience(_WATCHING, self._connection.settings, self._connection.clock)


def _ended(problem: Problem) -> Failed:
    """What it means that a stream ends with an error: 410 is about the stream alone."""
    failed = refused(problem, _WATCHING)
    if problem.status != 410:
        return failed
    return Failed(failed.error, undone=True, passing=True, pause_s=problem.retry_after_s)
