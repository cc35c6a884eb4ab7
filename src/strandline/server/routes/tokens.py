"""Routes of tokens: create, list, revoke, rotate, identify; tickets and the audit log.

A token is created, rotated and revoked only if the scopes of the request cover its own
(``security/token_store.py``). The first token of a server that was open to this machine must allow
``tokens``: otherwise only a process with the store's files could create another.
"""

from __future__ import annotations

from strandline.api.tokens import (
    AuditEntry,
    AuditPage,
    AuditQuery,
    CreatedToken,
    CreateToken,
    RotateToken,
    StreamTicket,
    TokenInfo,
    TokenList,
    WhoAmI,
)
from strandline.errors import Invalid
from strandline.log.read.page import Page
from strandline.security.audit import TOPIC, decode
from strandline.security.scopes import Scopes, parse
from strandline.security.tickets import VALID_S
from strandline.security.token_store import NewToken
from strandline.security.tokens import Token
from strandline.server.http.audit import write_entry
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route, RoutePermission

_MS = 1000


async def create_token(call: RequestContext) -> JsonResponse:
    """Create a token; its text is in this response only."""
    body: CreateToken = call.body
    scopes = parse(body.scopes)
    _check_first(call, scopes)
    registry = call.parts.auth.registry
    created = await call.parts.bridge.run(
        registry.create,
        scopes=scopes,
        principal=body.principal,
        label=body.label,
        creator=call.who.id,
        valid_us=body.valid_ms * _MS,
        not_before_us=body.not_before * _MS,
        holder=call.parts.auth.scopes(call.who),
    )
    await write_entry(call, "token-created", token=created.token.id, scopes=created.token.scopes)
    return JsonResponse(_create_response(call, created), 201)


async def list_tokens(call: RequestContext) -> JsonResponse:
    """List all tokens, without their secrets."""
    tokens = call.parts.auth.registry.current().values()
    by_age = sorted(tokens, key=lambda token: (token.created_us, token.id))
    return JsonResponse(TokenList(tokens=[_info(call, token) for token in by_age]))


async def revoke_token(call: RequestContext) -> JsonResponse:
    """Revoke a token at once, and end every stream that it opened."""
    auth = call.parts.auth
    token = await call.parts.bridge.run(
        auth.registry.revoke, call.path["id"], holder=auth.scopes(call.who)
    )
    auth.sweep()
    await write_entry(call, "token-revoked", token=token.id)
    return JsonResponse(_info(call, token))


async def rotate_token(call: RequestContext) -> JsonResponse:
    """Create another token for the same principal; the old one expires after ``grace_ms``."""
    body: RotateToken = call.body
    auth = call.parts.auth
    created = await call.parts.bridge.run(
        auth.registry.rotate,
        call.path["id"],
        creator=call.who.id,
        grace_us=body.grace_ms * _MS,
        valid_us=body.valid_ms * _MS,
        holder=auth.scopes(call.who),
    )
    auth.sweep()
    await write_entry(call, "token-rotated", token=call.path["id"], successor=created.token.id)
    return JsonResponse(_create_response(call, created), 201)


async def who_am_i(call: RequestContext) -> JsonResponse:
    """Return the principal of the request and its scopes."""
    who = call.who
    call.parts.auth.check_live(who)
    return JsonResponse(
        WhoAmI(
            id=who.id,
            kind=who.kind,
            name=who.name,
            scopes=str(call.parts.auth.scopes(who)),
            expires=who.expires_us // _MS or None,
        )
    )


async def issue_ticket(call: RequestContext) -> JsonResponse:
    """Issue a ticket for a stream, to be sent in its URL."""
    auth = call.parts.auth
    auth.check_live(call.who)
    ticket = auth.tickets.issue(call.who)
    return JsonResponse(StreamTicket(ticket=ticket, valid_ms=round(VALID_S * _MS)), 201)


async def read_audit(call: RequestContext) -> JsonResponse:
    """Read entries of the audit log after a cursor."""
    query: AuditQuery = call.query
    topic = call.parts.store.existing_topic(TOPIC)
    page = await call.parts.bridge.run(topic.read, query.from_seq, query.limit)
    return JsonResponse(
        AuditPage(entries=_entries(page), next_from_seq=page.next, caught_up=page.caught_up)
    )


def _check_first(call: RequestContext, scopes: Scopes) -> None:
    if call.who.kind == "local" and not scopes.allow("tokens"):
        raise Invalid(
            "the first token must allow `tokens`, or no other could be created: create one with "
            "scopes `all` first"
        )


def _create_response(call: RequestContext, created: NewToken) -> CreatedToken:
    return CreatedToken(token=created.text, info=_info(call, created.token))


def _info(call: RequestContext, token: Token) -> TokenInfo:
    return TokenInfo(
        id=token.id,
        principal=token.principal,
        scopes=token.scopes,
        label=token.label,
        creator=token.creator,
        created=token.created_us // _MS,
        not_before=token.not_before_us // _MS,
        expires=token.expires_us // _MS,
        revoked=token.revoked_us // _MS or None,
        last_used=call.parts.auth.registry.last_used(token.id),
        valid=not token.invalid_reason(call.parts.clock.now_us()),
    )


def _entries(page: Page) -> list[AuditEntry]:
    entries = [(record.seq, decode(record)) for record in page.records]
    return [
        AuditEntry(
            seq=seq,
            number=entry.number,
            at_us=entry.at_us,
            kind=entry.kind,
            who=entry.who,
            address=entry.address,
            what=entry.what,
            previous=entry.previous,
            hash=entry.hash,
        )
        for seq, entry in entries
        if entry is not None
    ]


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v0/tokens",
        handler=create_token,
        needs=(RoutePermission("tokens"),),
        summary="Create a token; its text is returned once.",
        body=CreateToken,
        answers={201: CreatedToken},
        errors=("conflict",),
    ),
    Route(
        method="GET",
        path="/v0/tokens",
        handler=list_tokens,
        needs=(RoutePermission("tokens"),),
        summary="List all tokens, without their secrets.",
        answers={200: TokenList},
    ),
    Route(
        method="DELETE",
        path="/v0/tokens/{id}",
        handler=revoke_token,
        needs=(RoutePermission("tokens"),),
        summary="Revoke a token at once; its streams end.",
        answers={200: TokenInfo},
        errors=("not_found",),
    ),
    Route(
        method="POST",
        path="/v0/tokens/{id}/rotate",
        handler=rotate_token,
        needs=(RoutePermission("tokens"),),
        summary="Rotate a token: create its successor; the old one expires later.",
        body=RotateToken,
        answers={201: CreatedToken},
        errors=("not_found", "conflict"),
    ),
    Route(
        method="POST",
        path="/v0/tickets",
        handler=issue_ticket,
        needs=OPEN,
        summary="Issue a ticket that opens one stream, for browsers.",
        answers={201: StreamTicket},
    ),
    Route(
        method="GET",
        path="/v0/whoami",
        handler=who_am_i,
        needs=OPEN,
        summary="Get the principal of the request and its scopes.",
        answers={200: WhoAmI},
    ),
    Route(
        method="GET",
        path="/v0/audit",
        handler=read_audit,
        needs=(RoutePermission("admin"),),
        summary="Read the audit log.",
        query=AuditQuery,
        answers={200: AuditPage},
    ),
)
