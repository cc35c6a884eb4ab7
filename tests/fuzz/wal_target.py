"""WAL: a log with any bytes changed gives frames that were written, or reports damage."""

from __future__ import annotations

import contextlib
import functools

import msgspec

from strandline.errors import StrandlineError
from strandline.log.wal import codec, control_messages
from strandline.testing.sim_disk import SimDisk
from tests.fuzz.edits import edited
from tests.unit.log.wal.log import DIRECTORY, Log

SEEDS = (b"", b"\0\x40\0\xff", b"\0\x48\0\x01\x90\0\x02", b"\x80", b"\xf0\x10\0\0")


@functools.cache
def _whole() -> tuple[str, bytes, list[tuple[int, list[bytes]]]]:
    log = Log()
    for number in range(4):
        log.single(b"record %d" % number)
        log.batch([b"a" * number, b"b", b""])
    log.committer.sync_now()
    name = log.names()[0]
    path = f"{DIRECTORY}/{name}"
    return path, log.disk.read(path)[: log.writer.end_lsn + 4096], log.scanned()


def check(data: bytes) -> None:
    path, whole, written = _whole()
    after = SimDisk()
    after.make_dirs(DIRECTORY)
    after.durable_replace(path, edited(whole, data))
    with contextlib.suppress(StrandlineError):
        found = Log.scanned(_Reading(), after)
        assert all(frame in written for frame in found), "a frame that nobody wrote"
    codec.decode_file_header(data)
    with contextlib.suppress(msgspec.DecodeError):
        message = control_messages.decode(data)
        assert control_messages.decode(control_messages.encode(message)) == message


class _Reading(Log):
    """A log that is only scanned: nothing is opened for it."""

    def __init__(self) -> None:
        pass
