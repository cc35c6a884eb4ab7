"""One connection that receives events: its waiting bytes, and when it is full.

Bytes wait in the transport until the socket accepts them. A stream is *full* when too many bytes or
frames wait; then its feeds send nothing until the buffer has drained, and catch up from the topics.
That bounds the memory of a client that does not read, without an effect on others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from strandline.log.topic.topic import Topic
from strandline.security.principal import Principal
from strandline.server.live.frames import Frame, Wrapping
from strandline.server.live.sinks import ByteSink
from strandline.server.live.subscriptions import Subscription
from strandline.server.settings import LiveSettings


class StreamPosition(Protocol):
    """The position of a stream in a topic."""

    @property
    def cursor(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...

    @property
    def is_alive(self) -> bool:
        """Whether the topic exists and its records are sent."""
        ...


class Stream:
    """A connection. Owned by the loop's thread."""

    def __init__(
        self, sink: ByteSink, *, who: Principal, wrapping: Wrapping, settings: LiveSettings
    ) -> None:
        self.who = who
        self.wrapping = wrapping
        self.outlet = sink
        self.write = sink.write
        self.waiting = sink.waiting
        self.frames = 0
        """Writes since the buffer was last empty."""
        self.has_sent = False
        """Whether an event was sent since the last heartbeat."""
        self.is_unshared = wrapping == "text"
        """Whether its bytes are not shared with others: ids of its events name several topics, or
        the sink sends messages one by one."""
        self.full_since: float | None = None
        self.positions: dict[str, StreamPosition] = {}
        """Its positions, by topic."""
        self.subscriptions: dict[str, Subscription] = {}
        """Its subscriptions by topic, for a topic that is created again."""
        self.id_epochs: dict[str, int] = {}
        """Entries of ids besides cursors: the epochs of topics (``sessions.py``)."""
        self.on_new_topic: Callable[[Topic], None] | None = None
        """Called with each created topic; attaches it if the client watches it."""
        self.check: Callable[[], None] = _no_check
        """Raises when the client may no longer watch; called at intervals."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason of its end, once it ends."""
        self._bytes_max = settings.queue_bytes_max
        self._frames_max = settings.queue_frames_max

    def is_full_with(self, waiting: int) -> bool:
        """Whether it is full with ``waiting`` bytes; counts one more write."""
        self.frames += 1
        return (
            self.full_since is not None
            or waiting > self._bytes_max
            or self.frames > self._frames_max
        )

    @property
    def has_room_for_history(self) -> bool:
        """Whether a catch-up may send more: its limit is lower than that of live records."""
        return self.full_since is None and self.waiting() <= self._bytes_max // 4

    @property
    def has_drained(self) -> bool:
        return self.waiting() <= self._bytes_max // 4

    def set_position(self, name: str, place: StreamPosition) -> None:
        """Set the position in a topic."""
        self.positions[name] = place
        self._update_is_apart()

    def remove(self, name: str) -> StreamPosition | None:
        """Remove and return the position in a topic."""
        self.subscriptions.pop(name, None)
        position = self.positions.pop(name, None)
        self._update_is_apart()
        return position

    def is_attached(self, name: str) -> bool:
        """Whether it has a live position in a topic of this name."""
        position = self.positions.get(name)
        return position is not None and position.is_alive

    def _update_is_apart(self) -> None:
        is_sse = self.wrapping in ("chunk", "event")
        has_own_ids = is_sse and bool(len(self.positions) > 1 or self.id_epochs)
        self.is_unshared = self.wrapping == "text" or has_own_ids

    def send_frames(self, frames: Sequence[Frame]) -> None:
        """Write frames for this stream alone, each with its cursors after the frame."""
        self.has_sent = True
        marks = self.marks() if self.is_unshared else None
        for frame in frames:
            if frame.cursor < 0 or marks is None:
                self.send(frame.wrapped(self.wrapping))
            else:
                marks[frame.topic] = frame.cursor
                self.send(frame.wrapped(self.wrapping, marks))

    def send(self, data: bytes) -> None:
        """Write bytes, unless the connection is closed."""
        try:
            self.write(data)
        except RuntimeError:  # closed in the meantime: its own task notices
            self.end("gone")

    def marks(self) -> dict[str, int]:
        """Its cursors in all topics."""
        return {name: place.cursor for name, place in self.positions.items()} | self.id_epochs

    def end(self, reason: str) -> None:
        """Mark it as ended: its creator waits for that and closes it."""
        if not self.ended.done():
            self.ended.set_result(reason)


def _no_check() -> None:
    """The check of a stream before one is set."""
