"""Promise: what an object store answers becomes the error that says what to do (O5)."""

from __future__ import annotations

import pytest
from obstore import exceptions

from strandline.errors import (
    BucketNotFound,
    Invalid,
    NotFound,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    Unavailable,
    UnsupportedObjectStore,
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
        (answered(404, "NoSuchBucket"), BucketNotFound),
        (FileNotFoundError("… <Code>ContainerNotFound</Code>"), BucketNotFound),
        (answered(301, "PermanentRedirect"), BucketNotFound),
        (exceptions.PermissionDeniedError("403"), ObjectStoreDenied),
        (exceptions.UnauthenticatedError("401"), ObjectStoreDenied),
        (answered(403, "RequestTimeTooSkewed"), ObjectStoreDenied),
        (answered(400, "ExpiredToken"), ObjectStoreDenied),
        (answered(400, "RequestTimeout"), ObjectStoreUnreachable),
        (answered(409, "OperationAborted"), ObjectStoreUnreachable),
        (answered(429, "TooManyRequests"), ObjectStoreUnreachable),
        (answered(500, "InternalError"), ObjectStoreUnreachable),
        (answered(503, "SlowDown"), ObjectStoreUnreachable),
        (
            exceptions.GenericError(f"{ANSWER}HTTP error: error sending request"),
            ObjectStoreUnreachable,
        ),
        (OSError(5, "Input/output error"), ObjectStoreUnreachable),
        (answered(400, "EntityTooLarge"), Unavailable),
        (answered(507, "InsufficientStorage"), ObjectStoreUnreachable),
        (exceptions.NotSupportedError("no conditional put"), UnsupportedObjectStore),
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
