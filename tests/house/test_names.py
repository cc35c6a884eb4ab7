"""House rule: names and text use the words of the trade, and one word for one idea."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.tree import PACKAGE, ROOT, files, modules, name, parse, read_document

BANNED_IN_NAMES = {
    *(
        "told",
        "tell",
        "tells",
        "telling",
        "said",
        "say",
        "says",
        "asked",
        "asks",
        "asking",
        "meant",
    ),
    *(
        "meant",
        "wish",
        "wished",
        "whoever",
        "nobody",
        "somebody",
        "anew",
        "settle",
        "settled",
        "settling",
    ),
    *("shelf", "desk", "bell", "bells", "baton", "wreck", "graft", "ladder"),
}
"""Verbs of speech, persons and metaphors: a name has the noun of the thing or the operation."""
LIBRARY_NAMES = frozenset({"tell"})
"""Names of the standard library: the position of a file."""
BANNED_IN_TEXT = re.compile(
    r"\b(?:told|said|asked|meant|wished|whoever|nobody|somebody|anew|goes on|go on|lets? go)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"`[^`]*`|name=\"\w+\"")
"""Names of tests in documents, and names of stored fields, which are older than this rule."""
MODULES_MAX = 20
"""In one folder."""
LEVELS_MAX = 3
"""Of packages below ``strandline``."""
TERMS_MAX = 120
SOURCES = ("src", "examples")


def test_a_public_class_name_is_defined_once():
    places = defaultdict(list)
    for path in modules("src"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name(path))

    assert {word: found for word, found in places.items() if len(found) > 1} == {}


def test_no_folder_has_too_many_modules_or_levels():
    count: dict[Path, int] = defaultdict(int)
    for path in modules("src"):
        count[path.parent] += path.name != "__init__.py"
    deep = [name(path) for path in count if len(path.relative_to(PACKAGE).parts) > LEVELS_MAX]

    assert {name(path): size for path, size in count.items() if size > MODULES_MAX} == {}
    assert deep == []


def test_no_identifier_has_a_banned_word():
    assert [
        f"{name(path, line)}: {word}"
        for path in modules(*SOURCES)
        for line, word in _identifiers(path)
        if BANNED_IN_NAMES.intersection(words(word)) and word not in LIBRARY_NAMES
    ] == []


@pytest.mark.parametrize(
    "folder", ["src", "docs", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"]
)
def test_no_text_has_a_banned_word(folder):
    assert [
        f"{name(path, number)}: {line.strip()[:90]}"
        for path in files()
        if path.is_relative_to(ROOT / folder) and path.suffix in {".py", ".md", ".js", ".html"}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if BANNED_IN_TEXT.search(QUOTED.sub("", line))
    ] == []


def test_the_glossary_is_short_and_each_term_has_one_line():
    terms = _terms()

    assert len(terms) <= TERMS_MAX
    assert len(terms) == len(set(terms))


def test_words_of_module_and_class_names_are_in_the_glossary_or_the_list_of_role_words():
    known = {word for term in _terms() for word in words(term)} | _role_words()
    unknown: dict[str, str] = {}
    for path in modules("src"):
        for where, word in _names_of(path):
            for part in words(word):
                if part not in known and part.removesuffix("s") not in known:
                    unknown.setdefault(part, f"{name(path)}: {where}")

    assert unknown == {}


def test_every_role_word_is_used():
    used = {part for path in modules("src") for _, word in _names_of(path) for part in words(word)}

    assert sorted(_role_words() - used - {part.removesuffix("s") for part in used}) == []


def words(identifier: str) -> list[str]:
    """The words of a name in any style: ``SseLine``, ``read_by_seq``, ``_HTTPBody``."""
    return [
        part.lower()
        for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", identifier)
    ]


def _names_of(path: Path) -> Iterator[tuple[str, str]]:
    if path.name != "__init__.py":
        yield "the module", path.stem
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node.name


@cache
def _role_words() -> frozenset[str]:
    lines = read_document("tests/house/role_words.txt").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _terms() -> list[str]:
    rows = re.findall(r"^\| ([^|]+?) \|", read_document("docs/glossary.md"), re.MULTILINE)
    return [row for row in rows if row != "Term"]


def _identifiers(path: Path) -> Iterator[tuple[int, str]]:
    text = io.StringIO(path.read_text(encoding="utf-8"))
    for token in tokenize.generate_tokens(text.readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string
