"""A store on a simulated machine with a queue on it."""

from __future__ import annotations

from strandline.log.topic.topic import Topic
from strandline.store import Store
from strandline.views.queue.fold import QueueFold
from strandline.views.queue.queue import Queue
from strandline.views.view_runner import ViewRunner
from tests.unit.store import world

NAME = "jobs"
World = world.World


def queue_of(store: Store, name: str = NAME, **options: object) -> Queue:
    return store.queue(name, **options)


def host_of(store: Store, name: str = NAME) -> ViewRunner[QueueFold]:
    return store.views.registry.host("queue", store.existing_topic(name))


def leases_of(store: Store, name: str = NAME) -> Topic:
    return store.existing_topic(f"{name}:leases")


def save(store: Store) -> None:
    """Make the views durable, so that records before may be let go."""
    store.views.registry.save()


def rebuilt_digest(store: Store, name: str = NAME) -> str:
    """What the view would be if it were folded from the log as it is now."""
    store.rebuild("queue", name)
    return host_of(store, name).digest()
