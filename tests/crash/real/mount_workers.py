"""Work for a process whose file system is taken away."""

from __future__ import annotations

import contextlib
import mmap
import signal
import struct

import strandline

TOPIC = "clicks"
_SEQ = struct.Struct("<Q")


def content(seq: int) -> bytes:
    return b"record %d" % seq


def append_until_killed(directory: str, journal: str, sync_interval_ms: int) -> None:
    """Append to a `disk` topic as fast as possible; the last acknowledged seq is in the journal."""
    with open(journal, "w+b") as file:
        file.truncate(_SEQ.size)
        acknowledged = mmap.mmap(file.fileno(), _SEQ.size)
    settings = strandline.Settings(wal=strandline.WalSettings(sync_interval_ms=sync_interval_ms))
    store = strandline.open(directory, settings=settings)
    topic = store.topic(TOPIC, durability="disk")
    seq = topic.head_seq
    with contextlib.suppress(strandline.StrandlineError):
        while True:
            seq += 1
            assert topic.append(content(seq)).first_seq == seq
            acknowledged[:] = _SEQ.pack(seq)
    signal.pause()


def last_acknowledged(journal: str) -> int:
    with open(journal, "rb") as file:
        return int(_SEQ.unpack(file.read(_SEQ.size).ljust(_SEQ.size, b"\0"))[0])
