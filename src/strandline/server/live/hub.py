"""Live delivery: which topics are watched, and how new records reach the watchers.

    publish -> tap -> bells -> (loop) scheduler -> push of the topic -> one frame to many transports

A watched topic has long polls, and channels of feeds. The scheduler decides the order in which
topics push new records; load shedding decides how long pushes wait to carry more, and which topics
wait under load. Feeds with missed records catch up on their own (``catch_up.py``); slow ones are
paused and checked at intervals (``slow_consumers.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from strandline.api.errors import Refused, wire_error_of
from strandline.errors import StrandlineError
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.server.live import catch_up, frames, slow_consumers
from strandline.server.live.load_sampler import LoadSampler
from strandline.server.live.load_shedding import RETRY_AFTER_S, LoadShedder
from strandline.server.live.new_topics import NewTopics
from strandline.server.live.publish_notifier import PublishNotifier, TopicNotifier
from strandline.server.live.sessions import SavedPosition, WatchSessions
from strandline.server.live.streams import Stream
from strandline.server.live.subscriber import Channel, Subscriber
from strandline.server.live.subscriptions import Subscription
from strandline.server.live.topic_scheduler import TopicScheduler
from strandline.server.priority import priority_of
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store

_SERVE_S_MAX = 0.005
"""Maximum time of pushes before the loop does other work."""
_DEFERRED_S = 0.05
_SLOW_S_FIRST = 0.01
_SLOW_S_MAX = 0.25

Identity = tuple[int, int]


class _Poll(NamedTuple):
    """A request that waits until the head is past a cursor."""

    after: int
    future: asyncio.Future[bool]


class _Watchers:
    """A topic with long polls or channels."""

    __slots__ = ("channels", "polls", "tap", "topic")

    def __init__(self, topic: Topic, tap: TopicNotifier) -> None:
        self.topic = topic
        self.tap = tap
        self.polls: list[_Poll] = []
        self.channels: dict[Subscription, Channel] = {}

    @property
    def is_empty(self) -> bool:
        return not self.polls and not self.channels

    def answer_polls(self) -> None:
        """End the polls that have records to read, or whose topic was deleted."""
        for after, future in self.polls:
            if self.topic.head_seq > after:
                _resolve(future, found=True)
            elif self.topic.is_gone:
                _resolve(future, found=False)


class Hub:
    """Live delivery. Owned by the loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        bridge: ThreadPools | None = None,
        random_id: Callable[[], bytes] | None = None,
    ) -> None:
        self.load_shedder = LoadShedder(settings.limits.waiting_appends_max)
        """Load shedding: ``admit`` is called before every append."""
        self.streams: dict[Stream, None] = {}
        """The open streams."""
        self.sessions = WatchSessions(settings, clock, random_id or OsDisk().random_id)
        """Watch sessions, kept while their streams are open and for ``session_s`` after."""
        self.read_at_ms: dict[str, int] = {}
        """When topics were last read, for their priority: the map of the server's ``AppState``."""
        self._store = store
        self._settings = settings
        self._live = settings.live
        self._clock = clock
        self._bridge = bridge or ThreadPools()
        self._scheduler: TopicScheduler[Identity] = TopicScheduler()
        self._watchers: dict[Identity, _Watchers] = {}
        self._is_serving = False
        self._hinted: set[Identity] = set()
        self._coalesced_s = 0.0
        self._slow: dict[Stream, None] = {}
        self._slow_s = _SLOW_S_FIRST
        self._slow_timer: asyncio.TimerHandle | None = None
        self._recheck_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._load = LoadSampler(
            self.load_shedder, store, self._bridge, clock, lambda: len(self._scheduler)
        )

    def start(self) -> None:
        """Start on the running loop. Repeated calls do nothing."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._notifier = PublishNotifier(self._loop, self._on_publish)
            self._new_topics = NewTopics(self._store, self._bridge, self._notifier)
            self._load.start(self._loop)

    # Long polls.

    async def wait_for(self, topic: Topic, after: int, timeout_s: float) -> bool:
        """Wait until the head is past a cursor; False on timeout, or if the topic is deleted."""
        self.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        poll = _Poll(after, future)
        watchers = self._watchers_of(topic)
        watchers.polls.append(poll)
        watchers.tap.arm()
        watchers.answer_polls()
        timer = loop.call_later(timeout_s, _resolve_timeout, future)
        try:
            return await future
        finally:
            timer.cancel()
            watchers.polls.remove(poll)
            self._remove_if_empty(watchers)

    # Streams.

    def open(self, stream: Stream) -> None:
        """Add a stream; Refused when there are too many."""
        self.start()
        streams_max = self._settings.limits.streams_max
        if len(self.streams) >= streams_max:
            raise Refused(
                429,
                "throttled",
                f"the server has {streams_max} streams, the limit (streams_max): retry later",
                detail={"limit": "streams_max", "max": streams_max},
                retry_after_s=1.0,
            )
        self.streams[stream] = None
        self._recheck_later()

    def close(self, stream: Stream) -> None:
        """End a stream and remove it."""
        self.streams.pop(stream, None)
        self._slow.pop(stream, None)
        stream.end("closed")
        for name in list(stream.positions):
            self.detach(stream, name)

    def attach(
        self,
        stream: Stream,
        topic: Topic,
        spec: Subscription,
        cursor: int,
        epoch: int | None = None,
    ) -> Subscriber:
        """Subscribe a stream to a topic, after a cursor."""
        watchers = self._watchers_of(topic)
        channel = watchers.channels.get(spec)
        if channel is None:
            channel = Channel(topic, spec)  # raises before anything is changed
            watchers.channels[spec] = channel
        feed = Subscriber(stream, channel, cursor, epoch)
        channel.feeds[feed] = None
        stream.subscriptions[topic.name] = spec
        stream.set_position(topic.name, feed)
        watchers.tap.arm()
        self._catch_up(feed)
        return feed

    def detach(self, stream: Stream, name: str) -> None:
        """Unsubscribe a stream from a topic."""
        feed = stream.remove(name)
        if isinstance(feed, Subscriber):
            self._remove_feed(feed)

    def _remove_feed(self, feed: Subscriber) -> None:
        channel = feed.channel
        feed.leave()
        if feed.task is not None:
            feed.task.cancel()
        channel.feeds.pop(feed, None)
        if not channel.feeds:
            watchers = self._watchers.get(channel.topic.identity)
            if watchers is not None and watchers.channels.get(channel.subscription) is channel:
                del watchers.channels[channel.subscription]
                self._remove_if_empty(watchers)

    def watch_new_topics(self) -> None:
        """Call ``Stream.on_new_topic`` for topics that are created from now on."""
        self.start()
        self._new_topics.watch()

    def close_streams_of(self, principal_id: str) -> None:
        """End the streams of a principal whose token was revoked."""
        for stream in list(self.streams):
            if stream.who.id == principal_id:
                self._reject(stream, "unauthorized", "this token is no longer valid")

    async def drain(self) -> None:
        """End long polls and streams: the server shuts down."""
        self._load.stop()
        for watchers in list(self._watchers.values()):
            for poll in list(watchers.polls):
                _resolve(poll.future, found=False)
        ending = list(self.streams)
        for stream in ending:
            text = "the server is shutting down: resume when it is back"
            stream.send_frames([frames.error(503, "shutting_down", text, retry_after_ms=1000)])
            stream.end("shutting_down")
        while any(stream in self.streams for stream in ending):  # noqa: ASYNC110 - see below
            await asyncio.sleep(0.01)  # polled once per shutdown; the caller sets the time limit

    # Pushes.

    def _on_publish(self) -> None:
        """Called on the loop after publishes: schedule their topics."""
        notified = self._notifier.drain()
        is_only = (
            len(notified) == 1 and not len(self._scheduler) and not self.load_shedder.coalesce_s
        )
        for tap in notified:
            if not isinstance(tap, TopicNotifier):
                tap.on_notified(list(self.streams))
                continue
            watchers = self._watchers.get(tap.topic.identity)
            if watchers is None:
                continue
            if watchers.polls:
                tap.arm()
                watchers.answer_polls()
            if watchers.channels and is_only:
                self._load.note_push(0.0)
                self._load.sample_later()
                self._push(watchers)  # at once: no other topic waits, and there is no load
            elif watchers.channels:
                self._schedule(watchers.topic)

    def _schedule(self, topic: Topic) -> None:
        """Schedule a topic: it has new records for its channels."""
        now = self._clock.monotonic()
        read_at_ms = self.read_at_ms.get(topic.name)
        priority = priority_of(topic.config, read_at_ms, self._clock.now_us() // 1000)
        self._scheduler.add(topic.identity, priority, now)
        self._serve_later(self.load_shedder.coalesce_s)
        self._load.sample_later()

    def _serve_later(self, seconds: float) -> None:
        assert self._loop is not None
        if self._is_serving:
            return
        self._is_serving = True
        self._coalesced_s = seconds
        if seconds:
            self._loop.call_later(seconds, self._serve)
        else:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        """Push scheduled topics in order, for up to ``_SERVE_S_MAX``."""
        self._is_serving = False
        started_s = now = self._clock.monotonic()
        while now - started_s < _SERVE_S_MAX:
            scheduled = self._scheduler.pop(now, deferring=self.load_shedder.is_deferring)
            if scheduled is None:
                break
            self._load.note_push(max(0.0, now - scheduled.since - self._coalesced_s))
            watchers = self._watchers.get(scheduled.key)
            if watchers is not None:
                self._push(watchers)
            now = self._clock.monotonic()
        if not self.load_shedder.is_deferring:
            self._hinted.clear()
        if len(self._scheduler):
            if self.load_shedder.is_deferring:
                self._hint_deferred()
            self._serve_later(_DEFERRED_S if now - started_s < _SERVE_S_MAX else 0.0)

    def _hint_deferred(self) -> None:
        """Notify subscribers of deferred topics, once until the load is over."""
        for identity in self._scheduler.deferred():
            watchers = self._watchers.get(identity)
            if watchers is None or identity in self._hinted:
                continue
            self._hinted.add(identity)
            hint = frames.error(
                429,
                "throttled",
                "the server is busy: pushes of this topic are deferred, reads are not",
                retry_after_ms=int(RETRY_AFTER_S * 1000),
                topics=[watchers.topic.name],
            )
            for channel in watchers.channels.values():
                for feed in channel.feeds:
                    if feed.cohort is not None:
                        feed.stream.send_frames([hint])

    def _push(self, watchers: _Watchers) -> None:
        """Send the new records of a topic to all its channels."""
        watchers.tap.arm()  # before the head is read, so that no publish is missed
        if watchers.topic.is_gone:
            self._on_deleted(watchers)
            return
        for channel in list(watchers.channels.values()):
            try:
                result = channel.push()
            except Exception as error:  # noqa: BLE001 - a bug must not leave subscribers waiting
                self._fail(channel, error)
                continue
            for feed in result.lagging:
                self._catch_up(feed)
            if result.has_more:
                self._schedule(watchers.topic)
            if channel.subscription.is_strong:
                self._secure_soon(channel)

    def _on_deleted(self, watchers: _Watchers) -> None:
        """The topic was deleted: send that, and wait for another topic of its name."""
        del self._watchers[watchers.topic.identity]
        name, head_seq = watchers.topic.name, watchers.topic.head_seq
        for channel in watchers.channels.values():
            for feed in list(channel.feeds):
                self._remove_feed(feed)
                feed.stream.send_frames([frames.topic_deleted(name, head_seq, "deleted")])
                feed.stream.set_position(name, SavedPosition(0, feed.epoch))
        self.watch_new_topics()

    def _fail(self, channel: Channel, error: Exception) -> None:
        """A topic cannot be read: send the error to its streams, and end them."""
        for feed in list(channel.feeds):
            self._fail_stream(feed.stream, error)

    def _fail_stream(self, stream: Stream, error: BaseException) -> None:
        problem = wire_error_of(error)
        stream.send_frames([frames.error(problem.status, problem.code, problem.message)])
        stream.end(problem.code)

    def _reject(self, stream: Stream, code: str, message: str) -> None:
        stream.send_frames([frames.error(401, code, message)])
        stream.end(code)

    # Feeds that catch up.

    def _catch_up(self, feed: Subscriber) -> None:
        """Start the catch-up of a feed, or pause it while its stream has no room."""
        if not feed.stream.has_room_for_history:
            self._pause(feed)
        elif feed.task is None and not feed.stream.ended.done():
            assert self._loop is not None
            feed.task = self._loop.create_task(self._run_catch_up(feed))

    async def _run_catch_up(self, feed: Subscriber) -> None:
        try:
            is_live = await catch_up.catch_up(feed, self._bridge)
        except Exception as error:  # noqa: BLE001 - as in a push
            self._fail_stream(feed.stream, error)
            return
        finally:
            feed.task = None
        if is_live:
            feed.channel.join(feed)
            if feed.channel.topic.head_seq > feed.cursor:
                self._schedule(feed.channel.topic)  # a push may have been missed in the meantime
        elif not feed.channel.topic.is_gone:
            self._pause(feed)

    def _secure_soon(self, channel: Channel) -> None:
        """Sync records for a channel with strong consistency, then push them."""
        if channel.securing is None and channel.topic.head_seq > channel.reach:
            assert self._loop is not None
            channel.securing = self._loop.create_task(self._secure(channel))

    async def _secure(self, channel: Channel) -> None:
        try:
            await catch_up.sync_records(channel, self._bridge)
        except StrandlineError as error:
            self._fail(channel, error)
            return
        finally:
            channel.securing = None
        self._schedule(channel.topic)

    # Slow streams.

    def _pause(self, feed: Subscriber) -> None:
        """Send a feed nothing until its stream has room again."""
        stream = feed.stream
        feed.is_paused = True
        if stream.full_since is None:
            stream.full_since = self._clock.monotonic()
        self._slow[stream] = None
        self._check_later(_SLOW_S_FIRST)

    def _check_later(self, seconds: float) -> None:
        assert self._loop is not None
        if self._slow_timer is None:
            self._slow_s = seconds
            self._slow_timer = self._loop.call_later(seconds, self._check_slow)

    def _check_slow(self) -> None:
        """Resume the streams that have room again; end those that were full for too long."""
        self._slow_timer = None
        now = self._clock.monotonic()
        has_resumed = False
        for stream in list(self._slow):
            assert stream.full_since is not None
            full_s = now - stream.full_since
            verdict = slow_consumers.verdict(
                full_s=full_s, has_drained=stream.has_drained, settings=self._live
            )
            if verdict == "resume":
                has_resumed = True
                self._resume(stream, full_s)
            elif verdict == "end":
                del self._slow[stream]
                stream.send_frames([slow_consumers.farewell(full_s, list(stream.positions))])
                stream.end("slow_consumer")
        if self._slow:
            self._check_later(_SLOW_S_FIRST if has_resumed else min(2 * self._slow_s, _SLOW_S_MAX))

    def _resume(self, stream: Stream, full_s: float) -> None:
        del self._slow[stream]
        stream.full_since = None
        stream.frames = 0
        for feed in [place for place in stream.positions.values() if isinstance(place, Subscriber)]:
            if not feed.is_paused:
                continue
            feed.is_paused = False
            topic = feed.channel.topic
            is_late = full_s > self._live.grace_s and topic.head_seq > feed.cursor
            if is_late and slow_consumers.is_lossy(topic.config):
                head_seq = topic.head_seq
                gap = slow_consumers.skipped(topic.name, feed.cursor, topic.earliest_seq, head_seq)
                stream.send_frames([gap])
                feed.move(head_seq)
            self._catch_up(feed)

    # Periodic checks.

    def _recheck_later(self) -> None:
        assert self._loop is not None
        if self._recheck_timer is None and self.streams:
            self._recheck_timer = self._loop.call_later(self._live.recheck_s, self._recheck)

    def _recheck(self) -> None:
        """End the streams whose clients may no longer watch."""
        self._recheck_timer = None
        for stream in list(self.streams):
            try:
                stream.check()
            except StrandlineError as error:
                self._fail_stream(stream, error)
        self._recheck_later()

    # Watched topics.

    def _watchers_of(self, topic: Topic) -> _Watchers:
        watchers = self._watchers.get(topic.identity)
        if watchers is None:
            watchers = self._watchers[topic.identity] = _Watchers(
                topic, TopicNotifier(self._notifier, topic)
            )
        return watchers

    def _remove_if_empty(self, watchers: _Watchers) -> None:
        if watchers.is_empty and self._watchers.get(watchers.topic.identity) is watchers:
            del self._watchers[watchers.topic.identity]
            self._scheduler.remove(watchers.topic.identity)


def _resolve(future: asyncio.Future[bool], *, found: bool) -> None:
    if not future.done():
        future.set_result(found)


def _resolve_timeout(future: asyncio.Future[bool]) -> None:
    _resolve(future, found=False)
