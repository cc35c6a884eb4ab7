"""Watches a process of the nursery with strace, and makes its system calls fail or kill it.

A count in strace is kept for each system call by its name and for each thread, so the work that is
traced runs on one thread, and a point is a name and a number.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.real.nursery import WAIT_S_MAX, Nursery

# All that change files. The store never calls plain write: that is how the oracle is spoken to.
CALLS = (
    *("openat", "pwrite64", "pwritev2", "fdatasync", "fsync", "ftruncate", "fallocate"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "rmdir", "mmap"),
)

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None and os.environ.get("CI") != "true",
    reason="strace is not installed",
)


def run_traced(nursery: Nursery, call: str, *options: str, **arguments: Any) -> int:
    """Do a piece of work under strace; how it ended."""
    pid = nursery.start(call, traced=True, **arguments)
    command = ["strace", "-f", "-qq", "-p", str(pid), "-e", f"trace={','.join(CALLS)}", *options]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        status = nursery.wait(pid)
    finally:
        _, complaint = tracer.communicate(timeout=WAIT_S_MAX)
    assert tracer.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), complaint.decode()
    return status


def count_calls(nursery: Nursery, log: Path, call: str, **arguments: Any) -> Counter[str]:
    """How often a piece of work makes each system call."""
    status = run_traced(nursery, call, "-o", str(log), **arguments)
    assert status == 0, nursery.errors()
    return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(encoding="utf-8"), re.MULTILINE))


def run_killed_at(nursery: Nursery, name: str, number: int, call: str, **arguments: Any) -> int:
    """Do a piece of work that is killed before its system call of this name and number."""
    inject = f"inject={name}:signal=SIGKILL:when={number}"
    return run_traced(nursery, call, "-o", os.devnull, "-e", inject, **arguments)


def run_failing_at(
    nursery: Nursery, name: str, error: str, number: str, call: str, **arguments: Any
) -> int:
    """Do a piece of work in which system calls of this name fail: the third ("3"), or from it on
    ("3+")."""
    inject = f"inject={name}:error={error}:when={number}"
    return run_traced(nursery, call, "-o", os.devnull, "-e", inject, **arguments)
