"""The chapter of the crash: a process is killed while it appends.

Nothing that it was promised may be missing afterwards. What it had not been promised yet may be
there, too: an ack can be lost on its way, a record cannot.
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
    stage.title("A process appends from five threads, and is killed in the middle")
    told = _write_and_kill(stage, scene)
    stage.title("The store is opened again")
    with _reopen(stage, scene.store) as store:
        rows = []
        for name in journal.TOPICS:
            rows.append(compare(stage, store.existing_topic(name), told.acks[name]))
        stage.table(["topic", "durability", "acked", "recovered", "not acked, yet there"], rows)


def _write_and_kill(stage: Stage, scene: Scene) -> Journal:
    """Run the writer until it has done enough, kill it; what it had journalled."""
    told = Journal()
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "examples.tour.writer", scene.store, str(writing)]
    with subprocess.Popen(command, pass_fds=[writing], start_new_session=True) as writer:
        os.close(writing)
        try:
            with stage.bar("acknowledged", scene.crash_records) as update:
                _listen(reading, scene, told, update)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            while chunk := os.read(reading, _CHUNK):
                told.add(chunk)
        finally:
            writer.kill()
            os.close(reading)
    stage.say(f"killed with SIGKILL after {told.records:,} acknowledged records")
    stage.check(writer.returncode == -signal.SIGKILL, "the writer had no chance to clean up")
    return told


def _listen(descriptor: int, scene: Scene, told: Journal, update: Update) -> None:
    """Read the journal until there is enough of it, every topic included."""
    deadline = time.monotonic() + _START_S_MAX
    enough_at = None
    while time.monotonic() < deadline:
        if not select.select([descriptor], [], [], 0.1)[0]:
            continue
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return
        told.add(chunk)
        update(told.records)
        now = time.monotonic()
        enough_at = enough_at or now + scene.crash_s_max
        if len(told.acks) == len(journal.TOPICS) and (
            told.records >= scene.crash_records or now > enough_at
        ):
            return


def _reopen(stage: Stage, path: str) -> Store:
    size = sum(entry.stat().st_size for entry in _files(f"{path}/wal"))
    begun = time.monotonic()
    with stage.bar("reading the log", size) as update:
        store = Store(path, progress=lambda what, done, total: update(done))
    seconds = time.monotonic() - begun
    stage.say(f"recovered {size / 1e6:,.0f} MB of log files in {seconds:.2f} s")
    return store


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            yield entry


def compare(stage: Stage, topic: Topic, acks: list[Ack]) -> list[str]:
    """Whether everything acked is there, byte for byte; a row of the table."""
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
        f"{topic.name}: {good:,} of {len(acks):,} acked appends are there, byte for byte",
    )
    acked = sum(ack.records for ack in acks)
    counts = (acked, len(data), len(data) - acked)
    return [topic.name, topic.config.durability, *(f"{count:,}" for count in counts)]
