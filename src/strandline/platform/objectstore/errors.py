"""What an object store answered, told as one of our errors.

The library behind ``cloud.py`` has few kinds of error and puts the answer of the server into
the text, so the status code and the server's own word for it are looked up there:

    404 and a word for a missing bucket         NoBucket
    404                                         NotFound
    401, 403, no credentials to be found        Denied
    408, 429, 5xx, no answer, a cut connection  Unreachable: the only one that is tried again
    any other                                   Unavailable, with what the server said
"""

from __future__ import annotations

import re

from obstore import exceptions

from strandline.errors import (
    Denied,
    Invalid,
    NoBucket,
    NotFound,
    StrandlineError,
    Unavailable,
    UnfitStore,
    Unreachable,
)

FAILURES = (exceptions.BaseError, OSError, ValueError)
"""What the library raises."""

_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = (
    *("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "PermanentRedirect"),
    *("The specified bucket does not exist", "The specified container does not exist"),
)
_NO_CREDENTIALS = (  # where a machine of a cloud would find its own, when it is none
    *("169.254.169.254", "/latest/api/token", "/latest/meta-data", "/metadata/identity"),
    *("metadata.google.internal", "/computeMetadata/"),
)
_BAD_CREDENTIALS = ("ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_TIME_WAS_LOST = ("RequestTimeout", "ConditionalRequestConflict", "OperationAborted")
_PATH = re.compile(r"(://[^/?\s]+)[/?][^\s)]*")  # is told before; its query may hold a signature
_TEXT_MAX = 400


def failure(error: Exception, key: str, store: str) -> StrandlineError:
    """What to raise instead."""
    text = str(error)
    status = _status(text)
    where, said = f"{key} in {store}" if key else store, _said(text)
    if _has(text, _NO_BUCKET):
        return NoBucket(f"{store}: no such bucket here ({said}): make it, or check name and region")
    if isinstance(error, FileNotFoundError) or status == 404:
        return NotFound(f"there is no object {where}")
    if _is_denied(error, text, status):
        return Denied(f"{where}: not allowed ({said}): check the credentials and their rights")
    if "BadScheme" in text:
        return Invalid(
            f"{store}: plain http is for this machine only: use https, or option allow_http"
        )
    if isinstance(error, ValueError):
        return Invalid(f"{where}: {said}")
    if isinstance(error, exceptions.NotSupportedError):
        return UnfitStore(f"{store} cannot do this ({said}): use another store")
    if status == 0 or status in (408, 429) or status >= 500 or _has(text, _TIME_WAS_LOST):
        return Unreachable(f"{where}: no answer ({said}): check the network, try again later")
    return Unavailable(f"{where}: refused ({said})")


def is_out_of_range(error: Exception) -> bool:
    """Whether a range was asked for that begins at or behind the end."""
    text = str(error)
    return _status(text) == 416 or "InvalidRange" in text or "Wanted range" in text


def _is_denied(error: Exception, text: str, status: int) -> bool:
    kinds = (
        exceptions.PermissionDeniedError,
        exceptions.UnauthenticatedError,
        PermissionError,
    )
    words = _NO_CREDENTIALS + _BAD_CREDENTIALS
    return isinstance(error, kinds) or status in (401, 403) or _has(text, words)


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def _status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _said(text: str) -> str:
    """The server's own words, or the one line of the library that tells something."""
    code = re.search(r"<Code>(\w+)</Code>", text)
    if code:
        message = re.search(r"<Message>([^<\n]*)", text)
        return f"{_status(text)} {code[1]}{': ' + message[1] if message else ''}"
    told, _, details = text.partition("\n\nDebug source")
    cause = re.search(r'"([^"]*(?:refused|reset|timed out|closed|dns)[^"]*)"', details)
    line = " ".join(_PATH.sub(r"\1", told).split())
    return (f"{line}: {cause[1]}" if cause else line)[:_TEXT_MAX]
