"""Conditions for files that have an older version of the schema. Pure.

A condition is bound to the newest version: its literals have the types of that. Indexes of an older
file compare with what the file has. A field whose type has changed, or that the file lacks, is
therefore not asked: its comparison is put to a field that no file has, of which indexes know
nothing and so rule nothing out.
"""

from __future__ import annotations

import msgspec

from strandline.schema import Kind, Schema
from strandline.views.table.condition import And, Condition, Leaf, Not, Or
from strandline.views.table.snapshot import CORE

UNKNOWN = "?"
"""No field has this name."""

_TEXTS = ("string", "enum")


def fitted(condition: Condition | None, old: Schema, new: Schema) -> Condition | None:
    """A condition that the indexes of a file of an older version can be asked."""
    if condition is None or old.fields == new.fields:
        return condition
    before, after = old.kinds(), new.kinds()
    alike = {*CORE.names, *(name for name in after if _alike(before.get(name), after[name]))}
    return _fitted(condition, alike)


def _fitted(condition: Condition, alike: set[str]) -> Condition:
    match condition:
        case Not(of):
            return Not(_fitted(of, alike))
        case And(of):
            return And(tuple(_fitted(part, alike) for part in of))
        case Or(of):
            return Or(tuple(_fitted(part, alike) for part in of))
        case leaf:
            return _asked(leaf, alike)


def _asked(leaf: Leaf, alike: set[str]) -> Leaf:
    return leaf if leaf.field in alike else msgspec.structs.replace(leaf, field=UNKNOWN)


def _alike(old: Kind | None, new: Kind) -> bool:
    """Whether values of both types are compared alike."""
    if old is None:
        return False
    return old.name == new.name or (old.name in _TEXTS and new.name in _TEXTS)
