"""Tokens, tickets and the audit log on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

YEAR_MS = 366 * 86_400_000
DAY_MS = 86_400_000

Text = Annotated[str, Meta(max_length=200)]
Time = Annotated[int, Meta(ge=0, le=2**53)]
Valid = Annotated[int, Meta(ge=1, le=YEAR_MS)]


class CreateToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties of a new token."""

    scopes: Annotated[str, Meta(max_length=16_384)]
    """Such as ``read,write:orders.*;deny delete:orders.eu``."""
    principal: Annotated[str, Meta(max_length=128)] = ""
    """The owner of the token; the token's id when empty. A principal may have two valid tokens."""
    label: Text = ""
    valid_ms: Valid = 90 * DAY_MS
    not_before: Time = 0
    """Start of the validity; 0: now."""


class RotateToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to replace a token by a new one."""

    grace_ms: Annotated[int, Meta(ge=0, le=YEAR_MS)] = DAY_MS
    """How long the old token stays valid; 0 revokes it at once."""
    valid_ms: Valid = 90 * DAY_MS


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret. Times are in milliseconds since 1970."""

    id: str
    principal: str
    scopes: str
    label: str
    creator: str
    created: int
    not_before: int
    expires: int
    revoked: int | None
    """Time of the revocation, null when it is not revoked."""
    last_used: str | None
    """A day, such as 2026-11-16."""
    valid: bool
    """Whether the server accepts it now."""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token. Its text is returned only here."""

    token: str
    info: TokenInfo


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """All tokens, including revoked ones, newest last."""

    tokens: list[TokenInfo]


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """The identity and the scopes of the client."""

    id: str
    kind: str
    name: str
    scopes: str
    expires: int | None
    """Milliseconds since 1970, null for never."""


class StreamTicket(msgspec.Struct, frozen=True, kw_only=True):
    """Opens one stream within a short time instead of a token: in the URL, as ``?token=``."""

    ticket: str
    valid_ms: int


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects entries of the audit log."""

    from_seq: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 256


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the audit log."""

    seq: int
    number: int
    at_us: int
    kind: str
    who: str
    address: str
    what: dict[str, str]
    previous: str
    hash: str


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the audit log, in order."""

    entries: list[AuditEntry]
    next_from_seq: int
    caught_up: bool
