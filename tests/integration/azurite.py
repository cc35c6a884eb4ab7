"""Azurite as a service: Microsoft's emulator of Azure Blob Storage, kept in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import sys
from email.utils import formatdate
from pathlib import Path
from typing import ClassVar

from tests.integration.services import Service, missing

PROGRAM = Path(sys.prefix) / "azurite" / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT = "strandline"
API_VERSION = "2021-08-06"


class Azurite(Service):
    """An Azure Blob Storage with one account."""

    name = "Azurite"
    keeps_objects = False  # on disk it would not, either: it saves its index now and then
    scheme = "az"
    key = base64.b64encode(b"no secret: a key for tests only").decode()
    wrong_credentials: ClassVar = {"account_key": base64.b64encode(b"another key").decode()}

    def start(self) -> None:
        if not PROGRAM.exists():
            missing(self.name, f"run tests/integration/install_services {PROGRAM.parents[2]}")
        self.run(
            str(PROGRAM),
            *("--blobHost", "127.0.0.1", "--blobPort", str(self.port)),
            *("--inMemoryPersistence", "--silent", "--loose", "--skipApiVersionCheck"),
            "--disableTelemetry",
            environment={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"},
        )
        self.wait_until_it_listens()

    def options_at(self, port: int) -> dict[str, str]:
        return {
            "endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}",
            "account_name": ACCOUNT,
            "account_key": self.key,
        }

    def make_bucket(self, bucket: str) -> None:
        path = f"/{ACCOUNT}/{bucket}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": API_VERSION}
        signed = "\n".join(
            [
                "PUT",
                *[""] * 11,  # standard headers that are not sent
                *(f"{name}:{value}" for name, value in sorted(headers.items())),
                f"/{ACCOUNT}{path}",
                "restype:container",
            ]
        )
        digest = hmac.digest(base64.b64decode(self.key), signed.encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("PUT", f"{path}?restype=container", headers=headers)
        answer = connection.getresponse()
        told = answer.read().decode()
        connection.close()
        assert answer.status == 201, told
