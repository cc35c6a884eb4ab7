"""Every error code on the wire, with its status and its meaning.

The codes are for people and for clients in other languages; docs/guide/errors.md lists them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType


class Code(NamedTuple):
    """The status and the meaning of a code."""

    status: int
    meaning: str


CODES: dict[str, Code] = {
    "invalid_request": Code(400, "the request is wrong: the message says where"),
    "batch_too_large": Code(400, "more records, jobs or bytes at once than allowed"),
    "record_too_large": Code(400, "a record, or a field of it, is over its limit"),
    "unauthorized": Code(401, "no token, or one that is unknown, revoked or expired"),
    "forbidden": Code(403, "the token lacks the scope, or the page's origin is not allowed"),
    "topic_not_found": Code(404, "there is no such topic"),
    "router_not_found": Code(404, "there is no such router"),
    "not_found": Code(404, "there is no such path, session, key, view or other resource"),
    "method_not_allowed": Code(405, "the path has other methods: see Allow"),
    "not_acceptable": Code(406, "Accept contains no media type that the route returns"),
    "request_timeout": Code(408, "the request did not arrive in time"),
    "conflict": Code(409, "another client wrote first"),
    "topic_exists_incompatible": Code(409, "the topic exists with other options"),
    "topic_not_empty": Code(409, "the topic has records, and if_empty was set"),
    "not_a_queue": Code(409, "the topic has no queue"),
    "router_cycle": Code(409, "the router would close a cycle"),
    "records_lost": Code(410, "the requested records are gone"),
    "payload_too_large": Code(413, "the body is over its limit, compressed or decompressed"),
    "unsupported_media_type": Code(415, "the route does not accept the media type of the body"),
    "misdirected_request": Code(421, "the Host header is not a name of the server"),
    "topic_full": Code(422, "a cap with `discard: reject` is reached"),
    "throttled": Code(429, "a rate or concurrency limit is reached: see Retry-After"),
    "headers_too_large": Code(431, "too many headers, or too long"),
    "internal": Code(500, "a bug: the server's log has the details"),
    "newer_format": Code(500, "the store was written by a newer Strandline"),
    "corrupt": Code(500, "stored bytes are not what was written"),
    "not_installed": Code(501, "the server lacks an optional part"),
    "not_ready": Code(503, "the store is opening: see detail.replay_progress"),
    "shutting_down": Code(503, "the server, or the resource, is shutting down"),
    "unavailable": Code(503, "the disk or an object store does not respond"),
    "overloaded": Code(503, "requests hold too much of the server's memory: see Retry-After"),
    "timeout": Code(504, "a query reached its time limit"),
    "disk_full": Code(507, "no disk space for another write"),
}

STATUS_OF = {name: code.status for name, code in CODES.items()}


class ErrorFields(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error: its code and message."""

    code: str
    message: str
    detail: dict[str, Any] | UnsetType = UNSET
    """``kind`` is the code of the error that an embedded store raises."""


class ErrorBody(msgspec.Struct, kw_only=True):
    """The body of every error response."""

    error: ErrorFields
