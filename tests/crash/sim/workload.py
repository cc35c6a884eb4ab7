"""Random work for a ``World``: every kind of call that changes a store, in any order."""

from __future__ import annotations

import random

from tests.crash.sim.watch import Watch, power_losses
from tests.crash.sim.world import World

MATCHES = ("eu", "eu*", "us", "nothing")
STEPS = 60


WEIGHTS = {
    "single": 40,
    "batch": 22,
    "pipeline": 8,
    "delete before": 4,
    "delete tag": 6,
    "checkpoint": 6,
    "sync": 2,
    "reopen": 3,
    "create": 2,
    "drop": 1,
}


def live(
    world: World,
    watch: Watch,
    *,
    crashes: float = 0.03,
    kills: float = 0.3,
    weights: dict[str, int] | None = None,
) -> int:
    """One life of a world: work, and now and then a crash that it goes on from; states seen."""
    for _ in range(STEPS):
        step(world, weights or WEIGHTS)
        if world.rng.random() >= crashes:
            continue
        watch.rest()
        kill = world.rng.random() < kills
        after = world.disk.kill() if kill else next(power_losses(world.disk, world.rng, 1))
        world.go_on(after, power_loss=not kill)
        watch.follow()
    return world.states


def step(world: World, weights: dict[str, int]) -> None:
    """One random piece of work, by its weight."""
    names = [name for name, lineage in world.lineages.items() if lineage.newest is not None]
    kind = world.rng.choices(list(weights), list(weights.values()))[0]
    if not names and kind not in ("create", "reopen"):
        kind = "create"
    _work(world, kind, names, world.rng)


def _work(world: World, kind: str, names: list[str], rng: random.Random) -> None:
    name = rng.choice(names) if names else ""
    if kind == "single":
        world.append(name, [world.entry()])
    elif kind == "batch":
        world.append(name, [world.entry() for _ in range(rng.choice((1, 2, 5, 20)))])
    elif kind == "pipeline":
        world.append_pipelined(rng.choices(names, k=rng.randrange(1, 6)))
    elif kind == "delete before":
        newest = world.newest(name)
        head = 0 if newest is None else newest.head
        world.delete(name, before=rng.randrange(1, head + 3))
    elif kind == "delete tag":
        world.delete(name, match=rng.choice(MATCHES))
    elif kind == "checkpoint":
        world.checkpoint()
    elif kind == "alter":
        others = {"fsync", "disk", "memory", "ephemeral"} - {world.durability(name)}
        world.alter(name, rng.choice(sorted(others)))
    elif kind == "sync":
        world.sync()
    elif kind == "reopen":
        world.reopen()
    elif kind == "create":
        absent = [known for known in world.configs if known not in names]
        if absent:
            world.create(rng.choice(absent), **world.configs[absent[0]])
    elif kind == "drop" and len(names) > 1:
        world.drop(name)
