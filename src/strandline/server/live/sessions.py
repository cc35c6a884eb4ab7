"""Watch sessions: the subscriptions and cursors of a client, kept while no stream is open.

A session belongs to the principal that created it; for others it does not exist. A stream resumes:

1. where the session's last stream ended;
2. ``Last-Event-ID`` may set it back, never forward: the reader may have missed what was sent;
3. at first, where the request says.

A cursor belongs to one epoch of a topic. After a topic was created again since the session started,
ids have its epoch as well (``NAME#``); an id without is from an earlier epoch: the reader gets a
tombstone, and all records from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strandline.api.errors import Refused
from strandline.api.live import StartPosition, WatchRequest
from strandline.platform.clock import Clock
from strandline.server.live.streams import Stream
from strandline.server.settings import ServerSettings

EPOCH_SUFFIX = "#"
"""Suffix of a topic's name in ids of events: the epoch of its cursor."""


class SavedPosition(NamedTuple):
    """A cursor and its epoch of the topic; None when no stream has had the topic yet."""

    cursor: int
    epoch: int | None = None

    @property
    def is_alive(self) -> bool:
        """False: no feed sends the topic's records."""
        return False


class WatchSession:
    """The watch session of one client. Owned by the loop's thread."""

    def __init__(self, wid: str, owner: str, request: WatchRequest, used_at: float) -> None:
        self.wid = wid
        self.owner = owner
        self.request = request
        self.used_at = used_at
        self.positions: dict[str, SavedPosition] = {}
        """Its cursors, by topic."""
        self.first_epochs: dict[str, int] = {}
        """The epochs of its topics when they were first attached."""
        self.patterns: dict[str, StartPosition] = {}
        self.stream: Stream | None = None

    def resume(self, client_marks: dict[str, int]) -> dict[str, SavedPosition]:
        """Where a stream resumes, with the cursors of the client's ``Last-Event-ID``."""
        return {
            name: self._resume_mark(name, mark, client_marks)
            for name, mark in self.positions.items()
        }

    def save(self) -> None:
        """Save the present cursors of its stream."""
        if self.stream is not None:
            for name, place in self.stream.positions.items():
                self.positions[name] = SavedPosition(place.cursor, place.epoch)

    def _resume_mark(
        self, name: str, mark: SavedPosition, client_marks: dict[str, int]
    ) -> SavedPosition:
        cursor = client_marks.get(name)
        if cursor is None or mark.epoch is None:
            return mark
        first = self.first_epochs.get(name, mark.epoch)
        if client_marks.get(name + EPOCH_SUFFIX, first) != mark.epoch:
            return SavedPosition(cursor, first)  # of an earlier epoch: reading the topic reports it
        return SavedPosition(max(0, min(cursor, mark.cursor)), mark.epoch)

    def id_epochs(self, name: str, epoch: int) -> dict[str, int]:
        """The entry for a topic's epoch in ids; empty while it is the first one."""
        first = self.first_epochs.setdefault(name, epoch)
        return {} if first == epoch else {name + EPOCH_SUFFIX: epoch}


class WatchSessions:
    """All watch sessions. Owned by the loop's thread."""

    def __init__(
        self, settings: ServerSettings, clock: Clock, random_id: Callable[[], bytes]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._random_id = random_id
        self._by_wid: dict[str, WatchSession] = {}

    def __len__(self) -> int:
        return len(self._by_wid)

    def make(self, owner: str, request: WatchRequest) -> WatchSession:
        """A new session; 429 when there are too many."""
        self._sweep()
        sessions_max = self._settings.limits.sessions_max
        if len(self._by_wid) >= sessions_max:
            raise Refused(
                429,
                "throttled",
                f"the server has its {sessions_max} watch sessions (sessions_max): retry later",
                detail={"limit": "sessions_max", "max": sessions_max},
                retry_after_s=1.0,
            )
        session = WatchSession(self._random_id().hex(), owner, request, self._clock.monotonic())
        self._by_wid[session.wid] = session
        return session

    def find(self, wid: str, owner: str) -> WatchSession:
        """The session of this id; 404 unless it belongs to ``owner``."""
        self._sweep()
        session = self._by_wid.get(wid)
        if session is None or session.owner != owner:
            raise Refused(404, "not_found", "there is no such watch session: create another")
        session.used_at = self._clock.monotonic()
        return session

    def drop(self, wid: str, owner: str) -> WatchSession:
        """Delete the session of this id; 404 unless it belongs to ``owner``."""
        session = self.find(wid, owner)
        del self._by_wid[wid]
        return session

    def detach(self, session: WatchSession, stream: Stream) -> None:
        """Save the cursors of an ended stream. The session stays for ``session_s``."""
        if session.stream is stream:
            session.save()
            session.stream = None
            session.used_at = self._clock.monotonic()

    def _sweep(self) -> None:
        """Delete the sessions that were not used for ``session_s``."""
        oldest = self._clock.monotonic() - self._settings.live.session_s
        for session in list(self._by_wid.values()):
            if session.stream is None and session.used_at < oldest:
                del self._by_wid[session.wid]
