"""The audit log: who changed what, who was refused, and what was found at the start. Chained.

A topic of class fsync that only the server writes; docs/format/audit.md has the bytes. Every entry
has the SHA-256 of the one before it and of its own text, so that one that is changed, left out or
put elsewhere is found by ``verify``, unless all behind it are written anew as well.

What comes from outside is told with its control characters escaped, cut short, and without the
secrets of tokens. Failures to authenticate are written at most so often; the next entry says how
many were left out.

A chain that does not hold keeps the server from starting: somebody who has the store's files looks
at it and says that it goes on (``restart``). That is an entry, too.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from strandline.errors import Corrupt
from strandline.log.append.append import Pending
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.records import Record
from strandline.security.tokens import redacted

TOPIC = "strandline.audit"
RESTART = "chain-restarted"
FAILURES_PER_MINUTE = 60
CHECKED_AT_START = 10_000
_BEGINNING = "0" * 64
_TEXT_MAX = 300
_PAGE = 1000
_MINUTE_S = 60.0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    number: int
    """From 1, each one more than the one before."""
    at_us: int
    kind: str
    """As ``token-created``, ``denied``, ``start``."""
    who: str
    """The id of a token, ``user:NAME``, ``local``, ``server``; empty for nobody."""
    address: str
    what: dict[str, str]
    previous: str
    """The hash of the entry before."""
    hash: str = ""


class Broken(NamedTuple):
    """A place where the chain does not hold."""

    seq: int
    reason: str


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found about a chain."""

    entries: int
    last_hash: str
    """Note it elsewhere: then nobody can write all of it anew unnoticed."""
    broken: tuple[Broken, ...]
    restarts: int

    @property
    def holds(self) -> bool:
        return not self.broken


class Store(Protocol):
    """Where entries are kept."""

    def topic(self, name: str, **options: object) -> Topic: ...


class Audit:
    """Writes entries. Safe from many threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Corrupt when the end of the chain does not hold."""
        self._topic = store.topic(TOPIC, durability="fsync")
        self._clock = clock
        self._writing = threading.Lock()
        self._number, self._last_hash = _end_of(self._topic)
        self._window = 0.0
        self._failures = 0
        self._left_out = 0

    def note(
        self, kind: str, what: Mapping[str, object], *, who: str = "server", address: str = ""
    ) -> Pending:
        """Append an entry now; wait for what is returned to know that it is durable."""
        told = {name: plain(str(value)) for name, value in what.items()}
        with self._writing:
            entry = sealed(
                Entry(
                    number=self._number + 1,
                    at_us=self._clock.now_us(),
                    kind=kind,
                    who=plain(who),
                    address=plain(address),
                    what=told,
                    previous=self._last_hash,
                )
            )
            pending = self._topic.append_soon(encoded(entry), tag=kind)
            self._number, self._last_hash = entry.number, entry.hash
        return pending

    def note_failure(self, kind: str, what: Mapping[str, object], *, address: str) -> None:
        """An entry that strangers can cause: not more of them than a minute's share."""
        now = self._clock.monotonic()
        if now - self._window >= _MINUTE_S:
            self._window, self._failures = now, 0
        self._failures += 1
        if self._failures > FAILURES_PER_MINUTE:
            self._left_out += 1
            return
        more = {"left_out": self._left_out} if self._left_out else {}
        self._left_out = 0
        self.note(kind, {**what, **more}, who="", address=address)


def restart(store: Store, clock: Clock, *, reason: str) -> Pending:
    """Begin a chain anew behind one that does not hold."""
    topic = store.topic(TOPIC, durability="fsync")
    entry = sealed(
        Entry(
            number=topic.head_seq + 1,  # not below any number: each entry has a record of its own
            at_us=clock.now_us(),
            kind=RESTART,
            who="server",
            address="",
            what={"reason": plain(reason)},
            previous=_BEGINNING,
        )
    )
    return topic.append_soon(encoded(entry), tag=RESTART)


def entries(topic: Topic, after: int = 0) -> Iterator[tuple[int, Entry | None]]:
    """Entries with their seqs; None for a record that is none."""
    while True:
        page = topic.read(after, _PAGE)
        if page.tombstone is not None:
            yield page.tombstone.gap_from, None
        for record in page.records:
            yield record.seq, decoded(record)
        after = page.next
        if page.caught_up:
            return


def verify(topic: Topic) -> Verified:
    """Look at every entry of the chain."""
    return _walk(topic, 0)


def sealed(entry: Entry) -> Entry:
    """The entry with its hash: of the one before, and of its own text without a hash."""
    bare = msgspec.json.encode(msgspec.structs.replace(entry, hash=""), order="sorted")
    digest = hashlib.sha256(bytes.fromhex(entry.previous) + bare).hexdigest()
    return msgspec.structs.replace(entry, hash=digest)


def encoded(entry: Entry) -> bytes:
    return msgspec.json.encode(entry, order="sorted")


def decoded(record: Record) -> Entry | None:
    try:
        return msgspec.json.decode(record.data, type=Entry)
    except msgspec.MsgspecError:
        return None


def plain(text: str) -> str:
    """Text that no terminal and no reader of lines can mistake, and that has no secret."""
    short = redacted(text)[:_TEXT_MAX]
    if short.isascii() and short.isprintable():
        return short
    return "".join(each if each.isprintable() else _escaped(each) for each in short)


def _escaped(character: str) -> str:
    return (
        character.encode("ascii", "backslashreplace").decode()
        if ord(character) > 127
        else (f"\\x{ord(character):02x}")
    )


def _end_of(topic: Topic) -> tuple[int, str]:
    """Number and hash of the last entry, behind a look at those before it."""
    if not topic.head_seq:
        return 0, _BEGINNING
    found = _walk(topic, max(0, topic.head_seq - CHECKED_AT_START))
    if found.broken:
        error = Corrupt(f"the audit log does not hold: {found.broken[0].reason},", path=TOPIC)
        error.add_note("look at it with `strandline audit verify`, then `strandline audit restart`")
        raise error
    return found.entries, found.last_hash


def _walk(topic: Topic, after: int) -> Verified:
    number, last_hash, restarts = 0, "", 0
    broken: list[Broken] = []
    for seq, entry in entries(topic, after):
        if entry is not None and entry.kind == RESTART and _is_whole(entry):
            number, last_hash, restarts = entry.number, entry.hash, restarts + 1
            broken.clear()
            continue
        reason = _reason(entry, number, last_hash, first=not last_hash and bool(after))
        if reason:
            broken.append(Broken(seq, reason))
        if entry is not None:
            number, last_hash = entry.number, entry.hash
    return Verified(entries=number, last_hash=last_hash, broken=tuple(broken), restarts=restarts)


def _reason(entry: Entry | None, number: int, last_hash: str, *, first: bool) -> str:
    """Why the chain does not hold at an entry; empty when it does."""
    if entry is None:
        return "an entry is missing or cannot be read"
    if not _is_whole(entry):
        return f"entry {entry.number} was changed"
    if not first and entry.number != number + 1:
        return f"entry {entry.number} follows entry {number}"
    if not first and entry.previous != (last_hash or _BEGINNING):
        return f"entry {entry.number} does not follow the one before it"
    return ""


def _is_whole(entry: Entry) -> bool:
    try:
        return sealed(entry).hash == entry.hash
    except ValueError:  # the hash before is no hash
        return False
