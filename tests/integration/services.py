"""Real object stores for tests: started on free ports of this machine, in folders of their own.

    moto       an S3 in Python, from the development extra
    Azurite    Microsoft's emulator of its Blob Storage, from npm
    Ceph       a monitor, one storage daemon and the RADOS gateway, from Debian's packages

``tests/integration/install_services`` fetches what is missing. A service that is not there skips
its tests and says why; under ``CI=true`` it fails them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import boto3
import botocore.config
import pytest

WAIT_S_MAX = 60


class Service:
    """An object store that can be killed and started again. Owned by one thread."""

    name = ""
    scheme = "s3"
    keeps_objects = True
    """Whether they are still there after a restart."""
    wrong_credentials: ClassVar[Mapping[str, str]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def options(self) -> dict[str, str]:
        """How to open a store of this service."""
        return self.options_at(self.port)

    def options_at(self, port: int) -> dict[str, str]:
        raise NotImplementedError

    @property
    def secret(self) -> str:
        """What must not appear in any message."""
        options = self.options
        return options.get("secret_access_key") or options["account_key"]

    def start(self) -> None:
        raise NotImplementedError

    def make_bucket(self, bucket: str) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        """End what answers requests, without a goodbye."""
        self.processes[-1].kill()
        self.processes.pop().wait(WAIT_S_MAX)

    def restart(self) -> None:
        self.start()

    def stop(self) -> None:
        while self.processes:
            self.kill()

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a process that ends with this one."""
        last_will = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with (self.folder / "output").open("ab") as output:
            process = subprocess.Popen(
                [*last_will, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
            )
        self.processes.append(process)

    def wait_until_it_listens(self) -> None:
        self.wait_for(lambda: listens(self.port), "it does not listen")

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not happened():
            alive = all(process.poll() is None for process in self.processes)
            if not alive or time.monotonic() > deadline:
                told = (self.folder / "output").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.name}: {what}:\n{told}")
            time.sleep(0.05)


class Moto(Service):
    """An S3 in Python. It believes every signature and forgets everything at its end."""

    name = "moto"
    keeps_objects = False

    def start(self) -> None:
        self.run(sys.executable, str(Path(__file__).with_name("moto_server.py")), str(self.port))
        self.wait_until_it_listens()

    def options_at(self, port: int) -> dict[str, str]:
        return s3_options(port, "moto-key", "moto-secret")

    def make_bucket(self, bucket: str) -> None:
        s3_make_bucket(self.options, bucket)


def s3_options(port: int, key: str, secret: str) -> dict[str, str]:
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": key,
        "secret_access_key": secret,
    }


def s3_make_bucket(options: Mapping[str, str], bucket: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint"],
        region_name=options["region"],
        aws_access_key_id=options["access_key_id"],
        aws_secret_access_key=options["secret_access_key"],
        config=botocore.config.Config(s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket=bucket)
    client.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def fresh_name(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(6)}"


def missing(service: str, why: str) -> None:
    """Skip the test, or fail it where everything must be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{service} is needed under CI=true: {why}")
    pytest.skip(f"{service}: {why}")
