"""Promise: `import strandline` is quick, and has every name as if it had imported them all."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import strandline

ENGINE = {"numpy", "pyarrow", "duckdb", "obstore", "msgspec", "strandline.store"}


def _in_a_new_process(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _names_for_type_checkers() -> dict[str, tuple[str, str]]:
    """Module and name there of every name that a type checker sees."""
    tree = ast.parse(Path(strandline.__file__).read_bytes())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_the_names_that_are_exported():
    assert sorted(_names_for_type_checkers()) == sorted(strandline.__all__)


@pytest.mark.parametrize("name", strandline.__all__)
def test_a_name_is_what_type_checkers_take_it_for(name: str):
    module, attribute = _names_for_type_checkers()[name]

    assert getattr(strandline, name) is getattr(import_module(module), attribute)


def test_importing_the_package_imports_no_engine():
    program = f"import strandline, sys; print(sorted({ENGINE!r} & sys.modules.keys()))"

    assert _in_a_new_process(program) == "[]"


def test_all_names_are_listed_and_can_be_imported_at_once():
    program = (
        "import strandline; assert set(strandline.__all__) <= set(dir(strandline))\n"
        "from strandline import *; print(open.__name__, reservoir.__name__, lake.__name__)"
    )

    assert _in_a_new_process(program) == "Store open_reservoir strandline.lake"


@pytest.mark.parametrize("first", ["strandline.reservoir", "strandline.reservoir.btree.btree_map"])
def test_the_package_of_reservoirs_does_not_hide_the_function(first: str):
    program = f"import {first}; import strandline; print(strandline.reservoir.__name__)"

    assert _in_a_new_process(program) == "open_reservoir"


def test_a_submodule_is_an_attribute_without_an_import_of_its_own():
    program = "import strandline; print(strandline.errors.Closed is strandline.Closed)"

    assert _in_a_new_process(program) == "True"


def test_a_name_that_does_not_exist_is_refused():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = strandline.nonsense
