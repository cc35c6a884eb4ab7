"""Forks processes from a template that has done all imports: they start within milliseconds.

The template is an interpreter with one thread, so that forking it is safe. It receives requests on
a socket: to fork a process that inherits some sockets, and to kill one. It is the parent of all of
them, so a process id never belongs to another process. When the socket closes, because the process
that started it has ended for any reason, it kills them and ends.

    request                                      response
    F + JSON arguments, with file descriptors    process id, 8 bytes
    K + process id, 8 bytes                      none

The package is imported from the folder of this module, without running its root module.
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
"""The function that a forked process runs, with the sockets, and the arguments by name."""


class ProcessTemplate:
    """A template, started for the first process. Safe from many threads."""

    def __init__(self, module: str) -> None:
        """The template imports the module, and each process runs its ``main``."""
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def fork(self, sockets: Sequence[socket.socket], **arguments: object) -> int:
        """Start a process with copies of the sockets; returns its id."""
        descriptors = [each.fileno() for each in sockets]
        request = b"F" + json.dumps(arguments).encode()
        with self._lock:
            for _ in range(2):  # a template that was killed is started again, once
                control = self._control_socket()
                with contextlib.suppress(OSError):
                    socket.send_fds(control, [request], descriptors)
                    response = control.recv(8)
                    if response:
                        return int.from_bytes(response, "little")
                self._end()
        raise ChildProcessError("no process could be started")

    def kill(self, process: int) -> None:
        """End a process at once, without waiting for one that is being started. It must not have
        been killed before."""
        control = self._control
        with contextlib.suppress(OSError):  # closed: the process was killed with the template
            if control is not None:
                control.send(b"K" + process.to_bytes(8, "little"))

    def close(self) -> None:
        """End the template and all its processes."""
        with self._lock:
            self._closed = True
            self._end()

    def _control_socket(self) -> socket.socket:
        if self._closed:
            raise ChildProcessError("the template is closed")
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - the same interpreter
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
            _kill(int.from_bytes(request[1:], "little"), processes)
    for process in list(processes):
        _kill(process, processes)
    os._exit(0)


def limit_memory(more_bytes_max: int) -> None:
    """Limit the memory that this process allocates from now on, and the size of its files (a log
    of errors). When the machine runs out of memory, it is the first to be killed."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    data = _data_bytes() + more_bytes_max
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def _data_bytes() -> int:
    """The memory that counts for RLIMIT_DATA; libraries reserve more than they use."""
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


def _kill(process: int, processes: set[int]) -> None:
    if process in processes:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        processes.discard(process)
