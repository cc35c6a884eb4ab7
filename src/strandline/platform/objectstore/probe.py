"""Checks that an object store creates objects atomically. Runs once, when a store is opened.

The order of versions in the lake relies on one guarantee: of several creators of one name exactly
one succeeds, and every reader then reads the object of the winner. Some stores and gateways accept
the request and ignore the condition, so the guarantee is tested: first one after another, then
concurrently.
"""

from __future__ import annotations

import os
import threading

from strandline.errors import ObjectExists, Unavailable, UnsupportedObjectStore
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.system_errors import NO_THREADS
from strandline.platform.thread_pool import ThreadPool

PROBES = "probe"
RACERS = 8
ROUNDS = 3


def probe(objects: Objects, *, racers: int = RACERS, rounds: int = ROUNDS) -> None:
    """Return if the store keeps the guarantee; raise ``UnsupportedObjectStore`` if it does not."""
    name = os.urandom(16).hex()
    keys = [f"{PROBES}/{name}-{number}" for number in range(rounds + 1)]
    try:
        _create_twice(objects, keys[0])
        for key in keys[1:]:
            _create_concurrently(objects, key, racers)
        if not {info.key for info in objects.list(PROBES)}.issuperset(keys):
            raise _unfit(objects, "a listing does not show objects that were just written")
    except UnsupportedObjectStore:
        objects.delete(keys)
        raise
    objects.delete(keys)


def _create_twice(objects: Objects, key: str) -> None:
    first, second = _body(), _body()
    objects.create(key, first)
    try:
        objects.create(key, second)
    except ObjectExists:
        pass
    else:
        raise _unfit(objects, "it created one object twice")
    if objects.get(key) != first:
        raise _unfit(objects, "a rejected creation changed the object")


def _create_concurrently(objects: Objects, key: str, racers: int) -> None:
    start = threading.Barrier(racers)

    def race(body: bytes) -> bytes | None:
        start.wait()
        try:
            objects.create(key, body)
        except ObjectExists:
            return None
        return body

    with ThreadPool(racers, "strandline-probe") as pool:
        futures = [pool.try_submit(race, _body()) for _ in range(racers)]
        if None in futures:
            start.abort()
            raise Unavailable(
                f"cannot start {racers} threads to check {objects.name}: {NO_THREADS}"
            )
        winners = [body for future in futures if future is not None and (body := future.result())]
    if len(winners) != 1:
        raise _unfit(objects, f"{len(winners)} of {racers} concurrent creators succeeded")
    if objects.get(key) != winners[0]:
        raise _unfit(objects, "the object is not the one of the creator that succeeded")


def _body() -> bytes:
    return os.urandom(32)


def _unfit(objects: Objects, what: str) -> UnsupportedObjectStore:
    return UnsupportedObjectStore(
        f"{objects.name} does not create objects safely: {what}. "
        "Two writers could both commit; use another store"
    )
