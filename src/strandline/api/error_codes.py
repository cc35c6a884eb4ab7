"""Every code of an error on the wire, its status, and what it means.

The codes are for people and for clients in other languages; docs/guide/errors.md lists them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType


class Code(NamedTuple):
    """What a code means."""

    status: int
    meaning: str


CODES: dict[str, Code] = {
    "invalid_request": Code(400, "the request is wrong: the message says where"),
    "batch_too_large": Code(400, "more records, jobs or bytes at once than allowed"),
    "record_too_large": Code(400, "a record, or a field of it, is over its limit"),
    "unauthorized": Code(401, "no token, or one that is unknown, revoked or over"),
    "forbidden": Code(403, "the token may not do that, or the page may not ask"),
    "topic_not_found": Code(404, "there is no such topic"),
    "router_not_found": Code(404, "there is no such router"),
    "not_found": Code(404, "there is no such path, session, key, view or other thing"),
    "method_not_allowed": Code(405, "the path has other methods: see Allow"),
    "not_acceptable": Code(406, "Accept names nothing that the route gives"),
    "request_timeout": Code(408, "the request did not arrive in time"),
    "conflict": Code(409, "somebody else wrote first"),
    "topic_exists_incompatible": Code(409, "the topic is there and is another"),
    "topic_not_empty": Code(409, "the topic has records and was to be deleted only when empty"),
    "not_a_queue": Code(409, "the topic has no queue"),
    "router_cycle": Code(409, "the router would close a circle"),
    "records_lost": Code(410, "records that were asked for are gone"),
    "payload_too_large": Code(413, "the body is over its limit, packed or unpacked"),
    "unsupported_media_type": Code(415, "the body is of a type that the route does not take"),
    "misdirected_request": Code(421, "the server does not have the name that Host says"),
    "topic_full": Code(422, "a cap with `discard: reject` is reached"),
    "throttled": Code(429, "too much at once: see Retry-After"),
    "headers_too_large": Code(431, "too many headers, or too long"),
    "internal": Code(500, "a bug: the server's log has the details"),
    "newer_format": Code(500, "the store was written by a newer Strandline"),
    "corrupt": Code(500, "stored bytes are not what was written"),
    "not_installed": Code(501, "the server lacks an optional part"),
    "not_ready": Code(503, "the store is being opened: see detail.replay_progress"),
    "shutting_down": Code(503, "the server, or what was asked for, is going down"),
    "unavailable": Code(503, "the disk or an object store does not answer"),
    "overloaded": Code(503, "requests hold too much of the server's memory: see Retry-After"),
    "timeout": Code(504, "a query ran for as long as it may"),
    "disk_full": Code(507, "no room for another write"),
}

STATUS_OF = {name: code.status for name, code in CODES.items()}


class ErrorTold(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What went wrong."""

    code: str
    message: str
    detail: dict[str, Any] | UnsetType = UNSET
    """``kind`` is the code of the error that an open store raises."""


class ErrorBody(msgspec.Struct, kw_only=True):
    """The body of every answer that is an error."""

    error: ErrorTold
