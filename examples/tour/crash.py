"""The crash chapter: a process is killed while it appends.

No acknowledged record may be missing after recovery. Records without an acknowledgement may exist:
an ack can be lost on its way, an acknowledged record cannot.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from examples.tour import journal
from examples.tour.journal import Ack, Journal
from examples.tour.scene import Scene
from examples.tour.stage import Stage, Update
from strandline.log.topic.topic import Topic
from strandline.store import Store

_START_S_MAX = 60.0
_CHUNK = 1 << 16


def show(stage: Stage, scene: Scene) -> None:
    stage.title("A process appends from five threads and is killed")
    acked = _write_and_kill(stage, scene)
    stage.title("The store is opened again")
    with _reopen(stage, scene.store) as store:
        rows = []
        for name in journal.TOPICS:
            rows.append(compare(stage, store.existing_topic(name), acked.acks[name]))
        stage.table(["topic", "durability", "acked", "recovered", "recovered, not acked"], rows)


def _write_and_kill(stage: Stage, scene: Scene) -> Journal:
    """Run the writer until it has appended enough, and kill it; its journal."""
    acked = Journal()
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "examples.tour.writer", scene.store, str(writing)]
    with subprocess.Popen(command, pass_fds=[writing], start_new_session=True) as writer:
        os.close(writing)
        try:
            with stage.bar("acknowledged", scene.crash_records) as update:
                _read_journal(reading, scene, acked, update)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            while chunk := os.read(reading, _CHUNK):
                acked.add(chunk)
        finally:
            writer.kill()
            os.close(reading)
    stage.print_line(f"killed with SIGKILL after {acked.records:,} acknowledged records")
    stage.check(writer.returncode == -signal.SIGKILL, "the writer could not clean up")
    return acked


def _read_journal(descriptor: int, scene: Scene, acked: Journal, update: Update) -> None:
    """Read the journal until it has enough records, with every topic."""
    deadline = time.monotonic() + _START_S_MAX
    enough_at = None
    while time.monotonic() < deadline:
        if not select.select([descriptor], [], [], 0.1)[0]:
            continue
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return
        acked.add(chunk)
        update(acked.records)
        now = time.monotonic()
        enough_at = enough_at or now + scene.crash_s_max
        if len(acked.acks) == len(journal.TOPICS) and (
            acked.records >= scene.crash_records or now > enough_at
        ):
            return


def _reopen(stage: Stage, path: str) -> Store:
    size = sum(entry.stat().st_size for entry in _files(f"{path}/wal"))
    started_at = time.monotonic()
    with stage.bar("reading the log", size) as update:
        store = Store(path, progress=lambda step, done, total: update(done))
    seconds = time.monotonic() - started_at
    stage.print_line(f"recovered {size / 1e6:,.0f} MB of log files in {seconds:.2f} s")
    return store


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            yield entry


def compare(stage: Stage, topic: Topic, acks: list[Ack]) -> list[str]:
    """Check that every acked append was recovered byte for byte; a row of the table."""
    data: list[bytes] = []
    dense = True
    after = 0
    while True:
        page = topic.read(after, 100_000)
        seqs = page.arrow().column("seq").to_numpy()
        dense = dense and bool(np.array_equal(seqs, np.arange(after + 1, page.next + 1)))
        data += page.data
        after = page.next
        if page.caught_up:
            break
    good = sum(journal.digest(data[ack.first_seq - 1 : ack.last_seq]) == ack.digest for ack in acks)
    stage.check(
        dense and good == len(acks),
        f"{topic.name}: {good:,} of {len(acks):,} acked appends were recovered, byte for byte",
    )
    acked = sum(ack.records for ack in acks)
    counts = (acked, len(data), len(data) - acked)
    return [topic.name, topic.config.durability, *(f"{count:,}" for count in counts)]
