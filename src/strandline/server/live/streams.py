"""One connection that is told: what waits for it, and when it is too slow.

Bytes wait in the transport until the socket takes them. A stream is *full* when too many of them
wait, or too many frames; then its feeds are told nothing more until half of that is gone, and catch
up from the topics themselves. That bounds the memory of a watcher that does not read, and nobody
else notices it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from strandline.log.topic.topic import Topic
from strandline.security.principal import Principal
from strandline.server.live.frames import Frame, Wrapping
from strandline.server.live.sinks import Outlet
from strandline.server.live.subscriptions import Wish
from strandline.server.settings import LiveSettings


class Place(Protocol):
    """Where a stream stands in a topic."""

    @property
    def cursor(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...

    @property
    def is_alive(self) -> bool:
        """Whether there is such a topic."""
        ...


class Stream:
    """A connection. Owned by the loop's thread."""

    def __init__(
        self, outlet: Outlet, *, who: Principal, wrapping: Wrapping, settings: LiveSettings
    ) -> None:
        self.who = who
        self.wrapping = wrapping
        self.outlet = outlet
        self.write = outlet.write
        self.waiting = outlet.waiting
        self.frames = 0
        """Writes since nothing waited."""
        self.has_told = False
        """Whether something was told since the last heartbeat."""
        self.is_apart = wrapping == "text"
        """Whether its bytes are for it alone: its events' ids are about several topics, or what
        lies behind takes messages one by one."""
        self.full_since: float | None = None
        self.places: dict[str, Place] = {}
        """Where it stands, by topic."""
        self.wishes: dict[str, Wish] = {}
        """What it wants of each topic, for one that is made anew."""
        self.lives: dict[str, int] = {}
        """What ids say besides cursors: which life of a topic they are of (``sessions.py``)."""
        self.newcomer: Callable[[Topic], None] | None = None
        """Called with topics that were made since; it takes those that it wants."""
        self.check: Callable[[], None] = _nothing
        """Raises when who watches may no longer; asked now and then."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it ends, once it does."""
        self._bytes_max = settings.queue_bytes_max
        self._frames_max = settings.queue_frames_max

    def is_full_with(self, waiting: int) -> bool:
        """Whether it takes no more while so many bytes wait; counts one more write."""
        self.frames += 1
        return (
            self.full_since is not None
            or waiting > self._bytes_max
            or self.frames > self._frames_max
        )

    @property
    def has_room_for_history(self) -> bool:
        """Whether one that catches up may be told more: less may wait than of what is live."""
        return self.full_since is None and self.waiting() <= self._bytes_max // 4

    @property
    def has_drained(self) -> bool:
        return self.waiting() <= self._bytes_max // 4

    def put(self, name: str, place: Place) -> None:
        """Stand somewhere in a topic."""
        self.places[name] = place
        self._look_at_ids()

    def remove(self, name: str) -> Place | None:
        """No longer stand in a topic; where it stood."""
        self.wishes.pop(name, None)
        found = self.places.pop(name, None)
        self._look_at_ids()
        return found

    def is_at(self, name: str) -> bool:
        """Whether it is told of a topic of this name."""
        found = self.places.get(name)
        return found is not None and found.is_alive

    def _look_at_ids(self) -> None:
        is_sse = self.wrapping in ("chunk", "event")
        is_told_alone = is_sse and bool(len(self.places) > 1 or self.lives)
        self.is_apart = self.wrapping == "text" or is_told_alone

    def tell(self, told: Sequence[Frame]) -> None:
        """Write frames for this stream alone, each with where it then stands in its topics."""
        self.has_told = True
        marks = self.marks() if self.is_apart else None
        for frame in told:
            if frame.cursor < 0 or marks is None:
                self.send(frame.wrapped(self.wrapping))
            else:
                marks[frame.topic] = frame.cursor
                self.send(frame.wrapped(self.wrapping, marks))

    def send(self, data: bytes) -> None:
        """Write bytes, unless the connection is gone."""
        try:
            self.write(data)
        except RuntimeError:  # closed a moment ago: its own task will hear of it
            self.end("gone")

    def marks(self) -> dict[str, int]:
        """Where it stands in every topic."""
        return {name: place.cursor for name, place in self.places.items()} | self.lives

    def end(self, reason: str) -> None:
        """Let it end: whoever made it sees to it."""
        if not self.ended.done():
            self.ended.set_result(reason)


def _nothing() -> None:
    """Nobody has to be asked."""
