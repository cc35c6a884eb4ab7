"""Permissions of commands: roles, and grants for single events. Pure.

    role                    may read    may write    and
    admin                   all         all          all other commands
    editor                  all         all
    read-only, viewer       all
    write-only                          all

Several roles add up. Grants and revocations for one event take precedence over the role, for that
event alone:

    READ and WRITE          both
    READ alone, WRITE alone that one; the role decides about the other
    neither is left         nothing: the grants were revoked, and the role does not apply

Grants do not limit an admin. What a command requires:

    STORE                                       WRITE of its event
    QUERY, REPLAY, EXPLAIN, PLOT                READ of every event in it; of all events for a
                                                REPLAY without an event
    SHOW                                        READ of the events of the materialized query
    REMEMBER, FORGET                            READ and WRITE of these events
    FLUSH                                       WRITE of all events
    DEFINE, DELETE and all commands on users    admin; users may read their own permissions
    PING                                        nothing
    BATCH                                       what its commands require

A server requires the same of its users (``server/auth/query_permissions.py``).
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
"""Not a valid name of a topic."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """The roles and grants of one user."""

    roles: tuple[str, ...] = ()
    events: dict[str, tuple[Permission, ...]] = {}
    """The current grants by event; () when all of them were revoked."""

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
        """Whether the permission applies to every event, including future ones."""
        every = [_EVERY_EVENT, *self.events]
        return all(self.may(permission, event) for event in every)

    def with_grants(self, permissions: tuple[Permission, ...], events: list[str]) -> Rights:
        """These rights with further grants."""
        grants = dict(self.events)
        for event in events:
            grants[event] = tuple(sorted({*grants.get(event, ()), *permissions}))
        return Rights(roles=self.roles, events=grants)

    def without_grants(self, permissions: tuple[Permission, ...], events: list[str]) -> Rights:
        """These rights without some grants; () revokes all. Events without a grant stay as is."""
        dropped = permissions or ("READ", "WRITE")
        grants = dict(self.events)
        for event in events:
            if event in grants:
                grants[event] = tuple(each for each in grants[event] if each not in dropped)
        return Rights(roles=self.roles, events=grants)

    def _by_role(self, permission: Permission) -> bool:
        return any(permission in _ROLES[role] for role in self.roles)


class _Requirement(NamedTuple):
    """A requirement of a command: a permission for an event, or the role admin."""

    what: str
    permission: Permission | None = None
    event: str = _EVERY_EVENT


def checked_roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    """Roles in lowercase, each once; rejects unknown roles."""
    known = tuple(dict.fromkeys(role.lower() for role in roles))
    for role in known:
        if role not in _ROLES:
            hint = did_you_mean(role, list(_ROLES), called="roles are")
            raise Invalid(f"unknown role {role!r}; {hint}")
    return known


def check(
    user: str,
    rights: Rights,
    command: Command,
    remembered: Callable[[str], ast.Query | None],
) -> None:
    """Raise Forbidden unless the user may run a command."""
    for need in _needs(user, command, remembered):
        if need.permission is None:
            if not rights.is_admin:
                raise Forbidden(
                    f"{need.what} requires the role admin, which {user!r} does not have"
                )
        elif need.event == _EVERY_EVENT:
            if not rights.may_all(need.permission):
                raise Forbidden(f"{user!r} may not {need.permission} all events: name one event")
        elif not rights.may(need.permission, need.event):
            raise Forbidden(f"{user!r} may not {need.permission} {need.event!r}")


def _needs(
    user: str, command: Command, remembered: Callable[[str], ast.Query | None]
) -> Iterator[_Requirement]:
    match command:
        case ast.Ping():
            return
        case ast.Flush():
            yield _Requirement("FLUSH", "WRITE")
        case ast.StoreEvent(event=event):
            yield _Requirement("STORE", "WRITE", event.text)
        case ast.Query() | ast.ReplayCommand() | ast.Plot():
            yield from _reads(command)
        case ast.Explain(query=query):
            yield from _reads(query)
        case ast.Remember(query=query):
            yield from _changes(query)
        case ast.Show(alias=alias):
            query_of_alias = remembered(alias)
            yield from (
                [_Requirement("SHOW", "READ")] if query_of_alias is None else _reads(query_of_alias)
            )
        case ast.Forget(alias=alias):
            query_of_alias = remembered(alias)
            every = [_Requirement("FORGET", "READ"), _Requirement("FORGET", "WRITE")]
            yield from every if query_of_alias is None else _changes(query_of_alias)
        case ast.BatchCommand(commands=several):
            for each in several:
                yield from _needs(user, each, remembered)
        case ast.ShowPermissions(user=shown) if shown == user:
            return
        case _:
            yield _Requirement(_COMMAND_NAMES.get(type(command), type(command).__name__))


def _changes(query: ast.Query) -> Iterator[_Requirement]:
    """What is required to store the result of a query, or to drop it."""
    for need in _reads(query):
        yield need
        yield _Requirement("REMEMBER", "WRITE", need.event)


def _reads(command: ast.Query | ast.ReplayCommand | ast.Plot) -> Iterator[_Requirement]:
    match command:
        case ast.Query(event=event, steps=steps):
            names = [event, *(step.event for step in steps)]
        case ast.ReplayCommand(event=None):
            yield _Requirement("REPLAY", "READ")
            return
        case ast.ReplayCommand(event=event):
            names = [event] if event else []
        case ast.Plot(metrics=metrics):
            both = [(metric.event, metric.then) for metric in metrics]
            names = [name for pair in both for name in pair if name is not None]
    for name in names:
        yield _Requirement("QUERY", "READ", name.text)


_COMMAND_NAMES: Mapping[type, str] = {
    ast.Define: "DEFINE",
    ast.DeleteEvents: "DELETE",
    ast.CreateUser: "CREATE USER",
    ast.RevokeKey: "REVOKE KEY",
    ast.ListUsers: "LIST USERS",
    ast.Grant: "GRANT",
    ast.Revoke: "REVOKE",
    ast.ShowPermissions: "SHOW PERMISSIONS of another user",
}
