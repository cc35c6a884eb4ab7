"""Promise: every command of the installed program runs, and says in one line what is wrong.

Sessions, line by line, in processes of their own: what one line makes, the next ones use.
"""

from __future__ import annotations

import os
import shlex
import sysconfig
from pathlib import Path

import pytest

from strandline.cli.main import make_app
from tests.cli.conftest import PROGRAM, Program
from tests.docs.test_command_line import _commands
from tests.unit.lake.small_lake import fill, open_small

INSTALLED = Path(sysconfig.get_path("scripts")) / "strandline"
REAL = [str(INSTALLED)] if INSTALLED.exists() else PROGRAM
"""What a user starts."""

SESSION = """

# topics
topic create news --durability fsync
append orders tea cake --tag eu
read orders --output jsonl
tail orders -n 1
topic ls
topic info orders
topic alter news --ttl 30d
topic trim news --before 1
topic rm news --yes

# views
view create metrics usage
view ls
view show metrics usage
view alter metrics usage --option block_points=1000
view digest metrics usage
view rebuild --all
view memory

# keys
kv put profiles ada '{"city":"London"}'
kv get profiles ada
kv ls profiles
kv history profiles ada
kv incr profiles visits
kv json set profiles ada $.born 1815
kv json get profiles ada $.born
kv json delete profiles ada $.born
kv watch profiles --after 0 --timeout 100ms
kv rm profiles ada
kv compact profiles

# jobs
queue put mails one two three
queue peek mails
queue stats mails
queue claim mails --worker w
queue release mails w
queue pause mails
queue resume mails
queue dlq mails
queue redrive mails --dry-run
queue dead ls mails
queue dead redrive mails --dry-run
queue dead purge mails --yes

# points
series write gps bus 1,2 --at 10
series range gps bus
series latest gps
series ls gps
series stats gps
series retain gps --floor 5

# measurements
metrics write usage
metrics query usage cpu[1h]
metrics cardinality usage
metrics rule keep usage cpu 30d
metrics rule downsample usage cpu --into cpu_1h --window 1h
metrics rule ls usage
metrics rule remove usage keep cpu

# questions
group ls
sql "select count(*) from orders"
run "DEFINE pay FIELDS {amount: \\"u64\\"}"
router put all orders copies
router ls
router show all
router rm all

# guards
token create --scopes read:*
token ls
token revoke --all
audit show
audit verify
audit restart --yes

# lake
checkpoint
lake relocate
lake files orders
lake topics
lake sweep
pipeline ls
pipeline run export --topic orders --to exported --format jsonl
pipeline run import exported --topic copied --create --data data --dry-run
pipeline run compact --dry-run
pipeline run scrub

# care
inspect
verify
repair --dry-run
backup --to backups
backup ls --from backups
backup verify --from backups --quick
backup prune --from backups --keep 1
restore --from backups --to restored

# machine
bench --seconds 0.01
doctor
dashboard
completion bash
context add here --store data
context use here
context show
context ls
context rm here
"""
ELSEWHERE = {
    "serve": "tests/server/test_serve.py",
    "demo": "tests/cli/test_demo_shop.py",
    "queue ack": "tests/cli/test_queues.py",
    "queue nack": "tests/cli/test_queues.py",
    "queue extend": "tests/cli/test_queues.py",
    "group show": "tests/cli/test_groups.py",
    "group seek": "tests/cli/test_groups.py",
    "reservoir inspect": "tests/cli/test_reservoir.py",
    "reservoir verify": "tests/cli/test_reservoir.py",
    "reservoir clean": "tests/cli/test_reservoir.py",
}
"""Commands that need more than a line before them, and where they are tested."""
MISTAKES = {
    "mistyped command": "tial orders",
    "mistyped command of a group": "kv gett profiles a",
    "mistyped option": "read orders --limt 3",
    "bad value": "read orders --limit many",
    "bad shape": "topic ls --output xml",
    "missing argument": "append",
    "bad name of a topic": "topic create a/b",
    "unknown topic": "queue stats nothing",
    "unreachable server": "topic ls --url http://127.0.0.1:9",
    "no url": "topic ls --url nonsense",
    "bad command language": "run SELEC",
    "bad sql": "sql 'selec 1'",
    "bad shell": "completion tcsh",
    "bad time": "demo --for -1",
    "bad backup": "backup ls --from nowhere://x",
    "bad token": "token create --scopes nonsense",
}


def _parts() -> dict[str, list[str]]:
    """The lines of the session, by the names of its parts."""
    parts: dict[str, list[str]] = {}
    for line in filter(None, SESSION.splitlines()):
        if line.startswith("# "):
            lines = parts.setdefault(line[2:], [])
        else:
            lines.append(line)
    return parts


@pytest.mark.parametrize("part", _parts())
def test_every_command_runs(program: Program, tmp_path: Path, data_dir: str, part: str):
    with open_small(data_dir) as store:
        fill(store)  # the topic orders, most of it in the lake
    failures = {}

    for line in _parts()[part]:
        answer = _run(program, tmp_path, line)
        if answer[0]:
            failures[line] = answer

    assert failures == {}


def test_every_command_is_in_the_session_or_is_tested_elsewhere():
    begun = [" ".join(shlex.split(line)) for line in SESSION.splitlines() if line]

    missing = [
        command
        for command in _commands(make_app())
        if command not in ELSEWHERE
        and not any(f"{line} ".startswith(f"{command} ") for line in begun)
    ]

    assert missing == []
    assert {path for path in ELSEWHERE.values() if not Path(path).exists()} == set()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_two_lines(program: Program, tmp_path: Path, mistake: str):
    code, _, err = _run(program, tmp_path, MISTAKES[mistake])

    message, hint = err.splitlines()
    assert code in (1, 2)
    assert message.startswith("error: ")
    assert hint.startswith("hint: ")
    assert "bug in strandline" not in message


def _run(program: Program, folder: Path, line: str) -> tuple[int, str, str]:
    lines = b"cpu,host=a load=0.5\n" if line.startswith("metrics write") else b""
    process = program.start(*shlex.split(line), program=[*_in(folder), *REAL])
    out, err = process.communicate(lines, timeout=120)
    return process.returncode, out.decode(), err.decode()


def _in(folder: Path) -> list[str]:
    """Starts a program in a folder."""
    return ["env", "-C", os.fspath(folder)]
