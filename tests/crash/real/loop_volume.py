"""A file system in a file, which can fail as one does whose device is gone. Needs root."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SIZE = 512 << 20  # sparse; mkfs.xfs refuses less than 300 MB
SHUTDOWN_IOCTL = 0x8004587D
WITHOUT_LOG_FLUSH = 2
MAKE = {
    "ext4": ["mkfs.ext4", "-qF"],
    "xfs": ["mkfs.xfs", "-qf"],
    "btrfs": ["mkfs.btrfs", "-qf"],
}


class LoopVolume:
    """One file system, mounted in a folder. Owned by one thread."""

    def __init__(self, kind: str, folder: Path) -> None:
        """Make and mount it; the test is skipped where that is not possible."""
        if os.geteuid() != 0:
            pytest.skip("mounting a file system needs root")
        self.kind = kind
        self.folder = folder / "mounted"
        self._bound = folder / "bound"
        self._image = folder / "image"
        self._mounted: list[Path] = []
        for place in (self.folder, self._bound):
            place.mkdir()
        if kind != "tmpfs":
            if shutil.which(MAKE[kind][0]) is None:
                pytest.skip(f"{MAKE[kind][0]} is not installed")
            with self._image.open("wb") as file:
                file.truncate(SIZE)
            subprocess.run([*MAKE[kind], str(self._image)], check=True, capture_output=True)
        error = self._try_mount()
        if error:
            pytest.skip(f"cannot mount {kind} in a loop device: {error}")

    def mount(self) -> None:
        error = self._try_mount()
        assert not error, error

    def bind(self) -> Path:
        """Mount it a second time, as a container does; where it is seen then."""
        subprocess.run(["mount", "--bind", str(self.folder), str(self._bound)], check=True)
        self._mounted.append(self._bound)
        return self._bound

    def unmount(self) -> None:
        while self._mounted:
            subprocess.run(["umount", str(self._mounted.pop())], check=True)

    def discard(self) -> None:
        """Take it out of the folders now; it ends when nothing has a file of it mapped any more."""
        while self._mounted:
            subprocess.run(["umount", "--lazy", str(self._mounted.pop())], check=True)

    def shut_down(self) -> None:
        """End it at once: what is not on its device by now never gets there."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, SHUTDOWN_IOCTL, struct.pack("=I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(fd)

    def _try_mount(self) -> str:
        loop = ["-o", "loop", str(self._image)]
        source = ["-t", "tmpfs", "tmpfs"] if self.kind == "tmpfs" else loop
        done = subprocess.run(
            ["mount", *source, str(self.folder)], check=False, capture_output=True, text=True
        )
        if done.returncode == 0:
            self._mounted.append(self.folder)
        return done.stderr.strip() if done.returncode else ""
