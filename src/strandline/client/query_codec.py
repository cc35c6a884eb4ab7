"""Encodes the parameters of queries, and decodes their results. Pure.

``as_of`` is a position of a pipeline, a time, or the seqs of topics.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from strandline.client.request import Response
from strandline.client.result_codec import read_result
from strandline.errors import Invalid, ObjectStoreUnreachable
from strandline.query.execute.result import Result


def result_of(reply: Response) -> Result:
    """Decode the result of a command or of SQL."""
    try:
        return read_result(reply.content)
    except pa.ArrowInvalid as error:
        raise ObjectStoreUnreachable(
            f"this is not a response of a Strandline server: {error}"
        ) from error


def encode_params(
    params: Mapping[str, Any] | list[Any] | None,
) -> list[Any] | dict[str, Any] | None:
    """Encode the parameters of a query."""
    if params is None:
        return None
    if isinstance(params, Mapping):
        return {str(name): _value(value) for name, value in params.items()}
    if isinstance(params, list | tuple):
        return [_value(value) for value in params]
    raise Invalid(f"params are a list or a map, not {type(params).__name__}")


def encode_as_of(as_of: object) -> str | int | float | dict[str, int] | None:
    """Encode ``as_of`` for a request."""
    if hasattr(as_of, "encode") and not isinstance(as_of, str):
        as_of = as_of.encode()  # offsets of pipelines
    if isinstance(as_of, datetime):
        return (as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)).isoformat()
    if isinstance(as_of, Mapping):
        return {str(name): seq for name, seq in as_of.items()}
    if as_of is None or (isinstance(as_of, str | int | float) and not isinstance(as_of, bool)):
        return as_of
    kind = type(as_of).__name__
    raise Invalid(f"as_of is a time, a map of topics to seqs, or a position, not {kind}")


def _value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"$base64": b64encode(value).decode()}
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return {"$time": zoned.isoformat()}
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    return value
