"""A DuckDB in memory that has no way to files, to the network or to Python's variables."""

from __future__ import annotations

import duckdb

from strandline.config.settings import MIB

left_to_parents: list[duckdb.DuckDBPyConnection] = []
"""In a forked child: to close one would wait for threads that are not there, or crash."""


def closed_off(threads: int, memory_max: int) -> duckdb.DuckDBPyConnection:
    """A connection; the caller locks its settings when all are made."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "memory_limit": f"{memory_max // MIB}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    connection = duckdb.connect(":memory:", config=settings)
    # Last: from here on the way to files stays closed.
    connection.execute("SET enable_external_access = false")
    return connection
