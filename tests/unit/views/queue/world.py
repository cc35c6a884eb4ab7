"""A store on a simulated machine with a queue on it."""

from __future__ import annotations

from strandline.store import Store
from strandline.topic.topic import Topic
from strandline.view_config import QueueConfig
from strandline.views.host import Host
from strandline.views.queue.fold import QueueFold
from strandline.views.queue.queue import Queue
from strandline.views.views import Kind, Views
from tests.unit.store import world

NAME = "jobs"
KIND = Kind(
    "queue",
    QueueConfig,
    "queue",
    ("", ":leases"),
    QueueFold,
    lambda host, companion: Queue(host, dead=lambda: companion(":dead")),
)
World = world.World


def views_of(store: Store) -> Views:
    return store._views


def queue_of(store: Store, name: str = NAME, **options: object) -> Queue:
    found = views_of(store).open(KIND, name, options)
    assert isinstance(found, Queue)
    return found


def host_of(store: Store, name: str = NAME) -> Host[QueueFold]:
    return views_of(store).shelf.host("queue", store.existing_topic(name))


def leases_of(store: Store, name: str = NAME) -> Topic:
    return store.existing_topic(f"{name}:leases")


def save(store: Store) -> None:
    """Make the views durable, so that records before may be let go."""
    views_of(store).shelf.save()


def rebuilt_digest(store: Store, name: str = NAME) -> str:
    """What the view would be if it were folded from the log as it is now."""
    views_of(store).rebuild(KIND, name)
    return host_of(store, name).digest()
