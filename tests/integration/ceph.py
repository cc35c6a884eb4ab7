"""Ceph as a service: a monitor, one storage daemon in memory, the RADOS gateway; cephx is on."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from pathlib import Path
from typing import ClassVar

from tests.integration.services import (
    WAIT_S_MAX,
    Service,
    free_port,
    missing,
    s3_make_bucket,
    s3_options,
)

PROGRAMS = (
    *("ceph", "ceph-authtool", "ceph-mon", "ceph-osd"),
    *("monmaptool", "radosgw", "radosgw-admin"),
)
ADMIN = "client.admin"
KEY, SECRET = "strandline-tests", "no-secret-a-key-for-tests-only"
RIGHTS = {
    "mon.": ("mon", "allow *"),
    ADMIN: ("mon", "allow *", "osd", "allow *", "mgr", "allow *"),
    "osd.0": ("mon", "allow profile osd", "osd", "allow *"),
    "client.rgw": ("mon", "allow rw", "osd", "allow rwx"),
}
CONFIGURATION = """\
[global]
fsid = {fsid}
mon_host = {address}
ms_bind_msgr1 = false
public_addr = 127.0.0.1
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {folder}/keyring
mon_data = {folder}/mon
osd_data = {folder}/osd
run_dir = {folder}
crash_dir = {folder}
admin_socket =
pid_file =
log_file =
log_to_stderr = false
mon_cluster_log_file = /dev/null
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_client_watch_timeout = 2
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
paxos_propose_interval = 0.01
paxos_min_wait = 0.01
"""


class Ceph(Service):
    """A small cluster. What is killed is its gateway, which keeps nothing itself."""

    name = "Ceph"
    wrong_credentials: ClassVar = {"secret_access_key": "another"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._configuration = folder / "ceph.conf"
        self._fsid = str(uuid.uuid4())

    def start(self) -> None:
        absent = [program for program in PROGRAMS if shutil.which(program) is None]
        if absent:
            missing(self.name, f"{', '.join(absent)} not installed: run install_services as root")
        self._start_monitor()
        self._start_storage()
        self.restart()
        self._call(
            *("radosgw-admin", "-n", ADMIN, "user", "create", "--uid", "tests"),
            *("--display-name", "tests", "--access-key", KEY, "--secret-key", SECRET),
        )

    def restart(self) -> None:
        frontend = f"beast endpoint=127.0.0.1:{self.port}"
        self._run("radosgw", "-n", "client.rgw", "-f", "--rgw-frontends", frontend)
        self.wait_until_it_listens()

    def options_at(self, port: int) -> dict[str, str]:
        return s3_options(port, KEY, SECRET)

    def make_bucket(self, bucket: str) -> None:
        s3_make_bucket(self.options, bucket)

    def _start_monitor(self) -> None:
        address = f"v2:127.0.0.1:{free_port()}/0"
        self._configuration.write_text(
            CONFIGURATION.format(fsid=self._fsid, address=address, folder=self.folder)
        )
        keyring, monmap = str(self.folder / "keyring"), str(self.folder / "monmap")
        self._call("ceph-authtool", "--create-keyring", keyring)
        for name, rights in RIGHTS.items():
            pairs = zip(rights[::2], rights[1::2], strict=True)
            caps = [word for service, right in pairs for word in ("--cap", service, right)]
            self._call("ceph-authtool", keyring, "--gen-key", "-n", name, *caps)
        self._call("monmaptool", "--create", "--addv", "a", address, "--fsid", self._fsid, monmap)
        (self.folder / "mon").mkdir()
        self._call("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)
        self._run("ceph-mon", "-i", "a", "-f")

    def _start_storage(self) -> None:
        identity = str(uuid.uuid4())
        (self.folder / "osd").mkdir()
        self._call("ceph", "-n", ADMIN, "osd", "new", identity, "0")
        self._call("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity)
        self._run("ceph-osd", "-i", "0", "-f")
        self.wait_for(
            lambda: "1 up" in self._call("ceph", "-n", ADMIN, "osd", "stat"), "no storage daemon"
        )

    def _run(self, program: str, *arguments: str) -> None:
        self.run(program, "-c", str(self._configuration), *arguments)

    def _call(self, program: str, *arguments: str) -> str:
        """Run to its end; what it said."""
        of_ceph = program not in ("ceph-authtool", "monmaptool")
        where = ["-c", str(self._configuration)] if of_ceph else []
        ended = subprocess.run(
            [program, *where, *arguments],
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)}:\n{ended.stderr[-2000:]}")
        return ended.stdout
