"""The tokens of a store: create, list, revoke, look up. Stored in a key-value map.

    topic strandline.tokens, of class fsync

    key           value
    token:<id>    JSON: a ``Token``. It stays for a year after it was revoked or expired
    used:<id>     the day of its last use, as 2026-11-16
    all           JSON: SHA-256 over all tokens, and the seq up to which losses were accepted. It
                  stays: a server that ever had a token never allows access without one again

Every change writes its token and ``all`` in one batch, or nothing. If they do not match, or a
record is damaged, or records of the topic were lost, then a revocation may be missing: all requests
are rejected until an operator with the store's files has revoked all tokens
(``strandline token revoke --all``). All tokens are in memory; a change by another process is
detected by the head of the topic, which is checked for every request.

One rule for every change, checked here under the lock: a token is created, rotated or revoked only
by a holder whose own scopes cover the scopes of that token (``holder``). A process with access to
the store's files may change every token: ``EVERYTHING``, the default.
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
"""How long a token stays stored after its end."""
LIVE_PER_PRINCIPAL = 2

_TOKEN, _USED, _ALL = b"token:", b"used:", b"all"
_ATTEMPTS_MAX = 8
_PAGE = 1000


class _TokenTopicStore(Protocol):
    """The operations of a store that tokens need."""

    @property
    def readonly(self) -> bool: ...

    def kv(self, name: str, **options: object) -> Kv: ...

    def existing_topic(self, name: str) -> Topic: ...


class NewToken(NamedTuple):
    """A token that was just created. The text is returned only here."""

    text: str
    token: Token


class _Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The record ``all``."""

    digest: str
    losses_seen: int = 0
    """The seq up to which an operator has accepted lost records."""


class _State(NamedTuple):
    tokens: Mapping[str, Token]
    used: Mapping[str, str]
    seal: _Seal
    seal_version: int


