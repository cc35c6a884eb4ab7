"""Promise: an import or export that is killed at any instant goes on, and every row is there once.

Each run is a process of its own that is killed after a random while; the last one lives. Beside
some of them a process has the store open, and takes what is delivered.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline
from strandline.pipelines import export, import_files
from tests.unit.pipelines.transfers import datas, make_store

KILLS = 4
KILLS_LONG = 60
ROWS = 30_000
LIFE_S_MAX = 1.5
IMPORT = "import sys; from strandline.pipelines import import_files as run; "
IMPORT += "print(flush=True); run(sys.argv[1], 't', sys.argv[2], part_bytes=int(sys.argv[3]))"
EXPORT = "import sys; from strandline.pipelines import export as run; "
EXPORT += "print(flush=True); run(sys.argv[1], 't', sys.argv[2], file_rows=int(sys.argv[3]))"


def kill_some(choices: random.Random, kills: int, program: str, *arguments: str) -> int:
    """Run it and kill it, again and again; how many died of it."""
    died = 0
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(choices.random() * LIFE_S_MAX)  # the instant of death is what is drawn
        process.kill()
        died += process.wait() != 0
        process.stdout.close()
    return died


def imported_whole(folder: Path, seed: int, kills: int, *, beside: bool) -> None:
    choices = random.Random(seed)
    data_dir = make_store(str(folder / "data"))
    whole = [b'{"n":%d}' % number for number in range(ROWS)]
    (folder / "rows.jsonl").write_bytes(b"\n".join(whole))
    arguments = (data_dir, str(folder / "rows.jsonl"), str(choices.choice([7_000, 40_000])))
    if beside:
        with strandline.open(data_dir):
            kill_some(choices, kills, IMPORT, *arguments)
    else:
        kill_some(choices, kills, IMPORT, *arguments)

    import_files(data_dir, "t", arguments[1], part_bytes=int(arguments[2]))

    assert datas(data_dir) == whole, f"seed {seed}"


def exported_whole(folder: Path, seed: int, kills: int) -> None:
    choices = random.Random(seed)
    data_dir = make_store(str(folder / "data"))
    with strandline.open(data_dir) as store:
        store.topic("t").append([b"%d" % number for number in range(ROWS)])
    rows = choices.choice([500, 3_000])
    out = folder / "out"
    kill_some(choices, kills, EXPORT, data_dir, str(out), str(rows))
    with strandline.open(data_dir) as store:
        store.topic("t").append(b"later")

    summary = export(data_dir, "t", str(out), file_rows=rows)

    files = sorted(out.glob("*.parquet"))
    found = pa.concat_tables([pq.read_table(path) for path in files])
    later = [ROWS + 1] if summary.last_seq > ROWS else []  # none had begun before it came
    assert found["seq"].to_pylist() == [*range(1, ROWS + 1), *later], f"seed {seed}"
    assert summary.rows == len(found)


@pytest.mark.parametrize("beside", [False, True])
def test_an_import_survives_sigkill_at_any_instant(tmp_path: Path, beside: bool):
    imported_whole(tmp_path, random.randrange(1 << 32), KILLS, beside=beside)


def test_an_export_survives_sigkill_at_any_instant(tmp_path: Path):
    exported_whole(tmp_path, random.randrange(1 << 32), KILLS)


@pytest.mark.crash
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
def test_transfers_survive_many_kills(tmp_path: Path, part: int):
    seed = random.randrange(1 << 32)

    for place, kind in enumerate(("alone", "beside", "export")):
        folder = tmp_path / kind
        folder.mkdir()
        if kind == "export":
            exported_whole(folder, seed + place, KILLS_LONG // 4)
        else:
            imported_whole(folder, seed + place, KILLS_LONG // 4, beside=kind == "beside")
