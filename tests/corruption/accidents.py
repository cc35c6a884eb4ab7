"""Random damage to a store, from a seed: what bit rot, bad sectors and careless hands do."""

from __future__ import annotations

import random

from strandline.testing.sim_disk import SimDisk
from tests.corruption.stores import damaged_block, data_paths, flipped, wal_paths

ACCIDENTS = ["flip", "flip", "zeros", "ones", "another", "cut", "delete", "swap"]
PASS_FOR_A_TORN_WRITE = ["zeros", "another", "delete", "swap"]
"""What the newest log file cannot tell from the traces of a crash, unless it was closed."""


def struck(disk: SimDisk, seed: int, *, closed: bool) -> tuple[SimDisk, list[str]]:
    """A copy with one to three accidents, and what they were."""
    chance = random.Random(seed)
    copy, story = disk.kill(), []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        path = chance.choice(data_paths(copy))
        kind = chance.choice(ACCIDENTS)
        if not closed and path == wal_paths(disk)[-1] and kind in PASS_FOR_A_TORN_WRITE:
            kind = "ones"
        story.append(_strike(copy, path, kind, chance, keep="" if closed else wal_paths(disk)[-1]))
    return copy, story


def _strike(disk: SimDisk, path: str, kind: str, chance: random.Random, *, keep: str) -> str:
    content = disk.read(path)
    if kind == "delete":
        disk.remove(path)
        return f"delete {path}"
    if kind == "swap":
        alike = [other for other in data_paths(disk) if other[-4:] == path[-4:] and other != keep]
        other = chance.choice(alike)
        disk.durable_replace(path, disk.read(other))
        disk.durable_replace(other, content)
        return f"swap {path} and {other}"
    offset = chance.randrange(len(content)) if content else 0
    if kind == "flip" and content:
        content = flipped(content, offset, chance.randrange(8))
    elif kind == "cut":
        content = content[:offset]
    else:
        size = chance.choice([8, 64, 512, 4096])
        offset -= offset % min(size, 512)
        source = chance.randrange(len(content)) if content else 0
        filling = {"zeros": bytes(size), "another": content[source : source + size]}
        content = damaged_block(content, offset, filling.get(kind, b"\xff" * size))
    disk.durable_replace(path, content)
    return f"{kind} {path} at {offset}"
