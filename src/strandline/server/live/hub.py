"""Who waits for which topic, and how they are told.

    publish -> tap -> bells -> (loop) scheduler -> the topic's turn -> one frame to many transports

A *stand* is a topic that somebody waits for: long polls, and channels of feeds. What is new is told
in the topic's turn, whose order the scheduler decides; how long turns wait to carry more, and who
waits under pressure, the governor. Watchers that are behind catch up on their own
(``catch_up.py``), slow ones are held and looked at now and then (``slow_consumers.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from strandline.api.errors import Refused, problem_of
from strandline.errors import StrandlineError
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.server.live import catch_up, frames, slow_consumers
from strandline.server.live.load_sampler import LoadSampler
from strandline.server.live.load_shedding import RETRY_AFTER_S, Governor
from strandline.server.live.new_topics import Newcomers
from strandline.server.live.publish_notifier import Bells, Tap
from strandline.server.live.sessions import Mark, Sessions
from strandline.server.live.streams import Stream
from strandline.server.live.subscriber import Channel, Feed
from strandline.server.live.subscriptions import Wish
from strandline.server.live.topic_scheduler import Scheduler
from strandline.server.priority import priority_of
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import Bridge
from strandline.store import Store

_TURN_S = 0.005
"""How long turns may take before other work of the loop has its own."""
_DEFERRED_S = 0.05
_SLOW_S_FIRST = 0.01
_SLOW_S_MAX = 0.25

Identity = tuple[int, int]


class _Poll(NamedTuple):
    """Somebody who waits for the head to be past a cursor."""

    after: int
    answer: asyncio.Future[bool]


class _Stand:
    """A topic that somebody waits for."""

    __slots__ = ("channels", "polls", "tap", "topic")

    def __init__(self, topic: Topic, tap: Tap) -> None:
        self.topic = topic
        self.tap = tap
        self.polls: list[_Poll] = []
        self.channels: dict[Wish, Channel] = {}

    @property
    def is_empty(self) -> bool:
        return not self.polls and not self.channels

    def answer_polls(self) -> None:
        """End the polls that have something to read, or never will."""
        for after, answer in self.polls:
            if self.topic.head_seq > after:
                _settle(answer, found=True)
            elif self.topic.is_gone:
                _settle(answer, found=False)


class Hub:
    """Live delivery. Owned by the loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        bridge: Bridge | None = None,
        random_id: Callable[[], bytes] | None = None,
    ) -> None:
        self.governor = Governor(settings.limits.waiting_appends_max)
        """How hard the server is pressed: ``admit`` is asked before every append."""
        self.streams: dict[Stream, None] = {}
        """Those who are told."""
        self.sessions = Sessions(settings, clock, random_id or OsDisk().random_id)
        """What clients watch, while their streams are open and a while after."""
        self.read_at_ms: dict[str, int] = {}
        """When topics were last read, for their priority: the server's own map."""
        self._store = store
        self._settings = settings
        self._live = settings.live
        self._clock = clock
        self._bridge = bridge or Bridge()
        self._scheduler: Scheduler[Identity] = Scheduler()
        self._stands: dict[Identity, _Stand] = {}
        self._is_serving = False
        self._hinted: set[Identity] = set()
        self._made_to_wait_s = 0.0
        self._slow: dict[Stream, None] = {}
        self._slow_s = _SLOW_S_FIRST
        self._looker: asyncio.TimerHandle | None = None
        self._rechecker: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._load = LoadSampler(
            self.governor, store, self._bridge, clock, lambda: len(self._scheduler)
        )

    def start(self) -> None:
        """Begin, on the running loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._bells = Bells(self._loop, self._hear)
            self._newcomers = Newcomers(self._store, self._bridge, self._bells)
            self._load.start(self._loop)

    # Long polls.

    async def wait_for(self, topic: Topic, after: int, timeout_s: float) -> bool:
        """Wait until the head is past a cursor; False when the time is over or the topic gone."""
        self.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        poll = _Poll(after, answer)
        stand = self._stand(topic)
        stand.polls.append(poll)
        stand.tap.put_on()
        stand.answer_polls()
        timer = loop.call_later(timeout_s, _settle_unfound, answer)
        try:
            return await answer
        finally:
            timer.cancel()
            stand.polls.remove(poll)
            self._leave_if_empty(stand)

    # Streams.

    def open(self, stream: Stream) -> None:
        """Take a stream in; Refused when there are too many."""
        self.start()
        most = self._settings.limits.streams_max
        if len(self.streams) >= most:
            raise Refused(
                429,
                "throttled",
                f"the server has its {most} streams (streams_max): try again later",
                detail={"limit": "streams_max", "max": most},
                retry_after_s=1.0,
            )
        self.streams[stream] = None
        self._recheck_later()

    def close(self, stream: Stream) -> None:
        """A stream has ended: forget everything about it."""
        self.streams.pop(stream, None)
        self._slow.pop(stream, None)
        stream.end("closed")
        for name in list(stream.places):
            self.detach(stream, name)

    def attach(
        self, stream: Stream, topic: Topic, wish: Wish, cursor: int, epoch: int | None = None
    ) -> Feed:
        """Tell a stream of a topic from a cursor on."""
        stand = self._stand(topic)
        channel = stand.channels.get(wish)
        if channel is None:
            channel = Channel(topic, wish)  # raises before anything is changed
            stand.channels[wish] = channel
        feed = Feed(stream, channel, cursor, epoch)
        channel.feeds[feed] = None
        stream.wishes[topic.name] = wish
        stream.put(topic.name, feed)
        stand.tap.put_on()
        self._catch_up(feed)
        return feed

    def detach(self, stream: Stream, name: str) -> None:
        """Tell it no longer of a topic."""
        feed = stream.remove(name)
        if isinstance(feed, Feed):
            self._drop(feed)

    def _drop(self, feed: Feed) -> None:
        channel = feed.channel
        feed.leave()
        if feed.task is not None:
            feed.task.cancel()
        channel.feeds.pop(feed, None)
        if not channel.feeds:
            stand = self._stands.get(channel.topic.identity)
            if stand is not None and stand.channels.get(channel.wish) is channel:
                del stand.channels[channel.wish]
                self._leave_if_empty(stand)

    def watch_newcomers(self) -> None:
        """Have ``Stream.newcomer`` called for topics that are made from now on."""
        self.start()
        self._newcomers.watch()

    def close_streams_of(self, principal_id: str) -> None:
        """His token was revoked: end his streams."""
        for stream in list(self.streams):
            if stream.who.id == principal_id:
                self._refuse(stream, "unauthorized", "this token is no longer valid")

    async def drain(self) -> None:
        """The server goes down: end long polls and streams."""
        self._load.stop()
        for stand in list(self._stands.values()):
            for poll in list(stand.polls):
                _settle(poll.answer, found=False)
        ending = list(self.streams)
        for stream in ending:
            text = "the server goes down: resume with the next one"
            stream.tell([frames.error(503, "shutting_down", text, retry_after_ms=1000)])
            stream.end("shutting_down")
        while any(stream in self.streams for stream in ending):  # noqa: ASYNC110 - see below
            await asyncio.sleep(0.01)  # once, for a moment, and bounded by who calls

    # Turns.

    def _hear(self) -> None:
        """Taps rang: their topics want a turn."""
        rung = self._bells.taken()
        is_alone = len(rung) == 1 and not len(self._scheduler) and not self.governor.coalesce_s
        for tap in rung:
            if not isinstance(tap, Tap):
                tap.heard(list(self.streams))
                continue
            stand = self._stands.get(tap.topic.identity)
            if stand is None:
                continue
            if stand.polls:
                tap.put_on()
                stand.answer_polls()
            if stand.channels and is_alone:
                self._load.note_turn(0.0)
                self._load.sample_later()
                self._turn(stand)  # at once: nobody else waits, and nobody has to
            elif stand.channels:
                self._mark(stand.topic)

    def _mark(self, topic: Topic) -> None:
        """A topic has news for its channels."""
        now = self._clock.monotonic()
        read_at_ms = self.read_at_ms.get(topic.name)
        priority = priority_of(topic.config, read_at_ms, self._clock.now_us() // 1000)
        self._scheduler.mark(topic.identity, priority, now)
        self._serve_later(self.governor.coalesce_s)
        self._load.sample_later()

    def _serve_later(self, seconds: float) -> None:
        assert self._loop is not None
        if self._is_serving:
            return
        self._is_serving = True
        self._made_to_wait_s = seconds
        if seconds:
            self._loop.call_later(seconds, self._serve)
        else:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        """Give topics their turns, for a while."""
        self._is_serving = False
        began = now = self._clock.monotonic()
        while now - began < _TURN_S:
            turn = self._scheduler.take(now, deferring=self.governor.is_deferring)
            if turn is None:
                break
            self._load.note_turn(max(0.0, now - turn.since - self._made_to_wait_s))
            stand = self._stands.get(turn.key)
            if stand is not None:
                self._turn(stand)
            now = self._clock.monotonic()
        if not self.governor.is_deferring:
            self._hinted.clear()
        if len(self._scheduler):
            if self.governor.is_deferring:
                self._hint_deferred()
            self._serve_later(_DEFERRED_S if now - began < _TURN_S else 0.0)

    def _hint_deferred(self) -> None:
        """Tell watchers of topics whose pushes wait, once until the pressure is over."""
        for identity in self._scheduler.deferred():
            stand = self._stands.get(identity)
            if stand is None or identity in self._hinted:
                continue
            self._hinted.add(identity)
            hint = frames.error(
                429,
                "throttled",
                "the server is busy: pushes of this topic wait, reads of it do not",
                retry_after_ms=int(RETRY_AFTER_S * 1000),
                topics=[stand.topic.name],
            )
            for channel in stand.channels.values():
                for feed in channel.feeds:
                    if feed.cohort is not None:
                        feed.stream.tell([hint])

    def _turn(self, stand: _Stand) -> None:
        """Tell all channels of a topic what is new."""
        stand.tap.put_on()  # before anybody looks at the head
        if stand.topic.is_gone:
            self._bury(stand)
            return
        for channel in list(stand.channels.values()):
            try:
                turned = channel.turn()
            except Exception as error:  # noqa: BLE001 - even a bug must not leave watchers waiting
                self._fail(channel, error)
                continue
            for feed in turned.behind:
                self._catch_up(feed)
            if turned.has_more:
                self._mark(stand.topic)
            if channel.wish.is_strong:
                self._secure_soon(channel)

    def _bury(self, stand: _Stand) -> None:
        """The topic was deleted: say so, and wait for another of its name."""
        del self._stands[stand.topic.identity]
        name, head_seq = stand.topic.name, stand.topic.head_seq
        for channel in stand.channels.values():
            for feed in list(channel.feeds):
                self._drop(feed)
                feed.stream.tell([frames.topic_deleted(name, head_seq, "deleted")])
                feed.stream.put(name, Mark(0, feed.epoch))
        self.watch_newcomers()

    def _fail(self, channel: Channel, error: Exception) -> None:
        """A topic cannot be read: its watchers are told why, and their streams end."""
        for feed in list(channel.feeds):
            self._fail_stream(feed.stream, error)

    def _fail_stream(self, stream: Stream, error: BaseException) -> None:
        problem = problem_of(error)
        stream.tell([frames.error(problem.status, problem.code, problem.message)])
        stream.end(problem.code)

    def _refuse(self, stream: Stream, code: str, message: str) -> None:
        stream.tell([frames.error(401, code, message)])
        stream.end(code)

    # Those who are behind.

    def _catch_up(self, feed: Feed) -> None:
        """Let a feed catch up on its own, or wait while its stream has no room."""
        if not feed.stream.has_room_for_history:
            self._hold(feed)
        elif feed.task is None and not feed.stream.ended.done():
            assert self._loop is not None
            feed.task = self._loop.create_task(self._run_catch_up(feed))

    async def _run_catch_up(self, feed: Feed) -> None:
        try:
            is_level = await catch_up.catch_up(feed, self._bridge)
        except Exception as error:  # noqa: BLE001 - as in a turn
            self._fail_stream(feed.stream, error)
            return
        finally:
            feed.task = None
        if is_level:
            feed.channel.join(feed)
            if feed.channel.topic.head_seq > feed.cursor:
                self._mark(feed.channel.topic)  # its turn may have been meanwhile
        elif not feed.channel.topic.is_gone:
            self._hold(feed)

    def _secure_soon(self, channel: Channel) -> None:
        """Have records synced for those who want only such, then tell them."""
        if channel.securing is None and channel.topic.head_seq > channel.reach:
            assert self._loop is not None
            channel.securing = self._loop.create_task(self._secure(channel))

    async def _secure(self, channel: Channel) -> None:
        try:
            await catch_up.secure(channel, self._bridge)
        except StrandlineError as error:
            self._fail(channel, error)
            return
        finally:
            channel.securing = None
        self._mark(channel.topic)

    # Those who are slow.

    def _hold(self, feed: Feed) -> None:
        """Tell it nothing until its stream has room again."""
        stream = feed.stream
        feed.is_held = True
        if stream.full_since is None:
            stream.full_since = self._clock.monotonic()
        self._slow[stream] = None
        self._look_later(_SLOW_S_FIRST)

    def _look_later(self, seconds: float) -> None:
        assert self._loop is not None
        if self._looker is None:
            self._slow_s = seconds
            self._looker = self._loop.call_later(seconds, self._look_at_slow)

    def _look_at_slow(self) -> None:
        """Let those go on who have room again, and end those who have had none for too long."""
        self._looker = None
        now = self._clock.monotonic()
        has_resumed = False
        for stream in list(self._slow):
            assert stream.full_since is not None
            full_s = now - stream.full_since
            found = slow_consumers.verdict(
                full_s=full_s, has_drained=stream.has_drained, settings=self._live
            )
            if found == "resume":
                has_resumed = True
                self._resume(stream, full_s)
            elif found == "end":
                del self._slow[stream]
                stream.tell([slow_consumers.farewell(full_s, list(stream.places))])
                stream.end("slow_consumer")
        if self._slow:
            self._look_later(_SLOW_S_FIRST if has_resumed else min(2 * self._slow_s, _SLOW_S_MAX))

    def _resume(self, stream: Stream, full_s: float) -> None:
        del self._slow[stream]
        stream.full_since = None
        stream.frames = 0
        for feed in [place for place in stream.places.values() if isinstance(place, Feed)]:
            if not feed.is_held:
                continue
            feed.is_held = False
            topic = feed.channel.topic
            is_late = full_s > self._live.grace_s and topic.head_seq > feed.cursor
            if is_late and slow_consumers.is_lossy(topic.config):
                head_seq = topic.head_seq
                lost = slow_consumers.skipped(topic.name, feed.cursor, topic.earliest_seq, head_seq)
                stream.tell([lost])
                feed.move(head_seq)
            self._catch_up(feed)

    # Now and then.

    def _recheck_later(self) -> None:
        assert self._loop is not None
        if self._rechecker is None and self.streams:
            self._rechecker = self._loop.call_later(self._live.recheck_s, self._recheck)

    def _recheck(self) -> None:
        """See whether all who watch still may."""
        self._rechecker = None
        for stream in list(self.streams):
            try:
                stream.check()
            except StrandlineError as error:
                self._fail_stream(stream, error)
        self._recheck_later()

    # Stands.

    def _stand(self, topic: Topic) -> _Stand:
        found = self._stands.get(topic.identity)
        if found is None:
            found = self._stands[topic.identity] = _Stand(topic, Tap(self._bells, topic))
        return found

    def _leave_if_empty(self, stand: _Stand) -> None:
        if stand.is_empty and self._stands.get(stand.topic.identity) is stand:
            del self._stands[stand.topic.identity]
            self._scheduler.forget(stand.topic.identity)


def _settle(answer: asyncio.Future[bool], *, found: bool) -> None:
    if not answer.done():
        answer.set_result(found)


def _settle_unfound(answer: asyncio.Future[bool]) -> None:
    _settle(answer, found=False)