class TokenStore:
    """The tokens of one store. Safe from many threads."""

    def __init__(
        self, store: _TokenTopicStore, clock: Clock, random_id: Callable[[], bytes]
    ) -> None:
        """Corrupt when the tokens cannot be trusted. ``random_id`` returns sixteen random bytes."""
        options = {} if store.readonly else {"durability": "fsync"}
        self._kv = store.kv(TOPIC, **options)
        self._topic = store.existing_topic(TOPIC)
        self._clock = clock
        self._random_id = random_id
        self._changing = threading.RLock()
        self._head = -1
        self._state = _State({}, {}, _Seal(digest=_digest([])), 0)
        self._by_digest: Mapping[str, Token] = {}
        self.version = 0
        """Grows whenever a token is created, revoked or damaged."""

    @property
    def has_had_tokens(self) -> bool:
        """Whether there was ever a token: then every request requires one."""
        return bool(self.current()) or bool(self._state.seal_version)

    @property
    def is_current(self) -> bool:
        """Whether the tokens in memory are up to date."""
        return self._topic.head_seq == self._head

    def current(self) -> Mapping[str, Token]:
        """All tokens by id, as they are now; Corrupt when they cannot be trusted."""
        if self._kv.head != self._head:
            self._load()
        return self._state.tokens

    def find(self, text: str) -> Token | None:
        """The token of this text, valid or not."""
        self.current()
        return tokens.find(text, self._by_digest)

    def get(self, id: str) -> Token:
        token = self.current().get(id)
        if token is None:
            raise NotFound(f"there is no token {id!r}: `strandline token ls` lists them")
        return token

    def last_used(self, id: str) -> str | None:
        """The day of its last use, None when it was never used."""
        self.current()
        return self._state.used.get(id)

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
            new = self._new_token(scopes, principal, label, creator, valid_us, not_before_us)
            self._check_limits(new.token)
            self._write([new.token])
        return new

    def revoke(self, id: str, *, holder: Scopes = EVERYTHING) -> Token:
        """End a token at once and for ever; a revoked one is left unchanged."""
        with self._changing:
            token = self.get(id)
            _check_covered(holder, token.parsed())
            if not token.revoked_us:
                token = msgspec.structs.replace(token, revoked_us=self._clock.now_us())
                self._write([token])
        return token

    def rotate(
        self,
        id: str,
        *,
        creator: str,
        grace_us: int,
        valid_us: int,
        holder: Scopes = EVERYTHING,
    ) -> NewToken:
        """Replace a token by one with the same owner and scopes; the old one ends after a grace."""
        with self._changing:
            old = self.get(id)
            _check_covered(holder, old.parsed())
            now_us = self._clock.now_us()
            reason = old.invalid_reason(now_us)
            if reason:
                raise Conflict(f"{reason}: create a new token instead")
            new = self._new_token(old.parsed(), old.principal, old.label, creator, valid_us, 0)
            self._check_limits(new.token)
            if grace_us <= 0:
                old = msgspec.structs.replace(old, revoked_us=now_us)
            else:
                expires_us = min(old.expires_us, now_us + grace_us)
                old = msgspec.structs.replace(old, expires_us=expires_us)
            self._write([new.token, old])
        return new

    def revoke_all(self) -> int:
        """Revoke all readable tokens and accept losses: restores access after damage and loss."""
        with self._changing:
            now_us = self._clock.now_us()
            readable, unreadable = self._readable()
            ended = [msgspec.structs.replace(each, revoked_us=now_us) for each in readable]
            seal = _Seal(digest=_digest(ended), losses_seen=self._topic.head_seq)
            changes: list[Put | Delete] = [Delete(key) for key in unreadable]
            changes += [Put(_key(each), msgspec.json.encode(each)) for each in ended]
            self._kv.batch([*changes, Put(_ALL, msgspec.json.encode(seal))])
            self._load()
        return len(ended)

    def note_used(self, days: Mapping[str, str]) -> None:
        """Store the day of the last use of tokens."""
        changed = {id: day for id, day in days.items() if self.last_used(id) != day}
        if changed:
            self._kv.put_many({_USED + id.encode(): day.encode() for id, day in changed.items()})

    def _new_token(
        self,
        scopes: Scopes,
        principal: str,
        label: str,
        creator: str,
        valid_us: int,
        not_before_us: int,
    ) -> NewToken:
        text, parts = tokens.make(self._random_id)
        now_us = self._clock.now_us()
        valid_from_us = max(now_us, not_before_us)
        if valid_from_us - now_us > tokens.VALID_US_MAX:
            raise Invalid("the validity of a token must start within a year")
        token = Token(
            id=parts.id,
            principal=tokens.checked_principal(principal or parts.id),
            digest=tokens.digest_of(parts.secret),
            scopes=str(scopes),
            label=tokens.checked_label(label),
            creator=creator,
            created_us=now_us,
            not_before_us=valid_from_us,
            expires_us=valid_from_us + tokens.checked_valid_us(valid_us),
        )
        return NewToken(text, token)

    def _check_limits(self, new: Token) -> None:
        known = self.current()
        if new.id in known:
            raise Conflict("the random id is in use: try again")
        if len(known) >= TOKENS_MAX:
            raise Invalid(f"the limit of {TOKENS_MAX} tokens is reached, including revoked ones")
        now_us = self._clock.now_us()
        live = [
            each.id
            for each in known.values()
            if each.principal == new.principal and not each.revoked_us and now_us < each.expires_us
        ]
        if len(live) >= LIVE_PER_PRINCIPAL:
            raise Conflict(
                f"{new.principal!r} has {LIVE_PER_PRINCIPAL} valid tokens already: revoke "
                f"{live[0]} or {live[1]} first"
            )

    def _write(self, changed: Sequence[Token]) -> None:
        """Write tokens and ``all`` in one batch; delete tokens that ended long ago."""
        state = self._state
        long_ago_us = self._clock.now_us() - KEPT_US
        expired = [each for each in state.tokens.values() if each.ended_us < long_ago_us]
        remaining = {**state.tokens, **{each.id: each for each in changed}}
        for each in expired:
            del remaining[each.id]
        seal = msgspec.structs.replace(state.seal, digest=_digest(remaining.values()))
        writes: list[Put | Delete] = [
            Put(_key(each), msgspec.json.encode(each)) for each in changed
        ]
        for each in expired:
            writes += [Delete(_key(each)), Delete(_USED + each.id.encode())]
        seal_write = Put(_ALL, msgspec.json.encode(seal), version=state.seal_version)
        self._kv.batch([*writes, seal_write])
        self._load()

    def _load(self) -> None:
        with self._changing:
            head = self._kv.head
            try:
                state = self._read()
            except StrandlineError:
                self.version += 1
                raise
            if state.tokens != self._state.tokens or self._head < 0:
                self.version += 1
            self._by_digest = {token.digest: token for token in state.tokens.values()}
            self._state, self._head = state, head

    def _read(self) -> _State:
        for _ in range(_ATTEMPTS_MAX):
            head = self._kv.head
            entries = {entry.key: entry for entry in self._kv.scan()}
            if self._kv.head == head:
                break
        stored = [
            _decoded(entry.value, key) for key, entry in entries.items() if key.startswith(_TOKEN)
        ]
        by_id = {token.id: token for token in stored}
        seal_entry = entries.get(_ALL)
        seal = _Seal(digest=_digest([])) if seal_entry is None else _decoded_seal(seal_entry.value)
        if seal.digest != _digest(by_id.values()):
            raise damage_error("tokens are missing or changed")
        self._check_losses(seal)
        used = {
            key.removeprefix(_USED).decode(errors="replace"): entry.value.decode(errors="replace")
            for key, entry in entries.items()
            if key.startswith(_USED)
        }
        return _State(by_id, used, seal, 0 if seal_entry is None else seal_entry.version)

    def _check_losses(self, seal: _Seal) -> None:
        """Raise when records were lost: a revocation may be among them."""
        after = 0
        while True:
            page = self._topic.read(after, _PAGE)
            gap = page.tombstone
            if gap is not None and gap.gap_to > seal.losses_seen:
                raise damage_error(
                    f"records {gap.gap_from} to {gap.gap_to} are lost ({gap.reason})"
                )
            after = page.next
            if page.caught_up:
                return

    def _readable(self) -> tuple[list[Token], list[bytes]]:
        readable, unreadable = [], []
        for entry in self._kv.scan(_TOKEN):
            try:
                readable.append(_decoded(entry.value, entry.key))
            except Corrupt:
                unreadable.append(entry.key)
        return readable, unreadable


