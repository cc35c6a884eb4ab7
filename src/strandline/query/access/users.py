"""Users of a store: their keys, and what they may do. Kept in a key-value view.

A key is never kept, only what scrypt makes of it and a salt. One that is not given is made of 32
random bytes and handed out once. To check a key takes the same time whether the user is there or
not, and whichever part of it is wrong; that time is long on purpose, so whoever checks often keeps
a session of his own.

A user is never deleted. REVOKE KEY takes the key and leaves what was granted, and the id cannot be
created again: what was written under it stays his.

    key of the view      user:<id>
    value                JSON: roles, events, salt, digest, cost; without digest the key is revoked
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable

import msgspec

from strandline.errors import Conflict, Forbidden, Invalid
from strandline.query.access.permissions import Rights, check, checked_roles
from strandline.query.language.ast import Command, Permission, Query
from strandline.query.language.errors import did_you_mean
from strandline.views.kv.kv import Kv

KEY_CHARACTERS_MIN = 8
COST = 2**14
"""How much memory and time scrypt takes: 16 MiB and some ten milliseconds."""

_PREFIX = b"user:"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,127}")
_ATTEMPTS_MAX = 32
_NO_SALT = bytes(16)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user, as others may see him."""

    id: str
    roles: tuple[str, ...]
    events: dict[str, tuple[Permission, ...]]
    """What was granted for single events."""
    active: bool
    """Whether there is a key."""


class NewUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user who was just created. The key is told here and never again."""

    id: str
    key: str
    roles: tuple[str, ...]


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    rights: Rights
    salt: bytes
    digest: bytes = b""
    cost: int = COST


def _nothing_remembered(_alias: str) -> Query | None:
    return None


class Users:
    """The users of one store. Safe from many threads."""

    def __init__(
        self,
        kv: Kv,
        random_id: Callable[[], bytes],
        *,
        events: Callable[[], list[str]] = list,
        remembered: Callable[[str], Query | None] = _nothing_remembered,
        cost: int = COST,
    ) -> None:
        """``events`` are those that can be granted, ``remembered`` the query of an alias, and
        ``random_id`` gives sixteen random bytes."""
        self._kv = kv
        self._random_id = random_id
        self._events = events
        self._remembered = remembered
        self._cost = cost

    def create(self, user: str, *, key: str | None = None, roles: tuple[str, ...] = ()) -> NewUser:
        """A new user; Conflict when the id is or was somebody's."""
        if not _ID.fullmatch(user):
            raise Invalid(
                f"{user!r} cannot be a user's id: use 1 to 128 of A-Z a-z 0-9 . _ @ : - and begin "
                "with a letter or digit"
            )
        if key is not None and len(key) < KEY_CHARACTERS_MIN:
            raise Invalid(
                f"a key has at least {KEY_CHARACTERS_MIN} characters; leave it out to be given one"
            )
        secret = key if key is not None else (self._random_id() + self._random_id()).hex()
        known = checked_roles(roles)
        salt = self._random_id()
        stored = _Stored(
            rights=Rights(roles=known),
            salt=salt,
            digest=_digest(secret, salt, self._cost),
            cost=self._cost,
        )
        try:
            self._kv.put(_key(user), msgspec.json.encode(stored), nx=True)
        except Conflict as error:
            raise Conflict(f"there is or was a user {user!r}: an id is used once") from error
        return NewUser(id=user, key=secret, roles=known)

    def revoke_key(self, user: str) -> None:
        """Take a user's key for ever; what he was granted stays as it is."""
        self._change(user, lambda found: msgspec.structs.replace(found, digest=b""))

    def listed(self) -> list[User]:
        """All users, by id."""
        return [
            _shown(entry.key.removeprefix(_PREFIX).decode(), _decoded(entry.value))
            for entry in self._kv.scan(_PREFIX)
        ]

    def user(self, user: str) -> User:
        """Roles and what was granted, event by event."""
        found, _ = self._stored(user)
        return _shown(user, found)

    def grant(self, user: str, permissions: tuple[Permission, ...], events: list[str]) -> None:
        """Besides what there is. The events must be there."""
        known = self._events()
        for event in events:
            if event not in known:
                hint = did_you_mean(event, sorted(known), called="there are")
                raise Invalid(f"no event is called {event!r}" + (f"; {hint}" if hint else ""))
        self._change(user, lambda found: _with(found, found.rights.granted(permissions, events)))

    def revoke(self, user: str, permissions: tuple[Permission, ...], events: list[str]) -> None:
        """Take back what was granted; what was not is no error."""
        self._change(user, lambda found: _with(found, found.rights.revoked(permissions, events)))

    def authenticate(self, user: str, key: str) -> User:
        """The user, when the key is his; Forbidden does not tell which of them is wrong."""
        try:
            found, _ = self._stored(user)
        except Invalid:
            found = _Stored(rights=Rights(), salt=_NO_SALT, cost=self._cost)
        given = _digest(key, found.salt, found.cost)
        # No key is made into zeros, so without a digest nothing fits, and it takes as long.
        if not hmac.compare_digest(given, found.digest or bytes(len(given))):
            raise Forbidden("no such user, or another key")
        return _shown(user, found)

    def allows(self, user: str, command: Command) -> None:
        """Forbidden, unless the user may do this. His key is not asked for again, but must be."""
        found, _ = self._stored(user)
        if not found.digest:
            raise Forbidden(f"the key of {user!r} was revoked")
        check(user, found.rights, command, self._remembered)

    def _stored(self, user: str) -> tuple[_Stored, int]:
        """What is kept, and its version."""
        entry = self._kv.entry(_key(user)) if _ID.fullmatch(user) else None
        if entry is None:
            raise Invalid(f"there is no user {user!r}")
        return _decoded(entry.value), entry.version

    def _change(self, user: str, change: Callable[[_Stored], _Stored]) -> None:
        for _ in range(_ATTEMPTS_MAX):
            found, version = self._stored(user)
            new = change(found)
            if new == found:
                return
            try:
                self._kv.put(_key(user), msgspec.json.encode(new), version=version)
            except Conflict:
                continue
            return
        raise Conflict(f"others keep changing user {user!r}: try again")


def _digest(key: str, salt: bytes, cost: int) -> bytes:
    secret = key.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=8, p=1, maxmem=256 * cost * 8)


def _key(user: str) -> bytes:
    return _PREFIX + user.encode()


def _decoded(value: bytes) -> _Stored:
    return msgspec.json.decode(value, type=_Stored)


def _with(found: _Stored, rights: Rights) -> _Stored:
    return msgspec.structs.replace(found, rights=rights)


def _shown(user: str, found: _Stored) -> User:
    return User(
        id=user,
        roles=found.rights.roles,
        events=found.rights.events,
        active=bool(found.digest),
    )
