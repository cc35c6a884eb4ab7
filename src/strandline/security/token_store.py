"""The tokens of a store: made, listed, revoked, looked up. Kept in a key-value view.

    topic strandline.tokens, of class fsync

    key           value
    token:<id>    JSON: a ``Token``. It stays for a year when it is revoked or over
    used:<id>     the day of its last use, as 2026-11-16
    all           JSON: SHA-256 over all tokens, and up to where losses of the topic were looked at.
                  It stays: a server that had a token once is never open to everybody again

Every change writes its token and ``all`` in one batch, or nothing. If they do not fit together, or
a record is damaged, or records of the topic were lost, then a revocation may be among what is gone:
nobody is let in until somebody who has the store's files has revoked all tokens
(``strandline token revoke --all``). All tokens are in memory; a change by anybody is noticed by the
head of the topic, which is looked at for every request.

One rule for every change, checked here under the lock: a token is created, rotated or revoked only
by a holder whose own scopes cover the scopes of that token (``holder``). A process that has the
store's files may change every token: ``EVERYTHING``, the default.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from strandline.errors import Conflict, Corrupt, Forbidden, Invalid, NotFound, StrandlineError
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.security import tokens
from strandline.security.scopes import EVERYTHING, Scopes
from strandline.security.tokens import Token
from strandline.views.kv.kv import Kv
from strandline.views.kv.values import Delete, Put

TOPIC = "strandline.tokens"
TOKENS_MAX = 10_000
KEPT_US = tokens.VALID_US_MAX
"""How long a token that has ended can still be seen."""
LIVE_PER_PRINCIPAL = 2

_TOKEN, _USED, _ALL = b"token:", b"used:", b"all"
_TRIES = 8
_PAGE = 1000


class Store(Protocol):
    """Where tokens are kept."""

    @property
    def readonly(self) -> bool: ...

    def kv(self, name: str, **options: object) -> Kv: ...

    def existing_topic(self, name: str) -> Topic: ...


class NewToken(NamedTuple):
    """A token that was just made. The text is told here and never again."""

    text: str
    token: Token


class _Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said about all tokens together."""

    digest: str
    losses_seen: int = 0
    """The seq up to which records that are lost were given up by somebody."""


class _Found(NamedTuple):
    tokens: Mapping[str, Token]
    used: Mapping[str, str]
    seal: _Seal
    seal_version: int


