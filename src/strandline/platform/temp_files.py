"""Unnamed temporary files: they disappear when they are closed, or when the process ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from strandline.platform.disk import Buffer, OsFile


class ScratchFile(OsFile):
    """Written sequentially, then read. Owned by one thread while it is written."""

    def __init__(self, folder: str = "") -> None:
        """Create it in an existing folder, by default in the system's temporary folder."""
        with tempfile.TemporaryFile(buffering=0, dir=folder or None) as file:
            self._fd = os.dup(file.fileno())
        self.path = f"a temporary file in {folder or tempfile.gettempdir()}"
        self._written = 0

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Append bytes; returns the offset at which they begin."""
        offset = self._written
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                step = os.pwrite(self._fd, rest, self._written)
                self._written += step
                rest = rest[step:]
        return offset
