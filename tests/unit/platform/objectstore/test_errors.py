"""Promise: what an object store answers becomes the error that says what to do (O5)."""

from __future__ import annotations

import pytest
from obstore import exceptions

from strandline.errors import (
    Denied,
    Invalid,
    NoBucket,
    NotFound,
    Unavailable,
    UnfitStore,
    Unreachable,
)
from strandline.platform.objectstore.errors import failure, is_out_of_range

ANSWER = "Generic S3 error: Error performing GET https://host/b/k?X-Amz-Signature=sign in 3ms - "


def answered(status: int, code: str) -> exceptions.GenericError:
    body = f"<Error><Code>{code}</Code><Message>It said so.</Message></Error>"
    return exceptions.GenericError(
        f"{ANSWER}Server returned non-2xx status code: {status} Words: {body}\n\nDebug source:\n…"
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("Object at location k not found"), NotFound),
        (answered(404, "NoSuchKey"), NotFound),
        (answered(404, "NoSuchBucket"), NoBucket),
        (FileNotFoundError("… <Code>ContainerNotFound</Code>"), NoBucket),
        (answered(301, "PermanentRedirect"), NoBucket),
        (exceptions.PermissionDeniedError("403"), Denied),
        (exceptions.UnauthenticatedError("401"), Denied),
        (answered(403, "RequestTimeTooSkewed"), Denied),
        (answered(400, "ExpiredToken"), Denied),
        (answered(400, "RequestTimeout"), Unreachable),
        (answered(409, "OperationAborted"), Unreachable),
        (answered(429, "TooManyRequests"), Unreachable),
        (answered(500, "InternalError"), Unreachable),
        (answered(503, "SlowDown"), Unreachable),
        (exceptions.GenericError(f"{ANSWER}HTTP error: error sending request"), Unreachable),
        (OSError(5, "Input/output error"), Unreachable),
        (answered(400, "EntityTooLarge"), Unavailable),
        (answered(507, "InsufficientStorage"), Unreachable),
        (exceptions.NotSupportedError("no conditional put"), UnfitStore),
        (ValueError("Could not parse path"), Invalid),
    ],
)
def test_an_answer_becomes_the_error_that_says_what_to_do(error: Exception, kind: type):
    told = failure(error, "k", "s3://bucket/prefix")

    assert type(told) is kind
    assert "s3://bucket/prefix" in str(told)


def test_a_message_has_the_servers_own_word_and_no_signature():
    said = str(failure(answered(503, "SlowDown"), "k", "s3://b"))
    silent = str(failure(exceptions.GenericError(f"{ANSWER}HTTP error: gone"), "k", "s3://b"))

    assert "503 SlowDown: It said so." in said
    assert "HTTP error: gone" in silent
    assert not any("sign" in text.replace("signature", "") for text in (said, silent))


def test_a_range_behind_the_end_is_known():
    assert is_out_of_range(answered(416, "InvalidRange"))
    assert is_out_of_range(exceptions.GenericError("Invalid range: Wanted range starting at 7"))
    assert not is_out_of_range(answered(404, "NoSuchKey"))
