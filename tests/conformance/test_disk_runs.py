"""Promise: no run of calls, however odd, tells the simulated disk from the real one."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.platform.disk import Disk, OsDisk
from strandline.testing.sim_disk import SimDisk


@given(st.integers(0, 2**32))
def test_any_run_of_calls_leaves_the_same_files_on_both_disks(
    tmp_path_factory: pytest.TempPathFactory, seed: int
):
    root = str(tmp_path_factory.mktemp("run"))
    disks: list[Disk] = [OsDisk(), SimDisk()]
    for disk in disks:
        disk.make_dirs(root)

    outcomes = [
        [_step(disk, root, random.Random(seed + number)) for number in range(30)] for disk in disks
    ]

    assert outcomes[0] == outcomes[1]
    assert _tree(disks[0], root) == _tree(disks[1], root)


def _step(disk: Disk, root: str, rng: random.Random) -> str:
    """One random call; returns how it ended."""
    names = ["a", "b", "dir", "dir/a", "dir/sub", "dir/sub/b"]
    one, two = (f"{root}/{rng.choice(names)}" for _ in range(2))
    content = rng.randbytes(rng.randrange(1, 1500))
    calls = [
        lambda: disk.prepare(one, 1 + len(content)),
        lambda: disk.durable_replace(one, content),
        lambda: disk.rename(one, two),
        lambda: disk.remove(one),
        lambda: disk.make_dirs(one),
        lambda: _write_into(disk, one, content),
    ]
    try:
        rng.choice(calls)()
    except OSError as error:
        return os.strerror(error.errno)
    return "done"


def _write_into(disk: Disk, path: str, content: bytes) -> None:
    file = disk.open_log(path)
    try:
        size = min(file.size(), len(content))
        file.mapping[0:size] = content[:size]
        file.write(size // 2, [content[: size // 3], content])
        file.sync()
    finally:
        file.close()


def _tree(disk: Disk, path: str) -> dict[str, object]:
    return {
        name: _tree(disk, f"{path}/{name}")
        if disk.is_dir(f"{path}/{name}")
        else disk.read(f"{path}/{name}")
        for name in disk.list_dir(path)
    }
