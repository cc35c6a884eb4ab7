"""Watch sessions: what a client wants to be told, and where it was, while no stream is open.

A session belongs to whoever made it; to others it does not exist. Where a stream goes on:

1. where the session was left;
2. ``Last-Event-ID`` may set it back, never forward: the reader has not received all that was sent;
3. at first, where the request said.

A cursor belongs to one life of a topic. Once a topic was made anew since the session began, ids
name its life as well (``NAME#``); an id that does not is from an earlier one, and the reader is
told so and begins at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strandline.api.errors import Refused
from strandline.api.live import From, WatchRequest
from strandline.platform.clock import Clock
from strandline.server.live.streams import Stream
from strandline.server.settings import ServerSettings

LIFE = "#"
"""Behind a topic's name, in ids of events: the life that its cursor is of."""


class Mark(NamedTuple):
    """A cursor, and the life of the topic that it is of; None when nobody has seen it yet."""

    cursor: int
    epoch: int | None = None

    @property
    def is_alive(self) -> bool:
        """Nobody tells of it, for now."""
        return False


class Session:
    """What one client watches. Owned by the loop's thread."""

    def __init__(self, wid: str, owner: str, request: WatchRequest, used_at: float) -> None:
        self.wid = wid
        self.owner = owner
        self.request = request
        self.used_at = used_at
        self.marks: dict[str, Mark] = {}
        """Where it is, by topic."""
        self.first_epochs: dict[str, int] = {}
        """The lives of its topics when it saw them first."""
        self.patterns: dict[str, From] = {}
        self.stream: Stream | None = None

    def resume(self, given: dict[str, int]) -> dict[str, Mark]:
        """Where a stream begins, given what the reader says it has."""
        return {name: self._resumed(name, mark, given) for name, mark in self.marks.items()}

    def save(self) -> None:
        """Keep where its stream is now."""
        if self.stream is not None:
            for name, place in self.stream.places.items():
                self.marks[name] = Mark(place.cursor, place.epoch)

    def _resumed(self, name: str, mark: Mark, given: dict[str, int]) -> Mark:
        told = given.get(name)
        if told is None or mark.epoch is None:
            return mark
        first = self.first_epochs.get(name, mark.epoch)
        if given.get(name + LIFE, first) != mark.epoch:
            return Mark(told, first)  # of an earlier life: the topic itself will say so
        return Mark(max(0, min(told, mark.cursor)), mark.epoch)

    def lives(self, name: str, epoch: int) -> dict[str, int]:
        """What ids have to say of a topic's life, besides the cursor."""
        first = self.first_epochs.setdefault(name, epoch)
        return {} if first == epoch else {name + LIFE: epoch}


class Sessions:
    """All of them. Owned by the loop's thread."""

    def __init__(
        self, settings: ServerSettings, clock: Clock, random_id: Callable[[], bytes]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._random_id = random_id
        self._by_wid: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_wid)

    def make(self, owner: str, request: WatchRequest) -> Session:
        """A new session; 429 when there are too many."""
        self._sweep()
        most = self._settings.limits.sessions_max
        if len(self._by_wid) >= most:
            raise Refused(
                429,
                "throttled",
                f"the server keeps its {most} watch sessions (sessions_max): try again later",
                detail={"limit": "sessions_max", "max": most},
                retry_after_s=1.0,
            )
        session = Session(self._random_id().hex(), owner, request, self._clock.monotonic())
        self._by_wid[session.wid] = session
        return session

    def find(self, wid: str, owner: str) -> Session:
        """The session of this id, if it is his."""
        self._sweep()
        found = self._by_wid.get(wid)
        if found is None or found.owner != owner:
            raise Refused(404, "not_found", "there is no such watch session: make another")
        found.used_at = self._clock.monotonic()
        return found

    def drop(self, wid: str, owner: str) -> Session:
        """Forget the session of this id, if it is his."""
        found = self.find(wid, owner)
        del self._by_wid[wid]
        return found

    def leave(self, session: Session, stream: Stream) -> None:
        """A stream of a session has ended: it is kept for a while."""
        if session.stream is stream:
            session.save()
            session.stream = None
            session.used_at = self._clock.monotonic()

    def _sweep(self) -> None:
        """Forget those that nobody has used for long."""
        oldest = self._clock.monotonic() - self._settings.live.session_s
        for session in list(self._by_wid.values()):
            if session.stream is None and session.used_at < oldest:
                del self._by_wid[session.wid]
