"""Promise: a page of anybody cannot make a browser ask this server, also on loopback."""

from __future__ import annotations

import pytest

from strandline.api.errors import Refused
from strandline.server.auth.host_origin import HostPolicy, check_media, is_local_bind, split_host
from strandline.server.settings import ServerSettings, TlsSettings

OWN = "localhost:4000"


def gate_of(**settings: object) -> HostPolicy:
    return HostPolicy(ServerSettings(**settings))


def status_of(gate: HostPolicy, host: str | None, origin: str | None = None) -> int:
    try:
        gate.check(host, origin)
    except Refused as error:
        return error.wire_error.status
    return 200


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:4000", "LOCALHOST:8080", "127.0.0.1:4000", "[::1]:4000", "[::1]"],
)
def test_names_of_this_machine_are_good_with_any_port(host: str):
    assert status_of(gate_of(), host) == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:4000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example#localhost",
        "localhost@evil.example",
        "evil.example/localhost",
        "localhost, evil.example",
        "localhost:4000:80",
        "localhost:x",
        "[::1",
        "[::1]x",
        "10.0.0.1",
        "xn--localhost-",
        "2130706433",
        "0.0.0.0",
    ],
)
def test_any_other_name_is_refused(host: str | None):
    gate = gate_of()

    assert status_of(gate, host) == 421
    assert status_of(gate, host, "http://localhost:4000") == 421
    assert status_of(gate, host) == 421, "what was refused once is refused again"


def test_the_address_it_is_bound_to_and_names_in_the_settings_are_good():
    gate = gate_of(bind="192.0.2.1:4000", hosts=("db.example", "other.example:443"))

    assert status_of(gate, "192.0.2.1:4000") == 200
    assert status_of(gate, "DB.example:9999") == 200
    assert status_of(gate, "other.example:443") == 200
    assert status_of(gate, "other.example:444") == 421
    assert status_of(gate, "192.0.2.2:4000") == 421


def test_bound_to_all_addresses_it_may_be_asked_by_an_address_and_by_no_unknown_name():
    for bind in ("0.0.0.0:4000", "[::]:4000"):
        gate = gate_of(bind=bind)

        assert status_of(gate, "192.0.2.1:4000") == 200
        assert status_of(gate, "[2001:db8::1]:4000") == 200
        assert status_of(gate, "rebound.example:4000") == 421


def test_names_are_remembered_one_by_one():
    gate = gate_of()

    assert status_of(gate, "localhost") == 200
    assert status_of(gate, "evil.example") == 421
    assert status_of(gate, OWN, "http://localhost:4000") == 200
    assert status_of(gate, "127.0.0.1:4000", "http://localhost:4000") == 403


@pytest.mark.parametrize("origin", [None, "http://localhost:4000", "HTTPS://LocalHost:4000"])
def test_its_own_pages_and_those_who_are_no_page_may_ask(origin: str | None):
    assert status_of(gate_of(), OWN, origin) == 200


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:4000",
        "http://localhost:4000.evil.example",
        "http://evil.example/http://localhost:4000",
        "file://",
        "chrome-extension://localhost:4000",
        "localhost:4000",
    ],
)
def test_any_other_page_is_refused(origin: str):
    assert status_of(gate_of(), OWN, origin) == 403


def test_where_it_encrypts_only_pages_that_came_encrypted_are_its_own():
    gate = gate_of(tls=TlsSettings(certificate="c", key="k"))

    assert status_of(gate, OWN, "https://localhost:4000") == 200
    assert status_of(gate, OWN, "http://localhost:4000") == 403


def test_a_page_in_the_settings_may_ask_and_its_browser_is_told():
    gate = gate_of(origins=("https://app.example",))
    origin = "https://app.example"

    assert status_of(gate, OWN, origin) == 200
    assert gate.cors(origin)["access-control-allow-origin"] == origin
    assert "access-control-allow-methods" in gate.preflight(origin)
    assert "access-control-allow-credentials" not in gate.preflight(origin)
    assert gate.cors("https://evil.example") == gate.preflight("https://evil.example") == {}
    assert gate.cors(None) == {}


@pytest.mark.parametrize(
    "media_type",
    ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "", "text/json"],
)
def test_what_a_plain_form_can_send_is_no_body(media_type: str):
    with pytest.raises(Refused) as caught:
        check_media(("application/json",), media_type, has_body=True)

    assert caught.value.wire_error.status == 415


def test_no_body_needs_no_type_and_a_form_is_refused_even_when_empty():
    check_media(("application/json",), "", has_body=False)
    check_media(("application/json",), "application/json", has_body=True)

    with pytest.raises(Refused):
        check_media(("application/json",), "text/plain", has_body=False)


@pytest.mark.parametrize(
    ("bind", "local"),
    [
        ("127.0.0.1:4000", True),
        ("127.9.9.9:4000", True),
        ("[::1]:4000", True),
        ("localhost:4000", True),
        ("unix:/run/strandline.sock", True),
        ("0.0.0.0:4000", False),
        ("[::]:4000", False),
        (":4000", False),
        ("192.168.1.1:4000", False),
        ("my.localhost.example:4000", False),
        ("[::1", False),
    ],
)
def test_a_bind_is_local_when_nobody_else_can_reach_it(bind: str, local: bool):
    assert is_local_bind(bind) is local


def test_a_host_is_a_name_and_a_port():
    assert split_host("A.example:80") == ("a.example", "80")
    assert split_host("[2001:DB8::1]:80") == ("2001:db8::1", "80")
    assert split_host("a b") is None
