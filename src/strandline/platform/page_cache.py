"""Identity of the page cache that holds the files of a directory.

A killed process loses nothing that it has written, while the page cache that it wrote into
exists. It is lost when the machine restarts (another boot id), and when the file system is
unmounted after its device has failed, although the same files may be mounted again.

Linux gives each mounted file system (superblock) objects that are not used for a later one:

1. ext4, xfs, btrfs: the folder of the superblock in sysfs, whose inode number counts up.
   It is the same through every bind mount and in every container.
2. Other file systems, since Linux 6.8: the unique id of the mount. Bind mounts and containers have
   ids of their own: a restarted container then looks like a lost page cache.
3. Otherwise a random id is returned, which equals no other. Every end without a clean close then
   counts as a power loss: safe, at the price of tombstones.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
import uuid

_BTRFS_IOC_FS_INFO = 0x8400941F
_BTRFS_FS_INFO_SIZE = 1024
_BTRFS_FSID = slice(16, 32)
_AT_FDCWD = -100
_STATX_MNT_ID_UNIQUE = 0x4000
_STATX_SIZE = 256
_STATX_MASK_AT = 0
_STATX_MNT_ID_AT = 0x90


def boot_id() -> str:
    """Changes when the machine restarts. Random where the kernel has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return os.urandom(16).hex()


def page_cache_id(directory: str) -> str:
    """Equals an earlier id only if no write to the directory's files since then can be lost."""
    file_system = superblock_id(directory) or mount_id(directory) or os.urandom(16).hex()
    return f"{boot_id()} {file_system}"


def superblock_id(directory: str) -> str | None:
    """The superblock's folder in sysfs and its inode number; None where there is no folder."""
    with contextlib.suppress(OSError):
        for folder in _block_device_folders(directory) or _btrfs_folders(directory):
            with contextlib.suppress(FileNotFoundError):
                return f"{folder} {os.stat(folder).st_ino}"
    return None


def mount_id(directory: str) -> str | None:
    """The unique id of the mount; None before Linux 6.8."""
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return None
    failed = statx(_AT_FDCWD, os.fsencode(directory), 0, _STATX_MNT_ID_UNIQUE, buffer)
    if failed or not struct.unpack_from("=I", buffer, _STATX_MASK_AT)[0] & _STATX_MNT_ID_UNIQUE:
        return None
    return f"mount {struct.unpack_from('=Q', buffer, _STATX_MNT_ID_AT)[0]}"


def _block_device_folders(directory: str) -> list[str]:
    """The folders of sysfs for the file system of a block device; none for other devices."""
    device = os.stat(directory).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        return []
    name = os.path.basename(os.path.realpath(link))
    return [f"/sys/fs/ext4/{name}", f"/sys/fs/xfs/{name}"]


def _btrfs_folders(directory: str) -> list[str]:
    """The same for btrfs, which has a device number for each subvolume and a folder by its uuid."""
    info = bytearray(_BTRFS_FS_INFO_SIZE)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _BTRFS_IOC_FS_INFO, info)  # other file systems reject it
    finally:
        os.close(fd)
    return [f"/sys/fs/btrfs/{uuid.UUID(bytes=bytes(info[_BTRFS_FSID]))}"]
