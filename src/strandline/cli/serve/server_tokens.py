"""``strandline token`` for a server: tokens through its own routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from strandline.cli.open_store import open_target_to_read
from strandline.cli.options import Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow

if TYPE_CHECKING:  # the client is imported when a server is the target
    from strandline.api.tokens import TokenInfo
    from strandline.client.blocking.store import RemoteStore

_DAY_MS = 86_400_000


def create(target: Target, scopes: str, principal: str, label: str, valid_ms: int) -> OutputRow:
    """A new token, with its text."""
    with _connected(target) as store:
        created = store.tokens.create(
            scopes, principal=principal, label=label, days=valid_ms / _DAY_MS
        )
    row = _row(created.info)
    return PreparedRow({"token": created.token} | row.json, {"token": created.token, **row.cells})


def listed(target: Target) -> list[OutputRow]:
    """All tokens, without their secrets."""
    with _connected(target) as store:
        return [_row(each) for each in store.tokens.list()]


def revoke(target: Target, token: str) -> OutputRow:
    """Revoke a token immediately."""
    with _connected(target) as store:
        return _row(store.tokens.revoke(token))


def _connected(target: Target) -> RemoteStore:
    return cast("RemoteStore", open_target_to_read(target))


def _row(token: TokenInfo) -> OutputRow:
    json: Json = {
        "id": token.id,
        "principal": token.principal,
        "scopes": token.scopes,
        "label": token.label,
        "creator": token.creator,
        "created_us": token.created * 1000,
        "not_before_us": token.not_before * 1000,
        "expires_us": token.expires * 1000,
        "revoked_us": None if token.revoked is None else token.revoked * 1000,
        "last_used": token.last_used,
        "valid": token.valid,
    }
    columns = {
        "id": token.id,
        "principal": formatting.plain(token.principal),
        "scopes": token.scopes,
        "valid": "yes" if token.valid else "no" if token.revoked is None else "revoked",
        "expires": formatting.time_text(token.expires * 1000),
        "used": token.last_used,
        "label": formatting.plain(token.label) or None,
    }
    return PreparedRow(json, columns)
