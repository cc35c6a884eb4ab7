"""Promise: a definition that a crash interrupts is there whole or not at all, and its name stays
usable: it can be shown, removed and made again.

Each command runs on a store of its own. Before every call of the disk the process is killed, or the
power fails, in imagination; each disk that is left is opened. What is shown then is what was shown
before the command or after it. Then the definition is removed and made again.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from strandline.config.settings import Settings, SpaceSettings, WalSettings
from strandline.errors import Invalid, NotFound, StrandlineError
from strandline.security.scopes import parse
from strandline.security.token_store import TokenStore
from strandline.store import Store
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

PATH = "/data"
SETTINGS = Settings(
    wal=WalSettings(shards=2, file_size_first=64 * 1024, file_size_max=256 * 1024),
    space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
)
FIELDS = '{ "n": "i64" }'


class Definition(NamedTuple):
    """A command that defines something, with the commands around it."""

    make: Callable[[Store], object]
    show: Callable[[Store], object]
    """What is there of it; None when nothing is."""
    remove: Callable[[Store], object]
    given: Callable[[Store], object] = lambda store: None
    """What has to be there before."""
    alter: Callable[[Store], object] | None = None
    is_one_step: bool = True
    """Whether ``make`` is one command; else only its removal is tested."""
    is_used_once: bool = False
    """Whether a name that was removed stays taken."""


def _config(name: str) -> Callable[[Store], object]:
    def show(store: Store) -> object:
        return store.existing_topic(name).config if name in store.topics() else None

    return show


def _drop(name: str) -> Callable[[Store], object]:
    return lambda store: store.delete_topic(name)


def _run(text: str) -> Callable[[Store], object]:
    return lambda store: store.run(text)


def _event(store: Store) -> object:
    if ("table", "pay") not in store.views.names():
        return None
    return store.table("pay").schema if store.table("pay").schema.version else None


def _events(store: Store) -> None:
    store.table("pay", durability="fsync")
    store.run(f"DEFINE pay FIELDS {FIELDS}")
    for number in range(5):
        store.run(f'STORE pay FOR c PAYLOAD {{ "n": {number} }}')


def _remembered(store: Store) -> object:
    aliases = [each.alias for each in store.queries.remembered.list()]
    if "big" not in aliases:
        with pytest.raises(NotFound):
            store.run("SHOW big")
        return None
    return store.run("SHOW big").rows()


def _routed(store: Store) -> None:
    for name in ("from", "to"):
        store.topic(name, durability="fsync")


def _router(store: Store) -> object:
    found = [each.router for each in store.routers.list() if each.router.name == "r"]
    return found[0] if found else None


def _group(store: Store) -> object:
    options = store.groups._stored_options(store.existing_topic("from"), "g").load()
    is_listed = "g" in store.groups.names("from")
    return (options, is_listed) if options is not None or is_listed else None


def _use_group(store: Store) -> None:
    group = store.group("from", "g", lease_s=7.0)
    group.join("m")
    group.close()


def _user(store: Store) -> object:
    found = [each for each in store.queries.users.list_users() if each.id == "ada" and each.active]
    return found[0] if found else None


def _made_user(store: Store) -> None:
    _events(store)
    store.run("CREATE USER ada")


def _granted(store: Store) -> object:
    return store.queries.users.user("ada").events.get("pay") or None


def _registry(store: Store) -> TokenStore:
    return TokenStore(store, store._clock, store._disk.random_id)


def _tokens(store: Store) -> object:
    live = [each for each in _registry(store).current().values() if not each.revoked_us]
    return [(each.principal, each.scopes) for each in live] or None


def _make_token(store: Store) -> None:
    _registry(store).create(scopes=parse("all"), principal="p", creator="test")


def _rotate_token(store: Store) -> None:
    tokens = _registry(store)
    live = [each for each in tokens.current().values() if not each.revoked_us]
    tokens.rotate(live[0].id, creator="test", grace_us=0, valid_us=10**12)


def _end_tokens(store: Store) -> None:
    tokens = _registry(store)
    for each in list(tokens.current().values()):
        tokens.revoke(each.id)


def _metrics(store: Store) -> None:
    store.metrics("m", durability="fsync").write("cpu", tags={"host": "a"}, fields={"v": 1.0})


def _rules(store: Store) -> object:
    if "m" not in store.topics():
        return None
    return store.metrics("m").rules() or None


def _end_rules(store: Store) -> None:
    store.metrics("m").stop_downsampling("cpu_1m")


def _end_keep(store: Store) -> None:
    store.metrics("m").keep_all("cpu")


def _view(kind: str, **options: object) -> Callable[[Store], object]:
    return lambda store: getattr(store, kind)("v", durability="fsync", **options)


def _alter_view(kind: str, **options: object) -> Callable[[Store], object]:
    return lambda store: store.views.alter(kind, "v", **options)


DEFINITIONS: dict[str, Definition] = {
    "topic": Definition(
        lambda store: store.create_topic("t", durability="fsync", cap_records=10),
        _config("t"),
        _drop("t"),
        alter=lambda store: store.existing_topic("t").alter(cap_records=20),
    ),
    "event": Definition(
        _run(f"DEFINE pay FIELDS {FIELDS}"),
        _event,
        _drop("pay"),
        given=lambda store: None,
        alter=_run('DEFINE pay AS 2 FIELDS { "n": "i64", "more": "string | null" }'),
    ),
    "remembered": Definition(
        _run("REMEMBER QUERY pay RETURN [n] AS big"),
        _remembered,
        _run("FORGET big"),
        given=_events,
    ),
    "router": Definition(
        lambda store: store.routers.put("r", source="from", dest="to"),
        _router,
        lambda store: store.routers.delete("r"),
        given=_routed,
        alter=lambda store: store.routers.put("r", source="from", dest="to", preserve_tag=False),
    ),
    "router with its destination": Definition(
        lambda store: store.routers.put("r", source="from", dest="made", create_dest=True),
        _router,
        lambda store: store.routers.delete("r"),
        given=_routed,
    ),
    "group": Definition(
        lambda store: store.group("from", "g", lease_s=7.0).close(),
        _group,
        lambda store: store.groups.delete("from", "g"),
        given=_routed,
        alter=lambda store: store.groups.alter("from", "g", lease_s=9.0),
    ),
    "group in use": Definition(
        _use_group,
        _group,
        lambda store: store.groups.delete("from", "g"),
        given=_routed,
        is_one_step=False,
    ),
    "user": Definition(
        _run("CREATE USER ada"), _user, _run("REVOKE KEY ada"), given=_events, is_used_once=True
    ),
    "grant": Definition(
        _run("GRANT READ ON pay TO ada"),
        _granted,
        _run("REVOKE READ, WRITE ON pay FROM ada"),
        given=_made_user,
        alter=_run("GRANT WRITE ON pay TO ada"),
    ),
    "token": Definition(_make_token, _tokens, _end_tokens, alter=_rotate_token),
    "downsampling": Definition(
        lambda store: store.metrics("m").downsample("cpu", into="cpu_1m", window="1m"),
        _rules,
        _end_rules,
        given=_metrics,
    ),
    "keep": Definition(
        lambda store: store.metrics("m").keep("cpu", "1h"),
        _rules,
        _end_keep,
        given=_metrics,
        alter=lambda store: store.metrics("m").keep("cpu", "2h"),
    ),
    "kv": Definition(_view("kv"), _config("v"), _drop("v"), alter=_alter_view("kv", history=3)),
    "queue": Definition(
        _view("queue"), _config("v"), _drop("v"), alter=_alter_view("queue", deliveries_max=9)
    ),
    "series": Definition(_view("series"), _config("v"), _drop("v")),
    "metrics": Definition(_view("metrics"), _config("v"), _drop("v")),
    "table": Definition(_view("table"), _config("v"), _drop("v")),
}
COMMANDS = [
    (name, step)
    for name, definition in DEFINITIONS.items()
    for step in ("make", "alter", "remove")
    if getattr(definition, step) is not None
    if step != "make" or definition.is_one_step
]


def _open(disk: SimDisk) -> Store:
    return Store(PATH, settings=SETTINGS, disk=disk, clock=SimClock(), start_jobs=False)


class Moments:
    """The disks that a crash before each call of a command would have left."""

    def __init__(self, disk: SimDisk) -> None:
        self.left: list[tuple[str, SimDisk]] = []
        self._disk = disk
        self._chance = random.Random(5)

    def __call__(self, operation: str, path: str) -> None:
        hook, self._disk.on_call = self._disk.on_call, None
        place = f"{operation} {path}, call {len(self.left)}"
        self.left.append((f"kill before {place}", self._disk.kill()))
        for chooser in (Oldest(), Newest(), self._chance):
            self.left.append((f"power loss before {place}", self._disk.crash(chooser)))
        self._disk.on_call = hook


@pytest.mark.parametrize(("name", "step"), COMMANDS, ids=lambda each: each.replace(" ", "-"))
def test_a_definition_is_whole_or_absent_after_a_crash_and_its_name_is_usable(name, step):
    definition = DEFINITIONS[name]
    disk = SimDisk()
    store = _open(disk)
    definition.given(store)
    if step != "make":
        definition.make(store)
    before = definition.show(store)
    store.sync()
    moments = Moments(disk)

    disk.on_call = moments
    getattr(definition, step)(store)
    moments("the end", "")
    disk.on_call = None
    after = definition.show(store)
    store.close()

    assert before != after or step == "alter"
    for number, (crash, left) in enumerate(moments.left):
        try:
            _check(definition, left, before, after, done="the end" in crash, number=number)
        except (AssertionError, StrandlineError) as error:
            raise AssertionError(f"after a {crash}: {error!r}") from error


def _check(
    definition: Definition, disk: SimDisk, before: object, after: object, *, done: bool, number: int
) -> None:
    with contextlib.closing(_open(disk)) as store:
        shown = definition.show(store)
        assert shown == after if done else shown in (before, after), (before, shown, after)
        if shown is not None:
            definition.remove(store)
        elif number // 4 % 2:
            with contextlib.suppress(NotFound, Invalid):
                definition.remove(store)
        assert definition.show(store) is None
        if definition.is_used_once and (before, after, shown) != (None, after, None):
            return
        definition.make(store)
        made = definition.show(store)
        assert made is not None
    with contextlib.closing(_open(disk)) as store:
        assert definition.show(store) == made
