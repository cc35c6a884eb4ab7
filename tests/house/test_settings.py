"""Rule: every setting is read by some code: a limit that nothing enforces is not a limit."""

from __future__ import annotations

import ast

import msgspec
import pytest

from strandline.config import settings as store_settings
from strandline.server import settings as server_settings
from tests.house import tree

MODULES = (store_settings, server_settings)


def _fields() -> list[str]:
    return [
        f"{struct.__name__}.{field}"
        for module in MODULES
        for struct in vars(module).values()
        if isinstance(struct, type)
        and issubclass(struct, msgspec.Struct)
        and struct.__module__ == module.__name__
        for field in struct.__struct_fields__
    ]


def _attributes_read() -> set[str]:
    return {
        node.attr
        for path in tree.modules("src")
        if path.name != "settings.py"
        for node in ast.walk(tree.parse(path))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@pytest.fixture(scope="module")
def attributes_read() -> set[str]:
    return _attributes_read()


@pytest.mark.parametrize("field", _fields())
def test_a_setting_is_read(field, attributes_read):
    assert field.partition(".")[2] in attributes_read
