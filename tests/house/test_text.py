"""House rule: no file speaks of one machine, of work left undone, or silences a tool wholesale."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.house.tree import comments, files, modules, name

ONE_MACHINE = re.compile(r"(?<![\w.~-])/(?:root|home|work)/")
LEFT_UNDONE = re.compile(r"\b(?:TO[D]O|FIX[M]E)\b")
SILENCES_ALL = re.compile(r"type:\s*ignore(?!\[)|\bnoqa(?!:\s*[A-Z]+\d)", re.IGNORECASE)


def test_no_file_names_a_path_of_one_machine():
    assert list(_lines_with(ONE_MACHINE)) == []


def test_no_file_holds_work_left_undone():
    assert list(_lines_with(LEFT_UNDONE)) == []


def test_no_comment_silences_a_whole_tool():
    wholesale = [
        f"{name(path, line)}: {comment}"
        for path in modules("src", "tests", "bench")
        for line, comment in comments(path)
        if SILENCES_ALL.search(comment)
    ]

    assert wholesale == []


def _lines_with(pattern: re.Pattern[str]) -> Iterator[str]:
    for path in files():
        # Stored bytes of old formats may hold anything; what is not UTF-8 is not prose.
        text = path.read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.search(line):
                yield f"{name(path, number)}: {line.strip()[:80]}"
