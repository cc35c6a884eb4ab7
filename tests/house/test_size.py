"""House rule: a file is one idea and a function one thought, so both stay short."""

from __future__ import annotations

import ast

from tests.house.tree import modules, name, parse

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60


def test_no_source_file_is_over_500_lines():
    assert _long_files("src") == []


def test_no_test_file_is_over_500_lines():
    assert _long_files("tests") == []


def test_no_function_is_over_60_lines():
    long = [
        f"{name(path, node.lineno)} {node.name}: {size} lines"
        for path in modules("src", "tests")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert long == []


def _long_files(folder: str) -> list[str]:
    sizes = {name(path): len(path.read_bytes().splitlines()) for path in modules(folder)}
    return [f"{place}: {size} lines" for place, size in sizes.items() if size > FILE_LINES_MAX]
