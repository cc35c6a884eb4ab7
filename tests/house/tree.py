"""The files of this repository as the house rules see them: listed, read and parsed once."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "strandline"


@cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the repository: all but what .gitignore names."""
    lines = (ROOT / ".gitignore").read_text().split()
    return tuple(_walk(ROOT, [".git", *(line.rstrip("/") for line in lines)]))


def modules(*folders: str) -> list[Path]:
    """The Python files under these folders of the repository."""
    roots = [ROOT / folder for folder in folders]
    return [
        path for path in files() if path.suffix == ".py" and any(map(path.is_relative_to, roots))
    ]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


def read_document(name: str) -> str:
    """The text of a document that must exist."""
    path = ROOT / name
    assert path.is_file(), f"{name} is missing"
    return path.read_text(encoding="utf-8")


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """The comments of a module with their line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def name(path: Path, line: int | None = None) -> str:
    """How a rule names the place that broke it."""
    place = path.relative_to(ROOT).as_posix()
    return place if line is None else f"{place}:{line}"


def _walk(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if any(fnmatch(path.name, pattern) for pattern in ignored):
            continue
        if path.is_dir():
            yield from _walk(path, ignored)
        else:
            yield path
