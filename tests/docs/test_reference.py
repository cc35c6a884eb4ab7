"""Promise: every setting and topic option is in the guide with its real default."""

from __future__ import annotations

import re

import msgspec
import pytest

from strandline.settings import MIB, Settings, TopicConfig
from tests.house.tree import read_document

ROW = re.compile(r"^\| `([a-z_.]+)` \| (\S.*?) \|", re.MULTILINE)
GROUPS = Settings.__struct_fields__


def test_the_settings_table_is_complete_and_tells_the_defaults():
    expected = {
        f"{group}.{field}": _shown(default)
        for group in GROUPS
        for field, default in msgspec.structs.asdict(getattr(Settings(), group)).items()
    }

    told = dict(ROW.findall(_section("docs/guide/operations.md", "Settings")))

    assert told == expected


def test_the_table_of_topic_options_is_complete_and_tells_the_defaults():
    expected = {
        field: _shown(default) for field, default in msgspec.structs.asdict(TopicConfig()).items()
    }

    rows = ROW.findall(_section("docs/guide/topics.md", "Options"))
    told = {name: default.strip("`") for name, default in rows}

    assert told == expected


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory", "ephemeral"])
def test_every_durability_class_is_explained(durability):
    assert re.search(
        rf"^\| `{durability}`", read_document("docs/guide/durability.md"), re.MULTILINE
    )


def _section(page: str, title: str) -> str:
    """The part of a page under a heading of the second level."""
    _, _, rest = read_document(page).partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and default >= MIB and default % MIB == 0:
        return f"{default // MIB} MiB"
    return str(default)
