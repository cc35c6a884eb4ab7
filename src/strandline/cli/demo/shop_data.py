"""Data of the shop of the demo: orders, page views, profiles, couriers, checkouts. Pure.

Generated from a seed, so that two demos start alike.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec

CUSTOMERS = 200
COURIERS = ("bike-1", "bike-2", "van-7")
WORKERS = ("ada", "grace")
COUNTRIES = ("de", "fr", "it", "nl", "pl", "us", "jp")
ITEMS = {"tea": 3.2, "coffee": 4.5, "cake": 5.9, "mug": 12.0, "kettle": 39.0, "grinder": 59.0}
PAGES = ("/", "/tea", "/coffee", "/cake", "/mug", "/cart", "/pay")
STEPS = ("cart", "address", "payment", "done")
ORDER_SCHEMA = {"customer": "string", "item": "string", "pieces": "u64", "price": "f64"}
_LATITUDE, _LONGITUDE = 48.137, 11.575
_STEP = 0.0008


class DemoOrder(NamedTuple):
    """A record of the topic ``orders``."""

    key: str
    tag: str
    data: bytes


class Shop:
    """Generates the next events. Owned by one thread."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - example data
        self._positions = dict.fromkeys(COURIERS, (_LATITUDE, _LONGITUDE))

    def customer(self) -> str:
        """A customer; some occur more often than others."""
        return f"c{int(CUSTOMERS * self._random.random() ** 2):03d}"

    def order(self) -> DemoOrder:
        item = self._random.choice(list(ITEMS))
        customer = self.customer()
        data = {
            "customer": customer,
            "item": item,
            "pieces": self._random.randint(1, 4),
            "price": ITEMS[item],
        }
        country = COUNTRIES[int(customer[1:]) % len(COUNTRIES)]
        return DemoOrder(customer, country, msgspec.json.encode(data))

    def view(self) -> tuple[str, bytes]:
        """A visitor and a page view."""
        visitor = self.customer()
        page = {"page": self._random.choice(PAGES), "ms": self._random.randint(20, 900)}
        return visitor, msgspec.json.encode(page)

    def profile(self, number: int) -> tuple[bytes | str, bytes]:
        country = COUNTRIES[number % len(COUNTRIES)]
        profile = {"name": f"Customer {number}", "country": country, "points": number % 50}
        return f"c{number:03d}", msgspec.json.encode(profile)

    def move(self, courier: str) -> bytes:
        """The next position of a courier."""
        latitude, longitude = self._positions[courier]
        position = (
            round(latitude + self._random.uniform(-_STEP, _STEP), 6),
            round(longitude + self._random.uniform(-_STEP, _STEP), 6),
        )
        self._positions[courier] = position
        return msgspec.json.encode({"lat": position[0], "lon": position[1]})

    def checkout(self) -> tuple[str, dict[str, object]]:
        """A customer and the last step of the checkout."""
        step = self._random.choices(STEPS, weights=(8, 4, 3, 2))[0]
        amount = round(self._random.uniform(3, 120), 2)
        return self.customer(), {"step": step, "amount": amount}

    def mail(self) -> bytes:
        return msgspec.json.encode({"to": self.customer(), "what": "your order is on its way"})

    def fails(self) -> bool:
        """Whether a worker fails at a job, at random."""
        return self._random.random() < 0.02
