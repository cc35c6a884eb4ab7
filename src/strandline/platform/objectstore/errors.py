"""Converts failures of the object store library to errors of Strandline.

The library that ``cloud.py`` uses has few kinds of error and puts the response of the server into
the text, so the status code and the server's error code are searched there:

    404 and the code of a missing bucket          NoBucket
    404                                           NotFound
    401, 403, no credentials found                Denied
    408, 429, 5xx, no response, a cut connection  Unreachable: the only one that is retried
    any other                                     Unavailable, with the message of the server
"""

from __future__ import annotations

import re

from obstore import exceptions

from strandline.errors import (
    BucketNotFound,
    Invalid,
    NotFound,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    StrandlineError,
    Unavailable,
    UnsupportedObjectStore,
)

FAILURES = (exceptions.BaseError, OSError, ValueError)
"""Exceptions that the library raises."""

_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = (
    *("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "PermanentRedirect"),
    *("The specified bucket does not exist", "The specified container does not exist"),
)
_NO_CREDENTIALS = (  # addresses of cloud metadata services, which other machines cannot reach
    *("169.254.169.254", "/latest/api/token", "/latest/meta-data", "/metadata/identity"),
    *("metadata.google.internal", "/computeMetadata/"),
)
_BAD_CREDENTIALS = ("ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_TRANSIENT = ("RequestTimeout", "ConditionalRequestConflict", "OperationAborted")
_PATH = re.compile(r"(://[^/?\s]+)[/?][^\s)]*")  # named before; its query may hold a signature
_TEXT_MAX = 400


def failure(error: Exception, key: str, store: str) -> StrandlineError:
    """The Strandline error to raise instead."""
    text = str(error)
    status = _status(text)
    where, reason = f"{key} in {store}" if key else store, _reason(text)
    if _has(text, _NO_BUCKET):
        return BucketNotFound(
            f"{store}: bucket not found ({reason}): create it, or check its name and region"
        )
    if isinstance(error, FileNotFoundError) or status == 404:
        return NotFound(f"object not found: {where}")
    if _is_denied(error, text, status):
        return ObjectStoreDenied(
            f"{where}: access denied ({reason}): check the credentials and their permissions"
        )
    if "BadScheme" in text:
        return Invalid(
            f"{store}: plain http is allowed for this machine only: use https, or option allow_http"
        )
    if isinstance(error, ValueError):
        return Invalid(f"{where}: {reason}")
    if isinstance(error, exceptions.NotSupportedError):
        return UnsupportedObjectStore(
            f"{store} does not support this request ({reason}): use another store"
        )
    if status == 0 or status in (408, 429) or status >= 500 or _has(text, _TRANSIENT):
        return ObjectStoreUnreachable(
            f"{where}: no response ({reason}): check the network, then try again later"
        )
    return Unavailable(f"{where}: request rejected ({reason})")


def is_out_of_range(error: Exception) -> bool:
    """Whether a requested range begins at or after the end of the object."""
    text = str(error)
    return _status(text) == 416 or "InvalidRange" in text or "Wanted range" in text


def _is_denied(error: Exception, text: str, status: int) -> bool:
    kinds = (
        exceptions.PermissionDeniedError,
        exceptions.UnauthenticatedError,
        PermissionError,
    )
    markers = _NO_CREDENTIALS + _BAD_CREDENTIALS
    return isinstance(error, kinds) or status in (401, 403) or _has(text, markers)


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def _status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _reason(text: str) -> str:
    """The error code and message of the server, or the most useful line of the library's text."""
    code = re.search(r"<Code>(\w+)</Code>", text)
    if code:
        message = re.search(r"<Message>([^<\n]*)", text)
        return f"{_status(text)} {code[1]}{': ' + message[1] if message else ''}"
    summary, _, details = text.partition("\n\nDebug source")
    cause = re.search(r'"([^"]*(?:refused|reset|timed out|closed|dns)[^"]*)"', details)
    line = " ".join(_PATH.sub(r"\1", summary).split())
    return (f"{line}: {cause[1]}" if cause else line)[:_TEXT_MAX]
