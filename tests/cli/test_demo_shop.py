"""Promise: ``strandline demo`` serves a shop in which something happens, and ends when told."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import strandline
from tests.cli.conftest import SECONDS_MAX, Program, read_until


def test_the_shop_is_served_and_new_orders_come_in(program: Program, tmp_path: Path):
    data = str(tmp_path / "shop")
    demo = program.start("demo", "--data", data, "--no-pipeline")
    told = read_until(demo.stdout, b"Stop with Ctrl-C").decode()
    url = re.search(r"STRANDLINE_URL=(\S+)", told)[1]
    program.environment.pop("STRANDLINE_STORE")

    with strandline.connect(url) as store:
        orders = store.topic("orders")
        newest = next(iter(orders.follow(orders.head_seq, timeout_s=SECONDS_MAX)))
        names = {(kind, name) for kind, name in store.views.names()}
        funnel = store.run("SHOW funnel").rows()
    asked = program.run("queue", "stats", "mails", "--url", url, "--output", "json")
    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=SECONDS_MAX)

    assert b"customer" in newest.data
    assert {
        ("kv", "profiles"),
        ("queue", "mails"),
        ("series", "gps"),
        ("table", "checkout"),
    } <= names
    assert len(funnel) == 4
    assert asked.code == 0
    assert f"{url}/v0/openapi.json" in told
    assert (demo.returncode, err) == (0, b"")
    assert b"stopping" in out
    with strandline.open(data, readonly=True) as store:
        assert store.topic("orders").head_seq >= newest.seq


def test_it_ends_by_itself_and_removes_its_folder(program: Program, tmp_path: Path):
    program.environment["TMPDIR"] = str(tmp_path)

    answer = program.run("demo", "--for", "500ms", "--no-pipeline")

    assert answer.code == 0, answer.err
    assert list(tmp_path.glob("strandline-demo-*")) == []
