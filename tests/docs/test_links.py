"""Promise: a link inside the documents leads to a page that exists, and to a heading in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT, files, name

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_every_link_leads_to_a_page_and_a_heading():
    broken = [
        f"{name(page)}: {target}"
        for page in _pages()
        for target in LINK.findall(_prose(page))
        if ":" not in target and not _leads_somewhere(page, target)
    ]

    assert broken == []


def test_every_page_can_be_reached_from_the_readme():
    seen = {ROOT / "README.md"}
    to_visit = list(seen)
    while to_visit:
        page = to_visit.pop()
        for linked in _linked_pages(page):
            if linked not in seen:
                seen.add(linked)
                to_visit.append(linked)

    lost = [name(page) for page in _pages() if page.is_relative_to(ROOT / "docs")]
    assert [page for page in lost if ROOT / page not in seen] == []


def _pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def _prose(page: Path) -> str:
    return CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))


def _linked_pages(page: Path) -> Iterator[Path]:
    for target in LINK.findall(_prose(page)):
        linked = (page.parent / target.partition("#")[0]).resolve()
        if ":" not in target and linked.suffix == ".md" and linked.is_file():
            yield linked


def _leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    linked = (page.parent / path).resolve() if path else page
    if not linked.exists():
        return False
    return not anchor or anchor in {_anchor(title) for title in HEADING.findall(_prose(linked))}


def _anchor(title: str) -> str:
    """How a heading is linked to: lower case, words joined by hyphens."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
