"""Promise: on a real disk, too, bytes come before names and names before acknowledgement.

D3, E3. What the simulated disk takes for granted of ``platform/disk.py``: the order of the system
calls of a replacement, and that a short write is continued.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from strandline.platform.disk import OsDisk


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and renamed, in order."""
    seen: list[str] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def noted_fsync(fd: int) -> None:
        seen.append("sync directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync file")
        fsync(fd)

    def noted_replace(old: str, new: str) -> None:
        seen.append("rename")
        replace(old, new)

    def noted_link(old: str, new: str) -> None:
        seen.append("link")
        link(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    monkeypatch.setattr(os, "replace", noted_replace)
    return seen


def test_a_replacement_syncs_the_file_renames_it_and_syncs_the_directory(tmp_path: Path, calls):
    path = tmp_path / "root"

    OsDisk().durable_replace(str(path), b"content")

    assert calls == ["sync file", "rename", "sync directory"]
    assert path.read_bytes() == b"content"


def test_a_new_file_is_synced_linked_and_its_directory_synced(tmp_path: Path, calls):
    file = OsDisk().create(str(tmp_path / "object"), aside=str(tmp_path / "aside"))
    file.write([b"content"])

    file.commit_new()

    assert calls == ["sync file", "link", "sync directory"]
    assert [path.name for path in tmp_path.iterdir()] == ["object"]


def test_a_prepared_file_is_synced_with_its_name(tmp_path: Path, calls):
    OsDisk().prepare(str(tmp_path / "spare"), 10_000)

    assert calls == ["sync file", "sync directory"]


def test_a_short_write_is_continued_until_every_byte_is_there(tmp_path: Path, monkeypatch):
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:7], offset))
    monkeypatch.setattr(
        os, "pwritev", lambda fd, buffers, offset: pwritev(fd, [b"".join(buffers)[:5]], offset)
    )

    OsDisk().durable_replace(str(tmp_path / "root"), b"every byte of a longer content")

    assert (tmp_path / "root").read_bytes() == b"every byte of a longer content"
