"""Promise: threads that meet a struct for the first time at once do not crash the process."""

from __future__ import annotations

import subprocess
import sys

ROUNDS = 40
# Many structs that nobody has decoded yet, and threads that decode each at the same moment.
PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-6)
import msgspec
import strandline.client.connect
import strandline.client.blocking.store
from strandline.api import struct_warmup
if "learn" in sys.argv:
    struct_warmup.warm_up()
structs = [each for each in struct_warmup._structs(msgspec.Struct) if each.__struct_fields__]
structs.reverse()  # those that hold others come first
fields = {each: each.__struct_encode_fields__[-1].encode() for each in structs}
gate = threading.Barrier(4)
def decode():
    for struct in structs:
        gate.wait()
        try:
            msgspec.json.decode(b'{"%b":0}' % fields[struct], type=struct)
        except (msgspec.MsgspecError, TypeError, NameError):
            pass
threads = [threading.Thread(target=decode) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(structs))
"""


def test_structs_that_were_learned_are_met_by_many_threads_at_once():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "learn"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