class Registry:
    """The tokens of one store. Safe from many threads."""

    def __init__(self, store: Store, clock: Clock, random_id: Callable[[], bytes]) -> None:
        """Corrupt when what is kept cannot be trusted. ``random_id`` gives sixteen random bytes."""
        options = {} if store.readonly else {"durability": "fsync"}
        self._kv = store.kv(TOPIC, **options)
        self._topic = store.existing_topic(TOPIC)
        self._clock = clock
        self._random_id = random_id
        self._changing = threading.RLock()
        self._head = -1
        self._found = _Found({}, {}, _Seal(digest=_digest([])), 0)
        self._by_digest: Mapping[str, Token] = {}
        self.version = 0
        """Grows whenever a token is made, revoked or damaged."""

    @property
    def begun(self) -> bool:
        """Whether there was ever a token: then nobody gets in without one."""
        return bool(self.current()) or bool(self._found.seal_version)

    @property
    def is_current(self) -> bool:
        """Whether all that there is was read."""
        return self._topic.head_seq == self._head

    def current(self) -> Mapping[str, Token]:
        """All tokens by id, as they are now; Corrupt when they cannot be trusted."""
        if self._kv.head != self._head:
            self._load()
        return self._found.tokens

    def find(self, text: str) -> Token | None:
        """The token of this text, valid or not."""
        self.current()
        return tokens.find(text, self._by_digest)

    def get(self, id: str) -> Token:
        found = self.current().get(id)
        if found is None:
            raise NotFound(f"there is no token {id!r}: `strandline token ls` shows them")
        return found

    def last_used(self, id: str) -> str | None:
        """The day of its last use, None when it was never used."""
        self.current()
        return self._found.used.get(id)

    def create(
        self,
        *,
        scopes: Scopes,
        principal: str = "",
        label: str = "",
        creator: str,
        valid_us: int = tokens.VALID_US,
        not_before_us: int = 0,
        holder: Scopes = EVERYTHING,
    ) -> NewToken:
        """A new token; Conflict when its principal has two that are valid."""
        with self._changing:
            _check_covered(holder, scopes)
            made = self._made(scopes, principal, label, creator, valid_us, not_before_us)
            self._check_room(made.token)
            self._write([made.token])
        return made

    def revoke(self, id: str, *, holder: Scopes = EVERYTHING) -> Token:
        """End a token at once and for ever; one that is revoked already stays as it is."""
        with self._changing:
            found = self.get(id)
            _check_covered(holder, found.parsed())
            if not found.revoked_us:
                found = msgspec.structs.replace(found, revoked_us=self._clock.now_us())
                self._write([found])
        return found

    def rotate(
        self,
        id: str,
        *,
        creator: str,
        grace_us: int,
        valid_us: int,
        holder: Scopes = EVERYTHING,
    ) -> NewToken:
        """Another token for the same, with the same scopes; the old one ends after a while."""
        with self._changing:
            old = self.get(id)
            _check_covered(holder, old.parsed())
            now_us = self._clock.now_us()
            reason = old.why_not(now_us)
            if reason:
                raise Conflict(f"{reason}: create another instead")
            made = self._made(old.parsed(), old.principal, old.label, creator, valid_us, 0)
            self._check_room(made.token)
            if grace_us <= 0:
                old = msgspec.structs.replace(old, revoked_us=now_us)
            else:
                ends = min(old.expires_us, now_us + grace_us)
                old = msgspec.structs.replace(old, expires_us=ends)
            self._write([made.token, old])
        return made

    def revoke_all(self) -> int:
        """Revoke what can still be read, and go on from there: also after damage and loss."""
        with self._changing:
            now_us = self._clock.now_us()
            kept, unreadable = self._readable()
            ended = [msgspec.structs.replace(each, revoked_us=now_us) for each in kept]
            seal = _Seal(digest=_digest(ended), losses_seen=self._topic.head_seq)
            changes: list[Put | Delete] = [Delete(key) for key in unreadable]
            changes += [Put(_key(each), msgspec.json.encode(each)) for each in ended]
            self._kv.batch([*changes, Put(_ALL, msgspec.json.encode(seal))])
            self._load()
        return len(ended)

    def note_used(self, days: Mapping[str, str]) -> None:
        """Put on record on which day tokens were used last."""
        news = {id: day for id, day in days.items() if self.last_used(id) != day}
        if news:
            self._kv.put_many({_USED + id.encode(): day.encode() for id, day in news.items()})

    def _made(
        self,
        scopes: Scopes,
        principal: str,
        label: str,
        creator: str,
        valid_us: int,
        not_before_us: int,
    ) -> NewToken:
        text, given = tokens.make(self._random_id)
        now_us = self._clock.now_us()
        begins_us = max(now_us, not_before_us)
        if begins_us - now_us > tokens.VALID_US_MAX:
            raise Invalid("a token begins to be valid within a year")
        token = Token(
            id=given.id,
            principal=tokens.checked_principal(principal or given.id),
            digest=tokens.digest_of(given.secret),
            scopes=str(scopes),
            label=tokens.checked_label(label),
            creator=creator,
            created_us=now_us,
            not_before_us=begins_us,
            expires_us=begins_us + tokens.checked_valid_us(valid_us),
        )
        return NewToken(text, token)

    def _check_room(self, new: Token) -> None:
        known = self.current()
        if new.id in known:
            raise Conflict("this id was drawn before: try again")
        if len(known) >= TOKENS_MAX:
            raise Invalid(f"there are {TOKENS_MAX} tokens, revoked ones included: that is the most")
        now_us = self._clock.now_us()
        live = [
            each.id
            for each in known.values()
            if each.principal == new.principal and not each.revoked_us and now_us < each.expires_us
        ]
        if len(live) >= LIVE_PER_PRINCIPAL:
            raise Conflict(
                f"{new.principal!r} has {LIVE_PER_PRINCIPAL} tokens that are valid: revoke "
                f"{live[0]} or {live[1]} first"
            )

    def _write(self, changed: Sequence[Token]) -> None:
        """Put tokens and the word about all of them, in one batch; long-ended ones go."""
        found = self._found
        long_ago_us = self._clock.now_us() - KEPT_US
        gone = [each for each in found.tokens.values() if each.ended_us < long_ago_us]
        every = {**found.tokens, **{each.id: each for each in changed}}
        for each in gone:
            del every[each.id]
        seal = msgspec.structs.replace(found.seal, digest=_digest(every.values()))
        writes: list[Put | Delete] = [
            Put(_key(each), msgspec.json.encode(each)) for each in changed
        ]
        for each in gone:
            writes += [Delete(_key(each)), Delete(_USED + each.id.encode())]
        sealed = Put(_ALL, msgspec.json.encode(seal), version=found.seal_version)
        self._kv.batch([*writes, sealed])
        self._load()

    def _load(self) -> None:
        with self._changing:
            head = self._kv.head
            try:
                found = self._read()
            except StrandlineError:
                self.version += 1
                raise
            if found.tokens != self._found.tokens or self._head < 0:
                self.version += 1
            self._by_digest = {token.digest: token for token in found.tokens.values()}
            self._found, self._head = found, head

    def _read(self) -> _Found:
        for _ in range(_TRIES):
            head = self._kv.head
            entries = {entry.key: entry for entry in self._kv.scan()}
            if self._kv.head == head:
                break
        found = [
            _decoded(entry.value, key) for key, entry in entries.items() if key.startswith(_TOKEN)
        ]
        kept = {token.id: token for token in found}
        sealed = entries.get(_ALL)
        seal = _Seal(digest=_digest([])) if sealed is None else _unsealed(sealed.value)
        if seal.digest != _digest(kept.values()):
            raise damaged("tokens are missing, or others than were written")
        self._check_losses(seal)
        used = {
            key.removeprefix(_USED).decode(errors="replace"): entry.value.decode(errors="replace")
            for key, entry in entries.items()
            if key.startswith(_USED)
        }
        return _Found(kept, used, seal, 0 if sealed is None else sealed.version)

    def _check_losses(self, seal: _Seal) -> None:
        """A revocation may be among records that are gone."""
        after = 0
        while True:
            page = self._topic.read(after, _PAGE)
            gap = page.tombstone
            if gap is not None and gap.gap_to > seal.losses_seen:
                raise damaged(f"records {gap.gap_from} to {gap.gap_to} are lost ({gap.reason})")
            after = page.next
            if page.caught_up:
                return

    def _readable(self) -> tuple[list[Token], list[bytes]]:
        kept, unreadable = [], []
        for entry in self._kv.scan(_TOKEN):
            try:
                kept.append(_decoded(entry.value, entry.key))
            except Corrupt:
                unreadable.append(entry.key)
        return kept, unreadable


