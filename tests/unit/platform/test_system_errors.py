"""Promise: an error says what removes its cause, and blames the disk only for its own."""

from __future__ import annotations

import errno
import os

import pytest

from strandline.cli.errors import explain
from strandline.errors import DiskFull, StrandlineError, Unavailable
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.system_errors import as_unavailable
from strandline.testing.sim_disk import SimDisk

CAUSES = {
    errno.EMFILE: "ulimit -n",
    errno.ENFILE: "fs.file-max",
    errno.ENOMEM: "free memory",
    errno.EAGAIN: "ulimit -u",
    errno.EIO: "disk",
}


@pytest.mark.parametrize("code", CAUSES)
def test_the_advice_fits_the_cause_everywhere(code):
    error = as_unavailable(OSError(code, os.strerror(code)), "the log")
    error.__cause__ = OSError(code, "")
    disk = SimDisk()
    objects = FolderObjects("/data", disk)
    objects.put("key", b"value")
    disk.fail("*", errno=code)
    with pytest.raises(Unavailable) as of_objects:
        objects.get("key")

    texts = [str(error), explain(error)[1], str(of_objects.value), explain(of_objects.value)[1]]

    for text in texts:
        assert CAUSES[code] in text
        assert ("the disk" in text) == (code == errno.EIO)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_a_full_disk(code):
    assert isinstance(as_unavailable(OSError(code, "full"), "the log"), DiskFull)


def test_no_memory_is_not_a_bug():
    error: StrandlineError = as_unavailable(MemoryError(), "the store /data", "opened")

    assert isinstance(error, Unavailable)
    assert "out of memory" in str(error)
    assert "free memory" in str(error)
