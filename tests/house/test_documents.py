"""House rule: what a document or docstring points to exists, and each promise names its test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import PACKAGE, ROOT, files, modules, name, parse, read_document

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/guarantees.md"]
TOP_FOLDERS = ("src/", "tests/", "docs/", "bench/")
QUOTED = re.compile(r"`+([^`\s]+)`+")
BARE = re.compile(r"(?<![\w./`-])(?:src|tests|docs|bench)/[\w./*-]*\.(?:py|md)\b")
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_documents_a_newcomer_needs_exist(document):
    assert read_document(document).startswith("# ")


def test_every_path_in_a_document_exists():
    missing = [
        f"{name(path)}: {target}"
        for path in _documents()
        for target in _quoted_paths(CODE_BLOCK.sub("", path.read_text(encoding="utf-8")))
        if not _exists(target, [ROOT, path.parent, PACKAGE])
    ]

    assert missing == []


def test_every_link_in_a_document_leads_somewhere():
    missing = [
        f"{name(path)}: {target}"
        for path in _documents()
        for target in LINK.findall(CODE_BLOCK.sub("", path.read_text(encoding="utf-8")))
        if ":" not in target and not (path.parent / target).exists()
    ]

    assert missing == []


def test_every_path_in_a_docstring_or_comment_exists():
    missing = [
        f"{name(path)}: {target}"
        for path in modules("src", "bench")
        for target in _paths_in_module(path)
        if not _exists(target, [ROOT, path.parent, PACKAGE])
    ]

    assert missing == []


def test_every_promise_names_a_test_that_exists():
    promises = list(_promises(read_document("docs/guarantees.md")))

    unproved = [row for row in promises if not _names_a_test(row)]

    assert promises, "docs/guarantees.md needs a table with a column `promise`"
    assert unproved == []


def test_the_changelog_has_a_place_for_the_next_change():
    assert re.search(r"^## \[?Unreleased\]?", read_document("CHANGELOG.md"), re.MULTILINE)


def _documents() -> list[Path]:
    folders = (ROOT / "docs", ROOT / "tests")
    return [
        path
        for path in files()
        if path.suffix == ".md"
        if any(map(path.is_relative_to, folders)) or name(path) in DOCUMENTS
    ]


def _quoted_paths(text: str) -> Iterator[str]:
    """What stands in backticks and looks like a path of this repository."""
    for found in QUOTED.findall(text):
        target = found.partition("::")[0].partition("#")[0]
        if "://" in target or re.search(r"[<>{}…=]", target) or target.startswith(("/", "~")):
            continue
        if target.startswith(TOP_FOLDERS) or ("/" in target and target.endswith((".py", ".md"))):
            yield target


def _paths_in_module(path: Path) -> Iterator[str]:
    yield from BARE.findall(path.read_text(encoding="utf-8"))
    yield from _quoted_paths(ast.get_docstring(parse(path)) or "")


def _exists(target: str, bases: list[Path]) -> bool:
    """Whether the path, or for a pattern some file, exists under one of the bases."""
    return any(next(base.glob(target.rstrip("/")), None) is not None for base in bases)


def _promises(text: str) -> Iterator[str]:
    """The rows of every table that has a column named promise."""
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        header, _, *rows = table.splitlines()
        if "promise" in (cell.strip().lower() for cell in header.split("|")):
            yield from rows


def _names_a_test(row: str) -> bool:
    """Whether every test named in the row exists, and there is one."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
    return bool(named) and all(
        (ROOT / path).is_file() and (not rule or rule in _rules(ROOT / path))
        for path, rule in named
    )


def _rules(path: Path) -> set[str]:
    return {node.name for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef)}
