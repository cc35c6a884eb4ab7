"""Processes that start within milliseconds, forked from a template with all imports done.

The template is an interpreter with one thread, so that forking it is safe. It takes requests on a
socket: to fork a process that gets some sockets, and to kill one. It is the parent of all of them,
so a process id is never one of another process; and when the socket closes, because whoever started
it has ended, however that happened, it kills them and ends.

    request                                      reply
    F + JSON arguments, with file descriptors    process id, 8 bytes
    K + process id, 8 bytes                      none

The package is found where this module lies, and its root module is not run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

_PACKAGE = Path(__file__).parents[1]
_CODE = """
import sys, types
root = types.ModuleType("strandline")
root.__path__ = [sys.argv[1]]
sys.modules["strandline"] = root
from strandline.platform.process_template import run_template
run_template(int(sys.argv[2]), sys.argv[3])
"""
_FDS_MAX = 4
_MESSAGE_MAX = 4096
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

Main = Callable[..., None]
"""What a forked process runs: it gets the sockets, and the arguments by name."""


class ProcessTemplate:
    """A template, started when the first process is wanted. Safe from many threads."""

    def __init__(self, module: str) -> None:
        """The module is imported in the template, and its ``main`` runs in each process."""
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def fork(self, sockets: Sequence[socket.socket], **arguments: object) -> int:
        """Start a process; returns its id. It has copies of the sockets."""
        descriptors = [each.fileno() for each in sockets]
        request = b"F" + json.dumps(arguments).encode()
        with self._lock:
            for _ in range(2):  # a template that was killed is started again, once
                control = self._started()
                with contextlib.suppress(OSError):
                    socket.send_fds(control, [request], descriptors)
                    reply = control.recv(8)
                    if reply:
                        return int.from_bytes(reply, "little")
                self._end()
        raise ChildProcessError("no process could be started")

    def kill(self, process: int) -> None:
        """End a process at once, without waiting for one that is being started. It must be one
        that was not killed before."""
        control = self._control
        with contextlib.suppress(OSError):  # closed: then it was killed with the template
            if control is not None:
                control.send(b"K" + process.to_bytes(8, "little"))

    def close(self) -> None:
        """End the template and all its processes."""
        with self._lock:
            self._closed = True
            self._end()

    def _started(self) -> socket.socket:
        if self._closed:
            raise ChildProcessError("the template is closed")
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    [
                        *(sys.executable, "-c", _CODE),
                        *(str(_PACKAGE), str(theirs.fileno()), self._module),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            self._control = ours
        return self._control

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run_template(descriptor: int, module: str) -> NoReturn:
    """Serve requests until the socket is closed. Runs in the template."""
    main: Main = import_module(module).main
    control = socket.socket(fileno=descriptor)
    processes: set[int] = set()
    while True:
        request, descriptors, *_ = socket.recv_fds(control, _MESSAGE_MAX, _FDS_MAX)
        if not request:
            break
        if request[:1] == b"F":
            process = os.fork()
            if not process:
                control.close()
                _run(main, descriptors, json.loads(request[1:]))
            processes.add(process)
            control.send(process.to_bytes(8, "little"))
            for each in descriptors:
                os.close(each)
        else:
            _reap(int.from_bytes(request[1:], "little"), processes)
    for process in list(processes):
        _reap(process, processes)
    os._exit(0)


def limit_memory(more_bytes_max: int) -> None:
    """Bound this process: the memory that it takes from now on, and the size of files (a log of
    errors). When the memory of the machine runs out, it is the first to go."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    data = _data_bytes() + more_bytes_max
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def _data_bytes() -> int:
    """What counts for RLIMIT_DATA now; libraries reserve more than they use."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def _run(main: Main, descriptors: list[int], arguments: dict[str, object]) -> NoReturn:
    code = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
        main(*(socket.socket(fileno=each) for each in descriptors), **arguments)
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def _reap(process: int, processes: set[int]) -> None:
    if process in processes:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        processes.discard(process)
