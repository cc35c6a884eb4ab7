"""Makes the blocking client from the asynchronous one: ``python -m tests.house.blocking``.

Word by word: ``await`` and ``async`` go, the names of async things become those of blocking ones,
and ruff lays the lines out again. Nobody changes the files that come of it by hand:
``test_blocking.py`` compares them.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import PACKAGE, ROOT

SOURCE = PACKAGE / "client" / "asynchronous"
TARGET = PACKAGE / "client" / "blocking"
NOTE = "# Made from {name} by tests/house/blocking.py: change that one.\n"

NAMES = {
    "AsyncClient": "Client",
    "AsyncHTTPTransport": "HTTPTransport",
    "AsyncIterator": "Iterator",
    "AsyncIterable": "Iterable",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "aread": "read",
    "asynchronous": "blocking",
}
"""Names of others; those of our own classes go from ``Async…`` to ``Remote…``."""

PHRASES = {
    "The client, for coroutines. The blocking one is made from it by": (
        "The client, blocking. It is made from the one for coroutines by"
    ),
    "Awaitable[int]": "int",
    "Safe from many tasks of one loop": "Safe from many threads",
    "Owned by one task": "Owned by one thread",
}
"""What a docstring says that is otherwise here."""

FIXES = (
    *("--select", "I,F401,UP028", "--fix", "--unsafe-fixes", "--quiet", "--config"),
    'lint.isort.known-first-party=["strandline"]',
)
"""Names that are no longer used, and loops that only yield: what blocking code writes otherwise."""


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    wanted = {path.name: made_of(path) for path in sources()}
    for path in TARGET.glob("*.py"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (TARGET / name).write_text(text, encoding="utf-8")


def sources() -> list[Path]:
    return sorted(SOURCE.glob("*.py"))


def made_of(path: Path) -> str:
    """The blocking file that an asynchronous one makes."""
    text = "".join(_words(path.read_text(encoding="utf-8")))
    for said, other in PHRASES.items():
        text = text.replace(said, other)
    note = NOTE.format(name=path.relative_to(PACKAGE / "client").as_posix())
    return _formatted(note + text, TARGET / path.name)


def _words(text: str) -> Iterator[str]:
    """The text with its words replaced, all between them kept."""
    line, column = 1, 0
    lines = text.splitlines(keepends=True)
    skip_blank = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        between = _between(lines, (line, column), token.start)
        if skip_blank:
            between = between.lstrip(" ")
            skip_blank = False
        yield between
        line, column = token.end
        if token.type == tokenize.NAME:
            word = blocking_word(token.string)
            skip_blank = not word
            yield word
        elif token.type == tokenize.STRING:
            yield _in_text(token.string)
        else:
            yield token.string


def blocking_word(word: str) -> str:
    """What stands for a word; nothing for ``async`` and ``await``."""
    if word in ("async", "await"):
        return ""
    if word in NAMES:
        return NAMES[word]
    if word.startswith("Async") and word[5:6].isupper():
        return "Remote" + word[5:]
    return word


def _in_text(text: str) -> str:
    """A string with the names of our classes in it, as in a repr or a forward reference."""
    parts = text.split("Async")
    return "".join(
        [parts[0], *(("Remote" if part[:1].isupper() else "Async") + part for part in parts[1:])]
    )


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    middle = lines[start[0] - 1][start[1] :] + "".join(lines[start[0] : end[0] - 1])
    return middle + (lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else "")


def _formatted(text: str, path: Path) -> str:
    for order in (["check", *FIXES], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *order, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


if __name__ == "__main__":
    main()
