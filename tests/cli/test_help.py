"""Promise: every command and option is described, and the list of commands costs next to nothing.

The list is printed from a table, without the code of any command; so what the table says is
compared here with what each command says itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from cyclopts import App

from strandline.cli import overview
from strandline.cli.commands import COMMANDS, OPTIONS
from strandline.cli.program import make_app
from tests.cli.conftest import Command
from tests.docs.test_command_line import _commands

COLUMNS = 80
SUMMARIES = {name: each.summary for group in COMMANDS.values() for name, each in group.items()}
HEAVY = {
    *("numpy", "pyarrow", "pandas", "duckdb", "msgspec", "obstore", "structlog", "uvloop"),
    *("starlette", "httpx2", "rich", "cyclopts", "strandline.store", "strandline.config.settings"),
}
IMPORTED = f"""
import sys
from strandline.cli.main import run
code = run(sys.argv[1:])
print(code, sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)
"""


def _all(app: App, *before: str) -> Iterator[tuple[str, App]]:
    """Every command and group of commands, by its words."""
    for name in app:
        if not name.startswith("-"):
            yield " ".join([*before, name]), app[name]
            yield from _all(app[name], *before, name)


def _summary(app: App) -> str:
    return " ".join(app.help.partition("\n\n")[0].split()).rstrip(".")


@pytest.fixture(scope="module")
def every() -> dict[str, App]:
    return dict(_all(make_app()))


def test_the_list_has_every_command_with_its_summary(command: Command):
    page = command("--help")

    assert page.code == 0
    rows = [line.split(maxsplit=1) for line in page.lines if line.startswith("  ")]
    names = {name.split()[0] for name in _commands(make_app())}
    assert {row[0]: row[1] for row in rows if row[0] in names} == SUMMARIES
    assert SUMMARIES.keys() == names
    assert all(f"\n{title}:\n" in page.out for title in COMMANDS)


@pytest.mark.parametrize(
    "words", [[], ["-h"], ["--version", "--help"], ["--store", "x", "--help"]], ids=" ".join
)
def test_the_list_is_the_same_however_it_is_requested(command: Command, words: list[str]):
    assert command(*words).out == overview.page() + "\n"


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["append", "--help"], "Usage: strandline append "),
        (["-h", "topic"], "Usage: strandline topic COMMAND"),
        (["--install-completion", "--help"], "Usage: strandline --install-completion "),
    ],
    ids=" ".join,
)
def test_help_of_something_else_is_not_the_list(command: Command, words: list[str], usage: str):
    assert command(*words).out.startswith(usage)


@pytest.mark.parametrize("words", [["--help", "bogus"], ["bogus", "-h"]], ids=" ".join)
def test_help_of_an_unknown_command_is_refused(command: Command, words: list[str]):
    assert 'unknown command "bogus"' in command(*words).err


def test_a_line_of_the_list_fits_a_terminal():
    assert [line for line in overview.page().splitlines() if len(line) > COLUMNS] == []


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_command_has_the_same_summary_as_in_the_list(every: dict[str, App], name: str):
    assert _summary(every[name]) == SUMMARIES[name].rstrip(".")


def test_the_options_of_the_program_are_listed():
    spellings = {word for option in OPTIONS for word in option.split(", ")}

    assert spellings == {name for name in make_app() if name.startswith("-")}


def test_every_command_and_group_of_commands_is_described(every: dict[str, App]):
    assert [name for name, app in every.items() if not app.help.strip()] == []


def test_every_argument_and_option_is_described(every: dict[str, App]):
    silent = [
        f"{name} {argument.name}"
        for name, app in every.items()
        if app.default_command is not None
        for argument in app.assemble_argument_collection(parse_docstring=True)
        if argument.show and not (argument.parameter.help or "").strip()
    ]

    assert silent == []


@pytest.mark.parametrize("word", ["--help", "-h", "--version"])
def test_help_and_version_import_nothing_heavy(word: str):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, word], capture_output=True, text=True, check=False
    )

    assert done.stderr.strip() == "0 []"
    assert done.stdout
