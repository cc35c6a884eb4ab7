"""The document of all routes is a valid one, and what the server does is in it.

Requests are drawn from the document itself, proper ones and others, and sent to a running server:
no answer is a bug (5xx), none has a status, type or shape that the document does not have.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from strandline.api.error_codes import STATUS_OF
from strandline.errors import StrandlineError
from strandline.server.openapi import document
from strandline.server.route_table import ROUTES
from strandline.store import Store
from tests.campaigns import DRAWN_REQUESTS
from tests.server.running import Running, running

ENDLESS = "text/event-stream"
CHECKS = (
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)
TOPICS = ["log", "queue", "kv", "series", "metrics", "table", "absent"]
HTTP_ROUTES = [route for route in ROUTES if route.method != "WEBSOCKET"]
ASKED = [
    (route, mode)
    for route in HTTP_ROUTES
    for mode in GenerationMode
    if ENDLESS not in route.gives
    and "application/json" in route.takes
    and (mode is GenerationMode.POSITIVE or route.query is not None or route.body is not None)
]


def _nearer(schema: Any) -> Any:
    """The same document, with topics that are there, and waits of a few milliseconds at most."""
    if isinstance(schema, list):
        return [_nearer(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("in") == "path" and schema.get("name") == "topic":
        return {**schema, "schema": {"type": "string", "enum": TOPICS}}
    made = {name: _nearer(each) for name, each in schema.items()}
    for name, each in made.items():
        if name.startswith("wait") and isinstance(each, dict) and "type" in each:
            made[name] = {**each, "maximum": 5, "minimum": 0}
    return made


DOCUMENT = document(ROUTES)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    SCHEMA = openapi.from_dict(_nearer(DOCUMENT))
OPERATIONS = {
    (operation.ok().method.upper(), operation.ok().path): operation.ok()
    for operation in SCHEMA.get_all_operations()
    if isinstance(operation, Ok)
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("openapi"), tokens={"root": "all"}) as started:
        yield started


def test_the_document_is_a_valid_one():
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_route_is_in_the_document():
    assert set(OPERATIONS) == {(route.method, route.path) for route in HTTP_ROUTES}


def test_every_operation_has_a_name_of_its_own():
    names = [each["operationId"] for path in DOCUMENT["paths"].values() for each in path.values()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("route", HTTP_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_error_of_a_route_is_in_its_operation(route):
    told = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]

    for code in route.errors:
        assert code in told[str(STATUS_OF[code])]["description"]
    assert {str(status) for status in route.answers} <= set(told)


def test_the_server_tells_the_document(server):
    told = httpx2.get(f"{server.url}/v0/openapi.json").json()

    assert told.pop("performance")
    assert told == DOCUMENT


@pytest.mark.parametrize(
    ("route", "mode"),
    ASKED,
    ids=[f"{route.method} {route.path} {mode.value}" for route, mode in ASKED],
)
def test_what_a_route_answers_is_in_the_document(server, route, mode):
    operation = OPERATIONS[route.method, route.path]
    headers = {"authorization": f"Bearer {server.tokens['root']}"}
    _furnish(server.store)

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=DRAWN_REQUESTS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        response = case.call(base_url=server.url, headers=headers, timeout=30)
        case.validate_response(response, checks=CHECKS)

    ask()


def _furnish(store: Store) -> None:
    """See to it that there is a topic of every kind, also when the last test deleted it."""
    store.topic("log").append(b"{}", tag="t", key=b"k")
    store.queue("queue").put(b"{}")
    store.kv("kv").put("k", b"{}")
    store.series("series").append("s", 1, b"{}")
    store.metrics("metrics").write_lines("m,tag=t field=1 1000")
    with contextlib.suppress(StrandlineError):  # another definition is fine, too
        store.table("table").define({"id": "int"}, new=True)
