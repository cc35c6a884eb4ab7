"""What the tests of the command line share: commands run here, and commands run as processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import pytest

from strandline.cli.main import run
from tests.server.running import Running, running

SECONDS_MAX = 60
NOT_INHERITED = tuple(f"STRANDLINE_{name}" for name in ("DEBUG", "URL", "TOKEN", "CONTEXT"))
PROGRAM = [sys.executable, "-c", "from strandline.cli.main import main; main()"]


class Answer(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> object:
        return msgspec.json.decode(self.out)

    @property
    def json_lines(self) -> list[dict[str, object]]:
        return [msgspec.json.decode(line) for line in self.lines]


Command = Callable[..., Answer]


@pytest.fixture
def command(
    data_dir: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs a command line in this process, on the store in ``data_dir``."""
    monkeypatch.setenv("STRANDLINE_STORE", data_dir)
    monkeypatch.setenv("STRANDLINE_CONFIG", f"{data_dir}-contexts.json")
    for name in NOT_INHERITED:
        monkeypatch.delenv(name, raising=False)

    def call(*tokens: str) -> Answer:
        capsys.readouterr()
        code = run(tokens)
        return Answer(code, *capsys.readouterr())

    return call


class Program:
    """Starts the real command, and leaves none behind."""

    def __init__(self, store: str) -> None:
        own = {"STRANDLINE_STORE": store, "STRANDLINE_CONFIG": f"{store}-contexts.json"}
        self.environment = os.environ | own | {"COLUMNS": "100"}
        for name in NOT_INHERITED:
            self.environment.pop(name, None)
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, *tokens: str, stdin: bytes = b"") -> Answer:
        process = self.start(*tokens)
        out, err = process.communicate(stdin, timeout=SECONDS_MAX)
        return Answer(process.returncode, out.decode(), err.decode())

    def start(
        self, *tokens: str, program: Sequence[str] = PROGRAM, **files: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | files
        process = subprocess.Popen([*program, *tokens], env=self.environment, **pipes)
        self._started.append(process)
        return process

    def stop_all(self) -> None:
        for process in self._started:
            process.kill()
            process.wait(SECONDS_MAX)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


@pytest.fixture
def program(data_dir: str) -> Iterator[Program]:
    """Runs a command line as a process of its own, on the store in ``data_dir``."""
    made = Program(data_dir)
    yield made
    made.stop_all()


def read_until(stream: IO[bytes], wanted: bytes) -> bytes:
    """What a process prints until it has printed this, or the deadline."""
    found = b""
    deadline = time.monotonic() + SECONDS_MAX
    while wanted not in found:
        left = deadline - time.monotonic()
        ready = select.select([stream], [], [], max(0, left))[0]
        chunk = os.read(stream.fileno(), 65536) if ready else b""
        assert chunk, f"no {wanted!r} in {found!r}"
        found += chunk
    return found


def stop(process: subprocess.Popen[bytes]) -> None:
    """Have a process do nothing until SIGCONT; it has stopped when this returns."""
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + SECONDS_MAX
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Remote:
    """Commands that are sent to a server: here, or with a stdin as processes of their own."""

    def __init__(self, program: Program, command: Command, server: Running) -> None:
        self.program = program
        self.server = server
        self._command = command
        program.environment.pop("STRANDLINE_STORE", None)
        program.environment["STRANDLINE_URL"] = server.url

    def __call__(self, *tokens: str, stdin: bytes | None = None) -> Answer:
        if stdin is None:
            return self._command(*tokens)
        return self.program.run(*tokens, stdin=stdin)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server for the tests of a module: each has topics of its own."""
    with running(tmp_path_factory.mktemp("served")) as started:
        yield started


@pytest.fixture
def remote(
    program: Program, command: Command, server: Running, monkeypatch: pytest.MonkeyPatch
) -> Remote:
    """Runs command lines on a server."""
    monkeypatch.delenv("STRANDLINE_STORE")
    monkeypatch.setenv("STRANDLINE_URL", server.url)
    return Remote(program, command, server)


class Terminal:
    """A terminal to put a process on: what it shows, and what a person types."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.openpty()
        self.shown = b""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def look(self, seconds: float = 0.0) -> None:
        """Take in what is shown so far, or soon."""
        while select.select([self._ours], [], [], seconds)[0]:
            seconds = 0.0
            self.shown += os.read(self._ours, 65536)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.look(0.1)

    def close(self) -> None:
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()
