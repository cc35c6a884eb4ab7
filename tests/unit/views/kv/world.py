"""A store on a simulated machine with a key-value view on it."""

from __future__ import annotations

from strandline.config.view_config import KvConfig
from strandline.store import Store
from strandline.views import view_types
from strandline.views.kv.fold import KvFold
from strandline.views.kv.kv import Kv
from strandline.views.view import FoldContext as Surroundings
from strandline.views.view_runner import ViewRunner
from tests.unit.store import world

NAME = "profiles"
World = world.World


def kv_of(store: Store, **options: object) -> Kv:
    return store.kv(NAME, **options)


def forgetful_kv_of(store: Store, ram_bytes: int, **options: object) -> Kv:
    """The same with so little memory that keys are put into maps and dropped all the time."""

    def fold(config: KvConfig, surroundings: Surroundings) -> KvFold:
        return KvFold(config, surroundings._replace(ram_bytes=ram_bytes, spill=None))

    found = store.views.open(view_types.KV._replace(fold=fold), NAME, options)
    assert isinstance(found, Kv)
    return found


def host_of(store: Store) -> ViewRunner[KvFold]:
    return store.views.registry.host("kv", store.existing_topic(NAME))


def save(store: Store) -> None:
    """Make the views durable, so that records before may be let go."""
    store.views.registry.save()


def digest(store: Store) -> str:
    return host_of(store).digest()


def rebuilt_digest(store: Store) -> str:
    """What the view would be if it were folded from the log as it is now."""
    store.rebuild("kv", NAME)
    return digest(store)