def damaged(reason: str) -> Corrupt:
    """An error that says what to do about tokens that cannot be trusted."""
    error = Corrupt(f"the tokens cannot be trusted: {reason},", path=f"topic {TOPIC}")
    error.add_note("`strandline token revoke --all` ends all of them; then create new ones")
    return error


def _key(token: Token) -> bytes:
    return _TOKEN + token.id.encode()


def _decoded(value: bytes, key: bytes) -> Token:
    try:
        found = msgspec.json.decode(value, type=Token)
    except (msgspec.MsgspecError, Invalid) as error:
        raise damaged(f"the record of {key!r} cannot be read") from error
    if _key(found) != key:
        raise damaged(f"under {key!r} is another's record")
    return found


def _unsealed(value: bytes) -> _Seal:
    try:
        return msgspec.json.decode(value, type=_Seal)
    except msgspec.MsgspecError as error:
        raise damaged("the record about all of them cannot be read") from error


def _check_covered(holder: Scopes, scopes: Scopes) -> None:
    if not holder.cover(scopes):
        raise Forbidden(
            f"the scopes of this token ({scopes}) are not covered by those of the request "
            f"({holder}): use a token that is allowed all of them"
        )


def _digest(every: Iterable[Token]) -> str:
    digest = hashlib.sha256()
    for token in sorted(every, key=lambda each: each.id):
        digest.update(msgspec.json.encode(token) + b"\n")
    return digest.hexdigest()
