"""Promise: every command of the installed program runs, and says in one line what is wrong.

Sessions, line by line, each a process of the installed program: what one line makes, the next ones
use. The commands are those that the program itself knows, so a new one fails here until a line runs
it.

    {ticket}   a field of the last JSON that was printed
    ... &      is stopped, as by Ctrl-C, once it says that it serves
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sysconfig
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from strandline.cli.program import make_app
from tests.cli.conftest import PROGRAM, Program, read_until
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
topic trim news --before 1 --yes
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
queue claim mails --worker w --output json
queue extend mails {ticket} --lease 1m
queue nack mails {ticket}
queue claim mails --worker w --output json
queue ack mails {ticket}
queue release mails w
queue purge mails --tag none --yes
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
series retain gps --floor 5 --yes

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
group show orders billing
group seek orders billing --to earliest
group alter orders billing --lease 1m
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
pipeline ls --config declared.toml
pipeline schedule --once --config declared.toml
pipeline runs
pipeline run export --topic orders --to exported --format jsonl
pipeline run import exported --topic copied --create --data data --dry-run
pipeline run compact --dry-run
pipeline run scrub
pipeline run materialize --full
kv put profiles ada x
pipeline run rebuild kv profiles
pipeline run rollup

# care
inspect
verify
repair --dry-run
backup --to backups
backup ls --from backups
backup verify --from backups --quick
backup prune --from backups --keep 1 --yes
restore --from backups --to restored

# pages
kv put profiles ada x
reservoir versions data
reservoir inspect data --version views
reservoir verify data --version views
reservoir clean data --version views --yes

# serving
serve --data data --bind 127.0.0.1:0 &
demo --no-pipeline --for 100ms

# machine
bench --seconds 0.01
doctor
dashboard
completion bash
--install-completion --shell bash --output completed
--version
--help
context add here --store data
context use here
context show
context ls
context rm here
"""
Run = Callable[[str], tuple[int, str, str]]
DECLARED = '[[store.pipelines.declared]]\nname = "daily"\npipeline = "scrub"\nevery = "1d"\n'
"""A file of settings for commands that want one."""
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
    "bad time": "demo --for 5",
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


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that has a little of everything."""
    folder = tmp_path_factory.mktemp("prepared")
    with open_small(str(folder / "data")) as store:
        fill(store)  # the topic orders, most of it in the lake
        with store.group("orders", "billing").join("w"):
            pass
    (folder / "declared.toml").write_text(DECLARED)
    return folder


@pytest.fixture
def run(program: Program, tmp_path: Path) -> Run:
    """Runs a line in a folder of the test's own, on the store in it."""

    def call(line: str) -> tuple[int, str, str]:
        tokens = shlex.split(line.removesuffix("&"))
        process = program.start(*tokens, program=[*_in(tmp_path), *REAL])
        if line.endswith("&"):
            read_until(process.stderr, b"serving ")
            process.send_signal(signal.SIGINT)
        lines = b"cpu,host=a load=0.5\n" if line.startswith("metrics write") else b""
        out, err = process.communicate(lines, timeout=120)
        return process.returncode, out.decode(), err.decode()

    return call


@pytest.mark.parametrize("part", _parts())
def test_every_command_runs(run: Run, prepared: Path, tmp_path: Path, part: str):
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    failures = {}
    printed: dict[str, str] = {}

    for line in _parts()[part]:
        answer = run(line.format_map(printed) if "{ticket}" in line else line)
        if answer[0]:
            failures[line] = answer
        elif line.endswith("--output json"):
            (printed,) = msgspec.json.decode(answer[1])

    assert failures == {}


def test_every_command_that_the_program_knows_is_in_the_session():
    known = {*_commands(make_app()), *(name for name in make_app() if name.startswith("--"))}
    begun = {_command_of(line, known) for lines in _parts().values() for line in lines}

    assert known - begun == set()


def test_a_line_runs_the_command_that_it_names_and_no_other():
    known = {"backup", "backup ls", "queue"}

    assert _command_of("backup ls --from x", known) == "backup ls"
    assert _command_of("backup --to x", known) == "backup"
    assert _command_of("backups", known) is None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_two_lines(run: Run, mistake: str):
    code, _, err = run(MISTAKES[mistake])

    message, hint = err.splitlines()
    assert code in (1, 2)
    assert message.startswith("error: ")
    assert hint.startswith("hint: ")
    assert "bug in strandline" not in message


def _command_of(line: str, known: set[str]) -> str | None:
    """The command that a line runs: the longest name that it begins with."""
    return max((name for name in known if f"{line} ".startswith(f"{name} ")), key=len, default=None)


def _in(folder: Path) -> list[str]:
    """Starts a program in a folder."""
    return ["env", "-C", os.fspath(folder), f"HOME={folder}"]
