"""House rule: a module has a telling name, says what it is, and opens files only in platform."""

from __future__ import annotations

import ast
from pathlib import Path

import strandline
from tests.house.tree import PACKAGE, modules, name, parse

NAMES_THAT_COULD_HOLD_ANYTHING = {
    *("base", "common", "core", "helper", "helpers", "manager", "misc", "util", "utils")
}
PUBLIC_DOORS = [PACKAGE / folder for folder in ("", "lake", "pipelines", "spark")]
"""What people import from. Spark has its own, because the first must not import pyspark."""
ROOT_DOOR = PACKAGE / "__init__.py"
"""It imports when a name is used: tests/unit//test_public_names.py."""
MAY_OPEN_FILES = [PACKAGE / folder for folder in ("platform", "testing", "cli")]


def test_every_module_opens_with_a_sentence():
    assert [name(path) for path in modules("src") if not _opens_with_a_sentence(path)] == []


def test_no_module_has_a_name_that_could_hold_anything():
    vague = [
        name(path)
        for path in modules("src", "tests", "bench")
        for part in Path(name(path)).with_suffix("").parts
        if NAMES_THAT_COULD_HOLD_ANYTHING.intersection(part.split("_"))
    ]

    assert vague == []


def test_init_files_hold_a_docstring_and_only_the_public_doors_import():
    with_code = [
        name(path, node.lineno)
        for path in modules("src")
        if path.name == "__init__.py"
        for node in parse(path).body[1:]
        if not (path.parent in PUBLIC_DOORS and (_is_import(node) or _is_all(node)))
        if path != ROOT_DOOR
    ]

    assert with_code == []


def test_only_the_edges_open_files():
    calls = [
        name(path, node.lineno)
        for path in modules("src")
        if not any(map(path.is_relative_to, MAY_OPEN_FILES)) and not _binds_open(path)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "open"
    ]

    assert calls == []


def test_the_tests_run_against_this_tree():
    """A copied .venv still points to where it was made, and would test that code instead."""
    assert Path(strandline.__path__[0]).resolve() == PACKAGE, "run `make clean`, then try again"


def _opens_with_a_sentence(path: Path) -> bool:
    first, *_ = (ast.get_docstring(parse(path)) or "").splitlines() or [""]
    return len(first.split()) > 1 and not first[0].islower() and first[-1] in ".?!"


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _binds_open(path: Path) -> bool:
    """Whether ``open`` in this module is a function of our own."""
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "open" for node in parse(path).body
    )
