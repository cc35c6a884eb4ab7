"""Opens a DuckDB in memory without access to files, the network or Python's variables."""

from __future__ import annotations

import duckdb

from strandline.config.settings import MIB

PARENT_CONNECTIONS: list[duckdb.DuckDBPyConnection] = []
"""Connections of a forked child. They are never closed: closing one would wait for threads that do
not exist in the child, or crash."""


def connect_isolated(threads: int, memory_max: int) -> duckdb.DuckDBPyConnection:
    """An isolated connection; the caller locks the configuration after its own settings."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "memory_limit": f"{memory_max // MIB}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    connection = duckdb.connect(":memory:", config=settings)
    # Last: this setting cannot be changed back.
    connection.execute("SET enable_external_access = false")
    return connection
