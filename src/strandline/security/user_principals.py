"""Users of the query language as principals: roles and grants are converted to scopes. Pure.

    admin                         all
    READ of an event              read of its topic
    WRITE of an event             write to its topic
    READ and WRITE                and consume
    all of it revoked             deny read, write and consume

``query/access/permissions.py`` defines roles and grants; the scopes here are equivalent.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from strandline.query.access.permissions import Rights
from strandline.query.access.users import User
from strandline.security.scopes import EVERYTHING, Action, Scope, Scopes

PREFIX = "user:"
_TOPIC_ACTIONS: tuple[Action, ...] = ("read", "write", "consume")
_NO_TOPIC = "*"


class BasicLogin(NamedTuple):
    """A user's name and key of HTTP Basic authentication."""

    user: str
    key: str


def login_of(credentials: str) -> BasicLogin | None:
    """The login in the credentials after ``Basic``; None when they are malformed."""
    try:
        user, colon, key = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return BasicLogin(user, key) if colon else None


def scopes_of(user: User) -> Scopes:
    """The scopes of a user on topics."""
    rights = Rights(roles=user.roles, events=user.events)
    if rights.is_admin:
        return EVERYTHING
    scopes = [Scope(actions=_actions(rights, _NO_TOPIC))]
    for event in user.events:
        actions = _actions(rights, event)
        denied = tuple(action for action in _TOPIC_ACTIONS if action not in actions)
        scopes.append(Scope(actions=actions, pattern=event))
        if denied:
            scopes.append(Scope(actions=denied, pattern=event, deny=True))
    return Scopes(scope for scope in scopes if scope.actions)


def _actions(rights: Rights, event: str) -> tuple[Action, ...]:
    actions: list[Action] = []
    if rights.may("READ", event):
        actions.append("read")
    if rights.may("WRITE", event):
        actions.append("write")
    if len(actions) == 2:
        actions.append("consume")
    return tuple(actions)
