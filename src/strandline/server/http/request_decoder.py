"""Decodes query and body to the types of their route. Errors name the field."""

from __future__ import annotations

import functools
import re
from typing import Any, get_origin
from urllib.parse import parse_qsl

import msgspec

from strandline.api.errors import Refused
from strandline.api.json_limits import check_json
from strandline.server.http.route import Route

JSON = "application/json"
_FIELD_PATH = re.compile(r" - at `(.*)`$")
_FIELDS_MAX = 100


def query_of(route: Route, query_string: bytes) -> Any:
    """The query parameters, decoded to the route's ``query`` type."""
    fields = _parameters(query_string) if query_string else {}
    if "text/event-stream" in route.gives or route.method == "WEBSOCKET":
        fields.pop("token", None)  # a ticket, checked during authentication
    if route.query is None:
        if fields:
            raise invalid(f"this route takes no query: remove {min(fields)!r}")
        return None
    lists = _list_fields(route.query)
    plain = {
        name: values if name in lists else _single(name, values) for name, values in fields.items()
    }
    try:
        return msgspec.convert(plain, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise _decode_error(error, "query") from error


def body_of(route: Route, raw: bytes, depth_max: int) -> Any:
    """The JSON body, decoded. An empty body counts as an empty object."""
    return decode(raw or b"{}", _decoder(route.body), depth_max)


def decode(raw: bytes, decoder: msgspec.json.Decoder[Any], depth_max: int) -> Any:
    """JSON text, decoded to the decoder's type."""
    check_json(raw, depth_max)
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise body_error(error) from error
    except RecursionError as error:
        raise invalid("the body is nested too deep") from error


def body_error(error: msgspec.DecodeError) -> Refused:
    """The error for a body that does not decode."""
    return _decode_error(error, "body")


def invalid(message: str, **detail: object) -> Refused:
    return Refused(400, "invalid_request", message, detail=dict(detail))


def _decode_error(error: msgspec.DecodeError, where: str) -> Refused:
    text = str(error)
    path = _FIELD_PATH.search(text)
    if path is None:
        return invalid(f"{where}: {text}")
    return invalid(f"{where}: {text[: path.start()]}", at=path.group(1))


def _parameters(query_string: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_FIELDS_MAX,
            errors="strict",
        )
    except (UnicodeDecodeError, ValueError) as error:
        raise invalid("the query string is malformed") from error
    values_by_name: dict[str, list[str]] = {}
    for name, value in pairs:
        values_by_name.setdefault(name, []).append(value)
    return values_by_name


def _single(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise invalid(f"{name!r} occurs {len(values)} times: send it once")
    return values[0]


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@functools.cache
def _list_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    fields = msgspec.structs.fields(kind)
    return frozenset(
        field.encode_name for field in fields if get_origin(field.type) in (list, tuple)
    )
