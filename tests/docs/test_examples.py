"""Promise: every Python example in the README and the guides runs as it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from strandline.errors import NotInstalled
from strandline.spark import sessions
from tests.house.tree import ROOT, read_document

EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
README_EXAMPLE_LINES_MAX = 10
PAGES = ["README.md", *sorted(f"docs/guide/{path.name}" for path in ROOT.glob("docs/guide/*.md"))]
NEEDS_SPARK = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark's own sockets
]
EXAMPLES = [
    pytest.param(page, text, id=f"{page}-{number}", marks=NEEDS_SPARK if "spark" in text else ())
    for page in PAGES
    for number, text in enumerate(EXAMPLE.findall(read_document(page)), start=1)
]


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_an_example_runs_as_it_is_written(page, text, tmp_path: Path, monkeypatch):
    if "spark" in text:
        _need_java()
    monkeypatch.chdir(tmp_path)

    exec(compile(text, page, "exec"), {"__name__": "example"})


def test_the_readme_has_one_example_of_ten_lines():
    (example,) = EXAMPLE.findall(read_document("README.md"))

    lines = [line for line in example.splitlines() if line.strip()]

    assert len(lines) <= README_EXAMPLE_LINES_MAX


def test_the_readme_example_says_what_it_prints(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = EXAMPLE.findall(read_document("README.md"))

    exec(compile(example, "README.md", "exec"), {"__name__": "example"})

    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"print\(.*\)\s+# (.*)$", example, re.MULTILINE)


def _need_java() -> None:
    """Skips where Spark cannot start, but not silently in CI."""
    try:
        sessions.check_java()
    except NotInstalled as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(error))
