"""A process that has imported everything and forks a child for each piece of work.

Starting Python with the store in it takes most of a second; a fork takes some milliseconds. The
nursery never opens a store and never starts a thread, so its children begin like fresh processes.
They end like them, too: a piece of work returns to the top of the interpreter, which then shuts
down as it does at the end of a script.

Requests and answers are JSON lines on standard input and output:

    {"call": "module:function", "arguments": {...}, "stderr": path, "traced": bool}  ->  pid
    {"wait": pid}                                 ->  exit status, negative for a signal
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import strandline

ROOT = Path(__file__).resolve().parents[3]
WAIT_S_MAX = 60.0
DUMP_S = 0.5  # for a process that hangs to say where
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
_PRELOADED = ("pyarrow", "strandline.store", "tests.crash.real.workers")


class Nursery:
    """The parent's side: owned by one thread."""

    def __init__(self, stderr: Path) -> None:
        package = Path(strandline.__path__[0]).parent
        self.stderr = stderr
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.real.nursery"],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(self, call: str, *, traced: bool = False, **arguments: Any) -> int:
        """Begin a piece of work, named as ``module:function``; its process id."""
        request = {
            "call": call,
            "arguments": arguments,
            "stderr": str(self.stderr),
            "traced": traced,
        }
        return int(self._ask(request))

    def wait(self, pid: int, timeout_s: float = WAIT_S_MAX) -> int:
        """How a child ended. One that does not end in time is killed, and that is a failure."""
        try:
            return int(self._ask({"wait": pid}, timeout_s))
        except TimeoutError:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(DUMP_S)
            os.kill(pid, signal.SIGKILL)
            self._answer(WAIT_S_MAX)
            late = f"the process did not end within {timeout_s} s: {self.errors()}"
            raise AssertionError(late) from None

    def run(self, call: str, **arguments: Any) -> int:
        """Do a piece of work and say how it ended."""
        return self.wait(self.start(call, **arguments))

    def errors(self) -> str:
        """What the children have complained about so far."""
        return self.stderr.read_text(encoding="utf-8") if self.stderr.exists() else ""

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT_S_MAX)
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any], timeout_s: float = WAIT_S_MAX) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer(timeout_s)

    def _answer(self, timeout_s: float) -> Any:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            data = os.read(fd, 65536)
            assert data, "the nursery died"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)


def main() -> None:
    """The nursery's side: answers requests until its input ends."""
    for name in _PRELOADED:
        importlib.import_module(name)
    # Arrow's allocator has a thread of its own, which knows what to do in a fork.
    assert threading.active_count() == 1, "a process with threads must not be forked"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = b""
    while data := os.read(0, 65536):
        *lines, waiting = (waiting + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "wait" in request:
                _, status = os.waitpid(request["wait"], 0)
                _reply(os.waitstatus_to_exitcode(status))
                continue
            pid = os.fork()
            if pid == 0:
                _child(request)
            _reply(pid)


def _reply(answer: int) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def _child(request: dict[str, Any]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open(request["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(errors, 2)
    os.close(nothing)
    os.close(errors)
    faulthandler.register(signal.SIGUSR1)
    if request["traced"]:
        _wait_for_tracer()
    module, _, function = request["call"].partition(":")
    call = getattr(importlib.import_module(module), function)
    sys.exit(call(**request["arguments"]))


def _wait_for_tracer() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)
    deadline = time.monotonic() + WAIT_S_MAX
    status = os.open("/proc/self/status", os.O_RDONLY)  # once: the tracer counts such calls
    while b"TracerPid:\t0\n" in os.pread(status, 4096, 0):
        assert time.monotonic() < deadline, "nobody traces this process"
        time.sleep(0.001)
    os.close(status)


if __name__ == "__main__":
    main()
