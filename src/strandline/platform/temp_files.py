"""Files without a name, for what need not survive: gone when closed, or with the process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from strandline.platform.disk import Buffer, OsFile


class ScratchFile(OsFile):
    """Written from its beginning on, then read. Owned by one thread while it is written."""

    def __init__(self, folder: str = "") -> None:
        """In a folder that exists; without one, where this machine has temporary files."""
        with tempfile.TemporaryFile(buffering=0, dir=folder or None) as made:
            self._fd = os.dup(made.fileno())
        self.path = f"a temporary file in {folder or tempfile.gettempdir()}"
        self._written = 0

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Append bytes; the offset at which they begin."""
        offset = self._written
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                step = os.pwrite(self._fd, rest, self._written)
                self._written += step
                rest = rest[step:]
        return offset
