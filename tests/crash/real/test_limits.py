"""Promise (E2, E3, E4, E6): when descriptors or space run out, writes are refused and say why.

Reads go on, nothing that was acked is lost, and the store recovers by itself once there is room.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline
from strandline.testing.oracle import Verdict, replay
from tests.crash.real.nursery import Nursery

LIMITS = "tests.crash.real.limits_workers"
WORKERS = "tests.crash.real.workers"
DISK_SIZE = "16M"


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(mount)]
    if request.param == "ext4":
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-qF", str(image)], check=True, capture_output=True)
        command = ["mount", "-o", "loop", str(image), str(mount)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def judge(nursery: Nursery, directory: Path, journal: Path) -> Verdict:
    arguments = {"directory": str(directory), "pipe": str(journal)}
    assert nursery.run(f"{WORKERS}:look", **arguments) == 0, nursery.errors()
    return replay(journal.read_bytes())[-1]


@pytest.mark.parametrize("limit", ["run_out_of_descriptors", "run_into_a_file_size_limit"])
def test_a_process_at_its_limit_refuses_appends_and_recovers(
    nursery: Nursery, tmp_path: Path, limit: str
):
    arguments = {"directory": str(tmp_path / "data"), "pipe": str(tmp_path / "journal")}

    status = nursery.run(f"{LIMITS}:{limit}", **arguments)

    assert status == 0, nursery.errors()
    verdict = judge(nursery, tmp_path / "data", tmp_path / "journal")
    assert verdict.violations == []
    assert verdict.acked > 100


@pytest.mark.needs_root
def test_a_full_disk_refuses_appends_and_goes_on_when_space_is_freed(
    nursery: Nursery, small_disk: Path, tmp_path: Path
):
    arguments = {"directory": str(small_disk / "data"), "pipe": str(tmp_path / "journal")}

    status = nursery.run(f"{LIMITS}:fill_the_disk", **arguments)

    assert status == 0, nursery.errors()
    verdict = judge(nursery, small_disk / "data", tmp_path / "journal")
    assert verdict.violations == []
    assert verdict.acked > 100


@pytest.mark.needs_root
def test_a_store_that_died_on_a_full_disk_is_readable_there_and_whole_with_more_room(
    nursery: Nursery, small_disk: Path, tmp_path: Path
):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(4 << 20))
    arguments = {"directory": str(small_disk / "data"), "pipe": str(tmp_path / "journal")}
    assert nursery.run(f"{LIMITS}:fill_the_disk_and_die", **arguments) == 0, nursery.errors()

    with strandline.open(arguments["directory"], readonly=True) as store:
        heads = {name: store.topic(name).head_seq for name in store.topics()}
    filler.unlink()
    verdict = judge(nursery, small_disk / "data", tmp_path / "journal")

    assert min(heads.values()) > 0
    assert verdict.violations == []