def damage_error(reason: str) -> Corrupt:
    """The error for tokens that cannot be trusted, with what to do."""
    error = Corrupt(f"the tokens cannot be trusted: {reason},", path=f"topic {TOPIC}")
    error.add_note("`strandline token revoke --all` ends all of them; then create new ones")
    return error


def _key(token: Token) -> bytes:
    return _TOKEN + token.id.encode()


def _decoded(value: bytes, key: bytes) -> Token:
    try:
        token = msgspec.json.decode(value, type=Token)
    except (msgspec.MsgspecError, Invalid) as error:
        raise damage_error(f"the record of {key!r} cannot be read") from error
    if _key(token) != key:
        raise damage_error(f"{key!r} has the record of another token")
    return token


def _decoded_seal(value: bytes) -> _Seal:
    try:
        return msgspec.json.decode(value, type=_Seal)
    except msgspec.MsgspecError as error:
        raise damage_error("the record of all tokens cannot be read") from error


def _check_covered(holder: Scopes, scopes: Scopes) -> None:
    if not holder.cover(scopes):
        raise Forbidden(
            f"the scopes of this token ({scopes}) are not covered by those of the request "
            f"({holder}): use a token that has all of them"
        )


def _digest(every: Iterable[Token]) -> str:
    digest = hashlib.sha256()
    for token in sorted(every, key=lambda each: each.id):
        digest.update(msgspec.json.encode(token) + b"\n")
    return digest.hexdigest()
