"""The worked example of a format page, as bytes: so that the page cannot drift from the code."""

from __future__ import annotations

import re

from tests.house.tree import read_document

_BLOCK = re.compile(r"^```hex\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"([0-9a-f]{4}): ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?")


def worked_example(page: str) -> bytes:
    """The bytes of the page's only hex block; each line must begin where the last one ended."""
    (block,) = _BLOCK.findall(read_document(page))
    content = b""
    for line in block.splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, f"{page}: not a line of a hex dump: {line}"
        assert int(found[1], 16) == len(content), f"{page}: {line} begins at {len(content):04x}"
        content += bytes.fromhex(found[2])
    return content
