"""Promise (D6): a page cache has one identity for every process, and a lost one never has it.

That each mount has an identity of its own is tested with real ones, in `tests/crash/real`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strandline.platform.page_cache import boot_id, mount_id, page_cache_id, superblock_id

PRINT_ID = "import sys, strandline.platform.page_cache as it; print(it.page_cache_id(sys.argv[1]))"


@pytest.mark.skipif(
    superblock_id(".") is None and mount_id(".") is None,
    reason="neither sysfs nor statx identifies this file system",
)
def test_every_process_reads_the_same_identity():
    folder = str(Path.cwd())
    command = [sys.executable, "-c", PRINT_ID, folder]

    found = {subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2)}

    assert found == {f"{page_cache_id(folder)}\n".encode()}


def test_what_cannot_be_identified_never_equals_an_earlier_id(tmp_path: Path):
    absent = str(tmp_path / "absent")

    ids = {page_cache_id(absent) for _ in range(10)}

    assert len(ids) == 10


def test_another_boot_is_another_page_cache():
    assert page_cache_id("/proc").startswith(f"{boot_id()} ")


def test_a_file_system_without_a_folder_in_sysfs_is_identified_by_its_mount():
    assert superblock_id("/proc") is None
    assert page_cache_id("/proc").endswith(mount_id("/proc") or "")
