"""Loads the kinds of views when a view is opened for the first time.

They are a third of all code, and most processes never use one: Spark workers, most commands.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from strandline.api.struct_warmup import warm_up


@functools.cache
def load_kinds() -> dict[str, Any]:
    """The kinds of views by name."""
    kinds: dict[str, Any] = import_module("strandline.views.view_types").KINDS
    warm_up()  # views are used by many threads
    return kinds


def load_groups() -> Any:
    """The class of a store's consumer groups."""
    return import_module("strandline.views.groups.group_registry").GroupRegistry
