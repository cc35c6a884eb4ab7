"""Promise: one token, or one address, cannot take what belongs to all; counting is bounded."""

from __future__ import annotations

import pytest

from strandline.api.errors import Refused
from strandline.security.principal import LOCAL, Principal
from strandline.server.limits import rate_limits as module
from strandline.server.limits.rate_limits import RateBucket, RateLimits, is_loopback, network_of
from strandline.server.settings import RequestLimits
from strandline.testing.sim_clock import SimClock

ADA, BOB = Principal(id="ada"), Principal(id="bob")
HERE = "127.0.0.1"


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


def quotas_of(clock: SimClock, **limits: object) -> RateLimits:
    return RateLimits(RequestLimits(**limits), clock)


def limit_of(work) -> str:
    with pytest.raises(Refused) as caught:
        work()
    problem = caught.value.wire_error
    assert (problem.status, problem.code) == (429, "throttled")
    assert problem.retry_after_s > 0
    return problem.detail["limit"]


def test_requests_in_flight_are_bounded_for_each_token(clock: SimClock):
    quotas = quotas_of(clock, in_flight_per_token_max=2)
    quotas.start_request(ADA, HERE)
    quotas.start_request(ADA, HERE)

    assert limit_of(lambda: quotas.start_request(ADA, HERE)) == "in_flight_per_token_max"
    quotas.start_request(BOB, HERE)
    quotas.end_request(ADA, HERE)
    quotas.start_request(ADA, HERE)


def test_requests_per_second_are_bounded_and_come_back_with_time(clock: SimClock):
    quotas = quotas_of(clock, requests_per_s=2.0)
    for _ in range(2):
        quotas.start_request(ADA, HERE)
        quotas.end_request(ADA, HERE)

    assert limit_of(lambda: quotas.start_request(ADA, HERE)) == "requests_per_s"
    quotas.start_request(BOB, HERE)
    clock.advance(0.5)
    quotas.start_request(ADA, HERE)


def test_bytes_per_second_are_bounded_and_come_back_with_time(clock: SimClock):
    quotas = quotas_of(clock, bytes_per_s=100.0)
    quotas.start_request(ADA, HERE, 250)  # all at once, and then it is waited for
    quotas.end_request(ADA, HERE)

    assert limit_of(lambda: quotas.start_request(ADA, HERE)) == "bytes_per_s"
    assert limit_of(lambda: quotas.count_message(ADA, HERE, 1)) == "bytes_per_s"
    quotas.start_request(BOB, HERE, 1)
    clock.advance(1.49)
    assert limit_of(lambda: quotas.start_request(ADA, HERE)) == "bytes_per_s"
    clock.advance(0.02)
    quotas.start_request(ADA, HERE)
    quotas.count_bytes(ADA, HERE, 100)
    assert limit_of(lambda: quotas.start_request(ADA, HERE)) == "bytes_per_s"


def test_where_bytes_or_requests_are_counted_nothing_passes_by(clock: SimClock):
    for limits in ({"bytes_per_s": 10.0}, {"requests_per_s": 10.0}):
        assert not quotas_of(clock, **limits).has_room(ADA, HERE)

    quotas = quotas_of(clock, in_flight_per_token_max=1)
    assert quotas.has_room(ADA, HERE)
    quotas.start_request(ADA, HERE)
    assert not quotas.has_room(ADA, HERE)
    assert quotas.has_room(BOB, HERE)


def test_bytes_without_tokens_are_those_of_the_address(clock: SimClock):
    quotas = quotas_of(clock, bytes_per_s=100.0)
    quotas.start_request(LOCAL, "127.0.0.1", 250)

    limit_of(lambda: quotas.start_request(LOCAL, "127.0.0.1"))
    quotas.start_request(LOCAL, "127.0.0.2")


def test_without_tokens_the_address_counts(clock: SimClock):
    quotas = quotas_of(clock, in_flight_per_token_max=1)
    quotas.start_request(LOCAL, "127.0.0.1")

    limit_of(lambda: quotas.start_request(LOCAL, "127.0.0.1"))
    quotas.start_request(LOCAL, "127.0.0.2")


def test_streams_are_bounded_for_each_token_and_for_all(clock: SimClock):
    quotas = quotas_of(clock, streams_per_token_max=2, streams_max=3)
    quotas.open_stream(ADA)
    quotas.open_stream(ADA)

    assert limit_of(lambda: quotas.open_stream(ADA)) == "streams_per_token_max"
    quotas.open_stream(BOB)
    assert limit_of(lambda: quotas.open_stream(BOB)) == "streams_max"
    quotas.close_stream(ADA)
    quotas.open_stream(BOB)


def test_what_is_over_is_not_remembered(clock: SimClock):
    quotas = quotas_of(clock)
    for number in range(100):
        who = Principal(id=str(number))
        quotas.start_request(who, HERE)
        quotas.open_stream(who)
        quotas.end_request(who, HERE)
        quotas.close_stream(who)

    assert (len(quotas._in_flight), len(quotas._streams)) == (0, 0)


def test_whoever_comes_from_many_addresses_does_not_fill_the_memory(clock, monkeypatch):
    monkeypatch.setattr(module, "COUNTED_MAX", 10)
    bucket = RateBucket(1.0, 1, clock.monotonic)

    for number in range(1000):
        bucket.add(str(number))

    assert len(bucket._levels) == 10
    assert bucket.wait_s("999") > 0


def test_a_bucket_leaks_with_time(clock: SimClock):
    bucket = RateBucket(10 / 60, 10, clock.monotonic)
    for _ in range(10):
        assert bucket.wait_s("a") == 0
        bucket.add("a")

    assert bucket.wait_s("a") == pytest.approx(6)
    clock.advance(6)
    assert bucket.wait_s("a") == pytest.approx(0)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_addresses_of_ipv6_count_by_their_first_half(address: str, network: str):
    assert network_of(address) == network


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", ""])
def test_this_machine_is_known(address: str):
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["192.168.0.1", "::2", "::ffff:10.0.0.1", "localhost", "x"])
def test_others_are_others(address: str):
    assert not is_loopback(address)
