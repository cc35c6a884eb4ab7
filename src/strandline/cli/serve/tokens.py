"""``strandline token``: creates, lists and revokes the tokens of a store, in its files.

While a server has the store open, name the server: its routes are used then
(``cli/serve/server_tokens.py``). Opening the files needs no token; every change is in the audit
log in both cases.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import App, Parameter

from strandline.cli.open_store import open_to_read, open_to_write
from strandline.cli.options import TARGET, Flag, Target, microseconds, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.cli.serve import server_tokens
from strandline.errors import Invalid, Locked
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.security import audit, token_store
from strandline.security.scopes import Scopes, parse
from strandline.security.token_store import TokenStore
from strandline.security.tokens import Token
from strandline.store import Store

_ACTOR = "command line"

app = App(name="token")


@app.command
def create(
    principal: str = "",
    /,
    *,
    scopes: str,
    label: str = "",
    valid: str = "90d",
    not_before: str | None = None,
    target: Target = TARGET,
) -> None:
    """Create a token, and the store if there is none. Its text is printed once and not stored.

    Parameters
    ----------
    principal
        Owner of the token. A principal may have two valid tokens, to change from one to the other.
    scopes
        Allowed actions: `all`, or as in `read,write:orders.*;deny delete:orders.eu`.
    label
        Purpose of the token.
    valid
        Time until it expires: 30d, 24h; at most a year.
    not_before
        Start of its validity: 2026-03-28T14:05:00Z. Default: now.
    """
    parsed_scopes = parse(scopes)
    not_before_us = 0 if not_before is None else microseconds(not_before)
    valid_ms = milliseconds(valid)
    if target.is_remote:
        if not_before_us:
            raise Invalid("--not-before works with the files of a store, not with a server")
        row = server_tokens.create(target, scopes, principal, label, valid_ms)
    else:
        row = _created(target, parsed_scopes, principal, label, valid_ms * 1000, not_before_us)
    output(target.output).one(row)
    if target.output == "table":
        sys.stdout.flush()
        print("store it now: it cannot be shown again", file=sys.stderr)


def _created(
    target: Target,
    scopes: Scopes,
    principal: str,
    label: str,
    valid_us: int,
    not_before_us: int,
) -> OutputRow:
    with _opened(target, create=True) as (store, tokens):
        created = tokens.create(
            scopes=scopes,
            principal=principal,
            label=label,
            creator=_ACTOR,
            valid_us=valid_us,
            not_before_us=not_before_us,
        )
        _note(store, "token-created", token=created.token.id, scopes=created.token.scopes)
        json: Json = {"token": created.text} | _json(created.token, tokens)
        return PreparedRow(json, {"token": created.text, **_cells(created.token, tokens)})


@app.command(name="ls")
def list_tokens(*, target: Target = TARGET) -> None:
    """List all tokens, revoked ones included. Their secrets are not stored."""
    out = output(target.output)
    if target.is_remote:
        out.rows(server_tokens.listed(target))
        out.end()
        return
    with open_to_read(target.store, target.lake_url) as store:
        if token_store.TOPIC in store.topics(token_store.TOPIC):
            tokens = _registry(store)
            by_age = sorted(tokens.current().values(), key=lambda each: (each.created_us, each.id))
            out.rows([_row(each, tokens) for each in by_age])
    out.end()


@app.command
def revoke(
    token: str | None = None,
    /,
    *,
    everything: Annotated[Flag, Parameter(name="--all")] = False,
    target: Target = TARGET,
) -> None:
    """Revoke a token permanently.

    Parameters
    ----------
    token
        Its id: the twelve characters after `strand1_`.
    everything
        Revoke all tokens, damaged ones included, so that a server can start again.
    """
    if (token is None) != everything:
        raise Invalid("name a token by its id, or give --all")
    if target.is_remote and token is not None:
        output(target.output).one(server_tokens.revoke(target, token))
        return
    with _opened(target, create=False) as (store, tokens):
        if token is None:
            count = tokens.revoke_all()
            _note(store, "tokens-revoked", count=count)
            output(target.output).one(formatting.fact_row({"revoked": count}))
        else:
            revoked = tokens.revoke(token)
            _note(store, "token-revoked", token=revoked.id)
            output(target.output).one(_row(revoked, tokens))


@contextlib.contextmanager
def _opened(target: Target, *, create: bool) -> Iterator[tuple[Store, TokenStore]]:
    try:
        opened = open_to_write(target.store, create=create, lake_url=target.lake_url)
    except Locked as error:
        error.add_note("if it is a server, name it: --url URL")
        raise
    with opened as store:
        yield store, _registry(store)


def _registry(store: Store) -> TokenStore:
    return TokenStore(store, SystemClock(), OsDisk().random_id)


def _note(store: Store, kind: str, **what: object) -> None:
    audit.Audit(store, SystemClock()).note(kind, what, who=_ACTOR).wait()


def _row(token: Token, tokens: TokenStore) -> OutputRow:
    return PreparedRow(_json(token, tokens), _cells(token, tokens))


def _json(token: Token, tokens: TokenStore) -> Json:
    return {
        "id": token.id,
        "principal": token.principal,
        "scopes": token.scopes,
        "label": token.label,
        "creator": token.creator,
        "created_us": token.created_us,
        "not_before_us": token.not_before_us,
        "expires_us": token.expires_us,
        "revoked_us": token.revoked_us or None,
        "last_used": tokens.last_used(token.id),
        "valid": not token.invalid_reason(SystemClock().now_us()),
    }


def _cells(token: Token, tokens: TokenStore) -> dict[str, str | None]:
    reason = token.invalid_reason(SystemClock().now_us())
    return {
        "id": token.id,
        "principal": formatting.plain(token.principal),
        "scopes": token.scopes,
        "valid": reason.removeprefix("this token ") or "yes",
        "expires": formatting.time_text(token.expires_us),
        "used": tokens.last_used(token.id),
        "label": formatting.plain(token.label) or None,
    }
