"""A store on a simulated machine with a key-value view on it."""

from __future__ import annotations

from strandline.store import Store
from strandline.view_config import KvConfig
from strandline.views.host import Host
from strandline.views.kv.fold import KvFold
from strandline.views.kv.kv import Kv
from strandline.views.views import Kind, Views
from tests.unit.store import world

NAME = "profiles"
KIND = Kind("kv", KvConfig, "kv", ("",), KvFold, lambda host, _: Kv(host))
World = world.World


def views_of(store: Store) -> Views:
    return store._views


def kv_of(store: Store, name: str = NAME, **options: object) -> Kv:
    found = views_of(store).open(KIND, name, options)
    assert isinstance(found, Kv)
    return found


def host_of(store: Store, name: str = NAME) -> Host[KvFold]:
    return views_of(store).shelf.host("kv", store.existing_topic(name))


def save(store: Store) -> None:
    """Make the views durable, so that records before may be let go."""
    views_of(store).shelf.save()


def rebuild(store: Store, name: str = NAME) -> None:
    views_of(store).rebuild(KIND, name)


def rebuilt_digest(store: Store, name: str = NAME) -> str:
    """What the view would be if it were folded from the log as it is now."""
    rebuild(store, name)
    return host_of(store, name).digest()
