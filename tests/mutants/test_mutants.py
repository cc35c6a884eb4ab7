"""Promise: every planted bug makes the test fail that was written against it.

A test that no bug can fail defends nothing. Each mutant runs its test in a process of its own; that
the same test passes without the mutant is what every other run shows.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, SAMPLE, Mutant, broken, tree_at

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1
PROCESS_SECONDS_MAX = 120


def _path(mutant: Mutant) -> str:
    folder = "" if "/" in mutant.file else "crash/sim/"
    return f"tests/{folder}{mutant.file}.py"


def _in_turn() -> list:
    return [
        pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow) for name in MUTANTS
    ]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_code_as_it_is(name):
    mutant = MUTANTS[name]

    source = (ROOT / _path(mutant)).read_text()

    assert ast.dump(broken(mutant)) != ast.dump(tree_at(mutant.place)), "changes nothing"
    assert f"def {mutant.test.partition('[')[0]}(" in source


@pytest.mark.parametrize("name", _in_turn())
def test_a_planted_bug_is_noticed(name):
    mutant = MUTANTS[name]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]

    done = subprocess.run(
        [*command, f"{_path(mutant)}::{mutant.test}"],
        env=os.environ | {"STRANDLINE_MUTANT": name},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )

    assert done.returncode == TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed" in done.stdout
