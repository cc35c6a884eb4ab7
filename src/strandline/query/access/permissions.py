"""Who may do which command: roles, and what was granted for single events. Pure.

    role                    may read    may write    and
    admin                   all         all          everything else, too
    editor                  all         all
    read-only, viewer       all
    write-only                          all

Several roles add up. What was granted or revoked for one event goes before the role, for that event
alone:

    READ and WRITE          both
    READ alone, WRITE alone that one; the role decides about the other
    neither is left         nothing: what was granted has been revoked, and the role does not help

An admin may do all, whatever was granted. What a command needs:

    STORE                                       WRITE of its event
    QUERY, REPLAY, EXPLAIN, PLOT                READ of every event it names; of all events for a
                                                REPLAY that names none
    SHOW                                        READ of the events of what is remembered
    REMEMBER, FORGET                            READ and WRITE of these events
    FLUSH                                       WRITE of all events
    DEFINE, DELETE and everything about users   admin; a user may see his own permissions
    PING                                        nothing
    BATCH                                       what its commands need

A server asks for the same of its users (``server/auth/query_permissions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from strandline.errors import Forbidden, Invalid
from strandline.query.language import ast
from strandline.query.language.ast import Command, Permission
from strandline.query.language.errors import did_you_mean

ADMIN = "admin"
_ROLES: dict[str, frozenset[Permission]] = {
    ADMIN: frozenset({"READ", "WRITE"}),
    "editor": frozenset({"READ", "WRITE"}),
    "read-only": frozenset({"READ"}),
    "viewer": frozenset({"READ"}),
    "write-only": frozenset({"WRITE"}),
}
_EVERY_EVENT = "*"
"""No topic can be called so."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """What one user may do."""

    roles: tuple[str, ...] = ()
    events: dict[str, tuple[Permission, ...]] = {}
    """What is left of what was granted, by event; () when all of it was revoked."""

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles

    def may(self, permission: Permission, event: str) -> bool:
        if self.is_admin:
            return True
        granted = self.events.get(event)
        if granted is None:
            return self._by_role(permission)
        return permission in granted or (bool(granted) and self._by_role(permission))

    def may_all(self, permission: Permission) -> bool:
        """Whether it may be done with every event there is or will be."""
        every = [_EVERY_EVENT, *self.events]
        return all(self.may(permission, event) for event in every)

    def granted(self, permissions: tuple[Permission, ...], events: list[str]) -> Rights:
        """With these besides what there is."""
        found = dict(self.events)
        for event in events:
            found[event] = tuple(sorted({*found.get(event, ()), *permissions}))
        return Rights(roles=self.roles, events=found)

    def revoked(self, permissions: tuple[Permission, ...], events: list[str]) -> Rights:
        """Without these; no permission is all of them. What was never granted stays as it is."""
        taken = permissions or ("READ", "WRITE")
        found = dict(self.events)
        for event in events:
            if event in found:
                found[event] = tuple(each for each in found[event] if each not in taken)
        return Rights(roles=self.roles, events=found)

    def _by_role(self, permission: Permission) -> bool:
        return any(permission in _ROLES[role] for role in self.roles)


class Need(NamedTuple):
    """What a command needs: a permission for an event, or to be admin."""

    what: str
    permission: Permission | None = None
    event: str = _EVERY_EVENT


def checked_roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    """Roles in small letters, each once, or a clear error."""
    found = tuple(dict.fromkeys(role.lower() for role in roles))
    for role in found:
        if role not in _ROLES:
            hint = did_you_mean(role, list(_ROLES), called="roles are")
            raise Invalid(f"no role is called {role!r}; {hint}")
    return found


def check(
    user: str,
    rights: Rights,
    command: Command,
    remembered: Callable[[str], ast.Query | None],
) -> None:
    """Forbidden, unless the user may do this."""
    for need in _needs(user, command, remembered):
        if need.permission is None:
            if not rights.is_admin:
                raise Forbidden(f"{need.what} is for admins, and {user!r} is none")
        elif need.event == _EVERY_EVENT:
            if not rights.may_all(need.permission):
                raise Forbidden(f"{user!r} may not {need.permission} every event: name one")
        elif not rights.may(need.permission, need.event):
            raise Forbidden(f"{user!r} may not {need.permission} {need.event!r}")


def _needs(
    user: str, command: Command, remembered: Callable[[str], ast.Query | None]
) -> Iterator[Need]:
    match command:
        case ast.Ping():
            return
        case ast.Flush():
            yield Need("FLUSH", "WRITE")
        case ast.StoreEvent(event=event):
            yield Need("STORE", "WRITE", event.text)
        case ast.Query() | ast.Replay() | ast.Plot():
            yield from _reads(command)
        case ast.Explain(query=query):
            yield from _reads(query)
        case ast.Remember(query=query):
            yield from _changes(query)
        case ast.Show(alias=alias):
            kept = remembered(alias)
            yield from [Need("SHOW", "READ")] if kept is None else _reads(kept)
        case ast.Forget(alias=alias):
            kept = remembered(alias)
            every = [Need("FORGET", "READ"), Need("FORGET", "WRITE")]
            yield from every if kept is None else _changes(kept)
        case ast.Batch(commands=several):
            for each in several:
                yield from _needs(user, each, remembered)
        case ast.ShowPermissions(user=asked) if asked == user:
            return
        case _:
            yield Need(_TOLD.get(type(command), type(command).__name__))


def _changes(query: ast.Query) -> Iterator[Need]:
    """To keep the result of a query, or to drop it."""
    for need in _reads(query):
        yield need
        yield Need("REMEMBER", "WRITE", need.event)


def _reads(question: ast.Query | ast.Replay | ast.Plot) -> Iterator[Need]:
    match question:
        case ast.Query(event=event, steps=steps):
            names = [event, *(step.event for step in steps)]
        case ast.Replay(event=None):
            yield Need("REPLAY", "READ")
            return
        case ast.Replay(event=event):
            names = [event] if event else []
        case ast.Plot(metrics=metrics):
            both = [(metric.event, metric.then) for metric in metrics]
            names = [name for pair in both for name in pair if name is not None]
    for name in names:
        yield Need("QUERY", "READ", name.text)


_TOLD: Mapping[type, str] = {
    ast.Define: "DEFINE",
    ast.DeleteEvents: "DELETE",
    ast.CreateUser: "CREATE USER",
    ast.RevokeKey: "REVOKE KEY",
    ast.ListUsers: "LIST USERS",
    ast.Grant: "GRANT",
    ast.Revoke: "REVOKE",
    ast.ShowPermissions: "SHOW PERMISSIONS of somebody else",
}
