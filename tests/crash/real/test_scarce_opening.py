"""Promise: an opening that the system refuses raises the true cause, leaves nothing open, and the
next one succeeds.

Each opening is allowed one descriptor, thread or piece of memory more than the one before, from
none until the store opens.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.real.nursery import Nursery

WORKERS = "tests.crash.real.scarce_workers"


def _run(nursery: Nursery, folder: Path, work: str, **arguments: object) -> None:
    directory = str(folder / "data")
    assert nursery.run(f"{WORKERS}:fill", directory=directory) == 0, nursery.errors()

    status = nursery.run(f"{WORKERS}:{work}", directory=directory, **arguments)

    assert status == 0, nursery.errors()


@pytest.mark.parametrize("readonly", [False, True])
def test_an_opening_without_descriptors_says_so_and_leaves_nothing_open(
    nursery: Nursery, tmp_path: Path, readonly: bool
):
    _run(nursery, tmp_path, "open_without_descriptors", readonly=readonly)


def test_an_opening_without_memory_says_so_and_leaves_nothing_open(
    nursery: Nursery, tmp_path: Path
):
    _run(nursery, tmp_path, "open_without_memory")


@pytest.mark.needs_root
def test_an_opening_without_threads_says_so_and_leaves_nothing_open(
    nursery: Nursery, tmp_path: Path
):
    if os.geteuid() != 0:
        pytest.skip("becoming a user without processes needs root")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    _run(nursery, tmp_path, "open_without_threads")
