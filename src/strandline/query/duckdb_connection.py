"""A DuckDB in memory that has no way to files, to the network or to Python's variables."""

from __future__ import annotations

import duckdb

from strandline.settings import MIB

left_to_parents: list[duckdb.DuckDBPyConnection] = []
"""In a forked child: to close one would wait for threads that are not there, or crash."""


def closed_off(threads: int, memory_max: int) -> duckdb.DuckDBPyConnection:
    """A connection; the caller locks its settings when all are made."""
    connection = duckdb.connect(":memory:")
    settings: dict[str, str | int] = {
        "threads": threads,
        "memory_limit": f"{memory_max // MIB}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        # Last: from here on the way to files stays closed.
        "enable_external_access": "false",
    }
    for setting, value in settings.items():
        connection.execute(f"SET {setting} = '{value}'")
    return connection
