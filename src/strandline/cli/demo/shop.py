"""The shop of the demo: data at the start, and new data until it is stopped.

Everything goes through the client, as in any other program.
"""

from __future__ import annotations

import random
import threading
from typing import Protocol

from strandline.cli.demo.shop_data import COURIERS, CUSTOMERS, ORDER_SCHEMA, WORKERS, Shop
from strandline.errors import StrandlineError
from strandline.platform.clock import Clock
from strandline.store import Store

_SEED = 7
_ORDERS, _VIEWS, _CHECKOUTS, _POINTS, _MAILS = 2000, 5000, 1500, 120, 40
_BATCH = 1000
_STEP_S = 0.25
_SECOND_US = 1_000_000


class Opener(Protocol):
    """Opens a store for each thread."""

    def __call__(self) -> Store: ...


def fill(store: Store, clock: Clock) -> int:
    """Put the data of a first day into an empty store; the number of records."""
    shop = Shop(_SEED)
    orders = store.topic("orders", schema=ORDER_SCHEMA)
    if orders.head_seq:
        return 0
    for _ in range(0, _ORDERS, _BATCH):
        batch = [shop.order() for _ in range(_BATCH)]
        orders.append_many(
            [each.data for each in batch],
            keys=[each.key for each in batch],
            tags=[each.tag for each in batch],
        )
    views = store.topic("page-views")
    for _ in range(0, _VIEWS, _BATCH):
        page_views = [shop.view() for _ in range(_BATCH)]
        views.append_many(
            [page for _, page in page_views], keys=[visitor for visitor, _ in page_views]
        )
    profiles = dict(shop.profile(number) for number in range(CUSTOMERS))
    store.kv("profiles", history=5).put_many(profiles)
    store.queue("mails", deliveries_max=3).put_many([shop.mail() for _ in range(_MAILS)])
    _track(store, shop, clock)
    _checkouts(store, shop)
    return _ORDERS + _VIEWS + CUSTOMERS + _MAILS + _POINTS * len(COURIERS) + _CHECKOUTS


def _track(store: Store, shop: Shop, clock: Clock) -> None:
    now = clock.now_us()
    points = [
        (courier.encode(), now - (_POINTS - step) * _SECOND_US, shop.move(courier))
        for step in range(_POINTS)
        for courier in COURIERS
    ]
    store.series("gps").append_many(points)


def _checkouts(store: Store, shop: Shop) -> None:
    store.run('DEFINE checkout FIELDS {step: ["cart","address","payment","done"], amount: "f64"}')
    checkouts = [shop.checkout() for _ in range(_CHECKOUTS)]
    table = store.table("checkout")
    table.store_many([customer for customer, _ in checkouts], [event for _, event in checkouts])
    store.run("REMEMBER QUERY checkout COUNT, TOTAL amount BY step AS funnel")


class _Business:
    """The data of one step of the shop. Owned by one thread."""

    def __init__(self, store: Store, shop: Shop, clock: Clock) -> None:
        self._shop = shop
        self._clock = clock
        self._orders, self._views = store.topic("orders"), store.topic("page-views")
        self._gps, self._profiles = store.series("gps"), store.kv("profiles")
        self._mails, self._checkouts = store.queue("mails"), store.table("checkout")

    def write_step(self, number: int) -> None:
        shop = self._shop
        order = shop.order()
        self._orders.append(order.data, key=order.key.encode(), tag=order.tag)
        page_views = [shop.view() for _ in range(3)]
        self._views.append_many(
            [page for _, page in page_views], keys=[visitor for visitor, _ in page_views]
        )
        courier = COURIERS[number % len(COURIERS)]
        self._gps.append(courier.encode(), self._clock.now_us(), shop.move(courier))
        self._profiles.put(*shop.profile(number % CUSTOMERS))
        self._mails.put(shop.mail())
        self._checkouts.store(*shop.checkout())


class DemoFeed:
    """New data a few times a second, and two workers of the queue.

    ``start`` and ``stop`` are for one thread.
    """

    def __init__(self, opener: Opener, clock: Clock) -> None:
        self._opener = opener
        self._clock = clock
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._sell, name="shop", daemon=True)]
        self._threads += [
            threading.Thread(target=self._work, args=(name,), name=name, daemon=True)
            for name in WORKERS
        ]
        self.orders = 0
        self.mails = 0
        self.error = ""
        """The error that ended a thread, if any."""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every thread finish its step, and join it."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _sell(self) -> None:
        shop = Shop(random.SystemRandom().randrange(1 << 32))
        try:
            with self._opener() as store:
                business = _Business(store, shop, self._clock)
                while not self._stopped.wait(_STEP_S):
                    business.write_step(self.orders)
                    self.orders += 1
        except StrandlineError as error:
            self.error = str(error)

    def _work(self, name: str) -> None:
        shop = Shop(len(name))
        try:
            with self._opener() as store:
                queue = store.queue("mails")
                while not self._stopped.is_set():
                    for job in queue.claim(5, worker=name, wait_s=0.5):
                        if shop.fails():
                            queue.nack(job, delay=1.0)
                        elif queue.ack(job):
                            self.mails += 1
        except StrandlineError as error:
            self.error = str(error)
