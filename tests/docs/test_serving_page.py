"""Promise: the guide to serving lists every setting of a server with its real default."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from strandline.config.settings import MIB
from strandline.server.settings import ServerSettings
from tests.house.tree import read_document

GUIDE = "docs/guide/serving.md"
ROW = re.compile(r"^\| `([a-z_.]+)` \| (\S.*?) \|", re.MULTILINE)


def test_the_settings_table_is_complete_and_tells_the_defaults():
    expected = dict(_defaults(ServerSettings()))

    told = dict(ROW.findall(read_document(GUIDE).partition("\n## Settings\n")[2]))

    assert told == expected


def _defaults(group: msgspec.Struct, before: str = "") -> Iterator[tuple[str, str]]:
    """By whole name; the store's own settings have another page."""
    for field, default in msgspec.structs.asdict(group).items():
        if not isinstance(default, msgspec.Struct):
            yield f"{before}{field}", _shown(default)
        elif field != "store":
            yield from _defaults(default, f"{before}{field}.")


def _shown(default: object) -> str:
    if default in ("", ()):
        return "empty" if default == "" else "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and default >= MIB and default % MIB == 0:
        return f"{default // MIB} MiB"
    return str(default)
