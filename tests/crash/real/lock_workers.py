"""What processes of the nursery do about locks and forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import strandline
from tests.crash.real.nursery import DUMP_S

LOCKED = 3
CHILD_S_MAX = 10.0


def try_to_open(directory: str) -> int:
    try:
        strandline.open(directory).close()
    except strandline.Locked:
        return LOCKED
    return 0


def read_beside_writer(directory: str, count: int) -> int:
    with strandline.open(directory, readonly=True) as store:
        return 0 if len(store.topic("t").read(0, 10)) == count else 1


def hold_open(directory: str, ready: str) -> None:
    """Open, append, say so, and wait to be killed."""
    store = strandline.open(directory)
    store.topic("t").append(b"before")
    Path(ready).write_text("ready", encoding="ascii")
    while True:
        signal.pause()


def fork_while_appending(directory: str, forks: int) -> int:
    """Fork again and again while threads append; each child tries everything and is refused."""
    with strandline.open(directory) as store:
        topics = [store.topic("disk"), store.topic("fsync", durability="fsync")]
        done = threading.Event()
        threads = [
            threading.Thread(target=_append_until, args=(topic, done)) for topic in topics * 2
        ]
        for thread in threads:
            thread.start()
        statuses = [_in_child(store, topics) for _ in range(forks)]
        done.set()
        for thread in threads:
            thread.join()
        heads = [topic.head_seq for topic in topics]
        healthy = store.health().status == "green"
    with strandline.open(directory) as again:
        kept = [again.topic(name).head_seq for name in ("disk", "fsync")]
    return 0 if set(statuses) == {0} and heads == kept and healthy else 1


def leave_a_child(directory: str, ready: str) -> None:
    """Fork a child that outlives this process, then end without closing the store."""
    store = strandline.open(directory)
    store.topic("t").append(b"before")
    pid = os.fork()
    if pid == 0:
        Path(ready + ".new").write_text(str(os.getpid()), encoding="ascii")
        os.rename(ready + ".new", ready)
        while True:
            signal.pause()


def _in_child(store: strandline.Store, topics: list[strandline.Topic]) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _is_refused_everything(store, topics) else 1)
    deadline = time.monotonic() + CHILD_S_MAX
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGUSR1)  # says where it hangs
    time.sleep(DUMP_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def _is_refused_everything(store: strandline.Store, topics: list[strandline.Topic]) -> bool:
    calls: list[Callable[[], object]] = [
        lambda: store.topic("other"),
        store.sync,
        store.checkpoint,
        lambda: store.delete_topic("disk"),
    ]
    for topic in topics:
        calls += [
            lambda topic=topic: topic.append(b"x"),
            lambda topic=topic: topic.append([b"x", b"y"]),
            lambda topic=topic: topic.append(b"x", tag="eu"),
            lambda topic=topic: topic.delete(before=2),
            lambda topic=topic: topic.alter(ttl_ms=1),
            lambda topic=topic: topic.read(0, 10),
        ]
    refused = 0
    for call in calls:
        try:
            call()
        except strandline.Closed:
            refused += 1
    store.close()
    return refused == len(calls)


def _append_until(topic: strandline.Topic, done: threading.Event) -> None:
    while not done.is_set():
        topic.append(b"meanwhile")
        topic.append([b"a", b"b"])
