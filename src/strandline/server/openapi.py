"""The OpenAPI 3.1 document, generated from the table of routes. Other paths are not served.

Every type of a response is a component; every possible status is included, with its error codes:
those of the route, and those of every route.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET

from strandline.api.error_codes import STATUS_OF, ErrorBody
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route

_NAME = re.compile(r"\{(\w+)\}")
_ALWAYS = (
    "invalid_request",
    "unauthorized",
    "forbidden",
    "not_acceptable",
    "payload_too_large",
    "unsupported_media_type",
    "misdirected_request",
    "throttled",
    "headers_too_large",
    "internal",
    "not_ready",
    "shutting_down",
    "unavailable",
    "overloaded",
)
"""Error codes that every route may return."""
_TEXT = {"type": "string", "minLength": 1}
_PATH_SCHEMAS = {
    "topic": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$"},
}
_REF = "#/components/schemas/{name}"


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document of these routes."""
    routes = [route for route in routes if route.method != "WEBSOCKET"]
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    unencoded = {
        "openapi": "3.1.0",
        "info": {
            "title": "Strandline",
            "version": importlib.metadata.version("strandline"),
            "summary": "One durable log, every view of it",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Performance": _PERFORMANCE},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "user": {"type": "http", "scheme": "basic"},
            },
        },
    }
    encoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(unencoded))
    return encoded


_PERFORMANCE = {
    "type": "object",
    "description": "Timings and counts of the request.",
    "additionalProperties": {"type": "number"},
    "properties": {
        "server_total_ms": {"type": "number"},
        "wal_append_ms": {
            "type": "number",
            "description": "Time until a waiting append was in the log.",
        },
        "fsync_ms": {"type": "number", "description": "Time from then until it was durable."},
        "throttle_wait_ms": {
            "type": "number",
            "description": "The most of fsync_ms that load shedding added.",
        },
        "records_scanned": {"type": "number", "description": "Records that a read scanned."},
    },
}


def _types(routes: Iterable[Route]) -> list[Any]:
    found: dict[Any, Any] = {_key(ErrorBody): ErrorBody}
    for route in routes:
        for kind in (route.body, *route.answers.values(), *_query_types(route)):
            if kind is not None:
                found.setdefault(_key(kind), kind)
    return list(found.values())


def _key(kind: Any) -> Any:
    return repr(kind)


def _query_types(route: Route) -> list[Any]:
    if route.query is None:
        return []
    return [field.type for field in msgspec.structs.fields(route.query)]


def _operation(route: Route, by_type: Mapping[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "tags": [_tag(route.path)],
        "parameters": [*_path_parameters(route), *_query_parameters(route, by_type)],
        "responses": _responses(route, by_type),
        "security": [{}] if route.is_public else [{"token": []}, {"user": []}, {}],
    }
    if route.needs:
        needs = [f"{need.action} on {need.parameter or 'the server'}" for need in route.needs]
        operation["description"] = f"Needs {', '.join(needs)}."
    if route.body is not None:
        operation["requestBody"] = {
            "required": bool(_required(route.body)),
            "content": {
                media_type: {"schema": by_type[_key(route.body)]} if _is_json(media_type) else {}
                for media_type in route.takes
            },
        }
    return operation


def _responses(route: Route, by_type: Mapping[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in sorted(route.answers.items()):
        content = {}
        for media_type in route.gives:
            if _is_json(media_type) and kind is not None:
                content[media_type] = {"schema": _with_performance(by_type[_key(kind)])}
            else:
                content[media_type] = {}
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    for status, codes in sorted(_errors(route).items()):
        responses[str(status)] = {
            "description": ", ".join(sorted(codes)),
            "content": {"application/json": {"schema": by_type[_key(ErrorBody)]}},
        }
    return responses


def _with_performance(schema: dict[str, Any]) -> dict[str, Any]:
    performance = {"$ref": _REF.format(name="Performance")}
    return {
        "allOf": [schema, {"type": "object", "properties": {"performance": performance}}],
    }


def _errors(route: Route) -> dict[int, set[str]]:
    by_status: dict[int, set[str]] = {}
    for code in (*_ALWAYS, *route.errors):
        by_status.setdefault(STATUS_OF[code], set()).add(code)
    return by_status


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_SCHEMAS.get(name, _TEXT)}
        for name in _NAME.findall(route.path)
    ]


def _query_parameters(route: Route, by_type: Mapping[Any, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    parameters = []
    for field in msgspec.structs.fields(route.query):
        schema = dict(by_type[_key(field.type)])
        if field.default not in (msgspec.NODEFAULT, UNSET, None):
            schema["default"] = msgspec.to_builtins(field.default)
        parameters.append(
            {
                "name": field.encode_name,
                "in": "query",
                "required": field.required,
                "schema": schema,
            }
        )
    return parameters


def _operation_id(route: Route) -> str:
    path = _NAME.sub(r"\1", route.path.removeprefix("/v0")).strip("/")
    return f"{route.method.lower()}_{re.sub(r'[^A-Za-z0-9]+', '_', path)}"


def _tag(path: str) -> str:
    return path.removeprefix("/v0").strip("/").partition("/")[0]


def _is_json(media_type: str) -> bool:
    return media_type == "application/json"


def _required(kind: Any) -> bool:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return True
    return any(field.required for field in msgspec.structs.fields(kind))


def routes_with_document(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """These routes, and one that returns their document."""
    encoded: list[bytes] = []

    async def openapi(call: RequestContext) -> JsonResponse:
        """Return the document of all routes."""
        del call
        if not encoded:
            encoded.append(msgspec.json.encode(document(all_routes)))
        return JsonResponse(encoded[0])

    all_routes = (
        *routes,
        Route(
            method="GET",
            path="/v0/openapi.json",
            handler=openapi,
            needs=OPEN,
            is_public=True,
            summary="Get this document.",
            answers={200: dict[str, Any]},
        ),
    )
    return all_routes
