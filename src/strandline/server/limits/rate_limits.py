"""Rate limits for one token or one address: requests, bytes, streams, wrong tokens.

Every count has a bound, and so has the number of counts: a client with many addresses evicts the
oldest counts and does not exhaust memory. IPv6 addresses count by their first 64 bits, which is the
network of one customer.
"""

from __future__ import annotations

import functools
import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable

from strandline.api.errors import Refused
from strandline.platform.clock import Clock
from strandline.security.principal import Principal
from strandline.server.settings import RequestLimits

COUNTED_MAX = 100_000
_MINUTE_S = 60.0
_KNOWN_MAX = 4096


class RateBucket:
    """A leaky bucket: ``burst`` at once, ``rate`` per second. Safe from many threads."""

    def __init__(self, rate: float, burst: float, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """Seconds until there is room for one more; 0 when there is."""
        over = self._level(key) + 1 - self._burst
        return max(0.0, over / self._rate)

    def debt_s(self, key: str) -> float:
        """Seconds until the level is within the burst; 0 when it is."""
        return max(0.0, (self._level(key) - self._burst) / self._rate)

    def add(self, key: str, amount: float = 1) -> None:
        """Add an amount to the level."""
        with self._lock:
            self._levels[key] = (self._level(key) + amount, self._monotonic())
            self._levels.move_to_end(key)
            while len(self._levels) > COUNTED_MAX:
                self._levels.popitem(last=False)

    def _level(self, key: str) -> float:
        level, at = self._levels.get(key, (0.0, 0.0))
        return max(0.0, level - (self._monotonic() - at) * self._rate)


class RateLimits:
    """Present use of each client. Owned by the loop's thread."""

    def __init__(self, limits: RequestLimits, clock: Clock) -> None:
        self._limits = limits
        self._in_flight: dict[str, int] = {}
        self._streams: dict[str, int] = {}
        self._streams_open = 0
        rate = limits.requests_per_s
        self._requests = RateBucket(rate, max(rate, 1.0), clock.monotonic) if rate else None
        rate = limits.bytes_per_s
        self._bytes = RateBucket(rate, rate, clock.monotonic) if rate else None
        failures = limits.failures_per_minute
        self.failures = RateBucket(failures / _MINUTE_S, failures, clock.monotonic)
        """Wrong tokens, by address."""

    def start_request(self, who: Principal, address: str, size: int = 0) -> None:
        """Count a request; 429 above a limit. The caller must call ``end``."""
        key = client_of(who, address)
        if self._bytes is not None:
            self._admit_bytes(self._bytes, key)
        if self._requests is not None:
            wait_s = self._requests.wait_s(key)
            if wait_s > 0:
                raise rate_error("requests_per_s", self._limits.requests_per_s, wait_s)
            self._requests.add(key)
        count = self._in_flight.get(key, 0)
        if count >= self._limits.in_flight_per_token_max:
            raise rate_error("in_flight_per_token_max", self._limits.in_flight_per_token_max)
        self._in_flight[key] = count + 1
        if size and self._bytes is not None:
            self._bytes.add(key, size)

    def count_message(self, who: Principal, address: str, size: int) -> None:
        """Count a message on an open stream; 429 above the byte limit."""
        if self._bytes is not None:
            key = client_of(who, address)
            self._admit_bytes(self._bytes, key)
            self._bytes.add(key, size)

    def count_bytes(self, who: Principal, address: str, size: int) -> None:
        """Count received or sent bytes."""
        if self._bytes is not None:
            self._bytes.add(client_of(who, address), size)

    def _admit_bytes(self, bucket: RateBucket, key: str) -> None:
        wait_s = bucket.debt_s(key)
        if wait_s > 0:
            raise rate_error("bytes_per_s", self._limits.bytes_per_s, wait_s)

    @property
    def counts_bytes(self) -> bool:
        """Whether bytes of messages are counted."""
        return self._bytes is not None

    def has_room(self, who: Principal, address: str) -> bool:
        """Whether a request that is handled without waiting need not be counted."""
        if self._requests is not None or self._bytes is not None:
            return False
        key = network_of(address) if who.kind == "local" else who.id
        return self._in_flight.get(key, 0) < self._limits.in_flight_per_token_max

    def end_request(self, who: Principal, address: str) -> None:
        """End a request that ``begin`` counted."""
        _decrement(self._in_flight, client_of(who, address))

    def open_stream(self, who: Principal) -> None:
        """Count a stream; 429 above a limit. The caller must call ``close_stream``."""
        limits = self._limits
        if self._streams_open >= limits.streams_max:
            raise rate_error("streams_max", limits.streams_max)
        count = self._streams.get(who.id, 0)
        if count >= limits.streams_per_token_max:
            raise rate_error("streams_per_token_max", limits.streams_per_token_max)
        self._streams[who.id] = count + 1
        self._streams_open += 1

    def close_stream(self, who: Principal) -> None:
        _decrement(self._streams, who.id)
        self._streams_open -= 1


@functools.lru_cache(maxsize=_KNOWN_MAX)
def network_of(address: str) -> str:
    """The part of an address that is counted: all of it, or the first half of an IPv6 address."""
    return _network(address)


@functools.lru_cache(maxsize=_KNOWN_MAX)
def is_loopback(address: str) -> bool:
    """Whether a peer is on this machine; an empty address is a Unix socket."""
    if not address:
        return True
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))


def client_of(who: Principal, address: str) -> str:
    """The key that a request counts under."""
    return network_of(address) if who.kind == "local" else who.id


def _decrement(counts: dict[str, int], key: str) -> None:
    # Plain dicts: a Counter would take a tenth of the time of an append.
    count = counts[key] - 1
    if count:
        counts[key] = count
    else:
        del counts[key]


def rate_error(limit: str, limit_max: float, wait_s: float = 1.0) -> Refused:
    """The 429 error with the limit."""
    return Refused(
        429,
        "throttled",
        f"more than {limit} ({limit_max:g}): retry later",
        detail={"limit": limit, "max": limit_max, "retry_after_ms": round(wait_s * 1000)},
        retry_after_s=wait_s,
    )
