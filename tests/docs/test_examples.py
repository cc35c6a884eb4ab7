"""Promise: every Python example in the README and the guides runs as it is written.

One that needs an engine which is not installed is skipped; under ``CI=true`` only Spark may be.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT, read_document
from tests.server.running import running

EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
README_EXAMPLE_LINES_MAX = 10
THE_FIRST_COMES_FIRST = {"docs/guide/lake.md"}
"""Pages whose first example makes what the others read."""
NOTEBOOKS = {"docs/guide/notebook.md"}
"""Pages whose examples are cells: each goes on where the one before it ended."""
SERVED = "http://127.0.0.1:4000"
"""Where examples find a server: the test runs one, at another port."""
ENGINES = {"import polars": "polars", ".to_pandas()": "pandas", "SparkSession": "pyspark"}
NUMBERS = re.compile(r"print\(.*\)\s+# (\d[\d ]*)(?::.*)?$", re.MULTILINE)
"""What an example says that it prints."""
PAGES = ["README.md", *sorted(f"docs/guide/{path.name}" for path in ROOT.glob("docs/guide/*.md"))]
NEEDS_SPARK = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark's own sockets
]


def _examples(page: str) -> list[str]:
    found = EXAMPLE.findall(read_document(page))
    return ["\n".join(found)] if page in NOTEBOOKS else found


EXAMPLES = [
    pytest.param(page, text, id=f"{page}-{number}", marks=NEEDS_SPARK if "spark" in text else ())
    for page in PAGES
    for number, text in enumerate(_examples(page), start=1)
]


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_an_example_runs_as_it_is_written(page, text, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _skip_without_engine(text)
    first = EXAMPLE.findall(read_document(page))[0]
    if page in THE_FIRST_COMES_FIRST and text != first:
        _run(first, page)
        capsys.readouterr()

    with _served(text, tmp_path) as runnable:
        _run(runnable, page)

    printed = capsys.readouterr().out
    assert [numbers for numbers in NUMBERS.findall(text) if numbers not in printed] == []


def test_the_readme_has_one_example_of_ten_lines():
    (example,) = EXAMPLE.findall(read_document("README.md"))

    lines = [line for line in example.splitlines() if line.strip()]

    assert len(lines) <= README_EXAMPLE_LINES_MAX


def test_the_readme_example_says_what_it_prints(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = EXAMPLE.findall(read_document("README.md"))

    _run(example, "README.md")

    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"print\(.*\)\s+# (.*)$", example, re.MULTILINE)


@contextlib.contextmanager
def _served(text: str, path: Path) -> Iterator[str]:
    """The example, with a server that it can ask if it needs one."""
    if SERVED not in text:
        yield text
        return
    with running(path) as server:
        yield text.replace(SERVED, server.url)


def _run(text: str, page: str) -> None:
    exec(compile(text, page, "exec"), {"__name__": "example"})


def _skip_without_engine(text: str) -> None:
    for sign, engine in ENGINES.items():
        if sign not in text or (importlib.util.find_spec(engine) and _can_start(engine)):
            continue
        if os.environ.get("CI") == "true" and engine != "pyspark":
            pytest.fail(f"{engine} is not installed")
        pytest.skip(f"{engine} is not installed")


def _can_start(engine: str) -> bool:
    return engine != "pyspark" or shutil.which("java") is not None
