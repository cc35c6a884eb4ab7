"""Builds commands on users. Pure."""

from __future__ import annotations

from typing import Any

from lark import Token

from strandline.query.language.ast import (
    CreateUser,
    Grant,
    ListUsers,
    Permission,
    Revoke,
    RevokeKey,
    ShowPermissions,
)
from strandline.query.language.ast_builder.clauses import Clause, unique_clauses
from strandline.query.language.ast_builder.tokens import at_of, unquote


def create_user(parts: list[Any]) -> CreateUser:
    _, _, user, *options = parts
    values = unique_clauses(options)
    return CreateUser(user=user, key=values.get("key"), roles=values.get("roles", ()))


def with_key(parts: list[Token]) -> Clause:
    return Clause("key", at_of(parts[0]), unquote(parts[2]))


def with_roles(parts: list[Any]) -> Clause:
    word, _, *roles = parts
    return Clause("roles", at_of(word), tuple(roles))


def revoke_key(parts: list[Any]) -> RevokeKey:
    return RevokeKey(parts[2])


def list_users(_parts: list[Any]) -> ListUsers:
    return ListUsers()


def permissions(parts: list[Token]) -> tuple[Permission, ...]:
    known: dict[str, Permission] = {"READ": "READ", "WRITE": "WRITE"}
    return tuple(dict.fromkeys(known[part.upper()] for part in parts))


def grant(parts: list[Any]) -> Grant:
    _, rights, _, *events, _, user = parts
    return Grant(permissions=rights, events=tuple(events), user=user)


def revoke(parts: list[Any]) -> Revoke:
    _, rights, _, *events, _, user = parts
    return Revoke(permissions=rights or (), events=tuple(events), user=user)


def show_permissions(parts: list[Any]) -> ShowPermissions:
    return ShowPermissions(parts[3])


RULES = (
    *(create_user, with_key, with_roles, revoke_key, list_users),
    *(permissions, grant, revoke, show_permissions),
)
