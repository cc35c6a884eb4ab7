"""Asks a store in SQL, for tests."""

from __future__ import annotations

from typing import Any

from strandline.query.sql.sql import sql
from strandline.store import Store


def ask(store: Store, text: str, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer."""
    return sql(store, text, **options).tuples()
