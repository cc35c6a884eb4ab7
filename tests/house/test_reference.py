"""House rule: every error and every setting is explained where a caller will look for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.house.tree import PACKAGE, parse, read_document


def test_every_error_says_what_to_do():
    silent = [error.name for error in _classes("errors.py") if not ast.get_docstring(error)]

    assert silent == []


def test_every_error_code_is_in_the_guide():
    guide = read_document("docs/guide/errors.md")

    missing = [
        code for error in _classes("errors.py") if f"`{(code := _code(error))}`" not in guide
    ]

    assert missing == []


@pytest.mark.parametrize(
    "module",
    [
        *("config/settings.py", "config/view_config.py", "config/pipeline_config.py"),
        *("server/settings.py", "client/settings.py"),
    ],
)
def test_every_setting_and_group_of_settings_is_described(module):
    structs = _classes(module)

    silent = [struct.name for struct in structs if not ast.get_docstring(struct)]
    silent += [
        f"{struct.name}.{field}"
        for struct in structs
        for field in _fields_without_docstring(struct)
    ]

    assert silent == []


def _classes(module: str) -> list[ast.ClassDef]:
    found = [node for node in parse(PACKAGE / module).body if isinstance(node, ast.ClassDef)]
    assert found, f"{module} defines no class"
    return found


def _code(error: ast.ClassDef) -> str:
    for node in error.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(node).startswith("code"):
            return str(ast.literal_eval(node.value))
    raise AssertionError(f"{error.name} has no code of its own")


def _fields_without_docstring(struct: ast.ClassDef) -> Iterator[str]:
    for node, follower in pairwise([*struct.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and not _is_text(follower):
            yield ast.unparse(node.target)


def _is_text(node: ast.stmt) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return False
    return isinstance(node.value.value, str)
