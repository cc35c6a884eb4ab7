"""Promise: every setting and topic option is in the guide with its real default."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest

from strandline.config.settings import MIB, Settings, TopicConfig
from strandline.config.view_config import ViewConfigs
from tests.house.tree import read_document

ROW = re.compile(r"^\| `([a-z_.]+)` \| (\S.*?) \|", re.MULTILINE)


def test_the_settings_table_is_complete_and_tells_the_defaults():
    expected = dict(_defaults(Settings()))

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


def _defaults(group: msgspec.Struct, before: str = "") -> Iterator[tuple[str, str]]:
    """Every setting by its whole name, also those of groups in groups."""
    for field, default in msgspec.structs.asdict(group).items():
        if isinstance(default, msgspec.Struct):
            yield from _defaults(default, f"{before}{field}.")
        else:
            yield f"{before}{field}", _shown(default)


def _shown(default: object) -> str:
    if default in ("", ()):
        return "empty" if default == "" else "none"
    if isinstance(default, ViewConfigs) and not default:
        return "none"
    if isinstance(default, float) and not default.is_integer():
        return str(round(default, 2))
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and default >= MIB and default % MIB == 0:
        return f"{default // MIB} MiB"
    return str(default)
