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
    """What a new token shall be."""

    scopes: Annotated[str, Meta(max_length=16_384)]
    """As ``read,write:orders.*;deny delete:orders.eu``."""
    principal: Annotated[str, Meta(max_length=128)] = ""
    """Whose it is; the token's id when empty. Everybody may have two that are valid."""
    label: Text = ""
    valid_ms: Valid = 90 * DAY_MS
    not_before: Time = 0
    """When it begins to be valid; 0 is now."""


class RotateToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to change from a token to another."""

    grace_ms: Annotated[int, Meta(ge=0, le=YEAR_MS)] = DAY_MS
    """How long the old one stays valid; 0 revokes it at once."""
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
    """When it was revoked, null when it was not."""
    last_used: str | None
    """A day, as 2026-11-16."""
    valid: bool
    """Whether it lets somebody in now."""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token. Its text is told here and never again."""

    token: str
    info: TokenInfo


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """All tokens, revoked ones included, the newest last."""

    tokens: list[TokenInfo]


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as the server sees him."""

    id: str
    kind: str
    name: str
    scopes: str
    expires: int | None
    """In milliseconds since 1970, null for never."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """Opens one stream, within a short time, instead of a token: in the address, as ``?token=``."""

    ticket: str
    valid_ms: int


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries of the audit log."""

    from_seq: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 256


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

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
    """Entries of the audit log, in their order."""

    entries: list[AuditEntry]
    next_from_seq: int
    caught_up: bool
