"""Promise: a process that was forked with questions open goes on, and can ask questions itself."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, tempfile, strandline

folder = tempfile.mkdtemp()
store = strandline.open(folder)
store.run('DEFINE pay FIELDS {n: "int"}')
store.run('STORE pay FOR a PAYLOAD {"n": 1}')
assert store.run("QUERY pay COUNT").rows() == store.sql("select count(*) as count from pay").rows()
store.sync()
child = os.fork()
if child == 0:
    with strandline.open(folder, readonly=True) as own:
        found = own.run("QUERY pay COUNT").rows() + own.sql("select count(*) as n from pay").rows()
    os._exit(0 if found == [{"count": 1}, {"n": 1}] else 1)
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status))
print("parent", store.run("QUERY pay COUNT").rows())
store.close()
"""


def test_a_forked_child_and_its_parent_both_ask():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.splitlines() == ["child 0", "parent [{'count': 1}]"], done.stderr
