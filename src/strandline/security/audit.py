"""The audit log: administrative changes, rejected requests and checks at the start. Chained.

A topic of class fsync that only the server writes; docs/format/audit.md has the format. Every entry
has the SHA-256 of the previous one and of its own text, so that ``verify`` detects an entry that
was changed, left out or moved, unless all entries after it were written again as well.

Text from outside is stored with control characters escaped, truncated, and without the secrets of
tokens. Failed authentications are written up to a limit per minute; the next entry has the number
of those that were left out.

The server does not start with a broken chain: an operator with the store's files inspects it and
starts a new chain (``restart``). That is an entry, too.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from strandline.errors import Corrupt
from strandline.log.append.append import PendingAppend
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.records import Record
from strandline.security.tokens import redact

TOPIC = "strandline.audit"
RESTART = "chain-restarted"
FAILURES_PER_MINUTE = 60
CHECKED_AT_START = 10_000
_FIRST_HASH = "0" * 64
_TEXT_MAX = 300
_PAGE = 1000
_MINUTE_S = 60.0


class AuditLogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    number: int
    """From 1, without gaps."""
    at_us: int
    kind: str
    """For example ``token-created``, ``denied``, ``start``."""
    who: str
    """The id of a token, ``user:NAME``, ``local``, ``server``; empty when unknown."""
    address: str
    what: dict[str, str]
    previous: str
    """The hash of the previous entry."""
    hash: str = ""


class ChainBreak(NamedTuple):
    """A place where the chain is broken."""

    seq: int
    reason: str


class ChainCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check of the chain."""

    entries: int
    last_hash: str
    """Store it in another place to detect a chain that was written again as a whole."""
    broken: tuple[ChainBreak, ...]
    restarts: int

    @property
    def is_intact(self) -> bool:
        return not self.broken


class _AuditStore(Protocol):
    """The operations of a store that the audit log needs."""

    def topic(self, name: str, **options: object) -> Topic: ...


class Audit:
    """Writes entries. Safe from many threads."""

    def __init__(self, store: _AuditStore, clock: Clock) -> None:
        """Corrupt when the end of the chain is broken."""
        self._topic = store.topic(TOPIC, durability="fsync")
        self._clock = clock
        self._writing = threading.Lock()
        self._number, self._last_hash = _end_of(self._topic)
        self._window = 0.0
        self._failures = 0
        self._left_out = 0

    def note(
        self, kind: str, what: Mapping[str, object], *, who: str = "server", address: str = ""
    ) -> PendingAppend:
        """Append an entry; wait for the returned append until it is durable."""
        escaped = {name: escape_text(str(value)) for name, value in what.items()}
        with self._writing:
            entry = with_hash(
                AuditLogEntry(
                    number=self._number + 1,
                    at_us=self._clock.now_us(),
                    kind=kind,
                    who=escape_text(who),
                    address=escape_text(address),
                    what=escaped,
                    previous=self._last_hash,
                )
            )
            pending = self._topic.append_nowait(encode(entry), tag=kind)
            self._number, self._last_hash = entry.number, entry.hash
        return pending

    def note_failure(self, kind: str, what: Mapping[str, object], *, address: str) -> None:
        """Append an entry that unauthenticated clients can cause: limited per minute."""
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


def restart(store: _AuditStore, clock: Clock, *, reason: str) -> PendingAppend:
    """Start a new chain after a broken one."""
    topic = store.topic(TOPIC, durability="fsync")
    entry = with_hash(
        AuditLogEntry(
            number=topic.head_seq + 1,  # above all numbers: every entry is one record
            at_us=clock.now_us(),
            kind=RESTART,
            who="server",
            address="",
            what={"reason": escape_text(reason)},
            previous=_FIRST_HASH,
        )
    )
    return topic.append_nowait(encode(entry), tag=RESTART)


def entries(topic: Topic, after: int = 0) -> Iterator[tuple[int, AuditLogEntry | None]]:
    """Entries with their seqs; None for a record that is not an entry."""
    while True:
        page = topic.read(after, _PAGE)
        if page.tombstone is not None:
            yield page.tombstone.gap_from, None
        for record in page.records:
            yield record.seq, decode(record)
        after = page.next
        if page.caught_up:
            return


def verify(topic: Topic) -> ChainCheck:
    """Check every entry of the chain."""
    return _walk(topic, 0)


def with_hash(entry: AuditLogEntry) -> AuditLogEntry:
    """The entry with its hash: over the previous hash, and its own text without a hash."""
    bare = msgspec.json.encode(msgspec.structs.replace(entry, hash=""), order="sorted")
    digest = hashlib.sha256(bytes.fromhex(entry.previous) + bare).hexdigest()
    return msgspec.structs.replace(entry, hash=digest)


def encode(entry: AuditLogEntry) -> bytes:
    return msgspec.json.encode(entry, order="sorted")


def decode(record: Record) -> AuditLogEntry | None:
    try:
        return msgspec.json.decode(record.data, type=AuditLogEntry)
    except msgspec.MsgspecError:
        return None


def escape_text(text: str) -> str:
    """Text without control characters and secrets, truncated: safe for terminals and logs."""
    short = redact(text)[:_TEXT_MAX]
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
    """Number and hash of the last entry, after a check of the entries before it."""
    if not topic.head_seq:
        return 0, _FIRST_HASH
    result = _walk(topic, max(0, topic.head_seq - CHECKED_AT_START))
    if result.broken:
        error = Corrupt(
            f"the chain of the audit log is broken: {result.broken[0].reason},", path=TOPIC
        )
        error.add_note("run `strandline audit verify`, then `strandline audit restart`")
        raise error
    return result.entries, result.last_hash


def _walk(topic: Topic, after: int) -> ChainCheck:
    number, last_hash, restarts = 0, "", 0
    broken: list[ChainBreak] = []
    for seq, entry in entries(topic, after):
        if entry is not None and entry.kind == RESTART and _is_whole(entry):
            number, last_hash, restarts = entry.number, entry.hash, restarts + 1
            broken.clear()
            continue
        reason = _reason(entry, number, last_hash, first=not last_hash and bool(after))
        if reason:
            broken.append(ChainBreak(seq, reason))
        if entry is not None:
            number, last_hash = entry.number, entry.hash
    return ChainCheck(entries=number, last_hash=last_hash, broken=tuple(broken), restarts=restarts)


def _reason(entry: AuditLogEntry | None, number: int, last_hash: str, *, first: bool) -> str:
    """Why the chain is broken at an entry; empty when it is not."""
    if entry is None:
        return "an entry is missing or cannot be read"
    if not _is_whole(entry):
        return f"entry {entry.number} was changed"
    if not first and entry.number != number + 1:
        return f"entry {entry.number} follows entry {number}"
    if not first and entry.previous != (last_hash or _FIRST_HASH):
        return f"entry {entry.number} does not follow the one before it"
    return ""


def _is_whole(entry: AuditLogEntry) -> bool:
    try:
        return with_hash(entry).hash == entry.hash
    except ValueError:  # the previous hash is not hexadecimal
        return False
