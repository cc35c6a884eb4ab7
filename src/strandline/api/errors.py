"""Errors on the wire: `{"error": {"code", "message", "detail"?}}` and their status.

    StrandlineError --wire_error_of--> WireError --JSON--> ... --exception_of--> StrandlineError

``code`` is for people and other languages: one of the codes of ``api/error_codes.py``.
``detail.kind`` is the ``code`` of the error's class in ``errors.py``, so that a client raises the
same error as an embedded store.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from strandline import errors
from strandline.errors import StrandlineError


class Refused(StrandlineError):
    """An error response with its own status and code. Only the server raises it."""

    code = "refused"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        detail: dict[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.wire_error = WireError(status, code, message, detail or {}, retry_after_s)


class WireError(NamedTuple):
    """An error in the form that a client receives."""

    status: int
    code: str
    message: str
    detail: dict[str, Any]
    retry_after_s: float | None = None

    def body(self) -> bytes:
        fields: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.detail:
            fields["detail"] = self.detail
        return msgspec.json.encode({"error": fields})


_RETRY_S = 1.0
REJECTED_POINTS_MAX = 1000
"""Most rejected points that an error lists."""

# The first matching class applies: subclasses come before the classes that they inherit from.
_TABLE: tuple[tuple[type[StrandlineError], int, str, float | None], ...] = (
    (errors.UnknownTopic, 404, "topic_not_found", None),
    (errors.BatchTooLarge, 400, "batch_too_large", None),
    (errors.TooLarge, 400, "record_too_large", None),
    (errors.NotInstalled, 501, "not_installed", None),
    (errors.Invalid, 400, "invalid_request", None),
    (errors.Forbidden, 403, "forbidden", None),
    (errors.UnknownRouter, 404, "router_not_found", None),
    (errors.NotFound, 404, "not_found", None),
    (errors.TopicExists, 409, "topic_exists_incompatible", None),
    (errors.TopicFull, 422, "topic_full", None),
    (errors.RouterCycle, 409, "router_cycle", None),
    (errors.RouterFanIn, 409, "topic_exists_incompatible", None),
    (errors.Conflict, 409, "conflict", None),
    (errors.RecordsLost, 410, "records_lost", None),
    (errors.DiskFull, 507, "disk_full", 10.0),
    (errors.MemoryPressure, 429, "throttled", _RETRY_S),
    (errors.Unavailable, 503, "unavailable", _RETRY_S),
    (errors.Closed, 503, "shutting_down", _RETRY_S),
    (errors.UnsupportedFormat, 500, "newer_format", None),
    (errors.Corrupt, 500, "corrupt", None),
    (errors.StrandlineError, 500, "internal", None),
)


_CLASSES: dict[str, type[StrandlineError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StrandlineError)
}
"""Error classes by ``detail.kind``."""

_BY_CODE: dict[str, type[StrandlineError]] = {
    "unauthorized": errors.Forbidden,
    "forbidden": errors.Forbidden,
    "topic_not_found": errors.UnknownTopic,
    "router_not_found": errors.UnknownRouter,
    "router_cycle": errors.RouterCycle,
    "not_found": errors.NotFound,
    "batch_too_large": errors.BatchTooLarge,
    "record_too_large": errors.TooLarge,
    "payload_too_large": errors.TooLarge,
    "topic_exists_incompatible": errors.TopicExists,
    "topic_full": errors.TopicFull,
    "not_installed": errors.NotInstalled,
}
_BY_STATUS: dict[int, type[StrandlineError]] = {
    409: errors.Conflict,
    429: errors.Unavailable,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
    507: errors.DiskFull,
}


def exception_of(problem: WireError) -> StrandlineError:
    """The error that an embedded store would raise; for a server's own error, the closest class."""
    kind = _CLASSES.get(str(problem.detail.get("kind")))
    if kind is None:
        other = errors.Invalid if 400 <= problem.status < 500 else StrandlineError
        kind = _BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status, other)
    error = kind.__new__(kind)
    Exception.__init__(error, problem.message)
    if isinstance(error, errors.RecordsLost):
        error.gap_from = int(problem.detail.get("gap_from", 0))
        error.gap_to = int(problem.detail.get("gap_to", 0))
        error.reason = str(problem.detail.get("reason", ""))
    if isinstance(error, errors.PointsRefused):
        listed = msgspec.convert(
            problem.detail.get("refused", ()), tuple[tuple[int, int, str], ...]
        )
        error.refused = listed
    if isinstance(error, errors.RouterCycle):
        cycle = problem.detail.get("cycle")
        error.cycle = [str(name) for name in cycle] if isinstance(cycle, list) else []
    if isinstance(error, errors.Corrupt):
        error.reason, error.path, error.offset = problem.message, "", 0
        error.topic_id = error.first_seq = error.last_seq = None
    return error


class _ErrorFields(msgspec.Struct):
    code: str = "internal"
    message: str = ""
    detail: dict[str, Any] = {}


class _Body(msgspec.Struct):
    error: _ErrorFields


def read_wire_error(status: int, body: bytes, retry_after_s: float | None = None) -> WireError:
    """The error in a response; a foreign body (such as a proxy's page) is reduced to its status."""
    try:
        fields = msgspec.json.decode(body, type=_Body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        fields = _ErrorFields(
            message=f"the server, or a proxy in front of it, responded with status {status}"
        )
    return WireError(status, fields.code, fields.message, fields.detail, retry_after_s)


def wire_error_of(error: BaseException) -> WireError:
    """An error as sent to a client. A foreign exception is sent without its text: it may leak."""
    if isinstance(error, Refused):
        return error.wire_error
    for error_class, status, code, retry_after_s in _TABLE:
        if isinstance(error, error_class):
            detail: dict[str, Any] = {"kind": error.code}
            if isinstance(error, errors.RecordsLost):
                detail |= {"gap_from": error.gap_from, "gap_to": error.gap_to}
                detail["reason"] = error.reason
            if isinstance(error, errors.RouterCycle):
                detail["cycle"] = error.cycle
            if isinstance(error, errors.PointsRefused):
                detail["refused"] = error.refused[:REJECTED_POINTS_MAX]
            if isinstance(error, errors.RouterFanIn):
                detail["reason"] = "router_dest_fan_in"
            return WireError(status, code, str(error), detail, retry_after_s)
    return WireError(500, "internal", "internal error: the server's log has the details", {})
