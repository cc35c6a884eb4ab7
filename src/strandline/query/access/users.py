"""Users of a store: their keys and permissions, stored in a key-value map.

A key is never stored, only its scrypt digest with a salt. Without a key in CREATE USER, a key of 32
random bytes is generated and returned once. Checking a key takes the same time whether the user
exists or not, and whichever part of the key is wrong; it is slow on purpose, so a caller that
checks often needs a session.

A user is never deleted. REVOKE KEY removes the key and leaves the grants, and the id cannot be
created again: data written under an id belongs to one user for ever.

    key of the map       user:<id>
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
"""The cost of scrypt: 16 MiB of memory and some ten milliseconds."""

_PREFIX = b"user:"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,127}")
_ATTEMPTS_MAX = 32
_NO_SALT = bytes(16)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user without secrets."""

    id: str
    roles: tuple[str, ...]
    events: dict[str, tuple[Permission, ...]]
    """The grants for single events."""
    active: bool
    """Whether the user has a key."""


class NewUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user that was just created. The key is returned only here."""

    id: str
    key: str
    roles: tuple[str, ...]


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    rights: Rights
    salt: bytes
    digest: bytes = b""
    cost: int = COST


def _no_query(_alias: str) -> Query | None:
    return None


class Users:
    """The users of one store. Safe from many threads."""

    def __init__(
        self,
        kv: Kv,
        random_id: Callable[[], bytes],
        *,
        events: Callable[[], list[str]] = list,
        remembered: Callable[[str], Query | None] = _no_query,
        cost: int = COST,
    ) -> None:
        """``events`` returns those that can be granted, ``remembered`` the query of an alias, and
        ``random_id`` sixteen random bytes."""
        self._kv = kv
        self._random_id = random_id
        self._events = events
        self._remembered = remembered
        self._cost = cost

    def create(self, user: str, *, key: str | None = None, roles: tuple[str, ...] = ()) -> NewUser:
        """Create a user; Conflict when the id is or was in use."""
        if not _ID.fullmatch(user):
            raise Invalid(
                f"invalid user id {user!r}: use 1 to 128 of A-Z a-z 0-9 . _ @ : - and start with "
                "a letter or digit"
            )
        if key is not None and len(key) < KEY_CHARACTERS_MIN:
            raise Invalid(
                f"a key has at least {KEY_CHARACTERS_MIN} characters; omit it for a random key"
            )
        secret = key if key is not None else (self._random_id() + self._random_id()).hex()
        known_roles = checked_roles(roles)
        salt = self._random_id()
        stored = _Stored(
            rights=Rights(roles=known_roles),
            salt=salt,
            digest=_digest(secret, salt, self._cost),
            cost=self._cost,
        )
        try:
            self._kv.put(_key(user), msgspec.json.encode(stored), nx=True)
        except Conflict as error:
            raise Conflict(
                f"user {user!r} exists or existed: an id cannot be used again"
            ) from error
        return NewUser(id=user, key=secret, roles=known_roles)

    def revoke_key(self, user: str) -> None:
        """Remove the key of a user for ever; the grants stay."""
        self._change(user, lambda stored: msgspec.structs.replace(stored, digest=b""))

    def list_users(self) -> list[User]:
        """All users, by id."""
        return [
            _public(entry.key.removeprefix(_PREFIX).decode(), _decoded(entry.value))
            for entry in self._kv.scan(_PREFIX)
        ]

    def user(self, user: str) -> User:
        """The roles and grants of a user."""
        stored, _ = self._stored(user)
        return _public(user, stored)

    def grant(self, user: str, permissions: tuple[Permission, ...], events: list[str]) -> None:
        """Add grants. The events must exist."""
        known = self._events()
        for event in events:
            if event not in known:
                hint = did_you_mean(event, sorted(known), called="events are")
                raise Invalid(f"unknown event {event!r}" + (f"; {hint}" if hint else ""))
        self._change(
            user,
            lambda stored: _with_rights(stored, stored.rights.with_grants(permissions, events)),
        )

    def revoke(self, user: str, permissions: tuple[Permission, ...], events: list[str]) -> None:
        """Remove grants; missing ones are ignored."""
        self._change(
            user,
            lambda stored: _with_rights(stored, stored.rights.without_grants(permissions, events)),
        )

    def authenticate(self, user: str, key: str) -> User:
        """The user of a key; Forbidden, for an unknown user as for a wrong key."""
        try:
            stored, _ = self._stored(user)
        except Invalid:
            stored = _Stored(rights=Rights(), salt=_NO_SALT, cost=self._cost)
        digest = _digest(key, stored.salt, stored.cost)
        # No digest is all zeros: without one no key matches, in the same time.
        if not hmac.compare_digest(digest, stored.digest or bytes(len(digest))):
            raise Forbidden("unknown user or wrong key")
        return _public(user, stored)

    def check_allowed(self, user: str, command: Command) -> None:
        """Raise Forbidden unless the user may run a command, and still has a key."""
        stored, _ = self._stored(user)
        if not stored.digest:
            raise Forbidden(f"the key of {user!r} was revoked")
        check(user, stored.rights, command, self._remembered)

    def _stored(self, user: str) -> tuple[_Stored, int]:
        """The stored user and its version."""
        entry = self._kv.entry(_key(user)) if _ID.fullmatch(user) else None
        if entry is None:
            raise Invalid(f"unknown user {user!r}")
        return _decoded(entry.value), entry.version

    def _change(self, user: str, change: Callable[[_Stored], _Stored]) -> None:
        for _ in range(_ATTEMPTS_MAX):
            old, version = self._stored(user)
            new = change(old)
            if new == old:
                return
            try:
                self._kv.put(_key(user), msgspec.json.encode(new), version=version)
            except Conflict:
                continue
            return
        raise Conflict(f"user {user!r} is changed concurrently: try again")


def _digest(key: str, salt: bytes, cost: int) -> bytes:
    secret = key.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=8, p=1, maxmem=256 * cost * 8)


def _key(user: str) -> bytes:
    return _PREFIX + user.encode()


def _decoded(value: bytes) -> _Stored:
    return msgspec.json.decode(value, type=_Stored)


def _with_rights(stored: _Stored, rights: Rights) -> _Stored:
    return msgspec.structs.replace(stored, rights=rights)


def _public(user: str, stored: _Stored) -> User:
    return User(
        id=user,
        roles=stored.rights.roles,
        events=stored.rights.events,
        active=bool(stored.digest),
    )
